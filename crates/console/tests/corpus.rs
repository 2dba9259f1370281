//! Runs the fuzzing corpus of the target `http_requests` again.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "in a test crate a panic is a failure"
)]

#[path = "corpus/exercise.rs"]
mod exercise;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

static PANICS: AtomicUsize = AtomicUsize::new(0);

#[test]
fn every_request_of_the_corpus_is_answered() {
    // Panics in detached tasks count as well.
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        before(info);
    }));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/http_requests");
    let mut inputs = 0;
    for file in folder.read_dir().unwrap() {
        let path = file.unwrap().path();
        println!("{}", path.display());
        exercise::exercise(&std::fs::read(&path).unwrap());
        assert_eq!(PANICS.load(Ordering::Relaxed), 0, "a task panicked");
        inputs += 1;
    }
    assert!(inputs > 0, "the corpus is there");
}
