//! Settings of tests with random conversations.

use proptest::test_runner::{Config, RngSeed};
use rand::Rng;
use rand::rngs::StdRng;

/// Few conversations on every run, `cases_default` of them; `PROPTEST_CASES` sets more. A failure says with which
/// `PROPTEST_RNG_SEED` it comes again.
pub(crate) fn config(cases_default: u32) -> Config {
    let asked = Config::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { cases_default };
    let seed = match asked.rng_seed {
        RngSeed::Random => rand::make_rng::<StdRng>().next_u64(),
        RngSeed::Fixed(seed) => seed,
    };
    eprintln!("PROPTEST_RNG_SEED={seed} PROPTEST_CASES={cases}");
    Config { cases, failure_persistence: None, rng_seed: RngSeed::Fixed(seed), ..asked }
}
