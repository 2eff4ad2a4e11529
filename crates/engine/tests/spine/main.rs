//! The engine's invariants, tested end to end: I1 conservation, I2 the same result everywhere, I3
//! flow order, I4 no wasted work. I6 is in `allocation.rs`.

#[path = "../common/mod.rs"]
mod common;

mod causes;
mod cores;
mod drops;
mod exact_access;
mod exhaustion;
mod functions;
mod live;
mod matrix;
mod memory;
mod mutations;
mod paced;
mod per_lane;
mod random;
mod random_functions;
mod reports;
mod snapshots;
mod stops;
mod two_places;

use warpline_engine::sys::HugeAlloc;

/// As in the program. Tables of routes and arenas are large.
#[global_allocator]
static ALLOCATOR: HugeAlloc = HugeAlloc;
