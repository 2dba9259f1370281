//! Requests to the Atom API, the messaging API and the management API in JSON, with an engine in memory behind them.
#![no_main]

#[path = "../../crates/console/tests/corpus/exercise.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|input: &[u8]| exercise::exercise(input));
