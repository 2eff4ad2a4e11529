//! Tests of plans: the paper's chains, every possible plan, versions of fields that show stale
//! reads, and fields that may stay on a device alone.

mod brute;
mod chains;
mod leftovers;
mod paper;
mod random;
mod versions;
