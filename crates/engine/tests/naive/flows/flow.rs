//! A flow of the naive monitor: what packets of it share, and what each direction did.

use std::net::IpAddr;

use crate::wire::{Frame, ICMP, ICMPV6, TCP, View, be16};

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// An address and a port, 0 where there is none.
pub(super) type Side = (IpAddr, u16);

/// Fields that both directions of a flow share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// The smaller one first.
    sides: [Side; 2],
    pub(super) protocol: u8,
    /// Of ICMP type and code, an echo's as its request has them.
    pub(super) message: Option<(u8, u8)>,
    ident: u16,
    pub(super) is_echo: bool,
    /// The host that asks for an echo.
    asks: Option<IpAddr>,
    pub(super) has_ports: bool,
}

impl Key {
    pub(super) fn is_icmp(&self) -> bool {
        self.message.is_some()
    }
}

/// Counts of one direction; times are the packets' own, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Half {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) flags: u8,
}

/// A flow, or the part of it that one record is of.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// The initiator first.
    pub(super) ends: [Side; 2],
    /// From the initiator, and to it.
    pub(super) halves: [Half; 2],
    /// When the last packet came, by the time that state ages by.
    pub(super) last_now: u64,
}

/// Fields of a packet that the monitor uses.
pub(super) struct Seen {
    pub(super) key: Key,
    sides: [Side; 2],
    len: u64,
    flags: u8,
    replies: bool,
    pub(super) own: u64,
    pub(super) now: u64,
}

impl Seen {
    pub(super) fn of(frame: &Frame, view: &View) -> Self {
        let (src, dst) = view.addresses(&frame.bytes);
        let ports = view.ports(&frame.bytes);
        let (from, to) = ports.unwrap_or((0, 0));
        let sides = [(src, from), (dst, to)];
        let own_icmp = if view.version == 4 { ICMP } else { ICMPV6 };
        let [request, reply] = if view.version == 4 { [8, 0] } else { [128, 129] };
        let message = view.message(&frame.bytes).filter(|_| view.protocol == own_icmp);
        let is_echo = message.is_some_and(|(kind, _)| kind == request || kind == reply);
        let ident = be16(&frame.bytes, view.l4 + 4).filter(|_| is_echo).unwrap_or(0) as u16;
        let replies = message.is_some_and(|(kind, _)| kind == reply);
        let named = message.map(|(kind, code)| (if is_echo { request } else { kind }, code));
        let key = Key {
            sides: [sides[0].min(sides[1]), sides[0].max(sides[1])],
            protocol: view.protocol,
            // A missing field reads as 0.
            message: (view.protocol == own_icmp).then(|| named.unwrap_or((0, 0))),
            ident,
            is_echo,
            asks: is_echo.then_some(if replies { dst } else { src }),
            has_ports: ports.is_some(),
        };
        let has_flags = view.transport && view.protocol == TCP;
        let flags = if has_flags { frame.bytes[view.l4 + 13] } else { 0 };
        let len = (view.wire_end - view.l3) as u64;
        Self { key, sides, len, flags, replies, own: frame.nanos / 1000, now: frame.now / 1000 }
    }

    /// The initiator first: who sent it, but for an answer.
    fn ends(&self) -> [Side; 2] {
        let [from, to] = self.sides;
        if self.answers() { [to, from] } else { [from, to] }
    }

    fn answers(&self) -> bool {
        self.replies || self.flags & SYN != 0 && self.flags & ACK != 0
    }

    /// Whether it asks for a connection.
    pub(super) fn opens(&self) -> bool {
        self.flags & SYN != 0 && self.flags & ACK == 0
    }
}

impl Flow {
    pub(super) fn new(ends: [Side; 2]) -> Self {
        Self { ends, halves: [Half::default(); 2], last_now: 0 }
    }

    /// Of the packet that began it.
    pub(super) fn begun(seen: &Seen) -> Self {
        let mut flow = Self::new(seen.ends());
        // A host that sends to itself answers itself.
        flow.count_half(usize::from(seen.answers()), seen);
        flow
    }

    pub(super) fn count(&mut self, seen: &Seen) {
        // A host that asks itself for an echo answers, too.
        let answers = self.ends != seen.sides || seen.key.is_echo && seen.replies;
        self.count_half(usize::from(answers), seen);
    }

    fn count_half(&mut self, half: usize, seen: &Seen) {
        let half = &mut self.halves[half];
        half.first = if half.packets == 0 { seen.own } else { half.first.min(seen.own) };
        half.last = half.last.max(seen.own);
        half.packets += 1;
        half.bytes += seen.len;
        half.flags |= seen.flags;
        self.last_now = seen.now;
    }

    fn used(&self) -> impl Iterator<Item = &Half> {
        self.halves.iter().filter(|half| half.packets > 0)
    }

    pub(super) fn first(&self) -> u64 {
        self.used().map(|half| half.first).min().unwrap_or(0)
    }

    pub(super) fn last(&self) -> u64 {
        self.used().map(|half| half.last).max().unwrap_or(0)
    }

    /// Whether FIN came from both sides, or RST.
    pub(super) fn is_closed(&self) -> bool {
        let [one, other] = self.halves.map(|half| half.flags);
        one & other & FIN != 0 || (one | other) & RST != 0
    }
}
