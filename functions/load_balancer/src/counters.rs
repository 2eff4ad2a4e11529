//! The counters of the function.

use warpline_nf::Counter;

/// All of them.
pub(crate) const COUNTERS: &[Counter] = &[
    Counter::gauge("connections", "connections", "connections at present"),
    Counter::peak("connections-peak", "connections", "the most connections at one time, to a tick"),
    Counter::total("created", "connections", "connections created"),
    Counter::total("expired", "connections", "connections expired"),
    Counter::total("evicted-closing", "connections", "connections that gave way: closing TCP"),
    Counter::total("evicted-half-open", "connections", "connections that gave way: half-open TCP"),
    Counter::total(
        "evicted-one-sided",
        "connections",
        "connections that gave way: one direction only",
    ),
    Counter::total("evicted-udp", "connections", "connections that gave way: UDP"),
    Counter::total("moved", "connections", "connections moved from a failed or removed backend"),
    Counter::total("unremembered", "packets", "packets forwarded by hash alone"),
    Counter::total("to-backends", "packets", "packets forwarded to backends"),
    Counter::total("to-clients", "packets", "packets forwarded to clients"),
    Counter::total("icmp-errors", "packets", "ICMP errors forwarded"),
    Counter::total("no-vip", "packets", "packets for no VIP"),
];
