//! The waiting of a thread without work: it spins, yields, then sleeps for increasing times.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::bell::Bell;

const SPINS: u32 = 16;
const YIELDS: u32 = 48;
const SLEEP_MIN: Duration = Duration::from_micros(20);
const SLEEP_MAX: Duration = Duration::from_millis(1);
/// Sleeps in a row after which a thread sleeps longer, a second or more of waiting: waking up costs
/// more than the sleep.
const LONG: u32 = 1000;
const SLEEP_LONG: Duration = Duration::from_millis(5);
/// Sleeps in a row after which a thread with a bell waits for it.
const BELL_AFTER: u32 = 3;
/// The longest wait for a bell. It bounds how long a thread waits for room, which rings no bell.
const BELL_MAX: Duration = Duration::from_millis(20);

/// How long a thread has been without work.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    rounds: u32,
    bell: Option<Arc<Bell>>,
    /// Whether it never sleeps.
    is_busy: bool,
}

impl Idle {
    /// Of a thread that waits for `bell` instead of sleeping, if there is one.
    pub(crate) fn with(bell: Option<Arc<Bell>>) -> Self {
        Self { rounds: 0, bell, is_busy: false }
    }

    /// Polls without sleeping if `is_busy`.
    pub(crate) fn busy(self, is_busy: bool) -> Self {
        Self { is_busy, ..self }
    }

    /// There was work.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.rounds = 0;
        if let Some(bell) = &self.bell {
            bell.disarm();
        }
    }

    /// Whether it would sleep rather than look again at once.
    pub(crate) fn is_long(&self) -> bool {
        self.rounds >= SPINS + YIELDS
    }

    /// There was none: waits, at most `limit`.
    pub(crate) fn wait(&mut self, limit: Duration) {
        self.rounds = self.rounds.saturating_add(1);
        match self.rounds {
            0..=SPINS => std::hint::spin_loop(),
            n if n <= SPINS + YIELDS || self.is_busy => thread::yield_now(),
            n if n > SPINS + YIELDS + BELL_AFTER && self.bell.is_some() => {
                self.wait_for_bell(limit)
            }
            n => {
                let doubled = SLEEP_MIN * 2u32.saturating_pow((n - SPINS - YIELDS).min(8));
                let max = if n > LONG { SLEEP_LONG } else { SLEEP_MAX };
                thread::sleep(doubled.min(max).min(limit));
            }
        }
    }

    /// Waits for the bell if it is armed. Otherwise arms it and returns for one more look.
    fn wait_for_bell(&self, limit: Duration) {
        let Some(bell) = &self.bell else { return };
        if bell.arm() {
            let max = if self.rounds > LONG { BELL_MAX } else { SLEEP_MAX };
            bell.wait(max.min(limit));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_busy_thread_never_sleeps() {
        let mut idle = Idle::default().busy(true);
        (0..=SPINS + YIELDS).for_each(|_| idle.wait(Duration::MAX));
        let before = Instant::now();
        (0..2 * LONG).for_each(|_| idle.wait(Duration::MAX));
        // Sleeps would take 10 seconds.
        assert!(idle.is_long() && before.elapsed() < Duration::from_secs(5));
    }
}
