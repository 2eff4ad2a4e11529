//! Extended numbers after the loss of more packets than their lower half can count (RFC 4303,
//! appendix A3).

use super::super::replay::ReplayWindow;
use super::gateway::{CBC, CTR, Ends, Files, GCM, NULL_SHA256, SaText, Suite};
use super::gateway::{again, on_link, reason, send, udp};
use warpline_packet::LinkType;
use warpline_verify::{Harness, Input};

const LINK: LinkType = LinkType::RAW;

fn sa(suite: Suite, more: &str) -> SaText {
    SaText { more: format!("esn = true\n{more}"), ..SaText::new(suite) }
}

/// Packets as the other end seals them from number `sequence` + 1 on.
fn sealed(suite: Suite, sequence: u64, count: usize) -> Vec<Input> {
    let mut ends = Ends::new(&sa(suite, &format!("sequence = {sequence}")));
    let input = on_link(LINK, &udp("10.1.0.1", "10.2.0.1", [1, 2], 30));
    (0..count).map(|_| again(&send(&mut ends.here, &input), LINK)).collect()
}

/// A gateway that received nothing yet, with this window.
fn receiver(suite: Suite, window: u32) -> (Harness, Files) {
    let files = Files::new();
    files.write("sas.toml", &sa(suite, &format!("replay_window = {window}")).text("in"));
    (files.gateway(""), files)
}

/// Packets of the SA that do not authenticate: their last byte is another one.
fn garbage(of: &Input, count: usize) -> Vec<Input> {
    let mut spoiled = of.clone();
    *spoiled.bytes.last_mut().unwrap() ^= 1;
    vec![spoiled; count]
}

fn reasons(gateway: &mut Harness, inputs: &[Input], batch: usize) -> Vec<&'static str> {
    let outcomes = inputs.chunks(batch).flat_map(|inputs| gateway.process(inputs));
    outcomes.map(|outcome| reason(&outcome)).collect()
}

/// How many upper halves were lost, and how many packets it takes to find the number again.
const LOST: [(u64, Option<usize>); 7] = [
    (1, Some(15)),
    (2, Some(15)),
    (3, Some(31)),
    (4, Some(31)),
    (63, Some(511)),
    (64, Some(511)),
    (65, None),
];

#[test]
fn numbers_are_found_again_after_any_loss_up_to_64_halves() {
    for (suite, windows) in
        [(GCM, &[64, 0][..]), (CBC, &[32]), (CTR, &[64]), (NULL_SHA256, &[4096])]
    {
        let first = sealed(suite, 0, 3);
        for (halves, refused) in LOST {
            let after = sealed(suite, (halves << 32) + 100, 520);
            let inputs = [first.clone(), after].concat();
            let refused = refused.unwrap_or(520);
            let expected: Vec<_> = (0..inputs.len())
                .map(|at| if (3..3 + refused).contains(&at) { "bad-icv" } else { "forward" })
                .collect();
            for &window in windows {
                for batch in [1, 7, 256] {
                    let (mut there, _files) = receiver(suite, window);
                    let found = reasons(&mut there, &inputs, batch);
                    assert_eq!(found, expected, "{suite:?} {halves} {window} {batch}");
                    assert_eq!(there.counter("resynchronized"), u64::from(refused < 520));
                }
            }
        }
    }
}

#[test]
fn garbage_costs_an_eighth_more_and_hides_nothing() {
    let first = sealed(GCM, 0, 3);
    let (mut there, _files) = receiver(GCM, 64);
    reasons(&mut there, &first[..1], 1);
    let found = reasons(&mut there, &garbage(&first[1], 8000), 256);
    assert!(found.iter().all(|&found| found == "bad-icv"));
    assert_eq!(there.counter("resync-tries"), 1000);
    assert_eq!(reasons(&mut there, &first[1..], 1), ["forward", "forward"]);
    assert_eq!(there.counter("resynchronized"), 0);
    // A packet that authenticates ends a row of failures.
    let spoiled = garbage(&first[1], 15);
    for valid in sealed(GCM, 100, 20) {
        reasons(&mut there, &spoiled, 7);
        assert_eq!(reasons(&mut there, &[valid], 1), ["forward"]);
    }
    assert_eq!(there.counter("resync-tries"), 1000);
    // Among garbage, a sender that lost its half is found all the same.
    let mut lost = sealed(GCM, (1 << 32) + 100, 600).into_iter();
    let mixed: Vec<Input> =
        lost.by_ref().flat_map(|own| [spoiled[..2].to_vec(), vec![own]].concat()).collect();
    let found = reasons(&mut there, &mixed, 256);
    assert!(found.ends_with(&["forward"]) && there.counter("resynchronized") == 1);
}

#[test]
fn nothing_old_is_taken_after_a_loss() {
    for window in [64, 0] {
        let old = [sealed(GCM, 0, 3), sealed(GCM, (1 << 32) + 5, 3)].concat();
        let (mut there, _files) = receiver(GCM, window);
        reasons(&mut there, &sealed(GCM, 0, 3), 1);
        let found = reasons(&mut there, &sealed(GCM, (2 << 32) + 100, 40), 7);
        assert_eq!(found[15..], ["forward"; 25]);
        for _ in 0..300 {
            assert_eq!(reasons(&mut there, &old, 6), ["bad-icv"; 6]);
        }
        assert_eq!(there.counter("resynchronized"), 1);
    }
}

/// Numbers of 32 bits have no other half, and none is above the last number of 64 bits.
#[test]
fn only_numbers_that_there_are_are_tried() {
    let tries = |esn: bool, highest: u64| {
        let mut window = ReplayWindow::new(64, esn, highest);
        (0..16).flat_map(|_| window.reject(highest).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    let last = u64::MAX;
    assert_eq!(tries(true, 7), [(1 << 32) + 7, (2 << 32) + 7]);
    assert!(tries(false, 7).is_empty());
    assert!(tries(true, last).is_empty());
    assert_eq!(tries(true, last - (1 << 32)), [last]);
}
