//! Seeds of random tests: a failure shows its seed, and the seed draws the same again.

use std::time::{SystemTime, UNIX_EPOCH};

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// This many cases, from the seed in `PROPTEST_RNG_SEED` or a new one each time. A failing test
/// prints its seed.
pub(crate) fn config(cases: u32, max_shrink_iters: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let seed = match default.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            since.as_nanos() as u64 ^ u64::from(std::process::id()) << 32
        }
    };
    #[allow(clippy::print_stderr, reason = "a test that fails shows it")]
    let () = eprintln!("PROPTEST_RNG_SEED={seed} draws these cases again");
    let rng_seed = RngSeed::Fixed(seed);
    ProptestConfig { cases, max_shrink_iters, rng_seed, failure_persistence: None, ..default }
}
