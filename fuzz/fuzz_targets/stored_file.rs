//! A hint, a manifest, or a record of the replicated log, behind a byte that selects which, without its checksum.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| peeklock_storage::exercise(input));
