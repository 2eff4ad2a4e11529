//! The memory of a lane's packets, as the lane and devices know it, and the rights to parts of it that go with a launch.

use core::ops::Range;
use core::ptr::NonNull;
use std::sync::Arc;

use warpline_device::{HostMemory, Piece, Region};
use warpline_packet::{Batch, HeapMemory, Memory};

/// Memory that an arena is made of and that devices may be told of.
#[derive(Clone)]
pub(crate) struct LaneMemory(Arc<HeapMemory>);

impl LaneMemory {
    /// Takes `len` bytes from the system; `None` where there are none.
    pub(crate) fn new(len: usize) -> Option<Self> {
        HeapMemory::new(len).map(|memory| Self(Arc::new(memory)))
    }
}

// SAFETY: the heap's memory stays where it is while any copy lives. One copy becomes an arena; from the others come pieces
// only, by the functions below, each for what the holder of a batch lends.
unsafe impl Memory for LaneMemory {
    fn base(&self) -> NonNull<u8> {
        self.0.base()
    }
    fn len(&self) -> usize {
        self.0.len()
    }
}

// SAFETY: as above; the memory is zeroed at the start, so initialised.
unsafe impl HostMemory for LaneMemory {
    fn base(&self) -> NonNull<u8> {
        self.0.base()
    }
    fn len(&self) -> usize {
        self.0.len()
    }
}

/// Lends the rooms of the packets of `batch` that are still forwarded, and names where they lie. The batch is not touched until
/// the pieces have come back or their stream was given up. Says whether all lie in `region`.
pub(crate) fn lend_rooms(
    region: &Region,
    batch: &Batch,
    mut take: impl FnMut(Piece, Range<usize>),
) -> bool {
    let mut all = true;
    batch.spans(|span| {
        // SAFETY: rooms are their batch's alone, spans hold nothing else, and no two share a byte; the caller leaves
        // the batch alone. Rooms that a stream which was given up may still write are never used again
        // (`Batch::abandon`). Such a stream may still read rooms that are used again; frames may hold anything, and what
        // it makes of them goes to a mirror that nobody uses any more.
        match unsafe { region.piece(span.clone()) } {
            Some(piece) => take(piece, span),
            None => all = false,
        }
    });
    all
}
