//! I2 over lanes, batches and launches, with functions alone and all together.

use warpline_engine::Settings;

use crate::common::frames::{Input, Traffic, flow_of};
use crate::common::run::{Summary, assert_same, run_specs};
use crate::common::{NAT, Spec, all_four, grow};

fn traffic(count: usize) -> Vec<Input> {
    Traffic::new(7, 60, 10, 1400).take(count)
}

fn settings(lanes: usize, batch_packets: usize) -> Settings {
    Settings { lanes, batch_packets, ..Settings::default() }
}

/// Runs the chains that `specs` gives for some launches over every number of lanes and size of
/// batch.
fn same_everywhere(
    specs: impl Fn(usize) -> Vec<Spec>,
    launches: &[usize],
    count: usize,
) -> Summary {
    let inputs = traffic(count);
    let reference = run_specs(&specs(launches[0]), settings(1, 1), &inputs).summary();
    for lanes in [1, 2, 4] {
        for batch in [1, 256, 1024] {
            for &launch in launches {
                let one = run_specs(&specs(launch), settings(lanes, batch), &inputs).summary();
                let what = format!("{lanes} lanes, batches of {batch}, launches of {launch}");
                assert_same(&reference, &one, &what);
            }
        }
    }
    reference
}

#[test]
fn a_chain_without_functions_passes_packets_on() {
    let inputs = traffic(5000);
    for (lanes, batch) in [(1, 1), (1, 256), (2, 1024), (4, 256)] {
        let outcome = run_specs(&[], settings(lanes, batch), &inputs);
        assert_eq!(outcome.sent.len(), inputs.len());
        for (sent, input) in outcome.sent.iter().zip(&inputs) {
            assert_eq!((&sent.bytes, sent.nanos), (&input.bytes, input.nanos));
            assert_eq!((sent.link, sent.interface), (input.link, input.interface));
            assert_eq!(sent.wire_len, input.wire_len.max(input.bytes.len() as u32));
        }
    }
}

#[test]
fn frames_grow_as_they_should() {
    same_everywhere(|_| vec![Spec::Grow], &[1], 4000);
    let inputs = traffic(4000);
    let outcome = run_specs(&[Spec::Grow], settings(2, 256), &inputs);
    assert_eq!(outcome.sent.len(), inputs.len());
    for (sent, input) in outcome.sent.iter().zip(&inputs) {
        let grown = grow::expected(input.link, &input.bytes);
        assert_eq!((&sent.bytes, sent.nanos), (&grown, input.nanos));
        let longer = grown.len() - input.bytes.len();
        let wire_len = (input.wire_len as usize).max(input.bytes.len()) + longer;
        assert_eq!(sent.wire_len as usize, wire_len, "a snapped packet stays one");
    }
}

#[test]
fn made_and_absorbed_packets_are_the_same() {
    same_everywhere(|_| vec![Spec::EmitAbsorb], &[1], 4000);
}

#[test]
fn a_table_that_both_directions_share_is_the_same() {
    same_everywhere(|_| vec![NAT], &[1], 4000);
    same_everywhere(|_| vec![Spec::NatLike { bindings: 500, inside: true }], &[1], 4000);
}

#[test]
fn batches_between_before_and_after_change_nothing() {
    same_everywhere(|launch| vec![Spec::ThreePhase { launch }], &[0, 1, 4, 7], 4000);
}

#[test]
fn time_passes_between_launches_only() {
    same_everywhere(|launch| vec![Spec::EmitAbsorbOwn { launch }], &[1, 4, 7], 2000);
}

#[test]
fn a_function_sees_nothing_of_another_of_its_kind() {
    let twice = |launch| vec![Spec::ThreePhase { launch }, Spec::ThreePhase { launch: 2 }];
    same_everywhere(twice, &[0, 4], 2000);
}

#[test]
fn the_chain_of_all_is_the_same() {
    same_everywhere(all_four, &[0, 1, 4, 7], 4000);
}

#[test]
fn functions_that_make_packets_of_made_packets_are_the_same() {
    let twice = |launch| vec![Spec::EmitAbsorb, Spec::ThreePhase { launch }, Spec::EmitAbsorb];
    same_everywhere(twice, &[0, 4], 3000);
}

#[test]
fn frames_in_other_places_are_the_same() {
    let twice = |launch| {
        vec![Spec::EmitAbsorb, Spec::Replace { launch }, Spec::Grow, Spec::Replace { launch: 0 }]
    };
    same_everywhere(twice, &[0, 4], 2000);
}

#[test]
fn made_packets_follow_their_cause() {
    const MARKS: [&[u8]; 7] =
        [b"back", b"copy-1", b"copy-2", b"both-1", b"both-2", b"after", b"answer"];
    let mark_of = |bytes: &[u8]| MARKS.iter().position(|mark| bytes.ends_with(mark));
    let inputs = Traffic::new(67, 60, 0, 300).take(4000);
    let outcome = run_specs(&[Spec::EmitAbsorb], settings(2, 256), &inputs);
    let mut marks = [0; MARKS.len()];
    for pair in outcome.sent.windows(2) {
        let Some(mark) = mark_of(&pair[1].bytes) else { continue };
        marks[mark] += 1;
        let made = pair[1].bytes.strip_suffix(MARKS[mark]).expect("a mark");
        match mark_of(&pair[0].bytes) {
            // The first of its cause: the cause itself, unless that was dropped with an answer.
            None if mark != 6 => assert!(pair[0].bytes.starts_with(made)),
            _ if mark == 6 => {}
            before => {
                assert_eq!(before, Some(mark - 1));
                assert!(mark == 2 || mark == 4, "only these come in twos");
                assert!(pair[0].bytes.starts_with(made));
            }
        }
        assert_eq!(flow_of(&pair[1].bytes), flow_of(made));
    }
    assert!(marks.iter().all(|&count| count > 100), "{marks:?}");
}
