//! ICMP errors that a function sends back about packets that it drops, at most so many a second.

use std::net::{Ipv4Addr, Ipv6Addr};

use warpline_packet::wire::icmp_error::{
    Icmpv4Error, Icmpv6Error, MAX_LEN_V4, MAX_LEN_V6, icmpv4_error, icmpv6_error,
};
use warpline_packet::wire::{ethernet, sll};
use warpline_packet::{Instant, LinkType, Packet};

use warpline_nf::{Emit, Emits, Key, Section};

/// Room for the link header of an error: Ethernet with three VLAN tags takes 26 bytes.
pub const LINK_LEN_MAX: usize = 32;
const FRAME_LEN_MAX: usize = LINK_LEN_MAX + MAX_LEN_V6;
/// One error a packet.
pub const EMITS: Emits = Emits::answers(1, FRAME_LEN_MAX);
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// The keys of [`Config::read`].
pub const KEYS: [Key; 4] = [
    Key {
        name: "icmp",
        allowed: "off | on",
        default: "off",
        help: "on: sends ICMP errors to the senders of dropped packets",
    },
    Key {
        name: "icmp_src_v4",
        allowed: "an IPv4 address",
        default: "none: no IPv4 errors",
        help: "the source address of ICMP errors",
    },
    Key {
        name: "icmp_src_v6",
        allowed: "an IPv6 address",
        default: "none: no IPv6 errors",
        help: "the source address of ICMPv6 errors",
    },
    Key {
        name: "icmp_rate_pps",
        allowed: "1 to 1000000",
        default: "100",
        help: "ICMP errors per second of packet time, for each shard",
    },
];

/// The errors sent, and their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Where errors about IPv4 packets come from; none are sent without.
    pub src_v4: Option<Ipv4Addr>,
    /// Where errors about IPv6 packets come from.
    pub src_v6: Option<Ipv6Addr>,
    /// Errors a second a shard.
    pub rate_pps: u64,
}

impl Config {
    /// Of the keys `icmp`, `icmp_src_v4`, `icmp_src_v6` and `icmp_rate_pps`; `None` where `icmp` is
    /// off.
    pub fn read(section: &mut Section<'_>) -> Option<Self> {
        let on = section.choice("icmp", &[("off", false), ("on", true)], false);
        let config = Self {
            src_v4: section.parsed::<Ipv4Addr>("icmp_src_v4"),
            src_v6: section.parsed::<Ipv6Addr>("icmp_src_v6"),
            rate_pps: section.integer("icmp_rate_pps", 1..=1_000_000, 100),
        };
        for key in ["icmp_src_v4", "icmp_src_v6", "icmp_rate_pps"] {
            // With `icmp = "off"` they are for another time.
            if !section.has("icmp") && section.has(key) {
                section.mistake(key, format!("`{key}` requires icmp = \"on\""));
            }
        }
        if on && !section.has("icmp_src_v4") && !section.has("icmp_src_v6") {
            section.mistake("icmp", "`icmp` needs `icmp_src_v4` or `icmp_src_v6` to send from");
        }
        on.then_some(config)
    }
}

/// The error to report about a packet, by its IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The error in an ICMP message.
    pub v4: Icmpv4Error,
    /// The error in an ICMPv6 message.
    pub v6: Icmpv6Error,
}

/// One shard's errors.
pub struct Errors {
    config: Config,
    bucket: Bucket,
    frame: [u8; FRAME_LEN_MAX],
    sent: u64,
    limited: u64,
    withheld: u64,
}

impl Errors {
    /// Errors as `config` says, for one shard.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            bucket: Bucket::new(config.rate_pps),
            frame: [0; FRAME_LEN_MAX],
            sent: 0,
            limited: 0,
            withheld: 0,
        }
    }

    /// Tells the sender of `packet`, where there is something to tell and an error is permitted.
    pub fn answer(&mut self, packet: &Packet<'_>, problem: Option<Problem>, emit: &mut Emit<'_>) {
        let problem = problem.filter(|_| !emit.is_closed(packet));
        let Some(len) = problem.and_then(|problem| self.write(packet, problem)) else {
            self.withheld += 1;
            return;
        };
        // Only what could be sent takes a token.
        if !self.bucket.take(packet.timestamp()) {
            self.limited += 1;
        } else if emit.send_back(packet, &self.frame[..len]) {
            self.sent += 1;
        } else {
            self.withheld += 1;
        }
    }

    /// Writes the error about `packet` and gives its length; `None` where there must be none.
    fn write(&mut self, packet: &Packet<'_>, problem: Problem) -> Option<usize> {
        let link_len = packet.l3_offset();
        // A header that says no length doesn't say either that the capture cut the packet.
        if link_len + packet.ip_wire_len() > packet.ip_end() {
            return None;
        }
        let link = packet.frame().get(..link_len)?;
        link_back(&mut self.frame, link, packet.link())?;
        let (out, original) = (&mut self.frame[link_len..], packet.ip_packet());
        let len = if packet.version() == 4 {
            let out = &mut out[..MAX_LEN_V4];
            icmpv4_error(out, problem.v4, self.config.src_v4?, original)
        } else {
            icmpv6_error(out, problem.v6, self.config.src_v6?, original)
        };
        Some(link_len + len?)
    }

    /// Visits the counters by name.
    pub fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("icmp-sent", self.sent);
        visit("icmp-rate-limited", self.limited);
        visit("icmp-withheld", self.withheld);
    }
}

/// Writes the link header of an answer to a packet that came with the header `link`, which is as
/// long. `None` where there must be none: not about a link-layer broadcast or multicast (RFC 1812,
/// 4.3.2.7 and RFC 4443, 2.4 (e.4)).
pub fn link_back(out: &mut [u8], link: &[u8], kind: LinkType) -> Option<()> {
    let out = out.get_mut(..link.len()).filter(|_| link.len() <= LINK_LEN_MAX)?;
    if is_to_many(link, kind) {
        return None;
    }
    out.copy_from_slice(link);
    if kind == LinkType::ETHERNET {
        let (dst, src) = (ethernet::field::DST, ethernet::field::SRC);
        out.get_mut(dst.clone())?.copy_from_slice(link.get(src.clone())?);
        out.get_mut(src)?.copy_from_slice(link.get(dst)?);
    }
    Some(())
}

/// Whether a frame with this link header went to more than one.
pub fn is_to_many(link: &[u8], kind: LinkType) -> bool {
    match kind {
        LinkType::ETHERNET => link.first().is_some_and(|byte| byte & 1 == 1),
        // A cooked header says 1 of a broadcast, and 2 of a multicast.
        LinkType::LINUX_SLL => matches!(link.get(sll::field::PACKET_TYPE), Some([0, 1 | 2])),
        LinkType::LINUX_SLL2 => matches!(link.get(sll::field_v2::PACKET_TYPE), Some([1 | 2])),
        _ => false,
    }
}

/// A token bucket in packet time that holds a second's worth (RFC 4443, 2.4 (f)).
pub struct Bucket {
    rate_pps: u64,
    /// Nanoseconds times packets a second: a token is [`SECOND`].
    credit: u64,
    last: Instant,
}

impl Bucket {
    /// A full bucket; 0 sets no limit.
    pub fn new(rate_pps: u64) -> Self {
        Self { rate_pps, credit: rate_pps.saturating_mul(SECOND), last: Instant::ZERO }
    }

    /// Takes one, if one is there at `now`.
    pub fn take(&mut self, now: Instant) -> bool {
        let elapsed = now.as_nanos().saturating_sub(self.last.as_nanos()).min(SECOND);
        self.last = self.last.max(now);
        let full = self.rate_pps.saturating_mul(SECOND);
        let earned = elapsed.saturating_mul(self.rate_pps);
        self.credit = self.credit.saturating_add(earned).min(full);
        let has = self.credit >= SECOND;
        if has {
            self.credit -= SECOND;
        }
        has
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_link_has_broadcasts_and_multicasts_answered() {
        let answered = |kind, link: &[u8]| link_back(&mut [0; LINK_LEN_MAX], link, kind).is_some();
        for (to, expected) in [(0, true), (1, false), (2, false), (3, true), (4, true)] {
            let cooked = [&[0, to][..], &[0; 14]].concat();
            assert_eq!(answered(LinkType::LINUX_SLL, &cooked), expected, "{to}");
            let cooked = [&[0; 10], &[to][..], &[0; 9]].concat();
            assert_eq!(answered(LinkType::LINUX_SLL2, &cooked), expected, "{to}");
        }
        for (first, expected) in [(0x02, true), (0x01, false), (0xff, false)] {
            assert_eq!(answered(LinkType::ETHERNET, &[&[first][..], &[0; 13]].concat()), expected);
        }
        assert!(answered(LinkType::RAW, &[]));
    }
}
