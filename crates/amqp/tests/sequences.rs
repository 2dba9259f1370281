//! Sequences of frames against the endpoint with the dialect and an engine in memory behind it: every input of the
//! corpus, and some random ones.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "in a test crate a panic is a failure"
)]

#[path = "sequences/content.rs"]
mod content;
#[path = "sequences/conversation.rs"]
mod conversation;
mod random;
#[path = "sequences/script.rs"]
mod script;

use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

/// Maximum memory of one conversation in bytes, without its client's input: a namespace, a connection with its buffers,
/// and the partly received deliveries that the limits of the harness allow.
const MEMORY_BYTES_MAX: u64 = 4 << 20;

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Runs a conversation and checks that no task panics, not even a detached one, and that its memory is freed at the
/// end.
fn exercise(input: &[u8]) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            before(info);
        }));
    });
    let memory = allocation_counter::measure(|| conversation::exercise(input));
    assert_eq!(PANICS.load(Ordering::Relaxed), 0, "a task panicked");
    let sent_bytes = 64 * input.len() as u64;
    assert!(memory.bytes_max < MEMORY_BYTES_MAX + sent_bytes, "{} bytes at a time", memory.bytes_max);
}

#[test]
fn every_conversation_of_the_corpus_ends_as_it_should() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sequence");
    let mut inputs = 0;
    for file in folder.read_dir().unwrap() {
        let path = file.unwrap().path();
        println!("{}", path.display());
        exercise(&std::fs::read(&path).unwrap());
        inputs += 1;
    }
    assert!(inputs > 0, "the corpus is there");
}

proptest! {
    #![proptest_config(random::config(64, None))]

    #[test]
    fn any_conversation_ends_as_it_should(
        how in 0_u8..6,
        cut in prop_oneof![Just(0_u8), 1..=255_u8],
        script in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        exercise(&[&[how, cut][..], &script].concat());
    }
}
