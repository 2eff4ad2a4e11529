//! Loads of functions in progress, as launches know them.

use std::sync::atomic::{AtomicU64, Ordering};

/// See the module. Some drivers compile under a lock that launches need too.
#[derive(Debug, Default)]
pub struct Loads {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Loads {
    /// None yet.
    pub const fn new() -> Self {
        Self { begun: AtomicU64::new(0), ended: AtomicU64::new(0) }
    }

    /// One begins; it ends when the result is dropped.
    #[must_use]
    pub fn begin(&self) -> Loading<'_> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        Loading(self)
    }

    /// How many have ended.
    pub fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    /// Whether one is in progress.
    pub fn any(&self) -> bool {
        self.ended() < self.begun.load(Ordering::Relaxed)
    }
}

/// A load in progress.
#[derive(Debug)]
pub struct Loading<'a>(&'a Loads);

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}
