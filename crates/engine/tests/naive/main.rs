//! The naive chain: one packet at a time through functions written from RFCs and manuals, in maps,
//! with no batch, shard, lane or arena, and none of the crates' code for packets. Random chains of
//! it and of the engine's functions have to agree over random traffic: the same packets in the same
//! order, the same drops by function and reason, the same counts.
//!
//! A manual leaves some choices to the function, such as a port or a backend. They are taken from
//! the engine's packets and checked against the manual.
//!
//! `NAIVE_CASES` sets the number of cases. `NAIVE_SEED` sets the first seed, or takes it from the
//! clock (`clock`); a failure shows its own. The defaults are the same everywhere, so a rare
//! disagreement appears only in a run that searches for it.

#[path = "../common/mod.rs"]
mod common;

mod answers;
mod balanced;
mod balancer;
mod binding;
mod bindings;
mod build;
mod chains;
mod chains_balancer;
mod chains_firewall;
mod chains_pairs;
mod compare;
mod connections;
mod digest;
mod draw;
mod engine;
mod firewall;
mod flows;
mod function;
mod hairpin_traffic;
mod hairpins;
mod ipcomp;
mod ipsec;
mod leaks;
mod nat;
mod nat_packets;
mod nat_rules;
mod nids;
mod odd;
mod placement;
mod prefix;
mod quote;
mod rewrite;
mod router;
mod router_checks;
mod router_errors;
mod routes;
mod rules;
mod second;
mod sums;
mod traffic;
mod tunnel;
mod waiting;
mod wire;

use warpline_engine::sys::HugeAlloc;

/// As in the program. Tables of routes and arenas are large.
#[global_allocator]
static ALLOCATOR: HugeAlloc = HugeAlloc;

use std::time::{SystemTime, UNIX_EPOCH};

use compare::{Case, Met};

const CASES: u64 = 30;
const SEED: u64 = 7_001_000;
/// The first of cases with routes.
const ROUTED_SEED: u64 = 7_003_000;
/// Fewer cases than of others: each is run more often.
const RULED_CASES: u64 = 12;
/// The first of cases with files of rules.
const RULED_SEED: u64 = 7_004_000;
/// The first of cases with functions at two places.
const PAIRED_SEED: u64 = 7_002_000;
/// The first of cases with gateways at two places, and packets that are refused.
const GUARDED_SEED: u64 = 7_005_100;

fn asked(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

#[test]
fn the_engine_does_what_the_naive_chain_does() {
    let met = check_all(SEED, Case::new);
    enough("launches", met.launches, 75);
}

/// With functions at two places, which answers to translated packets, expired ones and errors meet.
#[test]
fn two_places_do_what_the_naive_chain_does() {
    let met = check_all(PAIRED_SEED, Case::paired);
    enough("launches", met.launches, 75);
    enough("answers to the outside", met.answers_to_outside, 3);
}

/// With gateways that open at the first place and seal at the second, and sensors that refuse
/// packets.
#[test]
fn guarded_places_do_what_the_naive_chain_does() {
    let met = check_all(GUARDED_SEED, Case::guarded);
    enough("launches", met.launches, 75);
    enough("sealed answers", met.sealed_answers, 1);
    enough("hairpins", met.hairpins, 10);
}

/// With routes, by which packets skip functions.
#[test]
fn routes_do_what_the_naive_chain_does() {
    let mut built = 0;
    for seed in seeds(ROUTED_SEED) {
        for case in [Case::new(seed), Case::paired(seed), Case::guarded(seed)] {
            let case = case.routed(seed);
            built += u64::from(case.has_chain());
            check(case, seed);
        }
    }
    enough("cases with a chain", built, 3 * CASES / 4);
}

/// With files of rules: who is translated, and forwarded ports.
#[test]
fn files_of_rules_do_what_the_naive_chain_does() {
    for seed in seeds_of(RULED_SEED, RULED_CASES) {
        for case in [Case::new(seed), Case::paired(seed), Case::guarded(seed)] {
            if case.has_rules() {
                check(case.ruled(seed), seed);
            }
        }
    }
}

/// Checks the cases from seed `first` on.
fn check_all(first: u64, case: fn(u64) -> Case) -> Met {
    let mut met = Met::default();
    for seed in seeds(first) {
        check_with(case(seed), seed, &mut met);
    }
    met
}

/// Of `what` there is as much as among the usual number of cases, of which at least `least`.
fn enough(what: &str, found: u64, least: u64) {
    let cases = seeds(0).count() as u64;
    let is_search = cases >= CASES;
    assert!(!is_search || found * CASES > least * cases, "{found} {what} in {cases} cases");
}

fn check(case: Case, seed: u64) {
    check_with(case, seed, &mut Met::default());
}

fn check_with(case: Case, seed: u64, met: &mut Met) {
    if let Some(what) = case.disagreement_with(met) {
        let (small, what) = case.shrunk(what);
        panic!("NAIVE_SEED={seed} shows it again\n{small}{what}");
    }
}

fn seeds(first: u64) -> impl Iterator<Item = u64> {
    seeds_of(first, CASES)
}

fn seeds_of(first: u64, cases: u64) -> impl Iterator<Item = u64> {
    let clock =
        || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let is_new = std::env::var("NAIVE_SEED").is_ok_and(|asked| asked == "clock");
    let one = if is_new { None } else { asked("NAIVE_SEED") };
    let seed = if is_new { clock() } else { one.unwrap_or(first) };
    let cases = asked("NAIVE_CASES").unwrap_or(if one.is_some() { 1 } else { cases });
    (0..cases).map(move |case| seed.wrapping_add(case))
}

#[test]
fn former_disagreements_agree() {
    // Packet times after fragments were taken out; a route to a part of fe80::/10.
    for seed in [7_006_004, 880_000_988] {
        assert_eq!(Case::new(seed).disagreement(), None, "NAIVE_SEED={seed}");
    }
    // An error about a packet with a routing header, before a translator; an error about a packet
    // between inside hosts; an error about an echo reply from an outside address to one.
    for seed in [7_001_048, 7_100_005, 1_795_841_345_537_204_525] {
        assert_eq!(Case::paired(seed).disagreement(), None, "two places, NAIVE_SEED={seed}");
    }
    // A rejected packet that the capture cut; resets to both ends, sealed by one SA.
    for seed in [9_100_055, 9_100_074] {
        assert_eq!(Case::guarded(seed).disagreement(), None, "guarded, NAIVE_SEED={seed}");
    }
    // Fragments in packets to a backend.
    let seed = 7_005_145;
    assert_eq!(Case::guarded(seed).disagreement(), None, "guarded, NAIVE_SEED={seed}");
    // A packet that goes past the second of two routers, and leaves by the port of the first one.
    let seed = 1_796_057_336_468_309_490;
    for case in [Case::new(seed), Case::paired(seed), Case::guarded(seed)] {
        assert_eq!(case.routed(seed).disagreement(), None, "routes, NAIVE_SEED={seed}");
    }
    // A sealed IPv6 packet to a backend with an IPv4 address.
    let seed = 1_796_057_749_772_058_452;
    assert_eq!(Case::paired(seed).disagreement(), None, "two places, NAIVE_SEED={seed}");
    // An error about a packet without ports from an outside address to an inside host.
    let seed = 7_003_240;
    let what = Case::paired(seed).routed(seed).disagreement();
    assert_eq!(what, None, "two places and routes, NAIVE_SEED={seed}");
    // A first fragment without a translation, after another one with its identifier.
    let seed = 9_330_027;
    let cases = [Case::new(seed), Case::paired(seed), Case::guarded(seed)];
    for case in cases.into_iter().filter(Case::has_rules) {
        assert_eq!(case.ruled(seed).disagreement(), None, "rules, NAIVE_SEED={seed}");
    }
}
