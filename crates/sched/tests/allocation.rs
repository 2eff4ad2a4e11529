//! I6: once made, machines allocate nothing, also where every bound is reached.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use warpline_sched::{
    Arbiter, Backpressure, Batcher, EdgeId, Grant, Launch, LaunchLimits, Load, NodeId, PauseMode,
    Policy, Sharing, Spent, StageGraph, Watermarks,
};

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

/// Fills it to its bounds with launches of one batch, as many as there can be, and completes them
/// from the last.
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

/// Has every tenant of `arbiter` request launches, and ends all that are granted.
fn share(arbiter: &mut Arbiter, granted: &mut Vec<Grant>, now_ns: &mut u64) {
    for tenant in 0..Sharing::TENANTS_MAX {
        arbiter.handle_present(tenant, true, *now_ns);
        arbiter.handle_arrivals(tenant, 10, *now_ns);
        for _ in 0..100 {
            arbiter.handle_request(tenant, *now_ns);
        }
    }
    while let Some(timeout_ns) = arbiter.poll_timeout() {
        *now_ns = timeout_ns.max(*now_ns + 100_000);
        granted.extend(std::iter::from_fn(|| arbiter.poll_grant(*now_ns)));
        *now_ns += 300_000;
        for grant in granted.drain(..) {
            let spent = Spent { packets: 10, device_ns: Some(200_000) };
            arbiter.handle_done(grant.id, &spent, *now_ns);
        }
    }
}

#[test]
fn the_arbiter_allocates_nothing_after_construction() {
    for policy in Policy::ALL {
        let in_flight_max = Sharing::IN_FLIGHT_MAX;
        let slots = Sharing::SLOTS_MAX;
        let sharing = Sharing { policy, in_flight_max, slots, ..Sharing::default() };
        let mut arbiter = Arbiter::new(&sharing, &[2; Sharing::TENANTS_MAX]).unwrap();
        let mut granted = Vec::with_capacity(in_flight_max);
        let (before, mut now_ns) = (ALLOCATIONS.get(), 0);
        for _ in 0..3 {
            share(&mut arbiter, &mut granted, &mut now_ns);
        }
        assert_eq!(ALLOCATIONS.get() - before, 0, "{policy:?}");
        assert_eq!(arbiter.evidence(now_ns).tenants[0].grants, 300);
    }
}

/// Two branches: each queue fills and empties, with and without polls in between.
fn pause_and_resume(machine: &mut Backpressure, edges: usize) {
    for milli in [4_000, 0, 4_000] {
        for edge in (0..edges).map(EdgeId) {
            machine.handle_occupancy(edge, milli, 0);
        }
        machine.handle_repeat();
        machine.handle_occupancy(EdgeId(edges - 1), 0, 0);
        machine.handle_join_waits(NodeId(4), EdgeId(edges - 1), 0);
        machine.handle_operator(NodeId(3), milli > 0, 0);
    }
    while machine.poll_signal().is_some() {}
    while machine.poll_flush().is_some() {}
}

#[test]
fn pauses_allocate_nothing() {
    let edges = [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4)];
    let graph = StageGraph::checked(5, &edges).unwrap();
    let mut machine = Backpressure::new(&graph, PauseMode::On(Watermarks::default()), 0);
    let mut evidence = machine.evidence(0);
    let before = ALLOCATIONS.get();
    for _ in 0..3 {
        pause_and_resume(&mut machine, edges.len());
        machine.add_evidence(&mut evidence, 0);
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
}
