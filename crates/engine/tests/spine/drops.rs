//! I2 for packets that are dropped, as a sink is shown them: what each function got, the same
//! everywhere.

use std::net::IpAddr;

use warpline_engine::Settings;
use warpline_packet::LinkType;
use warpline_testkit::frames::{Body, Datagram};

use crate::common::dropped::{check_as_they_came, dropping};
use crate::common::forms::{ESN, Form};
use crate::common::frames::{Input, START_NANOS};
use crate::common::real::{deploy_forms, forms, traffic, try_deploy};
use crate::common::run::{Outcome, assert_same, run_showing_drops, run_whole};
use crate::common::talk::Talk;

const SECOND: u64 = 1_000_000_000;
const UDP: Body = Body::Udp { src: 4000, dst: 5000, unsummed: false };

fn same_everywhere(forms: &[Form], count: usize) -> Outcome {
    same_for(forms, &traffic(forms, Talk::new(71, 60, 1400).take(count), 73, 15))
}

/// The same for these `inputs`.
fn same_for(forms: &[Form], inputs: &[Input]) -> Outcome {
    let reference = run_showing_drops(deploy_forms(forms), Settings::default(), inputs);
    let summary = reference.summary();
    let names: Vec<_> = forms.iter().map(|form| form.name).collect();
    for (lanes, batch_packets, launch) in [(1, 1, 0), (1, 1024, 0), (4, 64, 4), (2, 16, 1)] {
        let deployment = try_deploy(forms, &vec![launch; forms.len()]).expect("a chain");
        let settings = Settings { lanes, batch_packets, ..Settings::default() };
        let run = run_showing_drops(deployment, settings, inputs);
        assert_same(&summary, &run.summary(), &format!("{names:?}, {settings:?}, {launch}"));
    }
    // Whether anybody looks changes nothing else.
    let unseen = run_whole(deploy_forms(forms), Settings::default(), inputs);
    assert!(unseen.sent == reference.sent, "{names:?}");
    if let [form] = forms {
        check_as_they_came(form, inputs, &reference);
    }
    reference
}

#[test]
fn packets_that_a_function_drops_are_as_they_came() {
    for form in dropping() {
        same_everywhere(&[*form], 3000);
    }
}

#[test]
fn packets_that_a_chain_drops_are_the_same_everywhere() {
    for names in [
        &["nat", "router", "firewall"][..],
        &["seal", "open", "router"],
        &["balancer-ipip", "compress", "decompress", "nat-narrow"],
        &["firewall-tracking", "digest-drop", "router-plain", "sensor"],
    ] {
        let outcome = same_everywhere(&forms(names), 2000);
        assert!(outcome.dropped.len() > 50, "{names:?}");
    }
}

/// A packet that is late by more than the window is opened with a guessed number, but its number
/// turns out to be another.
#[test]
fn packets_whose_number_was_guessed_wrong_are_as_they_came() {
    let [seal, open] = ESN;
    let inputs = traffic(&[seal], Talk::new(71, 60, 300).take(2000), 73, 0);
    let sealed = run_whole(deploy_forms(&[seal]), Settings::default(), &inputs).sent;
    let mut inputs: Vec<Input> = sealed.into_iter().map(Input::from).collect();
    for at in (10..inputs.len() - 100).step_by(150) {
        inputs[at..at + 90].rotate_left(1);
    }
    let outcome = same_for(&[open], &inputs);
    assert!(outcome.dropped.len() >= 10, "{} dropped", outcome.dropped.len());
}

/// A later fragment whose first one is missing waits 60 seconds of packet time, not until the next
/// fragment comes.
#[test]
fn a_fragment_waits_no_longer_than_a_minute() {
    let (later, stray) = (later_fragment(), stray());
    let inputs: Vec<Input> = (0..20)
        .map(|at| input_at(at * 5 * SECOND, if at == 0 { &later } else { &stray }))
        .collect();
    let outcome = same_for(&forms(&["nat", "monitor"]), &inputs);
    let reasons: Vec<&str> = outcome.dropped.iter().map(|(_, why)| why.as_str()).collect();
    let at = reasons.iter().position(|why| why.contains("fragment"));
    assert_eq!(at, Some(11), "{reasons:?}");
}

/// The frames before it find no room at first, so they come a second time, after it.
#[test]
fn a_fragment_that_waits_at_the_end_is_dropped_by_name() {
    let (later, stray) = (later_fragment(), stray());
    let mut inputs: Vec<Input> = (0..60).map(|at| input_at(at * 20 * SECOND, &stray)).collect();
    inputs.push(input_at(60 * 20 * SECOND + 61 * SECOND, &later));
    let outcome = same_for(&forms(&["nat", "monitor"]), &inputs);
    let reasons: Vec<&str> = outcome.dropped.iter().map(|(_, why)| why.as_str()).collect();
    assert!(reasons.last().is_some_and(|why| why.contains("fragment")), "{reasons:?}");
}

/// A frame, so many nanoseconds after the first.
fn input_at(nanos: u64, frame: &[u8]) -> Input {
    let (bytes, wire_len, link) = (frame.to_vec(), frame.len() as u32, LinkType::ETHERNET);
    Input { bytes, nanos: START_NANOS + nanos, wire_len, link, interface: 0 }
}

/// A host inside, a remote and the address of the translator.
fn addresses() -> [IpAddr; 3] {
    ["10.0.0.5", "198.51.100.7", "203.0.113.1"].map(|text| text.parse().expect("an address"))
}

/// The second fragment of a datagram from inside.
fn later_fragment() -> Vec<u8> {
    let [host, remote, _] = addresses();
    let [_, later] = Datagram::new(host, remote, UDP).with(&[7; 64]).fragments(16);
    later
}

/// A packet to the translator that no host asked for.
fn stray() -> Vec<u8> {
    let [_, remote, outside] = addresses();
    Datagram::new(remote, outside, UDP).frame()
}
