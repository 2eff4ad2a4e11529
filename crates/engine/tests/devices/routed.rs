//! Chains with routes on devices: results are those of the CPU, and no field is stale, by any plan.

use std::sync::Arc;

use proptest::prelude::*;
use warpline_engine::{Deployment, PlanOptions, Settings};
use warpline_packet::Prefix;
use warpline_sched::{Route, RouteFrom, RouteTo, RoutedFunction, Routes};

use crate::common::forms::Form;
use crate::common::frames::Input;
use crate::common::random::config;
use crate::common::real::{deploy_forms, forms, traffic};
use crate::common::run::{assert_same, run_whole};
use crate::common::talk::Talk;
use crate::versions::{chains, deploy_at, plans};

/// Blocks of destinations that part the talk's traffic.
const BLOCKS: [&str; 6] = [
    "198.51.100.0/25",
    "198.51.100.128/25",
    "192.0.2.0/24",
    "10.1.0.0/27",
    "fd00:1::/64",
    "2000::/3",
];

/// A route from each place for all packets, and some for blocks of them.
pub(crate) fn routes(functions: usize, draws: &[(usize, usize, usize)]) -> Option<Arc<Routes>> {
    let to = |at: usize| match at < functions {
        true => RouteTo::Function(at as u8),
        false => RouteTo::Egress,
    };
    let from = |place: usize| match place {
        0 => RouteFrom::Ingress(None),
        _ => RouteFrom::Function(place as u8 - 1),
    };
    let rest =
        (0..=functions).map(|place| Route { from: from(place), destination: None, to: to(place) });
    let mut all: Vec<Route> = rest.collect();
    for &(place, block, ahead) in draws {
        let place = place % (functions + 1);
        let block: Prefix = BLOCKS[block % BLOCKS.len()].parse().expect("a prefix");
        let ahead = to(place + ahead % (functions + 1 - place));
        let route = Route { from: from(place), destination: Some(block), to: ahead };
        if !all.iter().any(|own| (own.from, own.destination) == (route.from, route.destination)) {
            all.push(route);
        }
    }
    let function = |at| RoutedFunction {
        name: format!("f{at}"),
        changes_destination: true,
        second_place: None,
    };
    let named: Vec<_> = (0..functions).map(function).collect();
    Routes::new(&named, 2, &all).ok().map(Arc::new)
}

fn routed(deployment: Deployment, plan: PlanOptions, routes: &Arc<Routes>) -> Deployment {
    let chain = (**deployment.chain()).clone().with_routes(Arc::clone(routes));
    let mut routed = Deployment::new(Arc::new(chain.expect("a word")), deployment.sites().to_vec());
    routed.set_plan(plan);
    routed
}

fn check(
    (forms, at): (&[Form], &[usize]),
    plan: PlanOptions,
    settings: Settings,
    routes: &Arc<Routes>,
    inputs: &[Input],
) {
    let Some(Ok(deployment)) = deploy_at(forms, at, plan) else { return };
    let names: Vec<&str> = forms.iter().map(|form| form.name).collect();
    let what = format!("{names:?} at {at:?}, {plan:?}, {settings:?}, {routes:?}");
    let on_cpu = routed(deploy_forms(forms), PlanOptions::default(), routes);
    let reference = run_whole(on_cpu, Settings::default(), inputs);
    let settings = Settings { follows_versions: true, slabs: 6, ..settings };
    let outcome = run_whole(routed(deployment, plan, routes), settings, inputs);
    if let Some(stale) = &outcome.report.part.versions.stale {
        panic!("{what}: {stale}");
    }
    assert_same(&reference.summary(), &outcome.summary(), &what);
    assert_eq!(reference.report.part.paths, outcome.report.part.paths, "{what}");
}

/// A function on a device leaves fields there that its next function reads, and some packets
/// never come to that function.
#[test]
fn packets_that_skip_a_function_leave_no_field_on_a_device() {
    let forms = forms(&["router-plain", "digest-count", "router-plain"]);
    let inputs = traffic(&forms, Talk::new(71, 60, 1400).take(600), 73, 15);
    for at in [[1, 0, 1], [1, 1, 1], [1, 2, 1], [2, 1, 3]] {
        for draws in [&[(1, 0, 1), (1, 2, 2)][..], &[(0, 0, 2), (2, 1, 1)], &[(1, 0, 2), (0, 2, 1)]]
        {
            let routes = routes(3, draws).expect("routes");
            let settings = Settings { lanes: 2, batch_packets: 32, ..Settings::default() };
            check((&forms, &at), PlanOptions::default(), settings, &routes, &inputs);
        }
    }
}

proptest! {
    #![proptest_config(config(16, 20))]

    #[test]
    fn a_routed_chain_is_the_same_on_devices(
        (forms, at) in chains(),
        plan in plans(),
        draws in prop::collection::vec((0usize..6, 0usize..6, 0usize..6), 1..8),
        (lanes, batch_packets) in (1usize..4, 1usize..300),
        seed in any::<u64>(),
    ) {
        let Some(routes) = routes(forms.len(), &draws) else { return Ok(()) };
        let inputs = traffic(&forms, Talk::new(seed, 40, 1400).take(300), seed, 15);
        let settings = Settings { lanes, batch_packets, ..Settings::default() };
        check((&forms, &at), plan, settings, &routes, &inputs);
    }
}
