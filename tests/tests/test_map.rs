//! `docs/test-map.md` names tests that exist.

use std::fs;
use std::path::Path;

/// Where the prefixes of the map point.
const FOLDERS: [(&str, &str); 5] = [
    ("python/", "tests/python/"),
    ("js/", "tests/js/"),
    ("rust/", "tests/tests/"),
    ("partition/", "crates/engine/src/partition/tests/"),
    ("daemon/", "crates/peeklock/tests/daemon/"),
];

#[test]
fn every_test_of_the_map_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let map = fs::read_to_string(root.join("docs/test-map.md")).unwrap();
    let references: Vec<(&str, &str)> = map.split('`').filter_map(|code| code.split_once("::")).collect();
    assert!(references.len() > 100, "only {} references", references.len());
    let missing: Vec<String> = references
        .into_iter()
        .filter(|(file, _)| file.contains('/'))
        .filter(|(file, test)| {
            let (prefix, folder) =
                FOLDERS.iter().find(|(prefix, _)| file.starts_with(prefix)).expect("a known prefix");
            let path = root.join(folder).join(&file[prefix.len()..]);
            !fs::read_to_string(path).is_ok_and(|text| text.contains(test))
        })
        .map(|(file, test)| format!("{file}::{test}"))
        .collect();
    assert!(missing.is_empty(), "the map names what does not exist: {missing:#?}");
}
