//! Runs the fuzzing corpus of the target `sql` again.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test crate a panic is a failure")]

#[path = "corpus/exercise.rs"]
mod exercise;

use std::path::Path;

#[test]
fn every_statement_of_the_corpus_is_survived() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sql");
    let mut inputs = 0;
    for file in folder.read_dir().unwrap() {
        let path = file.unwrap().path();
        println!("{}", path.display());
        exercise::exercise(&std::fs::read(path).unwrap());
        inputs += 1;
    }
    assert!(inputs > 0, "the corpus is there");
}
