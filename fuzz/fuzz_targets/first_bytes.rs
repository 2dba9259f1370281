//! What a peer sends first, before anything is known about it.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| peeklock_net::exercise(input));
