//! A JSON web token, its header and claims, and a set of keys.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| peeklock_access::exercise::json_web_token(input));
