//! Plans for chains of the real functions, as they declare what they touch.

use warpline_device::apart;
use warpline_engine::{LaunchOptions, OnDevice, PlanOptions, planned};
use warpline_packet::{Field, FieldSet};
use warpline_sched::{Mode, Plan, Way};

use crate::common::real::{forms, try_chain_on};
use crate::placed::host;

/// The cheapest plan for forms, those whose names begin with `@` on a device that copies; frames of 1024 bytes.
fn plan(names: &[&str], recoverable: bool) -> Option<Plan> {
    let device = apart(&host()?);
    let bare: Vec<&str> = names.iter().map(|name| name.trim_start_matches('@')).collect();
    let on = |place: usize| {
        let (device, launches) = (device.clone(), LaunchOptions::default());
        let is_on = names[place].starts_with('@');
        is_on.then_some(OnDevice { device, launches, is_required: true })
    };
    let chain = try_chain_on(&forms(&bare), &[], on).expect("a chain");
    let options = PlanOptions { packet_len: 1024, recoverable, ..PlanOptions::default() };
    let problem = planned(&chain, options).problem;
    Some(problem.plan(Mode::Adaptive).expect("a link"))
}

/// Of the frame, what crosses there and back at a step.
fn of_frame(plan: &Plan, step: usize) -> [FieldSet; 2] {
    let step = &plan.steps[step];
    [step.to_device.fields, step.to_host.fields].map(|fields| fields & FieldSet::FRAME)
}

/// The router changes headers; the digest behind it finds the payload where the gateway left it.
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
fn what_is_only_read_does_not_come_back() {
    let Some(plan) = plan(&["@digest-count", "monitor", "@digest-count"], true) else { return };
    assert_eq!(plan.steps[0].to_device.way, Way::Frame);
    assert_eq!(of_frame(&plan, 1)[0], FieldSet::EMPTY, "still in the mirror");
    for step in 0..2 {
        assert_eq!(of_frame(&plan, step)[1], FieldSet::EMPTY);
    }
}
