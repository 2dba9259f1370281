//! A JMS selector.
#![no_main]

#[path = "../../crates/rules/tests/corpus/selector.rs"]
mod selector;

libfuzzer_sys::fuzz_target!(|input: &[u8]| selector::exercise(input));
