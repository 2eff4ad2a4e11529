//! Who uses which slab: the one thing of an arena that threads share.
//!
//! A slab is counted by the placer that fills it and by every table with a piece of it, and is free at zero.
//!
//! Safety: the other files hand the bytes of a slab out again when its count says so. What this file keeps for them: whoever finds
//! that a slab is free, or nobody's but its placer's, sees all that was done to it before it was given back, because to give
//! back releases and to find acquires. It touches no byte of the arena itself.

#![allow(unsafe_code)]

use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use super::layout::SLAB_LEN;
use super::memory::Memory;

pub(super) struct Slabs {
    /// The arena's first byte.
    pub(super) base: NonNull<u8>,
    /// Where the first slab lies.
    at: usize,
    /// By slab: the placer that fills it plus the tables with a piece of it.
    live: Box<[AtomicU32]>,
    /// Keeps the bytes; last, so that nothing above outlives it.
    _memory: Box<dyn Memory>,
}

// SAFETY: `base` belongs to `_memory`, which is `Send`; see the head of `arena.rs` for who may touch which bytes.
unsafe impl Send for Slabs {}
// SAFETY: as above; the counters are atomic.
unsafe impl Sync for Slabs {}

impl Slabs {
    /// `count` slabs of `memory`, the first at `at`.
    pub(super) fn new(memory: Box<dyn Memory>, at: usize, count: usize) -> Self {
        let live = (0..count).map(|_| AtomicU32::new(0)).collect();
        Self { base: memory.base(), at, live, _memory: memory }
    }

    /// Where a slab lies in the arena.
    #[inline(always)]
    pub(super) fn at(&self, slab: u32) -> usize {
        self.at + slab as usize * SLAB_LEN
    }

    /// Counts a table that gets its first piece of a slab, from the placer that fills it.
    #[inline(always)]
    pub(super) fn count_piece(&self, slab: u32) {
        self.live[slab as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// A table or a placer is done with a slab.
    #[inline(always)]
    pub(super) fn give_back(&self, slab: u32) {
        // Release: what was done to the rooms is done before the slab is handed out again.
        self.live[slab as usize].fetch_sub(1, Ordering::Release);
    }

    /// Whether nobody has a piece of a slab but the placer that fills it.
    #[inline(always)]
    pub(super) fn has_no_pieces(&self, slab: u32) -> bool {
        // Acquire pairs with the release of the last piece: what others did to it is over.
        self.live[slab as usize].load(Ordering::Acquire) == 1
    }

    /// Takes a slab for a placer if it is free.
    #[inline(always)]
    pub(super) fn take(&self, slab: u32) -> bool {
        // Acquire pairs with the release of the last piece: what others did to it is over.
        let live = &self.live[slab as usize];
        live.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Whether at least `count` of these are free.
    pub(super) fn has_free(&self, slabs: Range<u32>, count: usize) -> bool {
        let slabs = &self.live[slabs.start as usize..slabs.end as usize];
        slabs.iter().filter(|live| live.load(Ordering::Relaxed) == 0).take(count).count() == count
    }
}
