//! Second places: what the first place of a function left to do is done here, to the packet as it
//! is now.
//!
//! A frame carries a mark for each pair whose first place did something to it. Packets that are
//! made of it inherit its marks. An answer to it is not treated like it: what the first place did
//! is undone, so that it shows what its cause was sent to.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::function::{Counters, Fate, Function};
use crate::nat_packets::ends;
use crate::quote::quoted;
use crate::rewrite::{Side, rewrite, rewrite_quoted};
use crate::tunnel::wrap;
use crate::wire::{Frame, ICMP, ICMPV6, TCP, UDP, View, link, view};

/// Work that is left to do, by the place of the function that left it.
pub(crate) type Marks = BTreeMap<usize, Mark>;

/// The work of a second place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Gives a packet that is still from the last address this source; a fragment without ports
    /// only the address.
    Source(IpAddr, Option<u16>, IpAddr),
    /// The same of a packet from inside to inside, to which there are no answers.
    Hairpin(IpAddr, Option<u16>, IpAddr),
    /// Gives an ICMP error that is still from the last address this source, and the packet that it
    /// quotes this destination.
    ErrorOut(IpAddr, u16, IpAddr),
    /// In an answer: shows this as what its cause was sent to.
    Undo(IpAddr, u16),
    /// Puts a packet into one to this address, from one of these where it is not the engine's
    /// choice.
    Tunnel(IpAddr, Option<Ipv4Addr>, Option<Ipv6Addr>),
    /// Sends a frame to the first address, from the second.
    Readdress([u8; 6], [u8; 6]),
    /// Came by ESP.
    Opened,
}

impl Mark {
    /// Whether an answer to a packet with this mark would show what its function hides, once it is
    /// done.
    fn hides(self) -> bool {
        !matches!(self, Self::Readdress(..))
    }
}

/// Where a packet goes, as an answer to it is to show. Only packets with ports and echoes have one.
fn sent_to(frame: &Frame, view: &View) -> Mark {
    let (_, dst) = view.addresses(&frame.bytes);
    let ident = || u16::from_be_bytes([frame.bytes[view.l4 + 4], frame.bytes[view.l4 + 5]]);
    let port = match (view.ports(&frame.bytes), view.message(&frame.bytes)) {
        (Some((_, port)), _) => port,
        (None, Some((0 | 8, _))) if view.version == 4 => ident(),
        (None, Some((128 | 129, _))) if view.version == 6 => ident(),
        _ => 0,
    };
    Mark::Undo(dst, port)
}

/// How a function that has one place or two does its part.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At {
    Only,
    /// At the first of two; its number is that of its marks.
    First(usize),
}

impl At {
    /// Does the work of the only place, or leaves it to the second. Gives a complaint about the
    /// engine's choice.
    pub(crate) fn last(self, frame: &mut Frame, mark: Mark, left: Option<&[u8]>) -> Option<String> {
        if let Self::First(place) = self {
            frame.marks.insert(place, mark);
            return None;
        }
        frame.closed |= mark.hides();
        perform(frame, mark, left)
    }

    /// Says that the destination of a packet is about to be rewritten.
    pub(crate) fn readdresses(self, frame: &mut Frame, view: &View) {
        match self {
            Self::Only => frame.closed = true,
            Self::First(place) => _ = frame.marks.insert(place, sent_to(frame, view)),
        }
    }
}

/// The second place of the function whose first place has this number.
pub(crate) struct Second {
    first: usize,
    complaints: Vec<String>,
}

impl Second {
    pub(crate) fn new(first: usize) -> Self {
        Self { first, complaints: Vec::new() }
    }
}

impl Function for Second {
    fn take(&mut self, frame: &mut Frame, left: Option<&[u8]>, _: &mut Vec<Frame>) -> Fate {
        let Some(mark) = frame.marks.remove(&self.first) else { return Fate::Forward };
        frame.closed |= mark.hides();
        match (frame.is_answer, mark) {
            (true, Mark::Undo(address, port)) => undo(frame, address, port),
            (true, Mark::Hairpin(..)) => Fate::Drop("bad-quote"),
            (true, _) => Fate::Forward,
            (false, Mark::Source(.., was) | Mark::Hairpin(.., was) | Mark::ErrorOut(.., was))
                if was != source(frame) =>
            {
                Fate::Forward
            }
            (
                false,
                Mark::Source(_, Some(_), _) | Mark::Hairpin(_, Some(_), _) | Mark::ErrorOut(..),
            ) if !shows_ports(frame) => Fate::Drop("unsupported-protocol"),
            (false, mark) => {
                self.complaints.extend(perform(frame, mark, left));
                Fate::Forward
            }
        }
    }

    fn takes_answers(&self) -> bool {
        true
    }

    fn counters(&self, _: u64) -> Counters {
        Counters::new()
    }

    fn complaints(&mut self) -> Vec<String> {
        std::mem::take(&mut self.complaints)
    }
}

fn source(frame: &Frame) -> IpAddr {
    view(frame).addresses(&frame.bytes).0
}

/// Whether the packet is still one that is translated, and none that carries it.
fn shows_ports(frame: &Frame) -> bool {
    let view = view(frame);
    let own = if view.version == 4 { ICMP } else { ICMPV6 };
    [TCP, UDP, own].contains(&view.protocol) && (view.transport || view.later())
}

/// Does what was left to do. Gives what is wrong with the engine's choice.
fn perform(frame: &mut Frame, mark: Mark, left: Option<&[u8]>) -> Option<String> {
    let view = view(frame);
    match mark {
        Mark::Source(address, port, _) | Mark::Hairpin(address, port, _) => {
            rewrite(frame, &view, Side::Source, (address, port.filter(|_| !view.later())));
        }
        Mark::ErrorOut(address, port, _) => {
            if let Some(quoted) = quoted(frame, &view).filter(|_| !view.later()) {
                rewrite_quoted(frame, &view, &quoted, Side::Destination, (address, Some(port)));
            }
            rewrite(frame, &view, Side::Source, (address, None));
        }
        Mark::Undo(..) | Mark::Opened => {}
        Mark::Tunnel(backend, v4, v6) => {
            let own = if backend.is_ipv4() { v4.map(IpAddr::V4) } else { v6.map(IpAddr::V6) };
            return wrap(frame, &view, left, own, backend);
        }
        Mark::Readdress(to, from) if frame.link == link::ETHERNET => {
            frame.bytes[..6].copy_from_slice(&to);
            frame.bytes[6..12].copy_from_slice(&from);
        }
        Mark::Readdress(..) => {}
    }
    None
}

/// Gives an answer the source, and its quote the destination, that its cause was sent to.
fn undo(frame: &mut Frame, address: IpAddr, port: u16) -> Fate {
    let view = view(frame);
    let is_error = match (view.version, view.message(&frame.bytes)) {
        (4, Some((kind, _))) => view.protocol == ICMP && [3, 4, 5, 11, 12].contains(&kind),
        (6, Some((kind, _))) => view.protocol == ICMPV6 && kind < 128,
        _ => false,
    };
    if !is_error {
        let port = Some(port).filter(|_| [TCP, UDP].contains(&view.protocol));
        rewrite(frame, &view, Side::Source, (address, port));
        return Fate::Forward;
    }
    let Some(quoted) = quoted(frame, &view).filter(|quoted| ends(quoted).is_some()) else {
        return Fate::Drop("bad-quote");
    };
    rewrite_quoted(frame, &view, &quoted, Side::Destination, (address, Some(port)));
    rewrite(frame, &view, Side::Source, (address, None));
    Fate::Forward
}
