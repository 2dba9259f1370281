//! Seeds of randomized tests.

use rand::rngs::{StdRng, SysRng};
use rand::{SeedableRng, TryRng};

/// A generator seeded from `PEEKLOCK_TEST_SEED`, or from a fresh seed; the seed is printed for reuse.
pub fn generator() -> StdRng {
    let seed = match std::env::var("PEEKLOCK_TEST_SEED") {
        Ok(text) => text.parse().expect("PEEKLOCK_TEST_SEED is a number"),
        Err(_) => SysRng.try_next_u64().expect("the system has randomness"),
    };
    println!("PEEKLOCK_TEST_SEED={seed}");
    StdRng::seed_from_u64(seed)
}
