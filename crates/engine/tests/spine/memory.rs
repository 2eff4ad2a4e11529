//! The memory of a lane: room for the worst case that stages may use, for any chain. It does not
//! grow with everything that might be under way.

use std::sync::Arc;

use proptest::prelude::*;
use warpline_engine::{Chain, Deployment, Instance, LANE_LEN_MAX, Place, Settings, Site};
use warpline_nf::{Emits, Function};
use warpline_packet::{Access, Batch};

use super::random::cases;
use crate::common::DEFINITION;
use crate::common::random::config;

/// Makes nothing, and declares that it may make so much.
struct Says(Access, Emits);

impl Function for Says {
    fn access(&self) -> &Access {
        &self.0
    }
    fn run(&self, _: &mut Batch) {}
    fn emits(&self) -> Emits {
        self.1
    }
}

/// A chain of functions that declare these, each with the batches of its launches; 0 for one that
/// is fused with its neighbours.
fn deploy(functions: &[(Emits, usize)], words: usize) -> Option<Deployment> {
    let instances = functions.iter().enumerate().map(|(place, &(emits, _))| Instance {
        name: format!("{place}"),
        definition: &DEFINITION,
        function: Arc::new(Says(Access::default(), emits)),
        fingerprint: 0,
        place: Place::Only,
    });
    let chain = Chain::new("says", instances.collect(), words).ok()?;
    let sites = functions.iter().map(|&(_, launch)| Site {
        own_stage: launch > 0,
        launch_batches: launch.max(1),
        ..Site::default()
    });
    Some(Deployment::new(Arc::new(chain), sites.collect()))
}

fn emits() -> impl Strategy<Value = Emits> {
    let made = prop_oneof![3 => Just(0usize), 1 => 1usize..4, 1 => Just(15)];
    let made = made.prop_flat_map(|made| (Just(made), 0..=made));
    let replaced = prop_oneof![2 => Just(0usize), 1 => 576usize..70_000];
    let notes = prop_oneof![2 => Just((0usize, 0usize)), 1 => (1usize..16, 1usize..2300)];
    (made, 64usize..70_000, notes, 0usize..9, replaced).prop_map(
        |(made, len_max, (notes_per_packet, note_len_max), findings, replaced)| Emits {
            per_packet: made.0,
            forward_per_packet: made.1,
            len_max,
            notes_per_packet,
            note_len_max,
            findings_per_packet: findings,
            replace_len_max: replaced,
        },
    )
}

fn asked() -> impl Strategy<Value = Settings> {
    (1usize..65, 1usize..1025, 1usize..1025, 1usize..2049).prop_map(
        |(lanes, batch_packets, queue_batches, slabs)| Settings {
            lanes,
            batch_packets,
            queue_batches,
            slabs,
            ..Settings::default()
        },
    )
}

proptest! {
    #![proptest_config(config(20 * cases(), 200))]

    /// Any chain of up to eight functions, whatever they may make: what it takes besides what was
    /// asked for is bounded, and it can be laid out.
    #[test]
    fn a_lane_takes_a_bounded_number_of_packets(
        functions in prop::collection::vec((emits(), 0usize..65), 0..9),
        words in 0usize..17,
        asked in asked(),
    ) {
        let Some(deployment) = deploy(&functions, words) else { return Ok(()) };
        let settings = asked.fit(&deployment);
        let need = settings.memory(&deployment);
        prop_assert!(settings.batch_packets >= 1 && settings.batch_packets <= asked.batch_packets);
        prop_assert!(settings.batch_packets >= asked.batch_packets.min(16), "{settings:?}");
        prop_assert_eq!(need.packets, asked.slabs.max(2) << 20);
        // Two heaps of batches of half a GiB each; what is placed has its worst case, once for each
        // stage.
        let is_least = settings.batch_packets <= 16;
        prop_assert!(need.batches + need.notes <= 1 << 30 || is_least, "{}", need);
        prop_assert!(need.made <= 1 << 30 || is_least, "{}", need);
        prop_assert!(!need.fits() || settings.arena(&deployment).memory_len() <= LANE_LEN_MAX);
        prop_assert_eq!(settings.fit(&deployment), settings, "what fits is not fitted again");
    }
}

/// Packets sent back don't multiply: rows and rooms are a sum along the chain.
#[test]
fn answers_are_accounted_for() {
    let settings = Settings::default();
    let of = |each: Emits, count: usize| {
        let deployment = deploy(&vec![(each, 0); count], 0).expect("a chain");
        let fitted = settings.fit(&deployment);
        assert_eq!(fitted.batch_packets, 256);
        (fitted.slots(deployment.chain()), fitted.memory(&deployment).made)
    };
    for count in 0..=15 {
        assert_eq!(of(Emits::answers(1, 700), count).0, 256 * (1 + count));
    }
    assert_eq!(of(Emits::packets(1, 700), 4).0, 256 * 16);
    let (answers, packets) = (of(Emits::answers(1, 700), 4).1, of(Emits::packets(1, 700), 4).1);
    assert!(2 * answers <= packets, "{answers} {packets}");
}

/// The usual is as it was asked for.
#[test]
fn chains_that_make_little_get_what_was_asked_for() {
    let icmp = Emits::packets(1, 700);
    let longer = Emits { replace_len_max: 2080, ..Emits::NONE };
    for functions in [&[][..], &[(Emits::NONE, 0); 5], &[(icmp, 0), (longer, 0), (icmp, 4)]] {
        let deployment = deploy(functions, 8).expect("a chain");
        for batch_packets in [1, 256, 1024] {
            let settings = Settings { batch_packets, ..Settings::default() };
            let fitted = settings.fit(&deployment);
            assert_eq!((fitted.batch_packets, fitted.slabs), (batch_packets, 48));
            assert!(fitted.memory(&deployment).made <= 256 << 20, "{}", fitted.memory(&deployment));
        }
    }
}
