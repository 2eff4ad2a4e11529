//! The counters of the function.

use warpline_nf::Counter;

/// All of them.
pub(crate) const COUNTERS: &[Counter] = &[
    Counter::gauge("bindings", "bindings", "bindings at present"),
    Counter::peak("bindings-peak", "bindings", "the most bindings at one time, to a tick"),
    Counter::total("created", "bindings", "bindings created"),
    Counter::total("expired", "bindings", "bindings expired"),
    Counter::total("evicted-closing", "bindings", "bindings that gave way: closing TCP"),
    Counter::total("evicted-half-open", "bindings", "bindings that gave way: half-open TCP"),
    Counter::total("evicted-udp", "bindings", "bindings that gave way: UDP"),
    Counter::total("evicted-icmp", "bindings", "bindings that gave way: ICMP echoes"),
    Counter::total("evicted-other", "bindings", "bindings that gave way: other protocols"),
    Counter::total("outbound", "packets", "packets translated from inside to outside"),
    Counter::total("inbound", "packets", "packets translated from outside to inside"),
    Counter::total("icmp-errors", "packets", "ICMP errors translated"),
    Counter::total("untranslated", "packets", "packets forwarded unchanged"),
    Counter::total("hairpins", "packets", "packets from inside to inside by an outside address"),
    Counter::total(
        "out-of-window",
        "packets",
        "packets that are `invalid` because of their numbers",
    ),
];
