//! Random chains in which functions stand at two places, one pair within another or after it.

use std::collections::BTreeSet;

use crate::chains::{Naive, Spec, keep_together, nat, router, router_spec, spec};
use crate::chains_balancer::load_balancer;
use crate::draw::{Draw, address};
use crate::flows;
use crate::ipcomp;
use crate::ipsec;
use crate::nids;
use crate::prefix::Prefix;
use crate::router::{self, Target};

/// Functions of a chain, second places not counted.
const MOST: usize = 4;

/// A chain with at least one pair.
pub(crate) fn chain(seed: u64) -> Vec<Spec> {
    let mut draw = Draw::new(seed);
    loop {
        let specs = maybe(&mut draw, false);
        if specs.iter().any(|spec| matches!(spec.naive, Naive::First(_))) {
            return specs;
        }
    }
}

/// The same, mostly with gateways at two places or translators at two, and with sensors that
/// refuse packets.
pub(crate) fn guarded_chain(seed: u64) -> Vec<Spec> {
    let mut draw = Draw::new(seed);
    loop {
        let mut specs = maybe(&mut draw, true);
        nids::draw::refuse(&mut draw, &mut specs);
        if specs.iter().any(|spec| matches!(spec.naive, Naive::First(_))) {
            return specs;
        }
    }
}

fn maybe(draw: &mut Draw, is_guarded: bool) -> Vec<Spec> {
    let len = 1 + draw.below(MOST);
    let (mut specs, mut open, mut made) = (Vec::new(), Vec::new(), 0);
    while made < len || !open.is_empty() {
        let ends = made == len || draw.percent(35);
        if ends && let Some(first) = open.pop() {
            specs.push(second(&specs, first));
            continue;
        }
        let place = specs.len();
        // Mostly a router answers between the places.
        let mut next = match open.is_empty() {
            false if is_routed(&specs, &open) && draw.percent(60) => wrapping(draw, place, &specs),
            false if draw.percent(50) => answering(draw, place),
            true if draw.percent(40) => nat(draw),
            _ => spec(draw, place, &specs, false),
        };
        if is_guarded && draw.percent(50) {
            next = match open.is_empty() {
                true => guard(draw, place),
                false => nids::draw::nids(draw, place),
            };
        }
        if matches!(next.naive, Naive::Ipcomp(_)) && draw.percent(50) {
            next = ipcomp::draw::both(draw);
        }
        if matches!(next.naive, Naive::Router(_)) && draw.percent(40) {
            next = marking(draw, place);
        }
        let may_pair = match &next.naive {
            Naive::Nat(_) | Naive::Balancer(_) => draw.percent(50),
            Naive::Ipsec(_) => is_guarded && draw.percent(70),
            Naive::Router(config) => config.icmp.is_none() && config.neighbours.is_some(),
            Naive::Ipcomp(end) => matches!(end, ipcomp::End::Both(_)),
            _ => false,
        };
        if may_pair {
            next.naive = Naive::First(Box::new(next.naive));
            open.push(place);
        }
        specs.push(next);
        made += 1;
    }
    keep_together(&mut specs);
    flows::draw::divide(&mut specs);
    specs
}

/// A function that hides one side from the other.
fn guard(draw: &mut Draw, place: usize) -> Spec {
    match draw.below(5) {
        0..3 => ipsec::draw::both_ways(draw, place),
        3 => ipsec::draw::gateway(draw, place),
        _ => nat(draw),
    }
}

/// A router whose Ethernet addresses show the route that a packet took.
fn marking(draw: &mut Draw, place: usize) -> Spec {
    let hops = [1, 2, 3].map(|host| (address(4, [192, 0, 2], host), [2, 0, 0, 0, 9, host as u8]));
    let mut routes = Vec::new();
    for version in [4, 6, 4, 6, 4, 6, 4] {
        routes.push((draw.prefix(version), Target::Via(draw.of(&hops).0)));
    }
    // Tunnels lead to these networks.
    for (text, len) in [("172.16.0.0", 12), ("203.0.113.192", 26), ("2001:db8:cb00:71::", 64)] {
        let to = Prefix::of(text.parse().expect("an address"), len);
        let target =
            if draw.percent(80) { Target::Via(draw.of(&hops).0) } else { Target::Blackhole };
        routes.push((to, target));
    }
    for any in ["0.0.0.0", "::"] {
        routes.push((Prefix::of(any.parse().expect("an address"), 0), Target::Via(hops[0].0)));
    }
    let mut seen = BTreeSet::new();
    routes.retain(|(prefix, _)| seen.insert(*prefix));
    let neighbours = Some(([2, 0, 0, 0, 9, 9], hops.to_vec()));
    router_spec(router::Config { routes, neighbours, ..router::Config::default() }, place)
}

/// Whether the innermost open pair is a router, whose second place asks for outer headers.
fn is_routed(specs: &[Spec], open: &[usize]) -> bool {
    open.last().is_some_and(|&first| matches!(specs[first].naive.whole(), Naive::Router(_)))
}

/// A gateway, or mostly a balancer that tunnels.
fn wrapping(draw: &mut Draw, place: usize, before: &[Spec]) -> Spec {
    if draw.percent(40) {
        return ipsec::draw::gateway(draw, place);
    }
    let rewritten = before.iter().any(Spec::moves_addresses);
    let mut drawn = load_balancer(draw, place, rewritten);
    for _ in 0..8 {
        if drawn.tunnels() {
            break;
        }
        drawn = load_balancer(draw, place, rewritten);
    }
    drawn
}

/// A router that mostly lets everything through that doesn't expire.
fn answering(draw: &mut Draw, place: usize) -> Spec {
    let spec = router(draw, place, false);
    let Naive::Router(mut config) = spec.naive.clone() else { return spec };
    if draw.percent(30) {
        return spec;
    }
    for any in ["0.0.0.0", "::"] {
        let any = Prefix::of(any.parse().expect("an address"), 0);
        config.routes.retain(|route| route.0 != any);
        config.routes.push((any, Target::Direct));
    }
    config.neighbours = None;
    let (v4, v6) = ("192.0.2.254".parse(), "2001:db8::fe".parse());
    config.icmp = Some((v4.ok(), v6.ok()));
    router_spec(config, place)
}

fn second(specs: &[Spec], first: usize) -> Spec {
    let own = &specs[first];
    let naive = Naive::Second(first, Box::new(own.naive.whole().clone()));
    Spec { naive, ..own.clone() }
}
