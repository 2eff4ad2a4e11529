//! Tests of plans: the paper's chains, every plan there is against the one that was found, and versions of fields that show stale
//! reads.

mod brute;
mod chains;
mod paper;
mod random;
mod versions;
