//! A bounded queue of batches between two threads: so many full ones, or more that are not full.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_queue::ArrayQueue;
use warpline_packet::Batch;

/// A queue that threads share.
pub(crate) type Queue = Arc<BatchQueue>;

/// See the module. Where a tick of packet time closes batches that hold few packets, as many of them may wait as keep the
/// next thread at work while this one sleeps.
pub(crate) struct BatchQueue {
    /// Boxed, as a batch with its columns' places is longer than what is copied at each hand-over without being felt.
    batches: ArrayQueue<Box<Batch>>,
    /// Packets that wait.
    packets: AtomicUsize,
    packets_max: usize,
}

impl BatchQueue {
    /// For `batches` batches, one at least.
    pub(crate) fn new(batches: usize) -> Self {
        Self::holding(batches, usize::MAX)
    }

    /// For `batches` batches, one at least, while there are less than `packets_max` packets in them.
    pub(crate) fn holding(batches: usize, packets_max: usize) -> Self {
        let batches = ArrayQueue::new(batches.max(1));
        Self { batches, packets: AtomicUsize::new(0), packets_max }
    }

    /// How many batches it has room for: those are taken, however many packets they hold.
    pub(crate) fn room(&self) -> usize {
        match self.packets.load(Ordering::Relaxed) >= self.packets_max {
            true => 0,
            false => self.batches.capacity() - self.batches.len(),
        }
    }

    /// How many batches are in it.
    pub(crate) fn len(&self) -> usize {
        self.batches.len()
    }

    /// Puts a batch behind the others, or gives it back where there are as many as it holds.
    pub(crate) fn push(&self, batch: Box<Batch>) -> Result<(), Box<Batch>> {
        let packets = batch.len();
        // Before it can be taken out again.
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.batches.push(batch).inspect_err(|_| {
            self.packets.fetch_sub(packets, Ordering::Relaxed);
        })
    }

    /// The first one.
    pub(crate) fn pop(&self) -> Option<Box<Batch>> {
        let batch = self.batches.pop()?;
        self.packets.fetch_sub(batch.len(), Ordering::Relaxed);
        Some(batch)
    }
}
