//! Whether an input was captured before its checksums were filled in.

use std::sync::atomic::{AtomicBool, Ordering};

/// The decision, which all shards read. Until it is made, checksums count.
#[derive(Debug, Default)]
pub struct Offload(AtomicBool);

impl Offload {
    /// Decides.
    pub fn set(&self, is_usual: bool) {
        self.0.store(is_usual, Ordering::Relaxed);
    }

    /// Whether wrong checksums mean nothing.
    #[inline]
    pub fn is_usual(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
