//! Packets that no router forwards, wherever their route leads (RFC 1812, 5.2.2 and 5.3.7; RFC
//! 4291, 2.5).
//!
//! [`Checks`] holds the reasons for which the chain file drops them. Where the RFCs leave a choice,
//! Linux 6.18 decides. Forbidden destinations are routes of the tables ([`super::fib`]); the rest
//! is asked of each packet: [`is_sound_v4`] and [`is_sound_v6`] are quick and [`Checks::objection`]
//! names the reason.

use warpline_packet::wire::{checksum, ip_protocol, ipv4, ipv6};
use warpline_packet::{Flags, LinkType, Packet, Reason};

use super::fib::reason;
use super::options::{are_bad_v4, are_bad_v6, has_source_route};
use warpline_nf::{Key, Section};
use warpline_rewrite::icmp_errors::is_to_many;

/// A check that the chain file can switch off, and its reason.
const ALL: [(&str, Reason); 8] = [
    ("martian_source", reason::MARTIAN_SOURCE),
    ("martian_destination", reason::MARTIAN_DESTINATION),
    ("multicast", reason::MULTICAST),
    ("link_broadcast", reason::FRAME_TO_MANY),
    ("bad_checksum", reason::BAD_CHECKSUM),
    ("bad_options", reason::BAD_OPTIONS),
    ("source_route", reason::SOURCE_ROUTE),
    ("directed_broadcast", reason::DIRECTED_BROADCAST),
];

const fn key(name: &'static str, help: &'static str) -> Key {
    Key { name, allowed: "drop | forward", default: "drop", help }
}

/// The keys of [`Checks::read`].
pub(super) const KEYS: [Key; 8] = [
    key(
        "martian_source",
        "packets from loopback, multicast, unspecified or IPv6 link-local addresses",
    ),
    key("martian_destination", "packets to loopback, unspecified or IPv6 link-local addresses"),
    key("multicast", "packets to multicast addresses"),
    key("link_broadcast", "packets to a single host in a broadcast or multicast frame"),
    key("bad_checksum", "IPv4 headers with a wrong checksum"),
    key("bad_options", "options that Linux refuses"),
    key("source_route", "packets with a source route"),
    key("directed_broadcast", "broadcasts of connected prefixes"),
];

/// The reasons for which packets are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Checks(u32);

impl Checks {
    /// Everything is checked.
    pub(super) const EVERY: Self = Self(u32::MAX);

    #[cfg(test)]
    pub(super) const NONE: Self = Self(0);

    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let choices = [("drop", true), ("forward", false)];
        let mut bits = 0;
        for (name, reason) in ALL {
            bits |= u32::from(section.choice(name, &choices, true)) << reason.0;
        }
        Self(bits)
    }

    pub(super) fn has(self, reason: Reason) -> bool {
        self.0 >> reason.0 & 1 == 1
    }

    /// A bit for each reason.
    pub(super) fn bits(self) -> u32 {
        self.0
    }

    /// Why a whole packet of IP must not go on, whatever its destination's route.
    #[cold]
    pub(super) fn objection(self, packet: &Packet<'_>) -> Option<Reason> {
        let found = match packet.version() {
            4 => self.objection_v4(packet),
            _ => self.objection_v6(packet),
        };
        found.or_else(|| self.to_many(packet))
    }

    fn objection_v4(self, packet: &Packet<'_>) -> Option<Reason> {
        let (l3, l4) = (packet.l3_offset(), packet.l4_offset());
        let header = packet.frame_for(super::CHECKED).get(l3..l4)?;
        let options = header.get(ipv4::HEADER_LEN..)?;
        let found = [
            (reason::BAD_CHECKSUM, checksum::checksum(header) != 0),
            (reason::BAD_OPTIONS, are_bad_v4(options)),
            (reason::SOURCE_ROUTE, has_source_route(options)),
            (reason::MARTIAN_SOURCE, is_martian_v4(packet.src_v4())),
        ];
        found.into_iter().find_map(|(why, is)| (is && self.has(why)).then_some(why))
    }

    fn objection_v6(self, packet: &Packet<'_>) -> Option<Reason> {
        let frame = packet.frame_for(super::CHECKED);
        let ip = frame.get(packet.l3_offset()..packet.ip_end())?;
        let has_options = packet.has(Flags::IP_OPTIONS)
            && ip.get(ipv6::field::NEXT_HEADER.start) == Some(&ip_protocol::HOP_BY_HOP);
        let found = [
            (reason::BAD_OPTIONS, has_options && are_bad_v6(ip)),
            (reason::MARTIAN_SOURCE, is_martian_v6(packet.src_v6())),
        ];
        found.into_iter().find_map(|(why, is)| (is && self.has(why)).then_some(why))
    }

    /// A packet for one host must not come in a frame for many (RFC 1812, 5.3.4).
    fn to_many(self, packet: &Packet<'_>) -> Option<Reason> {
        let link = packet.frame_for(super::CHECKED).get(..packet.l3_offset())?;
        let is_group = match packet.version() {
            4 => matches!(packet.dst_v4(), 0xe000_0000..=0xefff_ffff | u32::MAX),
            _ => packet.dst_v6() >> 120 == 0xff,
        };
        let is = !is_group && is_to_many(link, packet.link());
        (is && self.has(reason::FRAME_TO_MANY)).then_some(reason::FRAME_TO_MANY)
    }
}

/// Whether an IPv4 header without options has a right checksum and an ordinary source. A source in
/// 0/8, in 127/8, or from 224.0.0.0 on is not ordinary; [`Checks::objection`] decides about it.
#[inline(always)]
pub(super) fn is_sound_v4(header: &[u8; ipv4::HEADER_LEN]) -> bool {
    let word = |at: usize| {
        u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    // The sum doesn't depend on the order of bytes (RFC 1071, 2 (B)). It is never zero, as the
    // version is not. So the folded sum is 0xffff if 0xffff divides it: a product and a comparison
    // replace the folds.
    let sum = [0, 4, 8, 12, 16].into_iter().fold(0, |sum, at| sum + u64::from(word(at)));
    let network = header[ipv4::field::SRC_ADDR.start];
    sum % 0xffff == 0 && (1..0xe0).contains(&network) && network != 127
}

/// Whether a source is one that an IPv6 packet may be forwarded from.
#[inline(always)]
pub(super) fn is_sound_v6(src: u128) -> bool {
    !is_martian_v6(src)
}

/// Whether a source is no host's address: none, a loopback, a group's or the broadcast's. Linux
/// forwards from the rest of 0/8, class E and link-local addresses.
#[inline(always)]
fn is_martian_v4(src: u32) -> bool {
    src == 0 || src >> 24 == 127 || src >> 28 == 0xe || src == u32::MAX
}

/// None, the loopback, a group's or a link-local one. Linux forwards from mapped and compatible
/// ones.
#[inline(always)]
fn is_martian_v6(src: u128) -> bool {
    src <= 1 || src >> 120 == 0xff || src >> 118 == 0x3fa
}

/// Whether a link's frames say in their first bytes that they are for many.
#[inline(always)]
pub(super) fn may_be_to_many(frame: &[u8], link: LinkType) -> bool {
    match link {
        LinkType::ETHERNET => frame.first().is_some_and(|byte| byte & 1 == 1),
        LinkType::LINUX_SLL | LinkType::LINUX_SLL2 => true,
        _ => false,
    }
}
