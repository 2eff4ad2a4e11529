//! The clock of functions: packet timestamps, made monotonic and robust against a few damaged ones.
//!
//! The clock follows a packet's time while it is within [`BOUND`] of the one before. If a time is
//! farther away, the next [`WITNESSES`] packets vote. Each votes for the side nearer to its own
//! time: the new time or the clock. If most vote for the new time, there was a gap or the capturing
//! clock was set, and our clock follows. Otherwise the packet is a stray and gets the clock's time.
//! At the end of the input there may be too few voters. Then a gap of up to [`BELIEVED`] is
//! accepted, and a larger one if more packets have the new time than the old one.
//!
//! A live source has a clock of its own. While it has no packets, ours follows that, so the first
//! packet after a pause is near and waits for no votes.
//!
//! The clock never steps back. When packets' times do, it stands still, then continues at their
//! pace, so it cannot get stuck at a maximum. Its decisions depend on the order of the input only,
//! not on its speed.

use core::time::Duration;

use warpline_io::Frame;
use warpline_packet::Instant;

/// How far the next packet's time may be from the clock without a vote: less than any default
/// timeout.
pub(super) const BOUND: Duration = Duration::from_secs(10);
const NEAR: u64 = BOUND.as_nanos() as u64;
/// Packets after one with a distant time that vote on it; an odd number.
pub(super) const WITNESSES: usize = 15;
/// The gap that is accepted at the end of the input, when no packets are left to vote.
const BELIEVED: Duration = Duration::from_secs(24 * 3600);
/// The latest start of a clock, in the year 2116: whatever the first packet's time is, the clock
/// can continue from there.
const START_MAX: u64 = 1 << 62;
/// A gap moves the clock by at most this part of the time left until the last representable moment
/// (two years, today). So no number of gaps gets there.
const GAP_SHARE: u64 = 256;

/// Counts of times far from the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeCounts {
    /// Packets that were not believed, and got the clock's time.
    pub strays: u64,
    /// Times that the clock followed a gap.
    pub gaps: u64,
    /// Times that it followed a step back.
    pub steps_back: u64,
}

impl TimeCounts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.strays += other.strays;
        self.gaps += other.gaps;
        self.steps_back += other.steps_back;
    }
}

/// The clock of one input.
#[derive(Default)]
pub(super) struct PacketClock {
    /// The time for functions, in nanoseconds.
    now: u64,
    /// The own time of the packet that moved it last.
    own: u64,
    /// Packets believed since the last gap or step; 0 before the first packet.
    since: u64,
    /// The clock's own time and the time that it gave when it last stepped back.
    left: Option<(u64, u64)>,
    pub(super) counts: TimeCounts,
}

impl PacketClock {
    /// Gives frames their `times`, in order, as far as they are decided; returns how many. `is_all`
    /// means that no more follow.
    #[inline]
    pub(super) fn time(
        &mut self,
        frames: &[Frame<'_>],
        is_all: bool,
        times: &mut [Instant],
    ) -> usize {
        let mut done = 0;
        loop {
            done += self.follow(&frames[done..], &mut times[done..frames.len()]);
            let Some(frame) = frames.get(done) else { return done };
            if !self.judge(frame.timestamp.as_nanos(), &frames[done + 1..], is_all) {
                return done;
            }
            times[done] = Instant::from_nanos(self.now);
            done += 1;
        }
    }

    /// Follows a live source's clock, which is at `own`, while it has no packets. Returns the time
    /// for functions; `None` before the first packet.
    pub(super) fn pass(&mut self, own: Instant) -> Option<Instant> {
        let own = own.as_nanos();
        match self.since {
            0 => return None,
            _ if own.abs_diff(self.own) > NEAR => self.step(own),
            _ => {
                self.now = self.now.saturating_add(own.saturating_sub(self.own));
                self.own = self.own.max(own);
            }
        }
        Some(Instant::from_nanos(self.now))
    }

    /// Gives frames their times while each is near the one before; returns how many.
    #[inline(always)]
    fn follow(&mut self, frames: &[Frame<'_>], times: &mut [Instant]) -> usize {
        // Each frame adds `NEAR` at most: neither sum can overflow.
        let most = u64::MAX - NEAR * (frames.len() as u64 + 1);
        if self.since == 0 || self.now > most || self.own > most {
            return 0;
        }
        // Own times first, side by side: what is done to them then is done to several at once.
        times.iter_mut().zip(frames).for_each(|(time, frame)| *time = frame.timestamp);
        let count = match self.ahead(times) {
            Some(last) => {
                let passed = self.now.wrapping_sub(self.own);
                if passed != 0 {
                    let moved =
                        |time: &Instant| Instant::from_nanos(time.as_nanos().wrapping_add(passed));
                    times.iter_mut().for_each(|time| *time = moved(time));
                }
                (self.own, self.now) = (last, last.wrapping_add(passed));
                times.len()
            }
            None => {
                let near = times.iter_mut().map_while(|time| self.step_near(time));
                near.count()
            }
        };
        self.since += count as u64;
        count
    }

    /// The last of frames' own `times`, if none is before its predecessor or far ahead, as in
    /// nearly all bursts.
    #[inline(always)]
    fn ahead(&self, times: &[Instant]) -> Option<u64> {
        let (mut last, mut any) = (self.own, 0);
        for time in times {
            let at = time.as_nanos();
            (last, any) = (at, any | at.wrapping_sub(last));
        }
        // A distance beyond `NEAR` stays beyond it with others ored to it. If small ones together
        // look far, frames are timed one by one.
        (any <= NEAR).then_some(last)
    }

    /// Converts the next frame's own time to the time for functions; `None` if it isn't near.
    #[inline(always)]
    fn step_near(&mut self, time: &mut Instant) -> Option<()> {
        let at = time.as_nanos();
        let ahead = at.wrapping_sub(self.own);
        if ahead <= NEAR {
            (self.own, self.now) = (at, self.now + ahead);
        } else if at > self.own || self.own - at > NEAR {
            return None;
        }
        *time = Instant::from_nanos(self.now);
        Some(())
    }

    /// Decides on a packet whose time `own` is far from the clock's, by the packets after it
    /// (`behind`); returns whether it could.
    #[cold]
    #[inline(never)]
    fn judge(&mut self, own: u64, behind: &[Frame<'_>], is_all: bool) -> bool {
        if self.since == 0 {
            (self.own, self.now, self.since) = (own, own.min(START_MAX), 1);
            return true;
        }
        if own.abs_diff(self.own) <= NEAR {
            // At the end of time the clock stands.
            self.now = self.now.saturating_add(own.saturating_sub(self.own));
            (self.own, self.since) = (self.own.max(own), self.since + 1);
            return true;
        }
        let behind = &behind[..behind.len().min(WITNESSES)];
        let agrees = |frame: &&Frame<'_>| {
            let other = frame.timestamp.as_nanos();
            other.abs_diff(own) < other.abs_diff(self.own)
        };
        let agreed = behind.iter().filter(agrees).count();
        let against = behind.len() - agreed;
        let most = WITNESSES / 2 + 1;
        let is_believed = if agreed >= most {
            true
        } else if against >= most {
            false
        } else if !is_all {
            return false;
        } else {
            let is_usual = u128::from(own.abs_diff(self.own)) <= BELIEVED.as_nanos();
            let held = against as u64 + self.since.min(most as u64);
            (is_usual && agreed >= against) || agreed as u64 + 1 > held
        };
        if is_believed {
            self.step(own)
        } else {
            self.counts.strays += 1
        }
        true
    }

    /// Continues from `own`, wherever that is.
    fn step(&mut self, own: u64) {
        if own > self.own {
            let most = (u64::MAX - self.now) / GAP_SHARE;
            let gap = self.back_to_left(own).unwrap_or(own - self.own);
            self.now += gap.min(most);
            self.counts.gaps += 1;
        } else {
            self.left = Some((self.own, self.now));
            self.counts.steps_back += 1;
        }
        (self.own, self.since) = (own, 1);
    }

    /// How far the clock has to move if `own` continues the time before the last step back. Two
    /// interfaces whose clocks differ may alternate; no time passes when they switch.
    fn back_to_left(&self, own: u64) -> Option<u64> {
        let (left_own, left_now) = self.left?;
        let passed = i128::from(own) - i128::from(left_own);
        let behind = passed - i128::from(self.now - left_now);
        let is_near = behind.unsigned_abs() <= BOUND.as_nanos();
        is_near.then(|| behind.max(0) as u64)
    }
}

#[cfg(test)]
#[path = "packet_clock_tests.rs"]
mod tests;
