//! Frames that arrive at an interface.

use core::mem;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use warpline_io_error::plain;
use warpline_packet::{Instant, LinkType};

use super::AfXdpConfig;
use super::sockets::Sockets;
use crate::af_packet::offloads::complete_half_done;
use crate::interface::{NotOpened, ethernet};
use crate::link_events::{LOOK_EVERY, LinkEvents};
use crate::neighbours::LocalAddresses;
use crate::port::{
    BURST_MAX, Burst, Frame, Given, InterfaceNames, Live, Next, Source, SourceError,
};
use crate::sys::{PollSet, XdpReceiver};

/// Drivers without hardware, whose frames may have half-done checksums.
const VIRTUAL: [&str; 2] = ["veth", "tun"];

/// All frames that arrive at queues of an interface. The kernel does not see them.
///
/// It has no end: if the interface goes down or away, the source waits for it to come back.
pub struct AfXdpSource {
    config: AfXdpConfig,
    events: LinkEvents,
    /// By queue.
    queues: Vec<Queue>,
    /// The queue that gave the last frames.
    current: usize,
    /// When they were read.
    now: Instant,
    readable: PollSet,
    names: InterfaceNames,
    /// Whether frames may have half-done checksums.
    is_virtual: bool,
    has_warned: bool,
    /// Losses that were not reported yet.
    lost: u64,
    generation: u64,
    /// In a port that forwards by routes, the addresses whose packets are the kernel's.
    local: Option<LocalAddresses>,
    /// Whether the program lacks some of them.
    is_outdated: bool,
    /// An event that was not reported yet.
    event: Option<String>,
    sockets: Arc<Sockets>,
}

struct Queue {
    receiver: XdpReceiver,
    /// Its losses that were counted.
    lost: u64,
}

impl AfXdpSource {
    /// Opens the interface, and attaches an XDP program to it. With `local` it gives only packets
    /// to forward, as [`AfPacketSource::forwarding`](crate::af_packet::AfPacketSource::forwarding).
    ///
    /// # Errors
    /// There is no such interface or queue, the process may not read it, or it is in use.
    pub fn open(config: &AfXdpConfig, local: Option<LocalAddresses>) -> Result<Self, NotOpened> {
        let link = ethernet(&config.interface)?;
        let sockets = Sockets::of(config)?;
        let receivers = sockets.receive(local.clone())?;
        let names = InterfaceNames::default();
        names.push(Some(config.interface.clone()));
        let mut source = Self {
            config: config.clone(),
            is_virtual: VIRTUAL.contains(&link.driver().as_str()),
            events: LinkEvents::new(link, &config.interface),
            queues: Vec::new(),
            current: 0,
            now: Instant::ZERO,
            readable: PollSet::new()?,
            names,
            has_warned: false,
            lost: 0,
            generation: 0,
            local,
            is_outdated: false,
            event: None,
            sockets,
        };
        source.read(receivers)?;
        Ok(source)
    }

    /// Reads these halves from now on.
    fn read(&mut self, receivers: Vec<XdpReceiver>) -> io::Result<()> {
        self.count_losses();
        self.generation = self.sockets.generation();
        self.queues = receivers.into_iter().map(|receiver| Queue { receiver, lost: 0 }).collect();
        self.current = 0;
        self.queues.iter().try_for_each(|queue| self.readable.add(queue.receiver.descriptor()))
    }

    /// Takes frames of one queue, each in turn. Returns how many.
    #[inline]
    fn fill(&mut self, most: usize) -> usize {
        if self.local.as_mut().is_some_and(LocalAddresses::refresh) {
            self.update();
        }
        for _ in 0..self.queues.len() {
            self.current = (self.current + 1) % self.queues.len();
            let receiver = &mut self.queues[self.current].receiver;
            let count = receiver.take(most);
            if count > 0 {
                if self.is_virtual {
                    (0..count).for_each(|at| complete_half_done(receiver.frame_mut(at)));
                }
                self.now = now();
                return count;
            }
        }
        0
    }

    #[inline]
    fn frame(&self, at: usize) -> Frame<'_> {
        let bytes = self.queues[self.current].receiver.frame(at);
        let (timestamp, wire_len) = (self.now, bytes.len() as u32);
        Frame { bytes, timestamp, wire_len, link: LinkType::ETHERNET, interface: 0 }
    }

    /// Brings the program up to date with the addresses of this machine and the interface.
    #[cold]
    fn update(&mut self) {
        let updated = match self.sockets.update(&self.events.link) {
            // An interface that was removed gets a program with all addresses when it returns.
            Err(why) if why.raw_os_error() == Some(libc::ENODEV) => Ok(()),
            updated => updated,
        };
        let had_failed = mem::replace(&mut self.is_outdated, updated.is_err());
        if let (Err(why), false) = (updated, had_failed) {
            let name = &self.config.interface;
            let lacks = "the XDP program lacks addresses of this machine";
            self.event = Some(format!("interface {name}: {lacks}: {}", plain(&why)));
        }
    }

    fn count_losses(&mut self) {
        for queue in &mut self.queues {
            let all = queue.receiver.losses();
            self.lost += all.saturating_sub(queue.lost);
            queue.lost = queue.lost.max(all);
        }
    }

    /// Opens the sockets anew if the interface was made anew.
    fn renew(&mut self) -> io::Result<()> {
        // They have an error after their interface was removed, and none while it is down or has
        // another name.
        let has_error = self.queues.iter().any(|queue| queue.receiver.has_error());
        if has_error || self.sockets.is_forgotten() {
            self.count_losses();
            self.queues.clear();
            self.sockets.forget();
        }
        self.sockets.renew(&self.events.link).map_err(|error| match error {
            NotOpened::Io(error) => error,
            NotOpened::Unknown => io::Error::from_raw_os_error(libc::ENODEV),
            other => io::Error::other(other),
        })?;
        if self.sockets.generation() != self.generation {
            let receivers = self.sockets.take_receivers();
            self.read(receivers)?;
        }
        Ok(())
    }

    /// Warns of offloads whose effects an XDP socket cannot see.
    fn offloads(&self) -> Option<String> {
        let (name, link) = (&self.config.interface, &self.events.link);
        let mut on = link.joining_offloads();
        if link.removes_tags() && !self.is_virtual {
            on.push("rxvlan");
        }
        let off: Vec<_> = on.iter().map(|offload| format!("{offload} off")).collect();
        let advice = format!("run `ethtool -K {name} {}`", off.join(" "));
        (!on.is_empty())
            .then(|| format!("interface {name} may join frames or remove VLAN tags: {advice}"))
    }
}

/// The clock that stamps frames.
fn now() -> Instant {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant::from_parts(now.as_secs(), now.subsec_nanos().into())
}

impl Drop for AfXdpSource {
    fn drop(&mut self) {
        self.sockets.detach();
    }
}

impl Source for AfXdpSource {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        match self.fill(1) {
            0 => Ok(Next::Idle(LOOK_EVERY)),
            _ => Ok(Next::Frame(self.frame(0))),
        }
    }

    fn burst<'a>(&'a mut self, burst: &mut Burst<'a>) -> Result<Given, SourceError> {
        let count = self.fill(BURST_MAX);
        if count == 0 {
            return Ok(Given::Idle(LOOK_EVERY));
        }
        for at in 0..count {
            burst.push(self.frame(at));
        }
        Ok(Given::Frames)
    }

    fn warnings(&self) -> Vec<String> {
        self.events.warning().into_iter().collect()
    }

    fn live(&mut self) -> Option<&mut dyn Live> {
        Some(self)
    }

    fn interfaces(&self) -> InterfaceNames {
        self.names.clone()
    }
}

impl Live for AfXdpSource {
    fn descriptors(&mut self, all: &mut Vec<RawFd>) {
        all.push(self.readable.descriptor());
    }

    fn now(&mut self) -> Instant {
        now()
    }

    fn losses(&mut self, lost: &mut dyn FnMut(u16, u64)) {
        self.count_losses();
        match mem::take(&mut self.lost) {
            0 => {}
            count => lost(0, count),
        }
    }

    fn events(&mut self, report: &mut dyn FnMut(String)) {
        if !mem::replace(&mut self.has_warned, true) {
            self.offloads().into_iter().for_each(&mut *report);
        }
        if self.events.is_due() {
            let renewed = self.renew();
            if renewed.is_ok() && self.local.is_some() {
                self.update();
            }
            self.events.look(renewed, report);
        }
        self.event.take().into_iter().for_each(report);
    }
}
