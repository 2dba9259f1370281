//! The value of an `Authorization` header.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| peeklock_admin::exercise::authorization_header(input));
