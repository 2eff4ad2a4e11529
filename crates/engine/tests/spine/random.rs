//! Random chains, packets and dimensions: I1, I2 and I3 hold for all of them.
//!
//! `SPINE_CASES` multiplies the number of cases.

use proptest::prelude::*;
use warpline_engine::Settings;

use crate::common::frames::Traffic;
use crate::common::random::config;
use crate::common::run::{assert_same, run_specs};
use crate::common::{Spec, deploy};

const CASES: u32 = 40;

pub(super) fn cases() -> u32 {
    let factor = std::env::var("SPINE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    CASES.saturating_mul(factor)
}

fn spec() -> impl Strategy<Value = Spec> {
    prop_oneof![
        Just(Spec::Grow),
        Just(Spec::EmitAbsorb),
        (0usize..300, any::<bool>())
            .prop_map(|(bindings, inside)| Spec::NatLike { bindings, inside }),
        (0usize..8).prop_map(|launch| Spec::ThreePhase { launch }),
        (0usize..8).prop_map(|launch| Spec::Replace { launch }),
    ]
}

/// Up to five functions, of which at most two make packets.
fn specs() -> impl Strategy<Value = Vec<Spec>> {
    let few = |specs: &Vec<Spec>| {
        specs.iter().filter(|spec| matches!(spec, Spec::EmitAbsorb)).count() <= 2
    };
    prop::collection::vec(spec(), 0..6).prop_filter("too many packets made", few)
}

pub(super) fn settings() -> impl Strategy<Value = Settings> {
    let batch = prop_oneof![Just(1usize), 2usize..300, Just(1024)];
    (1usize..5, batch, 1usize..9, 1usize..6).prop_map(
        |(lanes, batch_packets, queue_batches, slabs)| Settings {
            lanes,
            batch_packets,
            queue_batches,
            slabs,
            ..Settings::default()
        },
    )
}

fn traffic() -> impl Strategy<Value = Traffic> {
    let payload = prop_oneof![4 => 20usize..1400, 1 => Just(60_000usize)];
    (any::<u64>(), 1usize..200, 0usize..60, payload)
        .prop_map(|(seed, flows, odd, payload)| Traffic::new(seed, flows, odd, payload))
}

proptest! {
    #![proptest_config(config(cases(), 100))]

    #[test]
    fn every_run_of_a_chain_is_the_same(
        specs in specs(),
        (one, other) in (settings(), settings()),
        (mut traffic, count) in (traffic(), 0usize..1500),
    ) {
        let inputs = traffic.take(count);
        prop_assume!(deploy(&specs).chain().multiply() <= 9);
        let reference = run_specs(&specs, Settings { lanes: 1, ..one }, &inputs).summary();
        let run = run_specs(&specs, other, &inputs).summary();
        assert_same(&reference, &run, &format!("{other:?} instead of {one:?}"));
    }
}
