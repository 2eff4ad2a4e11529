//! The traffic and refusals of one SA, and whether its lifetime is over (RFC 4301, 4.4.2.1).

use core::time::Duration;

use warpline_packet::Instant;

use super::sa::{Lifetime, Limits};

/// The refusals of an SA, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    BadIcv,
    Replay,
    /// Everything else.
    Other,
}

/// The traffic of an SA, which every packet changes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carried {
    pub(super) packets: u64,
    /// Bytes of the packets as they are without ESP.
    pub(super) bytes: u64,
    first: Option<Instant>,
}

/// Its refused packets, and whether it reached a soft limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refusals {
    pub(super) bad_icv: u64,
    pub(super) replay: u64,
    pub(super) lifetime: u64,
    pub(super) other: u64,
    pub(super) is_soft: bool,
}

impl Carried {
    /// Whether the hard limits allow one more packet of `len` bytes; records reached limits in
    /// `refusals`.
    pub(super) fn admits(
        &mut self,
        len: usize,
        now: Instant,
        lifetime: &Lifetime,
        refusals: &mut Refusals,
    ) -> bool {
        let age = now.since(*self.first.get_or_insert(now));
        let (packets, bytes) = (self.packets + 1, self.bytes + len as u64);
        let is_over = |limits: &Limits| {
            limits.packets.is_some_and(|max| packets > max)
                || limits.bytes.is_some_and(|max| bytes > max)
                || limits.seconds.is_some_and(|max| age >= Duration::from_secs(max))
        };
        refusals.is_soft |= is_over(&lifetime.soft);
        let is_over = is_over(&lifetime.hard);
        refusals.lifetime += u64::from(is_over);
        !is_over
    }

    /// Its life begins with its first packet.
    pub(super) fn begin(&mut self, now: Instant) {
        self.first.get_or_insert(now);
    }

    /// Takes a packet of `len` bytes in.
    pub(super) fn count(&mut self, len: usize) {
        self.packets += 1;
        self.bytes += len as u64;
    }

    /// Adds what another SA carried.
    pub(super) fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }

    /// Whether it carried anything, or was asked to.
    pub(super) fn is_begun(&self) -> bool {
        self.first.is_some()
    }
}

impl Refusals {
    pub(super) fn count(&mut self, why: Refused) {
        *match why {
            Refused::BadIcv => &mut self.bad_icv,
            Refused::Replay => &mut self.replay,
            Refused::Other => &mut self.other,
        } += 1;
    }

    pub(super) fn any(&self) -> bool {
        self.bad_icv + self.replay + self.lifetime + self.other > 0
    }
}
