//! Plans for chains of the real functions, as they declare what they touch.

use warpline_device::{Wrapped, apart};
use warpline_engine::{LaunchOptions, OnDevice, PlanOptions, planned};
use warpline_packet::{Columns, Field, FieldSet, ReadWrite};
use warpline_sched::{Mode, Plan, Problem, Way};

use crate::common::real::{forms, try_deploy_on};
use crate::placed::host;

/// The problem of forms, those whose names begin with `@` on a device that copies, with `+` on
/// another; frames of 1024 bytes.
fn problem(names: &[&str], recoverable: bool) -> Option<Problem> {
    let device = apart(&host()?);
    let other = Wrapped::new(&device).called("other").into_device();
    let bare: Vec<&str> = names.iter().map(|name| name.trim_start_matches(['@', '+'])).collect();
    let on = |place: usize| {
        let device = match names[place].as_bytes()[0] {
            b'@' => device.clone(),
            b'+' => other.clone(),
            _ => return None,
        };
        Some(OnDevice { device, launches: LaunchOptions::default(), is_required: true })
    };
    let deployment = try_deploy_on(&forms(&bare), &[], on).expect("a chain");
    let options = PlanOptions { packet_len: 1024, recoverable, ..PlanOptions::default() };
    Some(planned(&deployment, options).problem)
}

/// The cheapest plan for it.
fn plan(names: &[&str], recoverable: bool) -> Option<Plan> {
    Some(problem(names, recoverable)?.plan(Mode::Adaptive).expect("a link"))
}

/// Of the frame, what crosses there and back at a step.
fn of_frame(plan: &Plan, step: usize) -> [FieldSet; 2] {
    let step = &plan.steps[step];
    [step.to_device.fields, step.to_host.fields].map(|fields| fields & FieldSet::FRAME)
}

/// The router changes headers; the digest after it finds the payload where the gateway left it.
#[test]
fn a_payload_stays_where_a_gateway_opened_it() {
    let Some(plan) = plan(&["@open", "router-plain", "@digest-count"], true) else { return };
    let [there, back] = of_frame(&plan, 0);
    assert_eq!(plan.steps[0].to_device.way, Way::Frame);
    assert_eq!(there, FieldSet::FRAME);
    assert!(back.contains(Field::Ttl), "the router takes one off");
    let [there, back] = of_frame(&plan, 1);
    assert!(!there.contains(Field::Payload), "{there}");
    assert!(!back.contains(Field::Ttl), "the host's is newer: {back}");
}

/// Datagrams that a gateway puts together are other frames. No plan pays for them: what the mirror
/// has of the others stays of use, by every plan that shares frames.
#[test]
fn a_gateway_that_reassembles_finds_payloads_in_the_mirror() {
    for name in ["@open-pieces", "@open"] {
        let names = ["@digest-count", "nat", name];
        for mode in [Mode::Adaptive, Mode::Local] {
            let Some(problem) = problem(&names, false) else { return };
            let plan = problem.plan(mode).expect("a link");
            let [there, _] = of_frame(&plan, 1);
            assert!(!there.contains(Field::Payload), "{name}, {mode:?}: {there}");
        }
    }
}

/// A router alone has its fields, and nothing else of the frame.
#[test]
fn a_router_alone_is_sent_addresses_and_not_payloads() {
    let Some(plan) = plan(&["firewall", "@router-plain", "monitor"], true) else { return };
    assert_eq!(plan.steps[0].to_device.way, Way::Direct);
    let [there, back] = of_frame(&plan, 0);
    assert!(there.contains(Field::DstAddr) && !there.contains(Field::Payload), "{there}");
    assert!(back.contains(Field::Ttl) && !back.contains(Field::DstAddr), "{back}");
}

/// Functions that only read leave nothing to bring back but what they found.
#[test]
fn fields_only_read_are_not_copied_to_the_host() {
    let Some(plan) = plan(&["@digest-count", "monitor", "@digest-count"], true) else { return };
    assert_eq!(plan.steps[0].to_device.way, Way::Frame);
    assert_eq!(of_frame(&plan, 1)[0], FieldSet::EMPTY, "still in the mirror");
    for step in 0..2 {
        assert_eq!(of_frame(&plan, step)[1], FieldSet::EMPTY);
    }
}

/// The TTL that two routers decrement is copied to the host after the second alone, unless the plan
/// must be recoverable. A translator between them may write to a packet. Then no mirror has that
/// packet, so the host needs all of it.
#[test]
fn fields_that_two_routers_write_stay_on_their_device() {
    let between = |between, recoverable| {
        plan(&["@digest-count", "firewall", "@router-plain", between, "@router-plain"], recoverable)
    };
    let ttl = |plan: &Plan| {
        (0..3).map(|step| of_frame(plan, step)[1].contains(Field::Ttl)).collect::<Vec<_>>()
    };
    for (name, recoverable, expected) in [
        ("firewall", false, [false, false, true]),
        ("firewall", true, [false, true, true]),
        ("nat", false, [false, true, true]),
    ] {
        let Some(plan) = between(name, recoverable) else { return };
        assert_eq!(ttl(&plan), expected, "{name}, {recoverable}: {plan:#?}");
    }
}

/// Fields that a router on one device wrote stay there while another device looks at the packets.
/// They come back before a device in whose place the CPU may change payloads: no mirror has such
/// packets any more.
#[test]
fn written_fields_stay_on_a_device_while_another_reads() {
    for (between, expected) in [("+firewall", false), ("+nat", true)] {
        let names = ["@digest-count", "firewall", "@router-plain", between, "@router-plain"];
        let Some(plan) = plan(&names, false) else { return };
        let [_, back] = of_frame(&plan, 1);
        assert_eq!(back.contains(Field::Ttl), expected, "{between}: {plan:#?}");
        let [there, _] = of_frame(&plan, 3);
        assert!(!there.contains(Field::Payload), "{between}: {there}");
    }
}

/// Bytes of a launch's table that are copied, and the fields that the host needs for packets that
/// the kernels leave to it.
#[test]
fn a_launch_has_a_row_and_a_fallback() {
    let Some(problem) = problem(&["@router-plain", "monitor", "@digest-count"], false) else {
        return;
    };
    assert!(!problem.is_recoverable && !problem.fetches_first);
    let [router, monitor, digest] = &problem.functions[..] else { panic!("three functions") };
    let len = |columns: Columns| columns.stretched_len() as f64;
    for function in [router, digest] {
        let run = ReadWrite::new(function.run.needs, function.run.writes);
        assert_eq!(function.row.there, 8.0 + len(Columns::read_by(run).beside_packed()));
        assert_eq!(function.row.back, len(Columns::written_by(run.writes)));
        assert!(function.row.there > 0.0 && function.row.back > 0.0);
    }
    assert!(router.fallback.contains(Field::Ttl) && FieldSet::FRAME.covers(router.fallback));
    assert!(digest.fallback.contains(Field::Payload));
    assert!(router.before.needs.is_empty(), "`before` needs no field");
    assert!(monitor.fallback.is_empty() && monitor.row.there + monitor.row.back == 0.0);
}

/// A packet's mark shows for eight mirrors whether they have it.
#[test]
fn with_more_mirrors_than_a_mark_has_bits_nothing_stays_there_alone() {
    let Some(host) = host() else { return };
    for count in [8, 9] {
        let on = |place: usize| {
            let device =
                Wrapped::new(&apart(&host)).called(&format!("device-{place}")).into_device();
            Some(OnDevice { device, launches: LaunchOptions::default(), is_required: true })
        };
        let deployment =
            try_deploy_on(&forms(&vec!["router-plain"; count]), &[], on).expect("a chain");
        let planned = planned(&deployment, PlanOptions::default());
        assert_eq!(planned.devices.len(), count);
        assert_eq!(planned.problem.is_recoverable, count == 9);
    }
}
