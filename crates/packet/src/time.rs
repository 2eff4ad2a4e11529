//! Packet time: nanoseconds since 1970-01-01T00:00:00Z.
//!
//! A function's time is the packet's own timestamp, made monotonic at ingress. This file reads no
//! clock. [`Instant`] can be made from any number, so tests and simulations start at zero.

use core::fmt;
use core::time::Duration;

/// A moment, in nanoseconds since the Unix epoch. Good until the year 2554.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Instant(u64);

impl Instant {
    /// The Unix epoch.
    pub const ZERO: Self = Self(0);
    /// The last moment that can be named.
    pub const MAX: Self = Self(u64::MAX);

    /// A moment from nanoseconds since the epoch.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A moment from seconds and nanoseconds since the epoch, the last one where it overflows.
    #[inline]
    pub const fn from_parts(seconds: u64, nanos: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
    }

    /// A moment from whole seconds since the epoch.
    #[inline]
    pub const fn from_secs(seconds: u64) -> Self {
        Self::from_parts(seconds, 0)
    }

    /// Nanoseconds since the epoch.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time since `earlier`; zero where `earlier` is later.
    #[inline]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// This moment plus `span`, or [`Instant::MAX`] where that overflows.
    #[inline]
    pub const fn after(self, span: Duration) -> Self {
        let nanos = span.as_nanos();
        if nanos > u64::MAX as u128 { Self::MAX } else { Self(self.0.saturating_add(nanos as u64)) }
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let start = Instant::from_parts(5, 7);
        assert_eq!(start.as_nanos(), 5_000_000_007);
        assert_eq!(start.after(Duration::from_nanos(3)).since(start), Duration::from_nanos(3));
        assert_eq!(start.since(Instant::MAX), Duration::ZERO);
        assert_eq!(Instant::MAX.after(Duration::MAX), Instant::MAX);
        assert_eq!(Instant::from_parts(u64::MAX, 1), Instant::MAX);
        assert_eq!(start.to_string(), "5.000000007");
    }
}
