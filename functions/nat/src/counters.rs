//! The counters of the function.

use warpline_nf::Counter;

/// All of them.
pub(crate) const COUNTERS: &[Counter] = &[
    Counter::gauge("bindings", "bindings", "bindings at present"),
    Counter::peak("bindings_peak", "bindings", "the most bindings, summed over the shards"),
    Counter::total("created", "bindings", "bindings created"),
    Counter::total("expired", "bindings", "bindings expired"),
    Counter::total("evicted_closing", "bindings", "bindings that gave way: closing TCP"),
    Counter::total("evicted_half_open", "bindings", "bindings that gave way: half-open TCP"),
    Counter::total("evicted_udp", "bindings", "bindings that gave way: UDP"),
    Counter::total("evicted_icmp", "bindings", "bindings that gave way: ICMP echoes"),
    Counter::total("evicted_other", "bindings", "bindings that gave way: other protocols"),
    Counter::total("outbound", "packets", "packets translated from inside to outside"),
    Counter::total("inbound", "packets", "packets translated from outside to inside"),
    Counter::total("icmp_errors", "packets", "ICMP errors translated"),
    Counter::total("untranslated", "packets", "packets forwarded unchanged"),
    Counter::total("hairpins", "packets", "packets from inside to inside by an outside address"),
    Counter::total(
        "out_of_window",
        "packets",
        "packets that are `invalid` because of their numbers",
    ),
];
