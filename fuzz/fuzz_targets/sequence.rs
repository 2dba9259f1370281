//! What a client sends from its first byte to its last, against the endpoint with the dialect and an engine in memory
//! behind it.
#![no_main]

#[path = "../../crates/amqp/tests/sequences/content.rs"]
mod content;
#[path = "../../crates/amqp/tests/sequences/conversation.rs"]
mod conversation;
#[path = "../../crates/amqp/tests/sequences/script.rs"]
mod script;

libfuzzer_sys::fuzz_target!(|input: &[u8]| conversation::exercise(input));
