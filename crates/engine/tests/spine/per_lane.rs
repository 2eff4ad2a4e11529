//! Ports for each lane, and chains that no key serves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use warpline_engine::stats::ThreadStats;
use warpline_engine::{
    Chain, Control, Deployment, Instance, Place, Ports, PressureOptions, Settings, Site,
    StartError, Successor, lane_of, run,
};
use warpline_io::{Sink, Source};
use warpline_packet::{FlowHasher, Headers, Steering};
use warpline_sched::{Backpressure, EdgeId, PauseMode, StageGraph, Watermarks};

use crate::common::frames::{Input, Traffic, flow_of};
use crate::common::moving::{Moves, Moving, run_moving};
use crate::common::ports::{Frames, Sent, SentFrames};
use crate::common::run::{Outcome, assert_same, check_balance, check_flows, in_time, run_specs};
use crate::common::{NAT, Spec, deploy, nat_like};

fn settings(lanes: usize) -> Settings {
    Settings { lanes, batch_packets: 64, queue_batches: 2, slabs: 4, ..Settings::default() }
}

/// Packets by flow. Packets without a flow are left out: they may differ between one clock and
/// several.
fn by_flow(sent: &[Sent]) -> BTreeMap<u16, Vec<Vec<u8>>> {
    let mut flows: BTreeMap<u16, Vec<Vec<u8>>> = BTreeMap::new();
    for packet in sent {
        if let Some((flow, _)) = flow_of(&packet.bytes) {
            flows.entry(flow).or_default().push(packet.bytes.clone());
        }
    }
    flows
}

fn shard_of(steering: &Steering, input: &Input) -> u8 {
    let headers = Headers::parse(&input.bytes, input.link, input.wire_len as usize);
    steering.steer(&FlowHasher::SEED_0, &input.bytes, &headers).shard
}

#[test]
fn lanes_with_ports_of_their_own_give_every_flow_the_same() {
    // Time is each lane's own here, so no function that goes by ticks, and no time that stands
    // still.
    let specs = [NAT, Spec::ThreePhase { launch: 3 }, Spec::Grow];
    let mut inputs = Traffic::new(37, 80, 0, 900).take(6000);
    inputs.iter_mut().for_each(|input| input.nanos /= 1000);
    let shared = run_specs(&specs, settings(2), &inputs);
    for lanes in [1, 2, 4] {
        let outcome = run_per_lane(&specs, lanes, &inputs, false);
        check_flows(&outcome.sent);
        assert_eq!(by_flow(&shared.sent), by_flow(&outcome.sent), "{lanes} lanes");
        let (one, other) = (&shared.report.part, &outcome.report.part);
        assert_eq!(one.packets, other.packets);
        for (a, b) in one.functions.iter().zip(&other.functions) {
            assert_eq!((a.packets_in, a.drops), (b.packets_in, b.drops));
        }
    }
}

/// Cuts the chain of `deployment` into other stages and back, `count` times in `frames` frames.
fn cuts(deployment: &Deployment, count: usize, frames: usize) -> Moves {
    let own = |at: usize| Site { own_stage: at.is_multiple_of(2), ..Site::default() };
    let apart: Vec<Site> = (0..deployment.sites().len()).map(own).collect();
    let to = |number: usize| match number % 2 {
        0 => apart.clone(),
        _ => deployment.sites().to_vec(),
    };
    (0..count).map(|number| (number * frames / count, to(number))).collect()
}

/// With `moves` the lanes are cut into other stages while the first one's source gives frames.
fn run_per_lane(specs: &[Spec], lanes: usize, inputs: &[Input], moves: bool) -> Outcome {
    let (deployment, control) = (Arc::new(deploy(specs)), Arc::new(Control::default()));
    let sinks: Vec<SentFrames> = (0..lanes).map(|_| SentFrames::default()).collect();
    let sent: Vec<_> = sinks.iter().map(|sink| Arc::clone(&sink.sent)).collect();
    let ports = sinks.into_iter().enumerate().map(|(lane, sink)| {
        let own = |i: &&Input| lane_of(shard_of(&deployment.chain().steering, i), lanes) == lane;
        let inputs: Vec<Input> = inputs.iter().filter(own).cloned().collect();
        let source = Frames { idle_every: 100, ..Frames::new(&inputs) };
        let source: Box<dyn Source> = match moves && lane == 0 {
            true => {
                let moves = cuts(&deployment, 3, inputs.len());
                Box::new(Moving::new(source, &control, &deployment, moves))
            }
            false => Box::new(source),
        };
        (source, Box::new(sink) as Box<dyn Sink>)
    });
    let ports = Ports::PerLane(ports.collect());
    let report =
        in_time(move || run(&deployment, &settings(lanes), ports, &control).expect("a start"));
    let mut all = Vec::new();
    sent.iter().for_each(|sent| all.append(&mut sent.lock().expect("sent")));
    let outcome = Outcome { sent: all, dropped: Vec::new(), report };
    check_balance(&outcome);
    outcome
}

#[test]
fn a_run_that_does_not_start_is_over() {
    let (deployment, control) = (deploy(&[NAT]), Control::default());
    let started = run(&deployment, &settings(2), Ports::PerLane(Vec::new()), &control);
    assert_eq!(started.expect_err("no ports"), StartError::Ports);
    assert!(control.has_ended());
    // It holds no memory of lanes.
    let new = deployment.on_sites(Vec::new());
    let refused = Successor::moved(&deployment, new, &control).err().expect("a refusal");
    assert_eq!(refused, ["the chain does not run"]);
}

#[test]
fn evidence_of_pauses_outlasts_moves() {
    let inputs = Traffic::new(37, 80, 0, 900).take(9000);
    for cut in [false, true] {
        let deployment = deploy(&[NAT, Spec::ThreePhase { launch: 3 }, Spec::Grow]);
        let mut moves = cuts(&deployment, 6, inputs.len());
        if !cut {
            moves.iter_mut().for_each(|(_, sites)| *sites = deployment.sites().to_vec());
        }
        let began = Instant::now();
        let (outcome, refused) = run_moving(deployment, settings(1), &inputs, moves);
        let took_ns = began.elapsed().as_nanos() as u64;
        let part = &outcome.report.part;
        assert!(refused.is_empty() && part.moves.count == 6, "{refused:?}");
        let evidence = part.pressure.as_ref().expect("evidence");
        let (first, last) = part.span_ns.expect("packets");
        // The sender may be last by far, on a busy machine.
        assert!(
            evidence.elapsed_ns > (last - first) / 2,
            "{} of {}",
            evidence.elapsed_ns,
            last - first
        );
        assert!(evidence.elapsed_ns <= took_ns, "{} of {took_ns}", evidence.elapsed_ns);
    }
}

/// Evidence of a lane with so many stages, whose first and last queue are full.
fn full(stages: usize) -> ThreadStats {
    let graph = StageGraph::list(stages).expect("a list");
    let mut machine = Backpressure::new(&graph, PauseMode::On(Watermarks::default()), 0);
    for edge in [0, stages - 1] {
        machine.handle_occupancy(EdgeId(edge), 3_000, 10);
    }
    ThreadStats { pressure: Some(machine.evidence(50)), ..ThreadStats::new(1) }
}

#[test]
fn lanes_that_have_moved_and_others_add_the_pauses_of_their_source() {
    let mut part = full(2);
    part.add(full(3));
    part.add(full(2));
    let all = part.pressure.expect("evidence");
    assert_eq!((all.elapsed_ns, all.nodes[0].paused_ns, all.edges[0].held_ns), (150, 120, 120));
    assert_eq!((all.nodes.len(), all.nodes[1].paused_ns, all.edges[1].holds), (3, 80, 2));
}

#[test]
fn lanes_with_ports_of_their_own_move_each_at_its_own_packet() {
    let specs = [NAT, Spec::ThreePhase { launch: 3 }, Spec::Grow];
    let mut inputs = Traffic::new(37, 80, 0, 900).take(6000);
    inputs.iter_mut().for_each(|input| input.nanos /= 1000);
    let shared = run_specs(&specs, settings(2), &inputs);
    for lanes in [1, 2, 4] {
        let outcome = run_per_lane(&specs, lanes, &inputs, true);
        check_flows(&outcome.sent);
        assert_eq!(outcome.report.part.moves.count, 3, "{lanes} lanes");
        assert_eq!(by_flow(&shared.sent), by_flow(&outcome.sent), "{lanes} lanes");
        assert_eq!(shared.report.part.packets, outcome.report.part.packets);
    }
}

/// Full queues drop packets here: stages that functions leave keep their counts.
#[test]
fn drops_before_stages_that_functions_leave_are_still_counted() {
    let specs = [Spec::ThreePhase { launch: 1 }, NAT, Spec::ThreePhase { launch: 8 }];
    let inputs = Traffic::new(39, 80, 0, 300).take(6000);
    let pressure = PressureOptions { mode: PauseMode::Off, queue: 1, ..Default::default() };
    let deployment = deploy(&specs);
    let mut moves = cuts(&deployment, 8, inputs.len());
    // A launch that passes on several batches overfills the next queue.
    let apart = moves.iter_mut().flat_map(|(_, sites)| sites).filter(|site| site.own_stage);
    apart.for_each(|site| site.launch_batches = 4);
    let settings = Settings { pressure, batch_packets: 16, ..settings(2) };
    let (outcome, refused) = run_moving(deployment, settings, &inputs, moves);
    assert!(refused.is_empty(), "{refused:?}");
    assert_eq!(outcome.report.part.moves.count, 8);
    let drops: u64 = outcome.report.part.stages.iter().map(|stage| stage.drops).sum();
    assert!(drops > 0, "no queue was full");
}

#[test]
fn a_packet_on_the_wrong_lane_is_not_let_through_unseen() {
    let specs = [Spec::ThreePhase { launch: 1 }];
    let inputs = Traffic::new(41, 80, 0, 100).take(1000);
    let deployment = deploy(&specs);
    let sinks = [SentFrames::default(), SentFrames::default()];
    let sent = sinks.clone().map(|sink| sink.sent);
    let ports = sinks.into_iter().map(|sink| {
        (Box::new(Frames::new(&inputs)) as Box<dyn Source>, Box::new(sink) as Box<dyn Sink>)
    });
    let ports = Ports::PerLane(ports.collect());
    let report = in_time(move || {
        run(&deployment, &settings(2), ports, &Control::default()).expect("a start")
    });
    let packets = &report.part.packets;
    assert!(packets.balanced());
    assert_eq!((packets.read, report.part.overload["steering"]), (2000, 1000));
    assert_eq!(report.part.functions[0].packets_in, 1000);
    let sent: usize = sent.iter().map(|sent| sent.lock().expect("sent").len()).sum();
    assert_eq!(sent as u64, packets.sent);
}

#[test]
fn keys_that_disagree_leave_one_lane_and_right_results() {
    let other = nat_like::inside_key(7);
    let inside = Spec::NatLike { bindings: 4096, inside: true };
    let specs = [inside.clone(), Spec::EmitAbsorb, Spec::ThreePhase { launch: 4 }];
    let deployment = deploy(&specs);
    let mut chain = Chain::clone(deployment.chain());
    assert!(matches!(chain.steering, Steering::Own(_)));
    assert_eq!(chain.lanes(4), 4);
    let word = warpline_packet::ScratchWord::new(2).expect("a word");
    let second = nat_like::NatLike::new(4096, other, word);
    chain.instances.push(Instance {
        name: "second".into(),
        definition: &crate::common::DEFINITION,
        function: Arc::new(second),
        fingerprint: 0,
        place: Place::Only,
    });
    let chain = Chain::new("test", chain.instances, 3).expect("a chain");
    assert_eq!(chain.steering, Steering::Single);
    let first = format!("0-{inside:?}");
    assert_eq!(chain.disagreement, Some([first, "second".to_owned()]));
    assert_eq!(chain.lanes(4), 1);
    let chain = Arc::new(chain);
    let inputs = Traffic::new(43, 80, 10, 300).take(4000);
    let run = |batch_packets| {
        let settings = Settings { batch_packets, ..settings(4) };
        let (source, control) = (Frames::new(&inputs), Arc::new(Control::default()));
        let deployment = Deployment::new(Arc::clone(&chain), deployment.sites().to_vec());
        crate::common::run::run_ports(deployment, settings, source, SentFrames::default(), control)
    };
    let (one, other) = (run(1), run(256));
    assert_eq!(other.report.lanes, 1);
    assert_same(&one.summary(), &other.summary(), "batches of 1 and 256");
    check_flows(&other.sent);
    assert_eq!(other.counter(2, "mismatches"), 0);
    assert_eq!(other.report.part.functions[3].drops[nat_like::EXHAUSTED], 0);
}
