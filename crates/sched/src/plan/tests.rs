//! Tests of plans: the paper's chains, every possible plan, versions of fields that show stale
//! reads, fields that may stay on a device alone, and packets that are routed past functions.

mod brute;
mod chains;
mod leftovers;
mod paper;
mod paths;
mod random;
mod versions;
