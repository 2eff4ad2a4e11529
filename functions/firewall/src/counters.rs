//! The counters of the function.

use warpline_nf::Counter;

/// All of them.
pub(crate) const COUNTERS: &[Counter] = &[
    Counter::gauge("connections", "connections", "connections at present"),
    Counter::total("connections-created", "connections", "connections created"),
    Counter::total("connections-expired", "connections", "connections expired"),
    Counter::total(
        "connections-refused",
        "connections",
        "the sum of `table-full` and `per-source`",
    ),
    Counter::total(
        "out-of-window",
        "packets",
        "TCP packets that are `invalid` because of their numbers",
    ),
    Counter::total("evicted-closed", "connections", "connections that gave way: closed TCP"),
    Counter::total("evicted-half-open", "connections", "connections that gave way: half-open TCP"),
    Counter::total("evicted-udp", "connections", "connections that gave way: UDP without a reply"),
    Counter::total("evicted-icmp", "connections", "connections that gave way: ICMP echoes"),
    Counter::total(
        "evicted-other",
        "connections",
        "connections that gave way: other protocols without a reply",
    ),
    Counter::total(
        "evicted-finishing",
        "connections",
        "connections that gave way: TCP after a FIN from one side",
    ),
];
