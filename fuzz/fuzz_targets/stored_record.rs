//! A record of the engine in the store, behind a byte that selects its kind.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| peeklock_engine::exercise(input));
