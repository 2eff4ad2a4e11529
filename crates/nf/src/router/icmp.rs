//! The errors that a router sends back: the half of its state that works after `run`.

use std::net::{Ipv4Addr, Ipv6Addr};

use warpline_packet::wire::ethernet;
use warpline_packet::wire::icmp_error::{
    Icmpv4Error, Icmpv6Error, MAX_LEN_V4, MAX_LEN_V6, icmpv4_error, icmpv6_error,
};
use warpline_packet::{Batch, Instant, LinkType, Packet, Reason, Verdict};

use crate::{After, Emit, Emits};

use super::fib::reason;

/// Room for the link header of an error: Ethernet with three VLAN tags takes 26 bytes.
const LINK_LEN_MAX: usize = 32;
/// One error a packet.
pub(super) const EMITS: Emits = Emits::packets(1, FRAME_LEN_MAX);
const FRAME_LEN_MAX: usize = LINK_LEN_MAX + MAX_LEN_V6;
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// What errors are sent, and how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Config {
    /// Where errors about IPv4 packets come from; none are sent without.
    pub(super) src_v4: Option<Ipv4Addr>,
    /// Where errors about IPv6 packets come from.
    pub(super) src_v6: Option<Ipv6Addr>,
    /// Errors a second a shard.
    pub(super) rate_pps: u64,
}

/// Whether packets that are dropped for `reason` are answered.
pub(super) fn is_answered(reason: Reason) -> bool {
    of_v4(reason).is_some()
}

fn of_v4(reason: Reason) -> Option<Icmpv4Error> {
    Some(match reason {
        reason::NO_ROUTE => Icmpv4Error::NetUnreachable,
        reason::TTL_EXCEEDED => Icmpv4Error::TtlExceeded,
        // RFC 1812, 5.2.7.1: a next hop that is not reachable.
        reason::UNREACHABLE | reason::NO_NEIGHBOUR => Icmpv4Error::HostUnreachable,
        reason::PROHIBITED => Icmpv4Error::AdminProhibited,
        _ => return None,
    })
}

fn of_v6(reason: Reason) -> Option<Icmpv6Error> {
    Some(match reason {
        reason::NO_ROUTE => Icmpv6Error::NoRoute,
        reason::TTL_EXCEEDED => Icmpv6Error::HopLimitExceeded,
        reason::UNREACHABLE | reason::NO_NEIGHBOUR => Icmpv6Error::AddressUnreachable,
        reason::PROHIBITED => Icmpv6Error::AdminProhibited,
        _ => return None,
    })
}

/// One shard's errors.
pub(super) struct Errors {
    config: Config,
    bucket: Bucket,
    frame: [u8; FRAME_LEN_MAX],
    sent: u64,
    limited: u64,
    withheld: u64,
}

impl Errors {
    pub(super) fn new(config: Config) -> Self {
        Self {
            config,
            bucket: Bucket::new(config.rate_pps),
            frame: [0; FRAME_LEN_MAX],
            sent: 0,
            limited: 0,
            withheld: 0,
        }
    }

    fn answer(&mut self, packet: &Packet<'_>, emit: &mut Emit<'_>) {
        let Some(len) = self.write(packet) else {
            self.withheld += 1;
            return;
        };
        // Only what could be sent takes a token.
        if !self.bucket.take(packet.timestamp()) {
            self.limited += 1;
        } else if emit.send_back(&packet.arrival(), &self.frame[..len]) {
            self.sent += 1;
        } else {
            self.withheld += 1;
        }
    }

    /// Writes the error about `packet` and gives its length; `None` where there must be none.
    fn write(&mut self, packet: &Packet<'_>) -> Option<usize> {
        let link_len = packet.l3_offset();
        let link = packet.frame().get(..link_len).filter(|_| link_len <= LINK_LEN_MAX)?;
        // RFC 1812, 4.3.2.7 and RFC 4443, 2.4 (e.4): not about a link-layer broadcast or multicast.
        let is_ethernet = packet.link() == LinkType::ETHERNET;
        if is_ethernet && link.first()? & 1 == 1 {
            return None;
        }
        self.frame[..link_len].copy_from_slice(link);
        if is_ethernet {
            let (dst, src) = (ethernet::field::DST, ethernet::field::SRC);
            self.frame[dst.clone()].copy_from_slice(&link[src.clone()]);
            self.frame[src].copy_from_slice(&link[dst]);
        }
        let (out, original) = (&mut self.frame[link_len..], packet.ip_packet());
        let len = if packet.version() == 4 {
            let out = &mut out[..MAX_LEN_V4];
            icmpv4_error(out, of_v4(packet.reason())?, self.config.src_v4?, original)
        } else {
            icmpv6_error(out, of_v6(packet.reason())?, self.config.src_v6?, original)
        };
        Some(link_len + len?)
    }
}

impl After for Errors {
    fn after(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>) {
        for &index in picks {
            let packet = batch.packet(usize::from(index));
            // What was `Forward` when the turn began and is dropped now was dropped here.
            if packet.verdict() == Verdict::Dropped && is_answered(packet.reason()) {
                self.answer(&packet, emit);
            }
        }
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("icmp_sent", self.sent);
        visit("icmp_rate_limited", self.limited);
        visit("icmp_withheld", self.withheld);
    }
}

/// A token bucket in packet time that holds a second's worth (RFC 4443, 2.4 (f)).
struct Bucket {
    rate_pps: u64,
    /// Nanoseconds times packets a second: a token is [`SECOND`].
    credit: u64,
    last: Instant,
}

impl Bucket {
    fn new(rate_pps: u64) -> Self {
        Self { rate_pps, credit: rate_pps.saturating_mul(SECOND), last: Instant::ZERO }
    }

    fn take(&mut self, now: Instant) -> bool {
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
