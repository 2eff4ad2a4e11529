//! The counters of the function.

use warpline_nf::Counter;

/// All of them.
pub(crate) const COUNTERS: &[Counter] = &[
    Counter::total("flows", "flows", "flows that began"),
    Counter::peak("flows-peak", "flows", "the most flows at one time, to a tick"),
    Counter::total("metered", "packets", "packets in records"),
    Counter::total("not-ip", "packets", "packets that are not IP"),
    Counter::total("malformed", "packets", "packets with malformed headers"),
    Counter::total("ended-idle", "records", "records by end reason: idle timeout"),
    Counter::total("ended-active", "records", "records by end reason: active timeout"),
    Counter::total("ended-detected", "records", "records by end reason: end of the flow"),
    Counter::total("ended-forced", "records", "records by end reason: end of the run"),
    Counter::total("ended-full", "records", "records by end reason: lack of room"),
    Counter::total(
        "unreported",
        "records",
        "records lost on the way to the report, for lack of room; 0",
    ),
    Counter::total("records", "records", "records exported"),
    Counter::total("uniflows", "records", "records of one direction, with `export` = \"uniflow\""),
    Counter::total("ipfix-messages", "messages", "IPFIX messages given to the output"),
    Counter::total("udp-messages", "messages", "messages sent"),
    Counter::total("udp-errors", "messages", "messages that could not be sent"),
];
