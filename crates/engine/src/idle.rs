//! The waiting of a thread without work: it spins, yields, then sleeps for increasing times.

use std::thread;
use std::time::Duration;

const SPINS: u32 = 16;
const YIELDS: u32 = 48;
const SLEEP_MIN: Duration = Duration::from_micros(20);
const SLEEP_MAX: Duration = Duration::from_millis(1);
/// Sleeps in a row after which a thread sleeps longer, a second or more of waiting: waking up costs
/// more than the sleep.
const LONG: u32 = 1000;
const SLEEP_LONG: Duration = Duration::from_millis(5);

/// How long a thread has been without work.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    rounds: u32,
}

impl Idle {
    /// There was work.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.rounds = 0;
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
            n if n <= SPINS + YIELDS => thread::yield_now(),
            n => {
                let doubled = SLEEP_MIN * 2u32.saturating_pow((n - SPINS - YIELDS).min(8));
                let max = if n > LONG { SLEEP_LONG } else { SLEEP_MAX };
                thread::sleep(doubled.min(max).min(limit));
            }
        }
    }
}
