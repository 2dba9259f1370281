//! A filter or an action in SQL, behind a byte that says which.
#![no_main]

#[path = "../../crates/rules/tests/corpus/exercise.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|input: &[u8]| exercise::exercise(input));
