//! Reads the inputs that fuzzing found: the corpus of the target `config_json`.

use super::*;
use crate::config::{load, to_toml};

#[test]
fn every_file_of_the_corpus_is_read_or_refused_and_the_same_in_toml() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/config_json");
    let folder = tempfile::tempdir().unwrap();
    let (json, toml) = (folder.path().join("Config.json"), folder.path().join("peeklock.toml"));
    let mut inputs = 0;
    for file in corpus.read_dir().unwrap() {
        let path = file.unwrap().path();
        println!("{}", path.display());
        std::fs::copy(&path, &json).unwrap();
        inputs += 1;
        let Ok(read) = load(&json) else { continue };
        let text = to_toml(&read);
        std::fs::write(&toml, &text).unwrap();
        let again = load(&toml).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(to_toml(&again), text);
    }
    assert!(inputs > 0, "the corpus is there");
}
