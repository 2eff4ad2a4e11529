//! The rewrite: what `before` found, carried in scratch words, and what `run` does with it.
//!
//! Checksums are updated by RFC 1624, never computed over the payload.

use warpline_packet::wire::{checksum, ip_protocol};
use warpline_packet::{Batch, FieldSet, Flags, PacketMut, Reason, ScratchWord};

use crate::Endpoint;
use crate::places::{Refusals, SecondWords};
use crate::{icmp, places};
use warpline_nf::{Resources, Section};

/// The fields to rewrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Source address, and port or identifier.
    Source,
    /// Destination address, and port or identifier.
    Destination,
    /// Source address alone: a fragment without ports.
    SourceAddress,
    /// Source address of an ICMP error, and the destination of the packet that it quotes.
    ErrorOut,
    /// Destination address of an ICMP error, and the source of the packet that it quotes.
    ErrorIn,
    /// Destination address alone: a packet without ports.
    DestinationAddress,
}

const ACTIONS: [Action; 6] = [
    Action::Source,
    Action::Destination,
    Action::SourceAddress,
    Action::ErrorOut,
    Action::ErrorIn,
    Action::DestinationAddress,
];

/// The tag of a packet that is rewritten at the first place. The words of the second hold where it
/// was sent to.
pub(crate) const UNDO: u16 = ACTIONS.len() as u16 + 1;
/// The tag of a packet from inside to inside by an outside address: it gets a new destination at
/// the first place and a new source at the second. No answer can undo both, so it has none.
pub(crate) const HAIRPIN: u16 = UNDO + 1;

impl Action {
    pub(crate) fn is_source(self) -> bool {
        matches!(self, Self::Source | Self::SourceAddress | Self::ErrorOut)
    }
}

/// The change to make to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// The changed parts.
    pub action: Action,
    /// The new address and port.
    pub to: Endpoint,
}

/// Why a chain is refused that has no words for a translator.
pub(crate) const NO_WORDS: &str = "the chain has no scratch words left for it";

/// The scratch words that carry a [`Rewrite`]: action and port, then the address from its low word
/// on; one word for IPv4, four where there is IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    head: ScratchWord,
    low: ScratchWord,
    high: Option<[ScratchWord; 3]>,
}

impl Words {
    /// Words from the chain's, or a mistake.
    pub fn from(
        resources: &mut Resources,
        has_v6: bool,
        section: &mut Section<'_>,
    ) -> Option<Self> {
        let first = resources.scratch::<2>();
        let high = if has_v6 { resources.scratch::<3>() } else { None };
        match first {
            Some([head, low]) if high.is_some() == has_v6 => Some(Self { head, low, high }),
            _ => {
                section.mistake("function", NO_WORDS);
                None
            }
        }
    }

    /// Their fields.
    pub fn fields(&self) -> FieldSet {
        self.all().map(ScratchWord::field).collect()
    }

    /// All of them: the head, then the address from its low word on.
    pub fn all(&self) -> impl Iterator<Item = ScratchWord> {
        [self.head, self.low].into_iter().chain(self.high.into_iter().flatten())
    }

    /// Writes `rewrite` into the words of `packet`.
    #[inline]
    pub fn set(&self, packet: &mut PacketMut<'_>, rewrite: &Rewrite) {
        self.put(packet, rewrite.action as u16 + 1, rewrite.to);
    }

    #[inline]
    fn get(&self, packet: &PacketMut<'_>) -> Option<Rewrite> {
        let (tag, to) = self.take(packet);
        Some(Rewrite { action: action_of(tag)?, to })
    }

    /// Writes what the words carry: an endpoint, and a tag that is not 0.
    #[inline(always)]
    pub fn put(&self, packet: &mut PacketMut<'_>, tag: u16, to: Endpoint) {
        let Endpoint { address, port } = to;
        packet.set_scratch(self.head, u32::from(port) << 16 | u32::from(tag));
        packet.set_scratch(self.low, address as u32);
        for (word, shift) in self.high.iter().flatten().zip([32, 64, 96]) {
            packet.set_scratch(*word, (address >> shift) as u32);
        }
    }

    /// The words of [`Words::put`]; the tag is 0 if it wrote none.
    #[inline]
    pub fn take(&self, packet: &PacketMut<'_>) -> (u16, Endpoint) {
        let head = packet.scratch(self.head);
        let mut address = u128::from(packet.scratch(self.low));
        for (word, shift) in self.high.iter().flatten().zip([32, 64, 96]) {
            address |= u128::from(packet.scratch(*word)) << shift;
        }
        (head as u16, Endpoint { address, port: (head >> 16) as u16 })
    }
}

#[inline]
fn action_of(tag: u16) -> Option<Action> {
    ACTIONS.get(usize::from(tag).checked_sub(1)?).copied()
}

/// Rewrites a packet at the second place, or says why it is dropped.
#[inline]
pub(crate) fn apply_second(
    packet: &mut PacketMut<'_>,
    second: &SecondWords,
    refusals: Refusals,
) -> Option<Reason> {
    let (tag, to) = second.words.take(packet);
    if tag == 0 {
        return None;
    }
    if packet.has(Flags::ANSWER) {
        let is_hidden = tag < UNDO || tag == UNDO && undo(packet, to);
        return (!is_hidden).then_some(refusals.bad_quote);
    }
    let action = if tag == HAIRPIN { Some(Action::Source) } else { action_of(tag) };
    let action = action.filter(|_| second.has_source(packet))?;
    if action != Action::SourceAddress && !shows_ports(packet) {
        return Some(refusals.hidden);
    }
    // A fragment that was made of the packet since has no ports, and quotes nothing.
    let is_part = packet.has(Flags::LATER_FRAGMENT);
    let action = if is_part { Action::SourceAddress } else { action };
    apply(packet, &Rewrite { action, to });
    None
}

/// Whether a packet is one of those that are translated, and no other function's that carries one.
#[inline]
fn shows_ports(packet: &PacketMut<'_>) -> bool {
    let is_ours = match packet.protocol() {
        ip_protocol::TCP | ip_protocol::UDP => true,
        ip_protocol::ICMP => packet.version() == 4,
        ip_protocol::ICMPV6 => packet.version() == 6,
        _ => false,
    };
    is_ours && (packet.has(Flags::TRANSPORT) || packet.has(Flags::LATER_FRAGMENT))
}

#[cold]
fn undo(packet: &mut PacketMut<'_>, to: Endpoint) -> bool {
    let undoing = places::undoing(packet, to);
    undoing.iter().for_each(|rewrite| apply(packet, rewrite));
    undoing.is_some()
}

/// Rewrites every packet that has something in its words.
pub fn run(batch: &mut Batch, words: &Words) {
    batch.for_each_forward(|packet| {
        if let Some(rewrite) = words.get(packet) {
            apply(packet, &rewrite);
        }
    });
}

/// Rewrites a packet. The usual case is inlined into the loop over a batch.
#[inline(always)]
fn apply(packet: &mut PacketMut<'_>, rewrite: &Rewrite) {
    let has_ports = matches!(packet.protocol(), ip_protocol::TCP | ip_protocol::UDP);
    match rewrite.action {
        Action::Source if has_ports && packet.version() == 4 => ends_v4(packet, true, rewrite.to),
        Action::Destination if has_ports && packet.version() == 4 => {
            ends_v4(packet, false, rewrite.to);
        }
        _ => apply_any(packet, rewrite),
    }
}

/// Rewrites an address and a port of TCP or UDP.
#[inline(always)]
fn ends_v4(packet: &mut PacketMut<'_>, source: bool, to: Endpoint) {
    let old = set_address_v4(packet, source, to.address as u32);
    let change = Change { version: 4, old: old.into(), new: to.address };
    set_port(packet, &change, source, to.port);
}

#[inline(never)]
fn apply_any(packet: &mut PacketMut<'_>, Rewrite { action, to }: &Rewrite) {
    let change = Change {
        version: packet.version(),
        old: set_address(packet, action.is_source(), to.address),
        new: to.address,
    };
    match action {
        Action::Source | Action::Destination => {
            transport(packet, &change, action.is_source(), to.port);
        }
        Action::SourceAddress | Action::DestinationAddress => {}
        Action::ErrorOut | Action::ErrorIn => error(packet, &change, *action, *to),
    }
}

/// A changed address.
struct Change {
    version: u8,
    old: u128,
    new: u128,
}

impl Change {
    /// A checksum over the address, or over a pseudo-header with it, after the change.
    #[inline]
    fn apply(&self, sum: u16) -> u16 {
        match self.version {
            4 => checksum::update32(sum, self.old as u32, self.new as u32),
            _ => checksum::update_bytes(sum, &self.old.to_be_bytes(), &self.new.to_be_bytes()),
        }
    }
}

/// Writes the address, and the IP header's checksum where there is one. Gives the old address.
#[inline]
fn set_address(packet: &mut PacketMut<'_>, source: bool, new: u128) -> u128 {
    if packet.version() == 6 {
        let old = if source { packet.src_v6() } else { packet.dst_v6() };
        if source {
            packet.set_src_v6(new)
        } else {
            packet.set_dst_v6(new)
        }
        return old;
    }
    set_address_v4(packet, source, new as u32).into()
}

#[inline(always)]
fn set_address_v4(packet: &mut PacketMut<'_>, source: bool, new: u32) -> u32 {
    let old = if source { packet.src_v4() } else { packet.dst_v4() };
    if source {
        packet.set_src_v4(new)
    } else {
        packet.set_dst_v4(new)
    }
    packet.set_ip_checksum(checksum::update32(packet.ip_checksum(), old, new));
    old
}

#[inline]
fn transport(packet: &mut PacketMut<'_>, change: &Change, source: bool, port: u16) {
    let sum = packet.l4_checksum();
    match packet.protocol() {
        ip_protocol::ICMP => {
            let sum = checksum::update16(sum, packet.icmp_ident(), port);
            packet.set_icmp_ident(port);
            packet.set_l4_checksum(if is_all_zero(packet, sum) { !0 } else { sum });
        }
        ip_protocol::ICMPV6 => {
            let sum = checksum::update16(change.apply(sum), packet.icmp_ident(), port);
            packet.set_icmp_ident(port);
            packet.set_l4_checksum(sum);
        }
        _ => set_port(packet, change, source, port),
    }
}

/// Writes a port of TCP or UDP, and the checksum after that and `change`.
#[inline(always)]
fn set_port(packet: &mut PacketMut<'_>, change: &Change, source: bool, port: u16) {
    let sum = packet.l4_checksum();
    let old = if source { packet.src_port() } else { packet.dst_port() };
    if source {
        packet.set_src_port(port)
    } else {
        packet.set_dst_port(port)
    }
    let new = checksum::update16(change.apply(sum), old, port);
    let is_udp = packet.protocol() == ip_protocol::UDP;
    packet.set_l4_checksum(if is_udp { udp(sum, new) } else { new });
}

/// Returns the checksum of a UDP header whose checksum was updated from `old` to `new`. RFC 768:
/// "If the computed checksum is zero, it is transmitted as all ones"; "an all zero transmitted
/// checksum value means that the transmitter generated no checksum".
pub fn udp(old: u16, new: u16) -> u16 {
    match (old, new) {
        (0, _) => 0,
        (_, 0) => u16::MAX,
        (_, new) => new,
    }
}

/// Whether the message is all zeros, which only an echo reply can be. Only then does an update give
/// the wrong zero. The payload is read only if the header is all zeros.
fn is_all_zero(packet: &PacketMut<'_>, sum: u16) -> bool {
    let header = [u16::from(packet.icmp_type()), packet.icmp_ident(), packet.icmp_seq()];
    sum == 0
        && header == [0; 3]
        && packet.icmp_code() == 0
        && packet.payload().iter().all(|&byte| byte == 0)
}

fn error(packet: &mut PacketMut<'_>, change: &Change, action: Action, to: Endpoint) {
    let mut sum = packet.l4_checksum();
    if change.version == 6 {
        sum = change.apply(sum);
    }
    let side = match action {
        Action::ErrorOut => icmp::QuoteEnd::Destination,
        _ => icmp::QuoteEnd::Source,
    };
    let sum = icmp::rewrite(packet.payload_mut(), change.version, side, to, sum);
    packet.set_l4_checksum(sum);
}
