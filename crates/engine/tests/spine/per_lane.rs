//! Ports for each lane, and chains that no key serves.

use std::collections::BTreeMap;
use std::sync::Arc;

use warpline_engine::{Chain, Control, Deployment, Instance, Place, Ports, Settings, lane_of, run};
use warpline_io::{Sink, Source};
use warpline_packet::{FlowHasher, Headers, Steering};

use crate::common::frames::{Input, Traffic, flow_of};
use crate::common::ports::{Frames, Kept, Sent};
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
        let outcome = run_per_lane(&specs, lanes, &inputs);
        check_flows(&outcome.sent);
        assert_eq!(by_flow(&shared.sent), by_flow(&outcome.sent), "{lanes} lanes");
        let (one, other) = (&shared.report.part, &outcome.report.part);
        assert_eq!(one.packets, other.packets);
        for (a, b) in one.functions.iter().zip(&other.functions) {
            assert_eq!((a.packets_in, a.drops), (b.packets_in, b.drops));
        }
    }
}

fn run_per_lane(specs: &[Spec], lanes: usize, inputs: &[Input]) -> Outcome {
    let deployment = deploy(specs);
    let sinks: Vec<Kept> = (0..lanes).map(|_| Kept::default()).collect();
    let sent: Vec<_> = sinks.iter().map(|sink| Arc::clone(&sink.sent)).collect();
    let ports = sinks.into_iter().enumerate().map(|(lane, sink)| {
        let own = |i: &&Input| lane_of(shard_of(&deployment.chain().steering, i), lanes) == lane;
        let inputs: Vec<Input> = inputs.iter().filter(own).cloned().collect();
        let source = Frames { idle_every: 100, ..Frames::new(&inputs) };
        (Box::new(source) as Box<dyn Source>, Box::new(sink) as Box<dyn Sink>)
    });
    let ports = Ports::PerLane(ports.collect());
    let report = in_time(move || {
        run(&deployment, &settings(lanes), ports, &Control::default()).expect("a start")
    });
    let mut all = Vec::new();
    sent.iter().for_each(|sent| all.append(&mut sent.lock().expect("sent")));
    let outcome = Outcome { sent: all, dropped: Vec::new(), report };
    check_balance(&outcome);
    outcome
}

#[test]
fn a_packet_on_the_wrong_lane_is_not_let_through_unseen() {
    let specs = [Spec::ThreePhase { launch: 1 }];
    let inputs = Traffic::new(41, 80, 0, 100).take(1000);
    let deployment = deploy(&specs);
    let sinks = [Kept::default(), Kept::default()];
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
        crate::common::run::run_ports(deployment, settings, source, Kept::default(), control)
    };
    let (one, other) = (run(1), run(256));
    assert_eq!(other.report.lanes, 1);
    assert_same(&one.summary(), &other.summary(), "batches of 1 and 256");
    check_flows(&other.sent);
    assert_eq!(other.counter(2, "mismatches"), 0);
    assert_eq!(other.report.part.functions[3].drops[nat_like::EXHAUSTED], 0);
}
