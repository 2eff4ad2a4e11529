//! Random chains in which translators and balancers stand at two places, one pair within another or
//! after it.

use crate::chains::{Naive, Spec, keep_together, nat, router, router_spec, spec};
use crate::draw::Draw;
use crate::flows;
use crate::prefix::Prefix;
use crate::router::Target;

/// Functions of a chain, second places not counted.
const MOST: usize = 4;

/// A chain with at least one pair.
pub(crate) fn chain(seed: u64) -> Vec<Spec> {
    let mut draw = Draw::new(seed);
    loop {
        let specs = maybe(&mut draw);
        if specs.iter().any(|spec| matches!(spec.naive, Naive::First(_))) {
            return specs;
        }
    }
}

fn maybe(draw: &mut Draw) -> Vec<Spec> {
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
            false if draw.percent(50) => answering(draw, place),
            true if draw.percent(40) => nat(draw),
            _ => spec(draw, place, &specs, false),
        };
        if matches!(next.naive, Naive::Nat(_) | Naive::Balancer(_)) && draw.percent(50) {
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
