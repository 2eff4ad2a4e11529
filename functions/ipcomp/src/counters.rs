//! The counters of the function.

use warpline_nf::Counter;

/// All of them.
pub(crate) const COUNTERS: &[Counter] = &[
    Counter::total("compressed", "packets", "packets compressed"),
    Counter::total("saved-bytes", "bytes", "bytes saved by compression"),
    Counter::total("incompressible", "packets", "packets tried, and sent unchanged"),
    Counter::total("skipped", "packets", "packets not tried because of their samples"),
    Counter::total("decompressed", "packets", "packets decompressed"),
    Counter::total("added-bytes", "bytes", "bytes added by decompression"),
    Counter::total("left", "packets", "packets forwarded unchanged, or dropped"),
];
