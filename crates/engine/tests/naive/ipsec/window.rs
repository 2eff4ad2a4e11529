//! The replay window (RFC 4303, 3.4.3 and appendix A2): a set of numbers.

use std::collections::BTreeSet;

use super::sa::Sa;

/// Without a window, the whole number nearest to the highest is meant.
const REACH: u64 = 1 << 31;

/// Which numbers of an SA were received.
pub(crate) struct Window {
    size: u64,
    esn: bool,
    /// Numbers up to this one were received before.
    start: u64,
    highest: u64,
    received: BTreeSet<u64>,
}

impl Window {
    pub(crate) fn new(sa: &Sa) -> Self {
        let (start, size) = (sa.sequence, sa.window.into());
        Self { size, esn: sa.esn, start, highest: start, received: BTreeSet::new() }
    }

    /// The number of a packet that carries `low`; `None` where it may not be received.
    pub(crate) fn number(&self, low: u32) -> Option<u64> {
        let number = if self.esn { self.infer(low)? } else { low.into() };
        let is_old = number <= self.start || self.received.contains(&number);
        let is_below = number + self.size <= self.highest;
        let is_replay = self.size > 0 && (is_old || is_below);
        (number > 0 && !is_replay).then_some(number)
    }

    /// The one number that ends with `low` among the 2^32 from the window's lower edge on.
    fn infer(&self, low: u32) -> Option<u64> {
        let size = if self.size == 0 { REACH } else { self.size };
        let edge = i128::from(self.highest) - i128::from(size) + 1;
        u64::try_from(edge + (i128::from(low) - edge).rem_euclid(1 << 32)).ok()
    }

    /// Takes a number that authenticated.
    pub(crate) fn accept(&mut self, number: u64) {
        self.received.insert(number);
        self.highest = self.highest.max(number);
    }
}
