//! Runs the fuzzing corpora of the targets `sql` and `selector` again.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test crate a panic is a failure")]

#[path = "corpus/exercise.rs"]
mod exercise;
#[path = "corpus/selector.rs"]
mod selector;

use std::path::{Path, PathBuf};

/// The inputs of a target.
fn inputs(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let inputs: Vec<_> = folder.read_dir().unwrap().map(|file| file.unwrap().path()).collect();
    assert!(!inputs.is_empty(), "the corpus is there");
    inputs
}

#[test]
fn every_statement_of_the_corpus_is_survived() {
    for path in inputs("sql") {
        println!("{}", path.display());
        exercise::exercise(&std::fs::read(&path).unwrap());
    }
}

#[test]
fn every_selector_of_the_corpus_is_survived() {
    for path in inputs("selector") {
        println!("{}", path.display());
        selector::exercise(&std::fs::read(&path).unwrap());
    }
}
