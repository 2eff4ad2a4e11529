//! The users of each slab, the one thing of an arena that threads share.
//!
//! A slab counts the placer that fills it and every table with a piece of it, and is free at zero.
//!
//! Safety: the other files reuse the bytes of a slab according to its count. This file guarantees
//! the order. Giving back releases and checking acquires. So a thread that finds a slab free, or
//! used by its own placer alone, sees everything done to it before it was given back. This file
//! touches no byte of the arena.

#![allow(unsafe_code)]

use core::ops::Range;
use core::ptr::NonNull;
#[cfg(not(loom))]
use core::sync::atomic::{AtomicU32, Ordering};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};

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

// SAFETY: `base` belongs to `_memory`, which is `Send`. The head of `arena.rs` states who may
// access which bytes.
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

    /// Whether only the placer that fills a slab has a piece of it.
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

/// Every order in which threads may see each other's counts, explored by `loom`
/// (`RUSTFLAGS="--cfg loom"`).
#[cfg(all(test, loom))]
mod model {
    use std::sync::Arc;

    use loom::cell::UnsafeCell;
    use loom::thread;

    use super::super::memory::HeapMemory;
    use super::*;

    /// A slab's bytes: `loom` fails if two threads touch them without an order.
    struct Bytes(UnsafeCell<u32>);

    // SAFETY: the model checks that the counts keep threads apart; `loom` reports it if they don't.
    unsafe impl Send for Bytes {}
    // SAFETY: as above.
    unsafe impl Sync for Bytes {}

    fn slabs(count: usize) -> Arc<Slabs> {
        let memory = HeapMemory::new(64).expect("64 bytes");
        Arc::new(Slabs::new(Box::new(memory), 0, count))
    }

    fn write(bytes: &Bytes, value: u32) {
        // SAFETY: `loom` looks for others.
        bytes.0.with_mut(|at| unsafe { *at = value });
    }

    fn read(bytes: &Bytes) -> u32 {
        // SAFETY: `loom` looks for others.
        bytes.0.with(|at| unsafe { *at })
    }

    /// A placer fills a slab for two tables, which work on other threads and finish in any order,
    /// and continues with the next slab. The next placer of the slab then has its bytes alone.
    #[test]
    fn a_slab_is_handed_out_when_all_tables_are_done() {
        loom::model(|| {
            let slabs = slabs(1);
            let bytes = Arc::new(Bytes(UnsafeCell::new(0)));
            assert!(slabs.take(0) && !slabs.take(0));
            write(&bytes, 1);
            let tables: Vec<_> = (0..2)
                .map(|_| {
                    slabs.count_piece(0);
                    let (slabs, bytes) = (Arc::clone(&slabs), Arc::clone(&bytes));
                    thread::spawn(move || {
                        assert_eq!(read(&bytes), 1);
                        slabs.give_back(0);
                    })
                })
                .collect();
            // The placer is done with it, too, and wants another.
            slabs.give_back(0);
            if slabs.take(0) {
                write(&bytes, 2);
            }
            tables.into_iter().for_each(|table| table.join().expect("a table"));
        });
    }

    /// A placer that keeps its slab starts it anew when the last table with a piece of it is done.
    #[test]
    fn a_placer_starts_its_slab_anew_when_nobody_has_a_piece() {
        loom::model(|| {
            let slabs = slabs(1);
            let bytes = Arc::new(Bytes(UnsafeCell::new(0)));
            assert!(slabs.take(0));
            slabs.count_piece(0);
            let table = {
                let (slabs, bytes) = (Arc::clone(&slabs), Arc::clone(&bytes));
                thread::spawn(move || {
                    write(&bytes, 7);
                    slabs.give_back(0);
                })
            };
            if slabs.has_no_pieces(0) {
                assert_eq!(read(&bytes), 7);
                write(&bytes, 8);
            }
            table.join().expect("a table");
        });
    }

    /// Two placers claim the same slab, and one gets it.
    #[test]
    fn one_placer_gets_a_slab() {
        loom::model(|| {
            let slabs = slabs(1);
            let bytes = Arc::new(Bytes(UnsafeCell::new(0)));
            let other = {
                let (slabs, bytes) = (Arc::clone(&slabs), Arc::clone(&bytes));
                thread::spawn(move || {
                    if slabs.take(0) {
                        write(&bytes, 1);
                        slabs.give_back(0);
                    }
                })
            };
            if slabs.take(0) {
                write(&bytes, 2);
                slabs.give_back(0);
            }
            other.join().expect("a placer");
            assert!(slabs.take(0));
        });
    }
}
