//! Random chains of the functions of the program over random conversations: I1, I2 and I3 hold for
//! all.
//!
//! `SPINE_CASES` multiplies the number of cases.

use proptest::prelude::*;
use warpline_engine::Settings;

use super::random::{cases, settings};
use crate::common::forms::{FORMS, Form, NARROW};
use crate::common::frames::Input;
use crate::common::random::config;
use crate::common::real::{check_chain, traffic, try_deploy};
use crate::common::run::{assert_same, run_whole};
use crate::common::talk::Talk;

/// Up to six functions in any order, more than once too, as far as there are scratch words; with
/// the batches of their launches, 0 for a function that is fused with its neighbours.
fn chains() -> impl Strategy<Value = (Vec<Form>, Vec<usize>)> {
    let form = (0..FORMS.len() + NARROW.len()).prop_map(|at| FORMS.iter().chain(NARROW).nth(at));
    let form = form.prop_map(|form| *form.expect("a form"));
    let launch = prop_oneof![2 => Just(0usize), 1 => 1usize..8];
    let fits = |(forms, launches): &(Vec<Form>, Vec<usize>)| {
        try_deploy(forms, launches).is_ok_and(|deployment| deployment.chain().multiply() <= 8)
    };
    (prop::collection::vec(form, 1..7), prop::collection::vec(launch, 6))
        .prop_filter("more than a chain holds", fits)
}

/// Conversations, and what is odd about them.
fn talks() -> impl Strategy<Value = (Vec<Input>, u64, usize)> {
    let payload = prop_oneof![8 => 20usize..1400, 1 => Just(30_000usize)];
    (any::<u64>(), 1usize..100, payload, 0usize..600, 0usize..70).prop_map(
        |(seed, talkers, payload, count, odd)| {
            (Talk::new(seed, talkers, payload).take(count), seed, odd)
        },
    )
}

proptest! {
    #![proptest_config(config(2 * cases(), 100))]

    #[test]
    fn every_run_of_a_chain_of_functions_is_the_same(
        (forms, launches) in chains(), settings in settings(), (inputs, seed, odd) in talks(),
    ) {
        let inputs = traffic(&forms, inputs, seed, odd);
        let run = |launches: &[usize], settings| {
            let deployment = try_deploy(&forms, launches).expect("a chain as before");
            run_whole(deployment, settings, &inputs)
        };
        let reference = run(&[], Settings::default());
        check_chain(&forms, &reference);
        let other = run(&launches, settings).summary();
        assert_same(&reference.summary(), &other, &format!("{settings:?}, {launches:?}"));
    }
}
