//! The counters of the function.

use warpline_nf::Counter;

/// All of them.
pub(crate) const COUNTERS: &[Counter] = &[
    Counter::total(
        "digested",
        "payloads",
        "payloads digested, the sum of `unique` and `duplicates`",
    ),
    Counter::total("not-digested", "packets", "packets forwarded without a digest"),
    Counter::total("unique", "payloads", "new payloads"),
    Counter::total("duplicates", "packets", "packets whose payload was seen before"),
    Counter::total("duplicate-bytes", "bytes", "payload bytes of these packets"),
    Counter::total("evicted", "payloads", "payloads replaced by others"),
];
