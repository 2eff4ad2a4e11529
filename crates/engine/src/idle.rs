//! The waiting of a thread without work.
//!
//! With captures it spins, yields, then sleeps for increasing times. With interfaces a thread that
//! looks again and again would cost more than all packets. There it waits until another thread or
//! the system wakes it. If packets come so fast that it would be woken for each, it first takes a
//! **nap**, and then finds several at once.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::bell::Bell;

const SPINS: u32 = 16;
const YIELDS: u32 = 48;
const SLEEP_MIN: Duration = Duration::from_micros(20);
const SLEEP_MAX: Duration = Duration::from_millis(1);
/// Sleeps in a row after which a thread sleeps longer, a second or more of waiting: waking up costs
/// more than the sleep.
const LONG: u32 = 1000;
const SLEEP_LONG: Duration = Duration::from_millis(5);
/// The longest wait for a bell, after which requests to end are seen.
const BELL_MAX: Duration = Duration::from_millis(20);
/// A nap, which is the most that it delays a packet, and one under load.
const NAP: Duration = Duration::from_micros(40);
const LONG_NAP: Duration = Duration::from_micros(80);
/// Frames found after a nap from which on the next one is long, and those after a long one: some
/// 80,000 a second.
const DENSE: [u64; 2] = [4, 7];
/// Naps begin when work came this soon after the thread began to wait.
const NAP_WITHIN: Duration = Duration::from_micros(20);

/// Longest time between two true results of [`Idle::take_long`] while it naps.
const NAPS_MAX: Duration = Duration::from_millis(10);

/// How long a thread has been without work.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    rounds: u32,
    /// Whether it waits for interfaces.
    is_live: bool,
    bell: Option<Arc<Bell>>,
    /// Ends a sleep, if there is one.
    alarm: Option<Arc<Bell>>,
    /// Whether it never sleeps.
    is_busy: bool,
    naps: Naps,
    /// When the last wait was long.
    was_long: Option<Instant>,
}

/// Whether naps pay.
#[derive(Debug, Default)]
struct Naps {
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
    Waits(Instant),
}

impl Idle {
    /// Of a thread that waits for `bell` instead of sleeping, if there is one.
    pub(crate) fn with(bell: Option<Arc<Bell>>) -> Self {
        Self { is_live: bell.is_some(), bell, ..Self::default() }
    }

    /// Of a thread that waits for interfaces by itself, if it does ([`Self::naps`]). `alarm` ends
    /// its sleep.
    pub(crate) fn of_reader(is_live: bool, alarm: Option<Arc<Bell>>) -> Self {
        Self { is_live, alarm, ..Self::default() }
    }

    /// Whether it waits for interfaces.
    pub(crate) fn is_live(&self) -> bool {
        self.is_live
    }

    /// Whether it waits until something wakes it.
    pub(crate) fn is_woken(&self) -> bool {
        self.is_live && !self.is_busy
    }

    /// Polls without sleeping if `is_busy`.
    pub(crate) fn busy(self, is_busy: bool) -> Self {
        Self { is_busy, ..self }
    }

    /// There was work.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.rounds = 0;
        if self.is_live {
            self.naps.end();
        }
        for bell in self.bell.iter().chain(&self.alarm) {
            bell.disarm();
        }
    }

    /// Whether it would sleep rather than look again soon. A thread that naps gets true once in
    /// [`NAPS_MAX`].
    pub(crate) fn take_long(&mut self) -> bool {
        if !self.is_woken() {
            return self.rounds >= SPINS + YIELDS;
        }
        let is_long =
            !self.naps.are_due() || self.was_long.is_none_or(|at| at.elapsed() > NAPS_MAX);
        if is_long {
            self.was_long = Some(Instant::now());
        }
        is_long
    }

    /// Called without work, `frames` after the last rest. Naps if worthwhile, and returns whether
    /// it did.
    pub(crate) fn naps(&mut self, limit: Duration, frames: u64) -> bool {
        let nap = self.naps.begin(frames);
        nap.into_iter().for_each(|nap| thread::sleep(nap.min(limit)));
        nap.is_some()
    }

    /// There was none: waits, at most `limit`.
    pub(crate) fn wait(&mut self, limit: Duration) {
        self.rounds = self.rounds.saturating_add(1);
        if self.is_woken() {
            return self.wait_to_be_woken(limit);
        }
        match self.rounds {
            0..=SPINS => std::hint::spin_loop(),
            n if n <= SPINS + YIELDS || self.is_busy => thread::yield_now(),
            n => self.sleep(n - SPINS - YIELDS, limit),
        }
    }

    fn wait_to_be_woken(&mut self, limit: Duration) {
        if self.naps(limit, 0) {
            return;
        }
        match &self.bell {
            // Armed before the last look at the work: any thread with work since then has rung.
            Some(bell) if bell.arm() => bell.wait(BELL_MAX.min(limit)),
            Some(_) => {}
            // It waits for room.
            None => self.sleep(self.rounds, limit),
        }
    }

    /// Sleeps for the `number`th time in a row.
    fn sleep(&self, number: u32, limit: Duration) {
        let doubled = SLEEP_MIN * 2u32.saturating_pow(number.min(8));
        let max = if number > LONG { SLEEP_LONG } else { SLEEP_MAX };
        let time = doubled.min(max).min(limit);
        match &self.alarm {
            // As with the bell: what ended before the last look needs no alarm.
            Some(alarm) if alarm.arm() => alarm.wait(time),
            Some(_) => {}
            None => thread::sleep(time),
        }
    }
}

impl Naps {
    /// There was work.
    #[inline]
    fn end(&mut self) {
        if let Rest::Waits(since) = self.rest {
            self.pay = since.elapsed() < NAP_WITHIN;
        }
        self.rest = Rest::Not;
    }

    fn are_due(&self) -> bool {
        self.pay && matches!(self.rest, Rest::Not)
    }

    /// The length of the nap, if it is time for one. A nap that finds nothing ends napping.
    fn begin(&mut self, frames: u64) -> Option<Duration> {
        self.pay = self.are_due();
        self.are_long = self.pay && frames >= DENSE[usize::from(self.are_long)];
        match self.rest {
            Rest::Waits(_) => {}
            _ if self.pay => self.rest = Rest::Napped,
            _ => self.rest = Rest::Waits(Instant::now()),
        }
        self.pay.then_some(if self.are_long { LONG_NAP } else { NAP })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_never_sleeps() {
        let mut idle = Idle::default().busy(true);
        (0..=SPINS + YIELDS).for_each(|_| idle.wait(Duration::MAX));
        let before = Instant::now();
        (0..2 * LONG).for_each(|_| idle.wait(Duration::MAX));
        // Sleeps would take 10 seconds.
        assert!(idle.take_long() && before.elapsed() < Duration::from_secs(5));
    }

    /// Work every so often, as the thread finds it.
    fn rests(naps: &mut Naps) -> usize {
        let mut count = 0;
        while naps.begin(1).is_some() {
            count += 1;
        }
        count
    }

    #[test]
    fn a_thread_naps_while_work_comes_fast() {
        let mut naps = Naps::default();
        assert_eq!(rests(&mut naps), 0, "the first packet is not delayed");
        // It waited for a long time.
        naps.rest = Rest::Waits(Instant::now().checked_sub(NAP_WITHIN).expect("a time"));
        naps.end();
        assert_eq!(rests(&mut naps), 0);
        // Work came at once.
        naps.rest = Rest::Waits(Instant::now().checked_add(NAP_WITHIN).expect("a time"));
        naps.end();
        for (frames, nap) in [(9, LONG_NAP), (7, LONG_NAP), (6, NAP), (3, NAP), (4, LONG_NAP)] {
            assert_eq!(naps.begin(frames), Some(nap), "{frames}");
            naps.end();
        }
        // None came during a nap.
        assert_eq!(naps.begin(1), Some(NAP));
        assert_eq!((naps.begin(9), naps.begin(9)), (None, None));
        naps.rest = Rest::Waits(Instant::now().checked_sub(NAP_WITHIN).expect("a time"));
        naps.end();
        assert_eq!(rests(&mut naps), 0, "packets are rare");
    }
}
