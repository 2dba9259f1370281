//! Settings of tests with random conversations.

use proptest::test_runner::{Config, RngSeed};
use rand::Rng;
use rand::rngs::StdRng;

/// Few conversations on every run, `cases_default` of them, the same ones if there is a `seed_default`; `PROPTEST_CASES`
/// sets more, which differ in each run. A failure says with which `PROPTEST_RNG_SEED` it comes again.
pub(crate) fn config(cases_default: u32, seed_default: Option<u64>) -> Config {
    let asked = Config::default();
    let is_asked = std::env::var_os("PROPTEST_CASES").is_some();
    let cases = if is_asked { asked.cases } else { cases_default };
    let seed = match asked.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => {
            seed_default.filter(|_| !is_asked).unwrap_or_else(|| rand::make_rng::<StdRng>().next_u64())
        }
    };
    eprintln!("PROPTEST_RNG_SEED={seed} PROPTEST_CASES={cases}");
    Config { cases, failure_persistence: None, rng_seed: RngSeed::Fixed(seed), ..asked }
}
