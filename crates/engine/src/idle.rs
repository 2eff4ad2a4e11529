//! The waiting of a thread without work.
//!
//! With captures it spins, yields, then sleeps for increasing times. With interfaces a thread that
//! looks again and again would cost more than all packets. There it waits until another thread or
//! the system wakes it. If packets come so fast that it would be woken for each, it first takes a
//! **nap**, and then finds several at once.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use warpline_sched::Naps;

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
    /// When its clock began.
    began: Option<Instant>,
    /// When the last wait was long.
    was_long: Option<Instant>,
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
            let began = &mut self.began;
            self.naps.handle_work(|| since(began));
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
        let nap = self.naps.poll_nap(frames, since(&mut self.began));
        nap.into_iter().for_each(|nap| thread::sleep(Duration::from_nanos(nap).min(limit)));
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

/// Nanoseconds since the first call.
fn since(began: &mut Option<Instant>) -> u64 {
    began.get_or_insert_with(Instant::now).elapsed().as_nanos() as u64
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
}
