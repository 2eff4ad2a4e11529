//! The counters of the function.

use warpline_nf::Counter;

/// All of them.
pub(crate) const COUNTERS: &[Counter] = &[
    Counter::total("sealed", "packets", "packets sealed"),
    Counter::total("sealed-bytes", "bytes", "their bytes without ESP"),
    Counter::total("opened", "packets", "packets opened"),
    Counter::total("opened-bytes", "bytes", "their bytes without ESP"),
    Counter::total("bypassed", "packets", "packets forwarded without ESP, by a policy"),
    Counter::total("dummies", "packets", "dummy packets, discarded"),
    Counter::total("keepalives", "packets", "NAT keepalives, discarded"),
    Counter::total(
        "reopened",
        "packets",
        "packets opened again because the sequence number was inferred wrong",
    ),
    Counter::total("resync-tries", "numbers", "later sequence numbers tried after many failures"),
    Counter::total("resynchronized", "numbers", "tried sequence numbers that were right"),
    Counter::total("fragments", "packets", "fragments of ESP"),
    Counter::total("reassembled", "datagrams", "datagrams reassembled"),
    Counter::total("reassembly-expired", "datagrams", "incomplete datagrams that expired"),
    Counter::total("reassembly-evicted", "datagrams", "incomplete datagrams that gave way"),
    Counter::total("icmp-sent", "packets", "ICMP errors sent"),
    Counter::total(
        "icmp-rate-limited",
        "packets",
        "ICMP errors not sent because of `icmp_rate_pps`",
    ),
    Counter::total(
        "icmp-withheld",
        "packets",
        "ICMP errors not permitted, or about an opened packet",
    ),
];
