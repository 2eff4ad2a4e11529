//! I1, I2 and I3 for every function of the program, alone, in chains, and out of room.

use std::collections::HashSet;

use warpline_engine::Settings;
use warpline_functions::FUNCTIONS;
use warpline_packet::Steering;

use crate::common::forms::{FORMS, Form, NARROW};
use crate::common::frames::Input;
use crate::common::real::{
    check_chain, check_shows, deploy_forms, forms, monitor_to_files, run_forms, sensor_to_files,
    traffic, try_deploy,
};
use crate::common::run::{Outcome, assert_same, run_whole};
use crate::common::talk::Talk;

/// Every number of lanes with every size of batch; the first is what the others are held against.
const DIMENSIONS: [(usize, usize); 9] =
    [(1, 256), (1, 1), (1, 1024), (2, 1), (2, 256), (2, 1024), (4, 1), (4, 256), (4, 1024)];

fn settings((lanes, batch_packets): (usize, usize)) -> Settings {
    Settings { lanes, batch_packets, ..Settings::default() }
}

/// One of each function, with all that takes scratch words: translation of IPv6, digests, ESP.
#[test]
fn a_chain_of_every_function_can_be_built() {
    let names = [
        "monitor",
        "firewall-tracking",
        "open",
        "sensor",
        "digest-drop",
        "balancer-dnat",
        "nat",
        "router",
        "compress",
    ];
    let forms = forms(&names);
    let functions: HashSet<_> = forms.iter().map(|form| form.function).collect();
    assert_eq!(functions.len(), FUNCTIONS.len());
    assert!(deploy_forms(&forms).chain().scratch_words > 16);
}

/// Input for `forms`: 60 talkers, answers and odd frames.
fn traffic_for(forms: &[Form]) -> Vec<Input> {
    traffic(forms, Talk::new(71, 60, 1400).take(3000), 73, 15)
}

/// Runs a chain of `forms` in every dimension, where all is the same.
fn same_everywhere(forms: &[Form], inputs: &[Input]) -> Outcome {
    let reference = run_forms(forms, settings(DIMENSIONS[0]), inputs);
    check_chain(forms, &reference);
    for (function, form) in reference.report.part.functions.iter().zip(forms) {
        assert!(function.packets_out > 100, "{} passes packets on", form.name);
    }
    let summary = reference.summary();
    let names: Vec<_> = forms.iter().map(|form| form.name).collect();
    for one in &DIMENSIONS[1..] {
        let run = run_forms(forms, settings(*one), inputs);
        assert_same(&summary, &run.summary(), &format!("{names:?}, lanes and batch {one:?}"));
    }
    for (launch, one) in [(1, (1, 256)), (4, (2, 64)), (7, (4, 16))] {
        let deployment = try_deploy(forms, &vec![launch; forms.len()]).expect("a chain");
        let run = run_whole(deployment, settings(one), inputs);
        assert_same(&summary, &run.summary(), &format!("{names:?}, launches of {launch}, {one:?}"));
    }
    reference
}

/// Each of `forms` alone shows its behaviour, the same everywhere.
fn alone(forms: &[Form]) {
    for form in forms.chunks(1) {
        let outcome = same_everywhere(form, &traffic_for(form));
        check_shows(form, &outcome);
        let lies = outcome.report.part.packets.malformed + outcome.counter(0, "malformed");
        assert!(lies > 10, "{}: {lies} malformed packets", form[0].name);
    }
}

/// A chain on as many lanes as there are, or on one because its functions' keys disagree.
fn together(names: &[&str], is_single: bool) {
    let forms = forms(names);
    assert_eq!(deploy_forms(&forms).chain().steering == Steering::Single, is_single, "{names:?}");
    same_everywhere(&forms, &traffic_for(&forms));
}

fn of(function: &str) -> Vec<Form> {
    FORMS.iter().copied().filter(|form| form.function == function).collect()
}

#[test]
fn every_function_is_tested() {
    for definition in FUNCTIONS {
        assert!(!of(definition.name).is_empty(), "{} has no form to test", definition.name);
    }
}

#[test]
fn the_first_half_of_the_functions_is_the_same_everywhere() {
    alone(&FORMS[..FORMS.len() / 2]);
}

#[test]
fn the_second_half_of_the_functions_is_the_same_everywhere() {
    alone(&FORMS[FORMS.len() / 2..]);
}

#[test]
fn functions_out_of_room_are_the_same_everywhere() {
    alone(NARROW);
}

#[test]
fn a_gateway_is_the_same_everywhere() {
    together(&["firewall-tracking", "nat", "router"], false);
}

#[test]
fn a_front_of_services_is_the_same_everywhere() {
    together(&["balancer-dnat", "digest-count", "compress", "router"], false);
}

#[test]
fn both_ends_of_a_compressed_path_are_the_same_everywhere() {
    together(&["firewall", "compress", "router-plain", "decompress", "digest-count"], false);
}

#[test]
fn an_ipsec_gateway_with_functions_of_flows_is_the_same_everywhere() {
    together(&["firewall-tracking", "digest-count", "seal", "router"], false);
    together(&["open", "firewall", "monitor"], false);
}

#[test]
fn both_ends_of_a_tunnel_are_the_same_everywhere() {
    together(&["seal", "open", "digest-count"], true);
}

#[test]
fn all_functions_in_a_chain_are_the_same_everywhere() {
    together(
        &[
            "firewall-tracking",
            "nat-dependent",
            "balancer-ipip",
            "digest-count",
            "monitor",
            "compress",
            "router",
        ],
        false,
    );
}

#[test]
fn functions_whose_keys_disagree_are_the_same_everywhere() {
    together(
        &["firewall-tracking", "balancer-dnat", "nat", "router", "monitor", "digest-drop"],
        true,
    );
}

#[test]
fn sensors_in_a_chain_are_the_same_everywhere() {
    together(&["sensor", "firewall-tracking", "router"], false);
    together(&["sensor-of-words", "nat", "sensor", "monitor"], false);
    together(&["digest-count", "sensor-of-hosts"], true);
}

#[test]
fn a_gateway_out_of_room_is_the_same_everywhere() {
    together(&["firewall-narrow", "nat-narrow", "digest-narrow", "router"], false);
}

#[test]
fn files_of_records_are_the_same_everywhere() {
    let folder = std::env::temp_dir().join(format!("warpline-records-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let form = monitor_to_files(&folder.join("ipfix"), &folder.join("csv"));
    let inputs = traffic_for(&[form]);
    let written = |dimensions| {
        run_forms(&[form], settings(dimensions), &inputs);
        ["ipfix", "csv"].map(|name| std::fs::read(folder.join(name)).expect("a file"))
    };
    let reference = written(DIMENSIONS[0]);
    assert!(reference.iter().all(|file| file.len() > 10_000));
    for one in &DIMENSIONS[1..] {
        assert!(written(*one) == reference, "lanes and batch {one:?}");
    }
    std::fs::remove_dir_all(&folder).expect("a folder of our own");
}

/// I2 for what rules found: whatever looks for literals, and however the work is divided.
#[test]
fn alerts_are_the_same_everywhere_whatever_matches() {
    let folder = std::env::temp_dir().join(format!("warpline-alerts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let paths = ["eve", "fast", "hits"].map(|name| folder.join(name));
    for form in forms(&["sensor", "sensor-of-hosts", "sensor-of-words", "sensor-narrow"]) {
        let inputs = traffic_for(&[form]);
        let written = |matcher, dimensions| {
            let form = sensor_to_files(&form, paths.each_ref().map(|path| path.as_path()), matcher);
            let outcome = run_forms(&[form], settings(dimensions), &inputs);
            let files = paths.each_ref().map(|path| std::fs::read(path).expect("a file"));
            (outcome.summary(), files)
        };
        let (summary, files) = written("dense", DIMENSIONS[0]);
        assert!(files[0].len() > 10_000 && files[1].len() > 5_000 && files[2].len() > 100);
        let others = DIMENSIONS[1..].iter().map(|one| ("dense", *one));
        for (matcher, one) in others.chain(matchers().iter().map(|other| (*other, (2, 256)))) {
            let what = format!("{}, {matcher}, lanes and batch {one:?}", form.name);
            let other = written(matcher, one);
            assert_same(&summary, &other.0, &what);
            assert!(files == other.1, "{what}: files differ");
        }
    }
    std::fs::remove_dir_all(&folder).expect("a folder of our own");
}

/// Matchers of literals besides the dense automaton; Hyperscan if it is installed.
fn matchers() -> &'static [&'static str] {
    let hyperscan =
        Form { table: "rules = 'sensor'\nmatcher = 'hyperscan'", ..forms(&["sensor"])[0] };
    match try_deploy(&[hyperscan], &[]) {
        Ok(_) => &["compact", "hyperscan"],
        Err(_) => &["compact"],
    }
}
