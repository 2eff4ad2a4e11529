//! The counters of the function.

use warpline_nf::Counter;

/// All of them.
pub(crate) const COUNTERS: &[Counter] = &[
    Counter::total("icmp-sent", "packets", "ICMP errors sent"),
    Counter::total(
        "icmp-rate-limited",
        "packets",
        "ICMP errors not sent because of `icmp_rate_pps`",
    ),
    Counter::total("icmp-withheld", "packets", "ICMP errors not permitted, or without room"),
];
