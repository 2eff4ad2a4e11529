//! Wakes a thread that waits for a queue.
//!
//! The waiting thread arms its bell, looks at the queue once more, and parks. The other thread
//! fills the queue and rings. With a fence on each side one of them sees the other's step: either
//! the look finds the batch, or the ring finds the bell armed.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::{self, Thread};
use std::time::Duration;

/// A bell of one waiting thread.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    is_armed: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Bell {
    /// Arms it for the calling thread, always the same. Returns whether it was armed already, so
    /// that the thread has looked at its queue since.
    pub(crate) fn arm(&self) -> bool {
        self.thread.get_or_init(thread::current);
        let was_armed = self.is_armed.swap(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        was_armed
    }

    /// There was work: rings are no longer needed.
    pub(crate) fn disarm(&self) {
        if self.is_armed.load(Ordering::Relaxed) {
            self.is_armed.store(false, Ordering::Relaxed);
        }
    }

    /// Waits for a ring, at most `limit`.
    pub(crate) fn wait(&self, limit: Duration) {
        thread::park_timeout(limit);
    }

    /// Wakes the thread if it waits.
    #[inline]
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.is_armed.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if self.is_armed.swap(false, Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::time::Instant;

    use super::*;

    /// Without the fences or the second look, a ring is missed now and then and the test is late.
    #[test]
    fn no_ring_is_missed() {
        const ROUNDS: u64 = 20_000;
        let (bell, sent) = (Arc::new(Bell::default()), Arc::new(AtomicU64::new(0)));
        let taken = Arc::new(AtomicU64::new(0));
        let waiter = {
            let (bell, sent, taken) = (Arc::clone(&bell), Arc::clone(&sent), Arc::clone(&taken));
            thread::spawn(move || {
                let mut longest = Duration::ZERO;
                while taken.load(Ordering::Relaxed) < ROUNDS {
                    if sent.load(Ordering::Relaxed) > taken.load(Ordering::Relaxed) {
                        bell.disarm();
                        taken.fetch_add(1, Ordering::Relaxed);
                    } else if bell.arm() {
                        let since = Instant::now();
                        bell.wait(Duration::from_secs(20));
                        longest = longest.max(since.elapsed());
                    }
                }
                longest
            })
        };
        for round in 0..ROUNDS {
            while taken.load(Ordering::Relaxed) < round {
                thread::yield_now();
            }
            sent.fetch_add(1, Ordering::Relaxed);
            bell.ring();
        }
        assert!(waiter.join().expect("it ends") < Duration::from_secs(10));
    }
}
