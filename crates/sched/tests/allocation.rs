//! I6: once made, the batcher allocates nothing, also where every bound is reached.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use warpline_sched::{Batcher, Launch, LaunchLimits, Load};

thread_local! {
    // Of the thread that asks: the test harness has others.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: everything is the system allocator's; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Fills it to its bounds with launches of one batch, as many as there can be, and completes them from the last.
fn fill_and_empty(batcher: &mut Batcher, given: &mut Vec<Launch>) {
    while batcher.has_room() {
        batcher.handle_batch(&Load { packets: 1, bytes: 1, oldest_ns: 0 });
        batcher.handle_flush();
    }
    while !batcher.is_empty() {
        while let Some(launch) = batcher.poll_launch(0) {
            given.push(launch);
        }
        while batcher.poll_expired(u64::MAX).is_some() {}
        for launch in given.drain(..).rev() {
            batcher.handle_done(launch.id, 0);
        }
        while batcher.poll_release().is_some() {}
    }
}

#[test]
fn nothing_is_allocated_after_construction() {
    let mut batcher = Batcher::new(&LaunchLimits::default());
    let mut given = Vec::with_capacity(batcher.slots());
    let before = ALLOCATIONS.get();
    for _ in 0..3 {
        fill_and_empty(&mut batcher, &mut given);
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
}
