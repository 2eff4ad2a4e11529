//! A view of every function's turns from outside.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use warpline_packet::Batch;

/// Sees the batches of a run before and after each function's turn ([`crate::Control::observe`]).
/// Each lane calls it with its number, from whichever thread works for it. Rows of a batch stay in
/// their order; packets that a function made follow the packets of the same ingress number, which
/// is unique in a lane.
pub trait Observer: Send + Sync {
    /// The turn of the function at `position` begins. It gets the packets that are `Forward`.
    fn enters(&self, lane: usize, position: usize, batch: &Batch);

    /// That turn is over. Packets that were made in it are in the batch.
    fn leaves(&self, lane: usize, position: usize, batch: &Batch);
}

/// The observer of a run, which may change while it runs.
#[derive(Default)]
pub(crate) struct Observation {
    observer: Mutex<Option<Arc<dyn Observer>>>,
    changes: AtomicU32,
}

impl Observation {
    pub(crate) fn set(&self, observer: Option<Arc<dyn Observer>>) {
        *self.observer.lock().unwrap_or_else(PoisonError::into_inner) = observer;
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// How often it has changed.
    #[inline]
    pub(crate) fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }

    pub(crate) fn observer(&self) -> Option<Arc<dyn Observer>> {
        self.observer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
