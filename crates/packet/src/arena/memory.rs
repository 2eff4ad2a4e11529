//! The bytes of an arena: memory that it is given.
//!
//! Safety: an implementation of [`Memory`] promises what the trait states, and the arena relies on
//! nothing else. [`HeapMemory`] keeps the promise with one allocation of its own, at one address
//! until it is dropped.

#![allow(unsafe_code)]

use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc};

/// Memory that an arena is given: heap, huge pages, a UMEM, shared memory.
///
/// # Safety
/// `base()..base() + len()` must stay valid for reads and writes at a fixed address while the value
/// lives. It must be initialised, aligned to 64 bytes, and not accessed by anything else.
pub unsafe trait Memory: Send + Sync {
    /// The first byte.
    fn base(&self) -> NonNull<u8>;
    /// How many bytes.
    fn len(&self) -> usize;
    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Memory from the program's allocator, zeroed, on a 2 MiB boundary so that huge pages fit.
pub struct HeapMemory {
    block: NonNull<u8>,
    layout: Layout,
    base: NonNull<u8>,
    len: usize,
}

/// Where [`HeapMemory`] begins.
const BOUNDARY: usize = 2 << 20;

impl HeapMemory {
    /// Takes `len` bytes, at least one; `None` where the allocator has none.
    pub fn new(len: usize) -> Option<Self> {
        // Aligned here, because the allocator would write zeroes to memory that it aligns. This way
        // pages come zeroed from the system when they are first touched.
        let layout = Layout::from_size_align(len.max(1).checked_add(BOUNDARY)?, 1).ok()?;
        // SAFETY: the layout's size is not zero.
        let block = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let skip = block.as_ptr().align_offset(BOUNDARY).min(BOUNDARY);
        // SAFETY: less than a boundary's distance, which the block has beyond `len`.
        let base = unsafe { block.add(skip) };
        Some(Self { block, layout, base, len: len.max(1) })
    }
}

impl Drop for HeapMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and freed only here.
        unsafe { dealloc(self.block.as_ptr(), self.layout) }
    }
}

// SAFETY: the allocation is exclusive, zeroed, aligned and at a fixed address until drop.
unsafe impl Memory for HeapMemory {
    fn base(&self) -> NonNull<u8> {
        self.base
    }
    fn len(&self) -> usize {
        self.len
    }
}

// SAFETY: the pointers are the only handle to the allocation; the owner of the value may use it.
unsafe impl Send for HeapMemory {}
// SAFETY: `&HeapMemory` gives out the address only.
unsafe impl Sync for HeapMemory {}
