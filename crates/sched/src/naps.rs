//! Naps of a thread that waits to be woken. If packets come so fast that it would be woken for
//! each, it naps first, and then finds several at once.
//!
//! ```
//! use warpline_sched::{NAP_NS, Naps};
//!
//! let mut naps = Naps::default();
//! assert_eq!(naps.poll_nap(0, 1_000), None, "the first packet is not delayed");
//! // Work came soon after the wait began, so the next rest is a nap.
//! naps.handle_work(|| 6_000);
//! assert_eq!(naps.poll_nap(1, 9_000), Some(NAP_NS));
//! ```

/// A nap, which is the most that it delays a packet, in nanoseconds.
pub const NAP_NS: u64 = 40_000;
/// A nap under load.
pub const LONG_NAP_NS: u64 = 80_000;
/// Frames found after a nap from which on the next one is long, and those after a long one: some
/// 80,000 a second.
const DENSE: [u64; 2] = [4, 7];
/// Naps begin when work came this soon after the thread began to wait.
const NAP_WITHIN_NS: u64 = 20_000;

/// Whether naps pay.
#[derive(Clone, Copy, Debug, Default)]
pub struct Naps {
    pay: bool,
    are_long: bool,
    rest: Rest,
}

/// How a thread has rested since its last work.
#[derive(Clone, Copy, Debug, Default)]
enum Rest {
    #[default]
    Not,
    Napped,
    /// It waits to be woken, since then.
    Waits(u64),
}

impl Naps {
    /// There was work. Calls `now_ns` if the thread waited for it.
    #[inline]
    pub fn handle_work(&mut self, now_ns: impl FnOnce() -> u64) {
        if let Rest::Waits(since_ns) = self.rest {
            self.pay = now_ns().saturating_sub(since_ns) < NAP_WITHIN_NS;
        }
        self.rest = Rest::Not;
    }

    /// Whether the next rest is a nap.
    pub fn are_due(&self) -> bool {
        self.pay && matches!(self.rest, Rest::Not)
    }

    /// The length of the nap, if it is time for one, `frames` after the last rest. Otherwise the
    /// thread waits to be woken. A nap that finds nothing ends napping.
    pub fn poll_nap(&mut self, frames: u64, now_ns: u64) -> Option<u64> {
        self.pay = self.are_due();
        self.are_long = self.pay && frames >= DENSE[usize::from(self.are_long)];
        match self.rest {
            Rest::Waits(_) => {}
            _ if self.pay => self.rest = Rest::Napped,
            _ => self.rest = Rest::Waits(now_ns),
        }
        self.pay.then_some(if self.are_long { LONG_NAP_NS } else { NAP_NS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Naps in a row that find nothing.
    fn rests(naps: &mut Naps) -> usize {
        let mut count = 0;
        while naps.poll_nap(1, 0).is_some() {
            count += 1;
        }
        count
    }

    #[test]
    fn a_thread_naps_while_work_comes_fast() {
        let mut naps = Naps::default();
        assert_eq!(rests(&mut naps), 0, "the first packet is not delayed");
        // It waited for a long time.
        naps.handle_work(|| NAP_WITHIN_NS);
        assert_eq!(rests(&mut naps), 0);
        // Work came at once.
        naps.handle_work(|| NAP_WITHIN_NS - 1);
        for (frames, nap) in
            [(9, LONG_NAP_NS), (7, LONG_NAP_NS), (6, NAP_NS), (3, NAP_NS), (4, LONG_NAP_NS)]
        {
            assert_eq!(naps.poll_nap(frames, 0), Some(nap), "{frames}");
            naps.handle_work(|| unreachable!("it did not wait"));
        }
        // None came during a nap.
        assert_eq!(naps.poll_nap(1, 0), Some(NAP_NS));
        assert_eq!((naps.poll_nap(9, 0), naps.poll_nap(9, 0)), (None, None));
        naps.handle_work(|| NAP_WITHIN_NS);
        assert_eq!(rests(&mut naps), 0, "packets are rare");
    }
}
