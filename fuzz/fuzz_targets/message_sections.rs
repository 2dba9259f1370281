//! A message.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| peeklock_wire::exercise::message_sections(input));
