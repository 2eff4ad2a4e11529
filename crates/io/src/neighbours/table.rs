//! The sender's side: the Ethernet addresses of packets.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::net::IpAddr;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::time::Instant as Clock;

use warpline_packet::LinkType;

use super::held::{Held, LEN_MAX, Packet};
use super::view::{Key, Mac, Reader, Shared};
use crate::port::Frame;

/// How often the kernel is made to ask for a neighbour while packets to it come.
pub(super) const ASK_EVERY: Duration = Duration::from_millis(300);

/// The outcome of a packet whose next hop is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// It is held. The oldest packet that was held is lost if there was no room.
    Waits {
        /// How many are lost.
        lost: usize,
    },
    /// The frame is too long or cut.
    Refused,
    /// The next hop is this machine.
    ToMachine,
}

/// The outcome of a packet that was held.
pub enum Settled<'a> {
    /// It has its addresses and can be sent.
    Ready(Frame<'a>),
    /// Its next hop did not answer.
    Lost,
}

/// Ethernet addresses by port and next hop. Packets to unknown ones are held.
pub struct NeighbourTable {
    reader: Reader,
    held: Held,
    /// To the follower.
    asks: UnixDatagram,
}

impl NeighbourTable {
    pub(super) fn new(shared: &Arc<Shared>, asks: UnixDatagram) -> Self {
        Self { reader: Reader::new(shared), held: Held::new(), asks }
    }

    /// The destination and source that a packet to next hop `address` on `port` gets, if known.
    #[inline]
    pub fn addresses(&self, port: u16, address: IpAddr) -> Option<(Mac, Mac)> {
        let view = &*self.reader.view;
        let entry = view.known.get(&(port, address))?;
        if entry.is_stale.load(Ordering::Relaxed) && self.ask((port, address)) {
            entry.is_stale.store(false, Ordering::Relaxed);
        }
        Some((entry.mac, (*view.own.get(usize::from(port))?)?))
    }

    /// Holds a packet that leaves by the port of `frame.interface` until the address of its next
    /// hop is known.
    #[cold]
    pub fn hold(&mut self, address: IpAddr, frame: &Frame<'_>) -> Hold {
        self.hold_at(address, frame, Clock::now())
    }

    pub(super) fn hold_at(&mut self, address: IpAddr, frame: &Frame<'_>, now: Clock) -> Hold {
        if self.reader.view.machine.binary_search(&address).is_ok() {
            return Hold::ToMachine;
        }
        let key = (frame.interface, address);
        let is_cut = frame.wire_len as usize > frame.bytes.len();
        let fits = frame.link == LinkType::ETHERNET && frame.bytes.len() <= LEN_MAX && !is_cut;
        if !fits {
            return Hold::Refused;
        }
        // Again after a while: the interface may have been gone.
        let asked = self.held.last_asked(key).filter(|at| now.duration_since(*at) < ASK_EVERY);
        let asked = asked.or_else(|| self.ask(key).then_some(now));
        let failure = self.reader.view.failed.get(&key).copied();
        let displaces = self.held.push(key, (frame.bytes, frame.timestamp), (failure, asked));
        Hold::Waits { lost: displaces.into() }
    }

    /// From now on packets to these addresses are for the chain, though they may be this machine's.
    pub fn claim(&self, ranges: Vec<(IpAddr, IpAddr)>) {
        self.reader.shared.claim(ranges);
        // Wakes the follower; if there is no room it is awake.
        let _ = self.asks.send(&[]);
    }

    /// Takes up changes, and gives packets whose wait is over to `each`. Returns whether there were
    /// any.
    #[inline]
    pub fn refresh(&mut self, each: &mut dyn FnMut(Settled<'_>)) -> bool {
        self.reader.refresh();
        !self.held.is_empty() && self.settle(each)
    }

    /// Whether packets are held.
    pub fn holds_packets(&self) -> bool {
        !self.held.is_empty()
    }

    /// Gives all packets that are held to `each`, as lost. Returns whether there were any.
    pub fn give_up(&mut self, each: &mut dyn FnMut(Settled<'_>)) -> bool {
        let any = !self.held.is_empty();
        while let Some(packet) = self.held.take(|_| true) {
            each(Settled::Lost);
            self.held.recycle(packet);
        }
        any
    }

    /// Gives held packets whose next hop is known, has failed, or was waited for too long.
    #[cold]
    fn settle(&mut self, each: &mut dyn FnMut(Settled<'_>)) -> bool {
        let mut any = false;
        loop {
            let view = &self.reader.view;
            let due = self.held.take(|packet| {
                let failure = view.failed.get(&packet.key);
                let has_failed = failure.is_some() && failure != packet.failure.as_ref();
                has_failed || view.known.contains_key(&packet.key)
            });
            let Some(mut packet) = due else { return any };
            any = true;
            let (port, address) = packet.key;
            let addresses = self.addresses(port, address);
            if let (Some((dst, src)), Some(header)) =
                (addresses, packet.bytes.first_chunk_mut::<12>())
            {
                header[..6].copy_from_slice(&dst);
                header[6..].copy_from_slice(&src);
            }
            each(match addresses {
                Some(_) => Settled::Ready(frame(&packet)),
                None => Settled::Lost,
            });
            self.held.recycle(packet);
        }
    }

    /// Makes the kernel ask for a neighbour. Returns whether the follower has got the message.
    #[cold]
    fn ask(&self, (port, address): Key) -> bool {
        let mut message = [0; ASK_LEN];
        message[..2].copy_from_slice(&port.to_ne_bytes());
        match address {
            IpAddr::V4(address) => message[3..7].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => {
                message[2] = 1;
                message[3..].copy_from_slice(&address.octets());
            }
        }
        self.asks.send(&message).is_ok()
    }
}

/// Bytes of a message to the follower: port, family, address.
pub(super) const ASK_LEN: usize = 19;

/// The neighbour that a message is about.
pub(super) fn asked(message: &[u8; ASK_LEN]) -> Option<Key> {
    let &[low, high, family, ref address @ ..] = message;
    let address = match family {
        0 => IpAddr::from(*address.first_chunk::<4>()?),
        _ => IpAddr::from(*address),
    };
    Some((u16::from_ne_bytes([low, high]), address))
}

fn frame(packet: &Packet) -> Frame<'_> {
    let wire_len = packet.bytes.len() as u32;
    Frame {
        bytes: &packet.bytes,
        timestamp: packet.timestamp,
        wire_len,
        link: LinkType::ETHERNET,
        interface: packet.key.0,
    }
}
