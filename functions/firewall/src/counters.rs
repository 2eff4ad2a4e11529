//! The counters of the function.

use warpline_nf::Counter;

/// All of them.
pub(crate) const COUNTERS: &[Counter] = &[
    Counter::gauge("connections", "connections", "connections at present"),
    Counter::total("connections_created", "connections", "connections created"),
    Counter::total("connections_expired", "connections", "connections expired"),
    Counter::total(
        "connections_refused",
        "connections",
        "the sum of `table-full` and `per-source`",
    ),
    Counter::total(
        "out_of_window",
        "packets",
        "TCP packets that are `invalid` because of their numbers",
    ),
    Counter::total("evicted_closed", "connections", "connections that gave way: closed TCP"),
    Counter::total("evicted_half_open", "connections", "connections that gave way: half-open TCP"),
    Counter::total("evicted_udp", "connections", "connections that gave way: UDP without a reply"),
    Counter::total("evicted_icmp", "connections", "connections that gave way: ICMP echoes"),
    Counter::total(
        "evicted_other",
        "connections",
        "connections that gave way: other protocols without a reply",
    ),
    Counter::total(
        "evicted_finishing",
        "connections",
        "connections that gave way: TCP after a FIN from one side",
    ),
];
