//! A run whose end is waited for, and what has to hold after every run.

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use warpline_engine::{Control, Deployment, Ports, Report, Settings, run};
use warpline_io::Source;
use warpline_nf::Table;

use super::frames::{Input, flow_of};
use super::ports::{Frames, LAST_WORDS, Sent, SentFrames};
use super::{Spec, deploy};

/// A run that takes longer hangs; `SPINE_PATIENCE_S` overrides this.
const PATIENCE_S: u64 = 60;

fn patience() -> Duration {
    let asked = std::env::var("SPINE_PATIENCE_S").ok().and_then(|n| n.parse().ok());
    Duration::from_secs(asked.unwrap_or(PATIENCE_S))
}

/// Results of a run.
pub(crate) struct Outcome {
    pub(crate) sent: Vec<Sent>,
    /// Packets that were not sent, with the reason, if the sink asked to see them.
    pub(crate) dropped: Vec<(Sent, String)>,
    pub(crate) report: Report,
}

/// The part of a report that may not depend on lanes, batches and launches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    sent: Vec<Sent>,
    dropped: Vec<(Sent, String)>,
    packets: warpline_engine::stats::Packets,
    functions: Vec<FunctionSummary>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FunctionSummary {
    packets: [u64; 4],
    drops: Vec<u64>,
    malformed: Vec<u64>,
    counters: BTreeMap<&'static str, u64>,
    tables: Vec<Table>,
}

impl Outcome {
    /// The part that has to be the same for any way to run it.
    pub(crate) fn summary(&self) -> Summary {
        let part = &self.report.part;
        let functions = part.functions.iter().map(|f| FunctionSummary {
            packets: [f.packets_in, f.packets_out, f.absorbed, f.generated],
            drops: f.drops.to_vec(),
            malformed: f.malformed.to_vec(),
            counters: f.counters.clone(),
            tables: f.tables.clone(),
        });
        Summary {
            sent: self.sent.clone(),
            dropped: self.dropped.clone(),
            packets: part.packets.clone(),
            functions: functions.collect(),
        }
    }

    /// Sum of a function's counter.
    pub(crate) fn counter(&self, function: usize, name: &str) -> u64 {
        self.report.part.functions[function].counters.get(name).copied().unwrap_or(0)
    }
}

/// Fails with the first difference rather than with thousands of packets.
pub(crate) fn assert_same(one: &Summary, other: &Summary, what: &str) {
    assert_eq!(one.packets, other.packets, "{what}");
    assert_eq!(one.functions, other.functions, "{what}");
    assert_eq!(one.dropped.len(), other.dropped.len(), "{what}");
    for (at, (a, b)) in one.dropped.iter().zip(&other.dropped).enumerate() {
        assert!(a == b, "{what}: dropped packet {at}: {a:?} or {b:?}");
    }
    assert_eq!(one.sent.len(), other.sent.len(), "{what}");
    for (at, (a, b)) in one.sent.iter().zip(&other.sent).enumerate() {
        assert!(a == b, "{what}: packet {at} of {}: {a:?} or {b:?}", one.sent.len());
    }
}

/// Runs `work` on a thread of its own; panics where it panics or does not end.
pub(crate) fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        let _ = send.send(work());
    });
    match receive.recv_timeout(patience()) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the run hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => panic!("no result"),
        },
    }
}

/// Runs a chain from `source` to `sink` and checks the balance.
pub(crate) fn run_ports(
    deployment: impl Into<Arc<Deployment>>,
    settings: Settings,
    source: impl Source + 'static,
    sink: SentFrames,
    control: Arc<Control>,
) -> Outcome {
    let deployment = deployment.into();
    let (sent, dropped) = (Arc::clone(&sink.sent), sink.dropped.clone().unwrap_or_default());
    let report = in_time(move || {
        let ports = Ports::Shared(Box::new(source), Box::new(sink));
        run(&deployment, &settings, ports, &control).expect("a chain that starts")
    });
    let sent = std::mem::take(&mut *sent.lock().expect("sent"));
    let dropped = std::mem::take(&mut *dropped.lock().expect("dropped"));
    let outcome = Outcome { sent, dropped, report };
    check_balance(&outcome);
    outcome
}

/// Warnings of the run except those of its source: about devices that failed, as nothing else goes
/// wrong in these tests.
pub(crate) fn reported(outcome: &Outcome) -> Vec<&str> {
    let all = outcome.report.part.warnings.iter().map(String::as_str);
    // How many packets a function flags and changes no plan knows for sure; they cross once more.
    let is_other = |warning: &&str| {
        let of_plan = warning.contains("than the plan expects");
        // `nids` reports how it decided about this input's checksums.
        let of_input = warning.contains("TCP checksums are not checked");
        *warning != LAST_WORDS && !of_plan && !of_input
    };
    all.filter(is_other).collect()
}

/// Runs a chain of `specs` over `inputs`, all of them.
pub(crate) fn run_specs(specs: &[Spec], settings: Settings, inputs: &[Input]) -> Outcome {
    let outcome = run_whole(deploy(specs), settings, inputs);
    check_functions(&outcome, specs);
    outcome
}

/// Runs a chain over `inputs`, all of them.
pub(crate) fn run_whole(
    deployment: impl Into<Arc<Deployment>>,
    settings: Settings,
    inputs: &[Input],
) -> Outcome {
    run_into(deployment, settings, inputs, SentFrames::default())
}

/// The same, with a sink that is shown what is dropped.
pub(crate) fn run_showing_drops(
    mut deployment: Deployment,
    settings: Settings,
    inputs: &[Input],
) -> Outcome {
    deployment.show_drops();
    let sink = SentFrames { dropped: Some(Arc::default()), ..SentFrames::default() };
    let outcome = run_into(deployment, settings, inputs, sink);
    let packets = &outcome.report.part.packets;
    assert_eq!(outcome.dropped.len() as u64, packets.dropped + packets.malformed);
    outcome
}

fn run_into(
    deployment: impl Into<Arc<Deployment>>,
    settings: Settings,
    inputs: &[Input],
    sink: SentFrames,
) -> Outcome {
    let control = Arc::new(Control::default());
    let watched = Arc::clone(&control);
    let outcome = run_ports(deployment, settings, Frames::new(inputs), sink, control);
    let packets = &outcome.report.part.packets;
    assert_eq!(packets.read, inputs.len() as u64);
    if !settings.pressure.is_off() {
        assert_eq!(packets.overload, 0, "a source that waits loses nothing (I4)");
    }
    assert_eq!(watched.read(), packets.read);
    assert_eq!(watched.ended(), packets.read + packets.generated);
    assert!(outcome.report.part.errors.is_empty());
    check_flows(&outcome.sent);
    outcome
}

/// I1: everything read or made ended as one thing, and functions and the whole agree.
pub(crate) fn check_balance(outcome: &Outcome) {
    let part = &outcome.report.part;
    let packets = &part.packets;
    assert!(packets.balanced(), "{packets:?}");
    assert_eq!(packets.in_flight, 0);
    assert_eq!(packets.sent, outcome.sent.len() as u64);
    assert_eq!(part.bytes_sent, outcome.sent.iter().map(|s| s.bytes.len() as u64).sum::<u64>());
    let at_stages: u64 = part.stages.iter().map(|stage| stage.drops).sum();
    assert_eq!(packets.overload, part.overload.values().sum::<u64>() + at_stages);
    let sum = |of: fn(&warpline_engine::stats::FunctionStats) -> u64| {
        part.functions.iter().map(of).sum::<u64>()
    };
    assert_eq!(packets.generated, sum(|f| f.generated));
    assert_eq!(packets.absorbed, sum(|f| f.absorbed));
    let at_egress: u64 = part.egress_drops.values().sum();
    let unrouted = part.unrouted + sum(|f| f.unrouted);
    assert_eq!(packets.dropped, sum(|f| f.dropped()) + unrouted + at_egress);
    assert_eq!(packets.malformed, sum(|f| f.rejected()));
    assert!(part.latency.len() == packets.read + packets.generated - lost_at_ingress(outcome));
}

pub(crate) fn lost_at_ingress(outcome: &Outcome) -> u64 {
    outcome.report.part.overload.get("ingress").copied().unwrap_or(0)
}

/// Checks that each function gets the packets that leave the one before it, and that nothing was
/// refused or mismatched.
pub(crate) fn check_functions(outcome: &Outcome, specs: &[Spec]) {
    let functions = &outcome.report.part.functions;
    assert_eq!(functions.len(), specs.len());
    let mut flowing = outcome.report.part.packets.read - lost_at_ingress(outcome);
    for (place, function) in functions.iter().enumerate() {
        assert_eq!(function.packets_in, flowing, "what function {place} of {specs:?} got");
        let left = function.dropped() + function.rejected() + function.absorbed;
        assert_eq!(function.packets_out, function.packets_in - left);
        flowing = function.packets_out + function.generated - outcome.counter(place, "returned");
        let made = outcome.counter(place, "made-forward") + outcome.counter(place, "returned");
        assert_eq!(function.generated, made);
        assert_eq!(outcome.counter(place, "refused"), 0, "function {place} of {specs:?}");
        assert_eq!(outcome.counter(place, "mismatches"), 0, "function {place} of {specs:?}");
        assert_eq!(outcome.counter(place, "kept"), 0, "every shard was closed");
    }
}

/// I3: packets of a flow leave in order, and packets that one caused leave right after it.
pub(crate) fn check_flows(sent: &[Sent]) {
    let mut last: BTreeMap<u16, u32> = BTreeMap::new();
    let mut before = None;
    for (at, packet) in sent.iter().enumerate() {
        let flow = flow_of(&packet.bytes);
        if let Some((flow, sequence)) = flow {
            if let Some(&last) = last.get(&flow) {
                let follows = sequence > last || before == Some((flow, sequence));
                assert!(follows, "packet {at}: {sequence} of flow {flow} behind {last}");
            }
            last.insert(flow, sequence);
        }
        before = flow;
    }
}
