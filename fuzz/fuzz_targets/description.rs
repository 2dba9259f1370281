//! The body of a request of the management API.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| peeklock_admin::exercise::description(input));
