//! What is put to `$cbs`: a shared access signature, or anything else.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| peeklock_access::exercise::token(input));
