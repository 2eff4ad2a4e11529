//! The bench's `unsafe` code: an arena whose memory the bench reads too, as an engine with mirrors
//! does, and the vouching for calls of kernels.

#![allow(unsafe_code)]

use core::ptr::NonNull;
use core::slice;
use std::sync::Arc;

use warpline_device::{Argument, Kernel, KernelCall, Piece, Region};
use warpline_packet::{Arena, Batch, HeapMemory, Memory};

/// The way to the bytes of a lane's arena.
pub(crate) struct Reached(Arc<HeapMemory>);

struct Shared(Arc<HeapMemory>);

// SAFETY: that of `HeapMemory`; `Reached`, which keeps the other handle, reads only while it
// borrows the batches and the arena, so that no write can happen meanwhile.
unsafe impl Memory for Shared {
    fn base(&self) -> NonNull<u8> {
        self.0.base()
    }
    fn len(&self) -> usize {
        self.0.len()
    }
}

impl Reached {
    /// Memory of `len` bytes for an arena, and the way to them.
    pub(crate) fn new(len: usize) -> Option<(Self, Box<dyn Memory>)> {
        let memory = Arc::new(HeapMemory::new(len)?);
        Some((Self(Arc::clone(&memory)), Box::new(Shared(memory))))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Copies the first bytes of the memory, given all that else reaches them: the lane's
    /// `_batches` and its `_arena`.
    pub(crate) fn copy_to(&self, to: &mut [u8], _batches: &mut [&mut Batch], _arena: &mut Arena) {
        // SAFETY: the only caller is the lane that owns the memory, with its own batches and arena.
        // They are borrowed for as long as the slice lives, so no write can happen meanwhile.
        let bytes = unsafe { slice::from_raw_parts(self.0.base().as_ptr(), self.len()) };
        to.copy_from_slice(&bytes[..to.len()]);
    }
}

/// The right to all of a region of memory that the caller has just made for itself, once.
pub(crate) fn whole(region: &Region) -> Option<Piece> {
    // SAFETY: the caller has just made the memory, and no other piece of it exists.
    unsafe { region.piece(0..region.len()) }
}

/// A call of a kernel on a copy of an arena, the table of a launch of packets in it, and the
/// function's tables. Or on the arena itself too; then the work owns all of the arena.
pub(crate) fn call(kernel: &Kernel, groups: u32, arguments: Vec<Argument>) -> KernelCall {
    // SAFETY: one caller gives a copy of a whole arena, a row of the launch's table for each of as
    // many packets of its batches as it says, and the tables of the function. The other gives two
    // memories of the same length, and a table whose rows name rooms within.
    unsafe { KernelCall::vouched(kernel, groups, arguments) }
}
