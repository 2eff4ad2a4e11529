//! I2 and I4 when room runs out: tables, slabs, queues.

use std::sync::Arc;
use std::time::Duration;

use warpline_engine::{Control, Settings};

use crate::common::frames::{Input, Traffic};
use crate::common::ports::{Frames, SentFrames};
use crate::common::run::{assert_same, check_functions, lost_at_ingress, run_ports, run_specs};
use crate::common::{Spec, all_four, deploy, nat_like, replace};

fn tiny(lanes: usize, batch_packets: usize) -> Settings {
    Settings { lanes, batch_packets, queue_batches: 1, slabs: 2, ..Settings::default() }
}

#[test]
fn an_exhausted_table_drops_the_same_everywhere() {
    for (bindings, inside) in [(64, false), (70, true), (0, false)] {
        let specs = [Spec::NatLike { bindings, inside }];
        let inputs = Traffic::new(11, 300, 5, 200).take(5000);
        let reference = run_specs(&specs, tiny(1, 1), &inputs);
        let exhausted = reference.report.part.functions[0].drops[nat_like::EXHAUSTED];
        assert!(exhausted > 100, "{exhausted}");
        assert_eq!(exhausted, reference.counter(0, "full"));
        for (lanes, batch) in [(1, 256), (2, 64), (4, 1024), (64, 16)] {
            let one = run_specs(&specs, tiny(lanes, batch), &inputs).summary();
            assert_same(&reference.summary(), &one, &format!("{lanes} lanes of {batch}"));
        }
    }
}

#[test]
fn little_room_changes_nothing() {
    let inputs = Traffic::new(13, 40, 10, 60_000).take(1500);
    let reference = run_specs(&all_four(1), Settings::default(), &inputs).summary();
    for (lanes, batch) in [(1, 1), (1, 1024), (2, 256), (4, 7)] {
        for launch in [0, 4] {
            let one = run_specs(&all_four(launch), tiny(lanes, batch), &inputs).summary();
            assert_same(&reference, &one, &format!("{lanes} lanes of {batch}, launch {launch}"));
        }
    }
}

#[test]
fn every_packet_of_every_batch_gets_its_frame() {
    let inputs = Traffic::new(37, 40, 0, 1400).take(3000);
    for launch in [0, 1, 4] {
        let specs = [Spec::Replace { launch }, Spec::Grow, Spec::Replace { launch: 0 }];
        for (lanes, batch) in [(1, 1), (1, 1024), (2, 256), (4, 7)] {
            let outcome = run_specs(&specs, tiny(lanes, batch), &inputs);
            assert_eq!(outcome.counter(0, "replaced"), inputs.len() as u64);
            assert!(outcome.sent.iter().all(|sent| sent.bytes.len() >= replace::LEN));
        }
    }
}

#[test]
fn one_flow_on_one_of_many_lanes_ends() {
    let inputs = Traffic::new(17, 1, 0, 1400).take(20_000);
    let reference = run_specs(&all_four(4), tiny(1, 64), &inputs).summary();
    assert_same(&reference, &run_specs(&all_four(4), tiny(4, 64), &inputs).summary(), "4 lanes");
}

#[test]
fn a_number_that_lies_in_an_open_batch_holds_nobody_up() {
    // The first packet's lane gets nothing else, while the other lane's queues fill after it.
    // Long packets: room runs out before the batch is late.
    let mut inputs = Traffic::new(19, 40, 0, 30_000).take(400);
    let longest = inputs.iter().max_by_key(|input| input.bytes.len()).expect("a frame").clone();
    inputs.truncate(1);
    inputs.extend(std::iter::repeat_n(longest, 1000));
    let outcome = run_specs(&[], tiny(2, 1024), &inputs);
    assert_eq!(outcome.sent.len(), inputs.len());
}

#[test]
fn frames_as_long_as_a_source_may_give_and_longer() {
    let mut inputs = Traffic::new(23, 10, 0, 100).take(20);
    for (at, len) in [(3, 262_144), (5, 262_145), (8, 3 << 20)] {
        inputs[at].bytes = vec![at as u8; len];
        inputs[at].wire_len = len as u32;
    }
    let outcome = run_specs(&[Spec::Grow], tiny(1, 4), &inputs);
    assert_eq!(outcome.sent.len(), inputs.len());
    for (at, wire) in [(3, 262_144), (5, 262_145), (8, 3 << 20)] {
        let grown = outcome.sent[at].bytes.len() - 262_144;
        assert!([3, 7, 23].contains(&grown), "cut as a capture would: {grown}");
        assert_eq!(outcome.sent[at].wire_len as usize, wire + grown);
    }
}

/// A run of a source that loses packets that are not taken, with a slow sink.
fn hurried(inputs: &[Input], settings: Settings, idle_every: usize) -> (u64, u64) {
    let specs = all_four(1);
    let mut source = Frames::new(inputs);
    (source.drops_when_full, source.idle_every) = (true, idle_every);
    let slow = Duration::from_millis(3);
    let sink = SentFrames { slow, ..SentFrames::default() };
    let outcome = run_ports(deploy(&specs), settings, source, sink, Arc::new(Control::default()));
    let packets = &outcome.report.part.packets;
    assert_eq!(packets.read, inputs.len() as u64);
    assert_eq!(packets.overload, lost_at_ingress(&outcome), "lost before any work was spent");
    check_functions(&outcome, &specs);
    crate::common::run::check_flows(&outcome.sent);
    (packets.overload, packets.sent)
}

#[test]
fn a_source_that_cannot_wait_loses_at_ingress_only() {
    let inputs = Traffic::new(29, 60, 5, 1400).take(20_000);
    for (lanes, batch) in [(1, 16), (2, 64)] {
        let (lost, sent) = hurried(&inputs, tiny(lanes, batch), 0);
        assert!(lost > 1000 && sent > 100, "{lost} lost, {sent} sent");
    }
    hurried(&inputs[..3000], tiny(2, 16), 10);
}
