//! Runs the fuzzing corpus in `fuzz/corpus` again, each input with the function that its target calls. The targets
//! `sequence`, `sql`, `selector`, `http_requests` and `config_json` have such a test in their own crates.

#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test crate a panic is a failure")]

use std::path::Path;

use peeklock_access::exercise as access;
use peeklock_admin::exercise as admin;
use peeklock_wire::exercise as wire;

/// A target, and the function it calls.
type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 11] = [
    ("authorization_header", admin::authorization_header),
    ("description", admin::description),
    ("first_bytes", peeklock_net::exercise),
    ("frame", wire::frame),
    ("json_web_token", access::json_web_token),
    ("message_sections", wire::message_sections),
    ("performative", wire::performative),
    ("stored_file", peeklock_storage::exercise),
    ("stored_record", peeklock_engine::exercise),
    ("token", access::token),
    ("websocket", websocket),
];

const ELSEWHERE: [&str; 5] = ["config_json", "http_requests", "selector", "sequence", "sql"];

fn websocket(input: &[u8]) {
    let Some((split, rest)) = input.split_first() else { return };
    peeklock_net::websocket::exercise_handshake(rest);
    peeklock_net::websocket::exercise(rest, usize::from(*split));
}

#[test]
fn every_input_of_the_corpus_is_survived() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    for folder in corpus.read_dir().unwrap() {
        let folder = folder.unwrap();
        let name = folder.file_name().into_string().unwrap();
        if ELSEWHERE.contains(&&*name) {
            continue;
        }
        let target = TARGETS.iter().find(|(target, _)| *target == name);
        let (_, exercise) = target.unwrap_or_else(|| panic!("{name} is no target"));
        for file in folder.path().read_dir().unwrap() {
            let path = file.unwrap().path();
            println!("{}", path.display());
            exercise(&std::fs::read(path).unwrap());
        }
    }
}

#[test]
fn every_target_has_a_corpus() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    for target in fuzz.join("fuzz_targets").read_dir().unwrap() {
        let path = target.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let inputs = fuzz.join("corpus").join(name).read_dir();
        assert!(inputs.is_ok_and(|mut inputs| inputs.next().is_some()), "{name}");
        assert!(ELSEWHERE.contains(&name) || TARGETS.iter().any(|(target, _)| *target == name), "{name}");
    }
}
