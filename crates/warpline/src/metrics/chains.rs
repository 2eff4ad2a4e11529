//! The families of the running chains.

use std::time::Instant;

use prometheus_client::registry::Unit;
use serde_json::Value as Json;
use warpline_engine::stats::ThreadStats;
use warpline_engine::{Deployment, MachineChain, NO_CHAIN_ROUTE_NAME, Snapshot};

use super::family::{Families, FamilyKind, Labels, Value};
use crate::stages_shown;

/// Upper bounds of the latency histogram, in nanoseconds.
const LATENCY_BOUNDS: [u64; 19] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
];

/// Adds the families of `chain`.
pub(super) fn add(all: &mut Families, chain: &MachineChain) {
    let deployment = chain.deployment();
    let snapshot = chain.control.snapshot(&deployment);
    let of = Of { chain: &chain.name, deployment: &deployment, snapshot: &snapshot };
    let state =
        all.family(("warpline_chain_state", None), FamilyKind::Gauge, "1 for the chain's state");
    for name in MachineChain::STATES {
        let is_now = name == chain.state();
        state.add(of.labels([("state", name)]), Value::Count(is_now.into()));
    }
    of.packets(all);
    of.bytes(all);
    of.edges(all);
    of.ports(all);
    of.latency(all);
    of.stages(all);
    of.moves(all);
    let functions = deployment.instances().enumerate();
    functions.for_each(|(position, function)| of.function(all, position, function));
}

/// A chain and its counts.
pub(super) struct Of<'a> {
    pub(super) chain: &'a str,
    deployment: &'a Deployment,
    pub(super) snapshot: &'a Snapshot,
}

impl Of<'_> {
    pub(super) fn part(&self) -> &ThreadStats {
        &self.snapshot.report.part
    }

    pub(super) fn labels<const N: usize>(&self, more: [(&'static str, &str); N]) -> Labels {
        let own = [("chain", self.chain)];
        own.iter().chain(&more).map(|(name, value)| (*name, (*value).to_owned())).collect()
    }

    fn packets(&self, all: &mut Families) {
        let p = &self.part().packets;
        let help = "Packets read, made by functions, and ended, by outcome";
        let packets = all.counter("warpline_packets", help);
        for (outcome, count) in [
            ("read", p.read),
            ("generated", p.generated),
            ("sent", p.sent),
            ("absorbed", p.absorbed),
            ("dropped", p.dropped),
            ("malformed", p.malformed),
            ("overload", p.overload),
            ("unwritten", p.unwritten),
        ] {
            packets.add(self.labels([("outcome", outcome)]), Value::Count(count));
        }
        let name = ("warpline_packets_in_flight", None);
        let in_flight = all.family(name, FamilyKind::Gauge, "Packets read and not yet ended");
        in_flight.add(self.labels([]), Value::Count(p.in_flight));
    }

    fn bytes(&self, all: &mut Families) {
        let name = ("warpline_traffic", Some(Unit::Bytes));
        let bytes = all.family(name, FamilyKind::Counter, "Bytes of packets read and sent");
        for (direction, count) in
            [("read", self.part().bytes_read), ("sent", self.part().bytes_sent)]
        {
            bytes.add(self.labels([("direction", direction)]), Value::Count(count));
        }
    }

    fn edges(&self, all: &mut Families) {
        let help = "Packets dropped before the first function or after the last, by reason";
        let drops = all.counter("warpline_edge_drops", help);
        let egress = self.part().egress_drops.iter().map(|(reason, count)| (*reason, *count));
        for (reason, count) in egress.chain([(NO_CHAIN_ROUTE_NAME, self.part().unrouted)]) {
            drops.add(self.labels([("reason", reason)]), Value::Count(count));
        }
        let overload = all.counter("warpline_overload", "Packets without room, by queue");
        for (queue, count) in &self.part().overload {
            overload.add(self.labels([("queue", queue)]), Value::Count(*count));
        }
    }

    fn ports(&self, all: &mut Families) {
        for (number, port) in self.deployment.chain().ports().iter().enumerate() {
            let counts = self.part().ports.get(number).cloned().unwrap_or_default();
            let help = "Packets read, sent and lost, by port";
            let packets = all.counter("warpline_port_packets", help);
            for (direction, count) in
                [("read", counts.read), ("sent", counts.sent), ("overload", counts.overload)]
            {
                let labels = self.labels([("port", &port.name), ("direction", direction)]);
                packets.add(labels, Value::Count(count));
            }
            let name = ("warpline_port_traffic", Some(Unit::Bytes));
            let bytes =
                all.family(name, FamilyKind::Counter, "Bytes of packets read and sent, by port");
            for (direction, count) in [("read", counts.bytes_read), ("sent", counts.bytes_sent)] {
                let labels = self.labels([("port", &port.name), ("direction", direction)]);
                bytes.add(labels, Value::Count(count));
            }
        }
    }

    fn latency(&self, all: &mut Families) {
        let latency = &self.part().latency;
        let mut below = 0;
        let mut buckets: Vec<(f64, u64)> = Vec::with_capacity(LATENCY_BOUNDS.len() + 1);
        for bound in LATENCY_BOUNDS {
            let count = latency.count_between(below, bound);
            buckets.push((bound as f64 / 1e9, count));
            // A value is equal to all values of its own bucket of the recorded histogram.
            below = latency.highest_equivalent(bound) + 1;
        }
        let counted: u64 = buckets.iter().map(|(_, count)| count).sum();
        buckets.push((f64::INFINITY, latency.len().saturating_sub(counted)));
        let sum = latency.mean() * latency.len() as f64 / 1e9;
        let help = "Time of a packet from ingress to the sink";
        let name = ("warpline_latency", Some(Unit::Seconds));
        let value = Value::Histogram(sum, latency.len(), buckets);
        all.family(name, FamilyKind::Histogram, help).add(self.labels([]), value);
    }

    fn stages(&self, all: &mut Families) {
        for stage in stages_shown::json(self.deployment, &self.snapshot.report) {
            let text = |key: &str| stage[key].as_str().unwrap_or_default().to_owned();
            let (name, device) = (text("name"), text("device"));
            let labels = || self.labels([("stage", &name), ("device", &device)]);
            let number = |value: &Json| value.as_f64().unwrap_or_default();
            for (key, kind, help) in [
                ("launches", FamilyKind::Counter, "Times that a stage took work"),
                ("drops", FamilyKind::Counter, "Packets that the full queue of a stage dropped"),
            ] {
                let name = format!("warpline_stage_{key}");
                let count = Value::Count(stage[key].as_u64().unwrap_or_default());
                all.family((name, None), kind, help).add(labels(), count);
            }
            for (key, name, help) in [
                ("paused_seconds", "warpline_stage_paused", "Time that a stage was paused"),
                ("device_seconds", "warpline_stage_device", "Time that a stage used its device"),
            ] {
                let family = all.family((name, Some(Unit::Seconds)), FamilyKind::Counter, help);
                family.add(labels(), Value::Number(number(&stage[key])));
            }
            for (key, name, help) in [
                ("mean", "warpline_stage_queue_mean_launches", "Mean fill of a stage's queue"),
                ("peak", "warpline_stage_queue_peak_launches", "Highest fill of a stage's queue"),
            ] {
                let family = all.family((name, None), FamilyKind::Gauge, help);
                family.add(labels(), Value::Number(number(&stage["queue"][key])));
            }
            launches(all, &stage["launch"], labels);
        }
    }

    fn moves(&self, all: &mut Families) {
        let moves = &self.part().moves;
        let count = all.counter("warpline_moves", "Moves of functions to other devices");
        count.add(self.labels([]), Value::Count(moves.count));
        let name = ("warpline_move_stall_max", Some(Unit::Seconds));
        let stall = all.family(name, FamilyKind::Gauge, "The longest stall of a lane for a move");
        stall.add(self.labels([]), Value::Number(moves.stall_ns_max as f64 / 1e9));
    }
}

/// The families have samples for stages on devices only.
fn launches(all: &mut Families, launch: &Json, labels: impl Fn() -> Labels) {
    for (key, scale, (name, unit), help) in [
        (
            "kib",
            1024.0,
            ("warpline_stage_launch", Unit::Bytes),
            "The largest launch of a stage on a device, as it is now",
        ),
        (
            "delay_us",
            1e-6,
            ("warpline_stage_launch_deadline", Unit::Seconds),
            "The longest wait of a packet for its launch, as it is now",
        ),
    ] {
        let family = all.family((name, Some(unit)), FamilyKind::Gauge, help);
        let number = launch[key].as_f64();
        number.into_iter().for_each(|own| family.add(labels(), Value::Number(own * scale)));
    }
}

/// Adds what is about the process.
pub(super) fn add_process(all: &mut Families, started: Instant, reloads: [u64; 2], last: u64) {
    let help = "The program that runs";
    let info = all.family(("warpline_build", None), FamilyKind::Info, help);
    let version = env!("CARGO_PKG_VERSION").to_owned();
    info.add(vec![("version", version)], Value::Count(1));
    let name = ("warpline_uptime", Some(Unit::Seconds));
    let uptime = all.family(name, FamilyKind::Gauge, "Time since the chains started");
    uptime.add(Vec::new(), Value::Number(started.elapsed().as_secs_f64()));
    let family = all.counter("warpline_reloads", "Reloads, by result");
    for (result, count) in ["done", "refused"].into_iter().zip(reloads) {
        family.add(vec![("result", result.to_owned())], Value::Count(count));
    }
    let name = ("warpline_last_reload_timestamp", Some(Unit::Seconds));
    let help = "Unix time of the last reload; 0 before the first";
    all.family(name, FamilyKind::Gauge, help).add(Vec::new(), Value::Count(last));
}
