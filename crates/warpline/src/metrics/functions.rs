//! The families of the functions of a chain.

use prometheus_client::registry::Unit;
use warpline_engine::stats::FunctionStats;
use warpline_engine::{Instance, Site};
use warpline_nf::{Counter, CounterKind};
use warpline_packet::Malformed;

use super::chains::Of;
use super::family::{Families, FamilyKind, Labels, Value};

impl Of<'_> {
    /// Adds the families of the function at `position`.
    pub(super) fn function(
        &self,
        all: &mut Families,
        position: usize,
        (own, site): (&Instance, &Site),
    ) {
        let Some(stats) = self.part().functions.get(position) else { return };
        let function = ("function", own.name.as_str());
        self.packets_of(all, stats, own);
        let device = ("device", site.device_id());
        let name = ("warpline_function_busy", Some(Unit::Seconds));
        let busy = all.family(name, FamilyKind::Counter, "Time that a function worked");
        busy.add(self.labels([function, device]), Value::Number(stats.busy_ns as f64 / 1e9));
        let labels = |direction: &str| self.labels([function, device, ("direction", direction)]);
        transfers(all, stats, labels);
        self.by_lane(all, position, &own.name);
        for counter in own.definition.counters {
            let Some(count) = stats.counters.get(counter.name) else { continue };
            let (kind, help) = (kind_of(counter), counter.help);
            let family = all.family(name_of(own.definition.name, counter), kind, help);
            family.add(self.labels([function]), Value::Count(*count));
        }
    }

    fn packets_of(&self, all: &mut Families, stats: &FunctionStats, own: &Instance) {
        let labels = |name, value| self.labels([("function", own.name.as_str()), (name, value)]);
        let help = "Packets of a function: in, out, made and absorbed";
        let packets = all.counter("warpline_function_packets", help);
        for (direction, count) in [
            ("in", stats.packets_in),
            ("out", stats.packets_out),
            ("generated", stats.generated),
            ("absorbed", stats.absorbed),
        ] {
            packets.add(labels("direction", direction), Value::Count(count));
        }
        let drops = all.counter("warpline_function_drops", "Packets dropped, by reason");
        for (reason, count) in own.named_drops(stats) {
            drops.add(labels("reason", reason), Value::Count(count));
        }
        let help = "Packets rejected for a faulty header, by reason";
        let malformed = all.counter("warpline_function_malformed", help);
        for fault in Malformed::ALL {
            let count = Value::Count(stats.malformed[*fault as usize]);
            malformed.add(labels("reason", fault.name()), count);
        }
    }

    fn by_lane(&self, all: &mut Families, position: usize, function: &str) {
        for (lane, part) in &self.snapshot.lanes {
            let Some(stats) = part.functions.get(position) else { continue };
            let lane = lane.to_string();
            let labels = || self.labels([("function", function), ("lane", &lane)]);
            let help = "Packets that a function got, by lane";
            let packets = all.counter("warpline_lane_packets", help);
            packets.add(labels(), Value::Count(stats.packets_in));
            let name = ("warpline_lane_busy", Some(Unit::Seconds));
            let busy =
                all.family(name, FamilyKind::Counter, "Time that a function worked, by lane");
            busy.add(labels(), Value::Number(stats.busy_ns as f64 / 1e9));
        }
    }
}

fn transfers(all: &mut Families, stats: &FunctionStats, labels: impl Fn(&str) -> Labels) {
    let of = &stats.transfers;
    for (name, help, counts) in [
        (
            "warpline_transfer",
            "Bytes copied to devices and to the host, by the first function of a stage",
            [of.to_device_bytes, of.to_host_bytes],
        ),
        (
            "warpline_transfer_predicted",
            "Bytes that the plan predicts for these packets",
            [of.predicted_to_device_bytes, of.predicted_to_host_bytes],
        ),
    ] {
        let family = all.family((name, Some(Unit::Bytes)), FamilyKind::Counter, help);
        for (direction, count) in ["to-device", "to-host"].into_iter().zip(counts) {
            family.add(labels(direction), Value::Count(count));
        }
    }
}

/// The name of a function's own counter.
fn name_of(function: &str, counter: &Counter) -> (String, Option<Unit>) {
    let (name, unit) = match counter.unit {
        "bytes" => (counter.name.strip_suffix("-bytes").unwrap_or(counter.name), Some(Unit::Bytes)),
        _ => (counter.name, None),
    };
    let allowed = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    (format!("warpline_{function}_{name}").chars().map(allowed).collect(), unit)
}

fn kind_of(counter: &Counter) -> FamilyKind {
    match counter.kind {
        CounterKind::Total => FamilyKind::Counter,
        CounterKind::Gauge | CounterKind::Peak => FamilyKind::Gauge,
    }
}

#[cfg(test)]
mod tests {
    use warpline_functions::FUNCTIONS;

    use super::*;

    fn named(function: &str, counter: &str) -> (String, Option<Unit>) {
        let own = FUNCTIONS.iter().find(|own| own.name == function).expect("a function");
        let counter = own.counters.iter().find(|own| own.name == counter).expect("a counter");
        name_of(own.name, counter)
    }

    #[test]
    fn metrics_have_the_words_of_counters_and_their_unit() {
        for (function, counter, expected, bytes) in [
            ("router", "icmp-sent", "warpline_router_icmp_sent", false),
            ("digest", "duplicate-bytes", "warpline_digest_duplicate", true),
            ("nids", "stream-memory-peak", "warpline_nids_stream_memory_peak", true),
            ("nat", "bindings", "warpline_nat_bindings", false),
        ] {
            let (name, unit) = named(function, counter);
            assert_eq!((name.as_str(), unit.is_some()), (expected, bytes));
        }
    }

    #[test]
    fn no_two_counters_share_a_metric() {
        let counters = FUNCTIONS.iter().flat_map(|own| own.counters.iter().map(|c| (own.name, c)));
        let mut all = Families::default();
        for (function, counter) in counters {
            let family = all.family(name_of(function, counter), kind_of(counter), counter.help);
            assert!(family.samples.is_empty(), "{function}: {}", counter.name);
            family.add(Labels::new(), Value::Count(1));
        }
    }
}
