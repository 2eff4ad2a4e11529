//! Tests of plans: the paper's chains, every plan there is against the one that was found, versions of fields that show stale
//! reads, and what may stay on a device alone.

mod brute;
mod chains;
mod leftovers;
mod paper;
mod random;
mod versions;
