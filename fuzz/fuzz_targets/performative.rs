//! A frame body.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| peeklock_wire::exercise::performative(input));
