//! Frames that arrive at an interface.

use core::mem;
use std::io;
use std::os::fd::RawFd;
use std::time::{SystemTime, UNIX_EPOCH};

use warpline_io_error::plain;
use warpline_packet::{Instant, LinkType};

use super::offloads::{complete_checksum, insert_tag};
use super::rings::{Rings, Taken};
use super::{AfPacketConfig, Delivery};
use crate::interface::{HEADERS_LEN, NotOpened, ethernet};
use crate::kernel_forwarding::ForwardingWatch;
use crate::link_events::{LOOK_EVERY, LinkEvents};
use crate::neighbours::{LocalAddresses, is_forwarded};
use crate::port::{
    BURST_MAX, Burst, Frame, Given, InterfaceNames, Live, Next, Source, SourceError,
};

/// The ethertype of a tag whose own is unknown.
const VLAN: u16 = 0x8100;
const TAG_LEN: usize = 4;
/// Frames that are looked at for a burst.
const TURN: usize = 8 * BURST_MAX;

/// All frames that arrive at an interface, and none that this host sends.
///
/// It has no end: if the interface goes down or away, the source waits for it to come back.
pub struct AfPacketSource {
    config: AfPacketConfig,
    events: LinkEvents,
    rings: Rings,
    delivery: Delivery,
    /// Whether the interface of shared frames was removed, at the last look.
    has_left: bool,
    names: InterfaceNames,
    /// The MTU that the rings were made for.
    mtu: usize,
    /// A larger one, for which the rings are made anew once they are empty.
    larger_mtu: Option<usize>,
    /// The largest that rings were tried for.
    tried_mtu: usize,
    /// An event that was not reported yet.
    event: Option<String>,
    /// In a port that forwards by routes, the addresses whose packets are the kernel's.
    local: Option<LocalAddresses>,
    forwarding: ForwardingWatch,
    /// Whether offloads were reported.
    has_warned: bool,
    /// Whether frames longer than the MTU were reported.
    has_joined: bool,
    counts: Counts,
    given: [Option<(Taken, usize)>; BURST_MAX],
}

#[derive(Default)]
struct Counts {
    /// Frames without room in the ring that were not reported yet.
    lost: u64,
    /// Frames longer than the ring's slots.
    cut: u64,
    /// Frames longer than the MTU.
    joined: u64,
}

impl AfPacketSource {
    /// Opens the interface.
    ///
    /// # Errors
    /// There is no such interface, or the process may not read it.
    pub fn open(config: &AfPacketConfig, delivery: Delivery) -> Result<Self, NotOpened> {
        let link = ethernet(&config.interface)?;
        let mtu = link.mtu()?;
        let rings = Rings::open(config, delivery, link.index()?, mtu)?;
        let names = InterfaceNames::default();
        names.push(Some(config.interface.clone()));
        Ok(Self {
            config: config.clone(),
            events: LinkEvents::new(link, &config.interface),
            rings,
            delivery,
            has_left: false,
            names,
            mtu,
            larger_mtu: None,
            tried_mtu: mtu,
            event: None,
            local: None,
            forwarding: ForwardingWatch::new(),
            has_warned: false,
            has_joined: false,
            counts: Counts::default(),
            given: [None; BURST_MAX],
        })
    }

    /// The same, which gives only packets to forward: unicast IP packets in untagged frames to the
    /// interface's own address, except those to addresses in `local`. The kernel takes the others.
    #[must_use]
    pub fn forwarding(self, local: LocalAddresses) -> Self {
        Self { local: Some(local), ..self }
    }

    /// Binds to the interface if it was made anew, perhaps with the same number.
    fn bind(&mut self) -> io::Result<()> {
        let index = match self.events.link.index() {
            Ok(index) => index,
            Err(error) => {
                // An interface that has another name now is another port's, or none's.
                self.rings.leave();
                return Err(error);
            }
        };
        if self.rings.are_bound_to(index) {
            return self.rings.come_back();
        }
        if self.rings.are_shared() {
            return self.reopen(index);
        }
        self.rings.bind(index)?;
        if self.config.promiscuous {
            self.rings.receive_all(index)?;
        }
        Ok(())
    }

    /// Opens the sockets anew, once all frames that arrived were read.
    fn reopen(&mut self, index: i32) -> io::Result<()> {
        let has_left = mem::replace(&mut self.has_left, true);
        if !has_left || self.rings.have_frames() {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        let mtu = self.events.link.mtu()?;
        self.counts.lost += self.rings.take_losses();
        self.rings.reopen(&self.config, self.delivery, index, mtu)?;
        (self.mtu, self.tried_mtu, self.larger_mtu) = (mtu, mtu, None);
        self.has_left = false;
        Ok(())
    }

    /// Takes up to `most` frames from the rings. Returns how many.
    fn fill(&mut self, most: usize) -> usize {
        self.rings.release();
        let mut count = 0;
        if let Some(local) = &mut self.local {
            local.refresh();
        }
        // Frames that are not the chain's are skipped, in turns that end.
        for _ in 0..TURN {
            if count == most {
                break;
            }
            let Some(taken) = self.rings.take() else {
                if count == 0
                    && let Some(mtu) = self.larger_mtu.take()
                {
                    self.enlarge(mtu);
                }
                break;
            };
            if !taken.slot.is_outgoing && self.is_forwarded(&taken) {
                let before = self.restore(&taken);
                self.given[count] = Some((taken, before));
                count += 1;
            }
        }
        count
    }

    /// Makes the rings anew for frames of a larger MTU.
    #[cold]
    fn enlarge(&mut self, mtu: usize) {
        self.tried_mtu = mtu;
        let name = &self.config.interface;
        let remade = self.rings.remake(mtu);
        let Err(why) = remade else {
            let cut = mem::take(&mut self.counts.joined);
            self.event = Some(format!(
                "interface {name}: the MTU grew from {} to {mtu}, and {cut} frames were cut before \
                 the ring had longer slots",
                self.mtu
            ));
            (self.mtu, self.has_joined) = (mtu, false);
            return;
        };
        let text = format!("interface {name}: no ring for the MTU {mtu}: {}", plain(&why));
        let again = self.rings.remake(self.mtu);
        self.event = Some(match again {
            Ok(()) => text,
            Err(_) => format!("{text}; the interface is not read: start the run again"),
        });
    }

    /// Whether a frame is the chain's and not the kernel's.
    fn is_forwarded(&self, taken: &Taken) -> bool {
        let Some(local) = &self.local else { return true };
        taken.slot.is_to_host
            && taken.slot.status & libc::TP_STATUS_VLAN_VALID == 0
            && is_forwarded(self.rings.frame(taken, 0), local)
    }

    /// Undoes offloads in a frame. Returns by how many bytes it now starts earlier.
    fn restore(&mut self, taken: &Taken) -> usize {
        let longest = self.mtu + HEADERS_LEN;
        let slot = &taken.slot;
        let Some((bytes, room)) = self.rings.frame_mut(taken) else { return 0 };
        let len = bytes.len() - room;
        let is_cut = (slot.wire_len as usize) > len;
        self.counts.cut += u64::from(is_cut);
        self.counts.joined += u64::from(slot.wire_len as usize > longest);
        if slot.status & libc::TP_STATUS_CSUMNOTREADY != 0 && !is_cut {
            complete_checksum(&mut bytes[room..]);
        }
        if slot.status & libc::TP_STATUS_VLAN_VALID == 0 || room < TAG_LEN {
            return 0;
        }
        let has_protocol = slot.status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
        let (control, protocol) = slot.vlan;
        let tag = (control, if has_protocol { protocol } else { VLAN });
        if insert_tag(bytes, tag) { TAG_LEN } else { 0 }
    }

    fn frame(&self, at: usize) -> Option<Frame<'_>> {
        let (taken, before) = self.given.get(at)?.as_ref()?;
        let slot = &taken.slot;
        let timestamp = Instant::from_parts(u64::from(slot.seconds), u64::from(slot.nanoseconds));
        Some(Frame {
            bytes: self.rings.frame(taken, *before),
            timestamp,
            wire_len: slot.wire_len + *before as u32,
            link: LinkType::ETHERNET,
            interface: 0,
        })
    }

    /// Looks at the interface, and binds to it again if it was removed and made anew.
    fn look(&mut self, report: &mut dyn FnMut(String)) {
        // A pending error makes every wait end at once.
        if self.rings.take_errors() || self.events.is_due() {
            let bound = self.bind();
            self.events.look(bound, report);
            if self.local.is_some() {
                self.forwarding.look(&self.config.interface, report);
            }
            let grown = self.events.link.mtu().ok().filter(|mtu| *mtu > self.tried_mtu);
            self.larger_mtu = grown;
        }
    }

    /// Warns of offloads that join frames before they are read.
    fn joined(&self) -> Option<String> {
        let name = &self.config.interface;
        let on = self.events.link.joining_offloads();
        if on.is_empty() && self.counts.joined == 0 {
            return None;
        }
        let (mtu, before) = (self.events.link.mtu().unwrap_or(self.mtu), self.mtu);
        if mtu > before && self.counts.joined > 0 {
            let count = self.counts.joined;
            // The ring will be made anew, which is an event.
            let is_due = mtu > self.tried_mtu;
            return (!is_due).then(|| {
                format!(
                    "interface {name}: {count} frames were longer than the MTU before, {before}; \
                 it is {mtu} now: start the run again to read them whole"
                )
            });
        }
        let found = match self.counts.joined {
            0 => String::new(),
            count => format!("{count} frames were longer than the MTU; "),
        };
        let advice = match on.is_empty() {
            true => "the sender does not cut them: disable tso and gso there".into(),
            false => {
                let off: Vec<_> = on.iter().map(|offload| format!("{offload} off")).collect();
                format!("run `ethtool -K {name} {}`", off.join(" "))
            }
        };
        Some(format!("interface {name} may join frames: {found}{advice}"))
    }
}

impl Source for AfPacketSource {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        let count = self.fill(1);
        match self.frame(0) {
            Some(frame) if count == 1 => Ok(Next::Frame(frame)),
            _ => Ok(Next::Idle(LOOK_EVERY)),
        }
    }

    fn burst<'a>(&'a mut self, burst: &mut Burst<'a>) -> Result<Given, SourceError> {
        // Frames of a jumbo ring are too many bytes for one burst.
        let most = (crate::FRAME_LEN_MAX / (self.mtu + HEADERS_LEN)).clamp(1, BURST_MAX);
        let count = self.fill(most);
        if count == 0 {
            return Ok(Given::Idle(LOOK_EVERY));
        }
        for at in 0..count {
            if let Some(frame) = self.frame(at) {
                burst.push(frame);
            }
        }
        Ok(Given::Frames)
    }

    fn warnings(&self) -> Vec<String> {
        let Counts { cut, .. } = self.counts;
        let name = &self.config.interface;
        let mut all = Vec::new();
        if cut > 0 {
            all.push(format!("interface {name}: {cut} frames were longer than a slot and cut"));
        }
        all.extend(self.events.warning());
        if self.counts.joined > 0 {
            all.extend(self.joined());
        }
        all
    }

    fn live(&mut self) -> Option<&mut dyn Live> {
        Some(self)
    }

    fn interfaces(&self) -> InterfaceNames {
        self.names.clone()
    }
}

impl Live for AfPacketSource {
    fn descriptors(&mut self, all: &mut Vec<RawFd>) {
        all.push(self.rings.descriptor());
    }

    /// Frames may still come that arrived after that.
    fn now(&mut self) -> Instant {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = now.saturating_sub(self.delivery.delay());
        Instant::from_parts(now.as_secs(), now.subsec_nanos().into())
    }

    fn losses(&mut self, lost: &mut dyn FnMut(u16, u64)) {
        self.counts.lost += self.rings.take_losses();
        let count = mem::take(&mut self.counts.lost);
        if count > 0 {
            lost(0, count);
        }
    }

    fn events(&mut self, report: &mut dyn FnMut(String)) {
        self.event.take().into_iter().for_each(&mut *report);
        let has_joined = self.counts.joined > 0 && !mem::replace(&mut self.has_joined, true);
        let is_first = !mem::replace(&mut self.has_warned, true);
        if has_joined || is_first {
            self.joined().into_iter().for_each(&mut *report);
        }
        self.look(report);
    }
}
