//! The signals of instances that are linked to a chain.

use serde_json::{Map, Value, json};
use warpline_engine::{PeerReport, PeerSide, Report};
use warpline_sched::SignalRefusal;

/// The links of a chain, for programs.
pub(crate) fn json(report: &Report) -> Vec<Value> {
    report.peers.iter().map(one).collect()
}

fn one(peer: &PeerReport) -> Value {
    let refused = SignalRefusal::ALL.into_iter().zip(peer.counts.refused);
    let refused: Map<String, Value> =
        refused.map(|(why, count)| (why.name().to_owned(), json!(count))).collect();
    json!({
        "name": peer.name,
        "side": peer.side.name(),
        "address": peer.address.to_string(),
        "paused": peer.is_paused,
        "sent": peer.counts.sent,
        "received": peer.counts.received,
        "refused": refused,
        "pauses": peer.counts.pauses,
        "expired": peer.counts.expired,
        "paused_seconds": peer.counts.paused_ns as f64 / 1e9,
    })
}

/// The instance downstream that paused the last stage by its queue number `at`.
pub(crate) fn downstream(report: &Report, at: usize) -> String {
    let all = report.peers.iter().filter(|peer| peer.side == PeerSide::Downstream);
    all.map(|peer| format!("downstream of {}", peer.name)).nth(at).unwrap_or_default()
}
