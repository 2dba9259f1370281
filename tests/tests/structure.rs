//! Checks of the rules in ARCHITECTURE.md: dependencies between crates, words that a part may not use, file sizes, lints.

#![cfg(test)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// The crates that each crate may depend on, except in tests.
const DEPENDENCIES: [(&str, &[&str]); 21] = [
    ("peeklock-budget", &[]),
    ("peeklock-connections", &[]),
    ("peeklock-memcopy", &[]),
    ("peeklock-metrics", &[]),
    ("peeklock-storage", &["peeklock-metrics"]),
    ("peeklock-cluster", &["peeklock-storage"]),
    ("peeklock-postgres", &["peeklock-cluster", "peeklock-metrics", "peeklock-storage"]),
    ("peeklock-rules", &[]),
    ("peeklock-engine", &["peeklock-budget", "peeklock-metrics", "peeklock-rules", "peeklock-storage"]),
    ("peeklock-access", &["peeklock-engine", "peeklock-metrics"]),
    ("peeklock-errors", &["peeklock-access", "peeklock-engine"]),
    ("peeklock-wire", &[]),
    ("peeklock-message", &["peeklock-engine", "peeklock-wire"]),
    (
        "peeklock-amqp",
        &[
            "peeklock-access",
            "peeklock-budget",
            "peeklock-connections",
            "peeklock-engine",
            "peeklock-errors",
            "peeklock-message",
            "peeklock-metrics",
            "peeklock-wire",
        ],
    ),
    (
        "peeklock-admin",
        &[
            "peeklock-access",
            "peeklock-budget",
            "peeklock-engine",
            "peeklock-errors",
            "peeklock-message",
            "peeklock-wire",
        ],
    ),
    (
        "peeklock-console",
        &[
            "peeklock-access",
            "peeklock-admin",
            "peeklock-budget",
            "peeklock-connections",
            "peeklock-engine",
            "peeklock-errors",
            "peeklock-message",
            "peeklock-wire",
        ],
    ),
    (
        "peeklock-client",
        &["peeklock-admin", "peeklock-amqp", "peeklock-engine", "peeklock-message", "peeklock-wire"],
    ),
    ("peeklock-net", &[]),
    (
        "peeklock",
        &[
            "peeklock-access",
            "peeklock-admin",
            "peeklock-amqp",
            "peeklock-budget",
            "peeklock-cluster",
            "peeklock-connections",
            "peeklock-console",
            "peeklock-client",
            "peeklock-engine",
            "peeklock-errors",
            "peeklock-memcopy",
            "peeklock-message",
            "peeklock-metrics",
            "peeklock-net",
            "peeklock-postgres",
            "peeklock-storage",
            "peeklock-wire",
        ],
    ),
    ("peeklock-instructions", &[]),
    ("peeklock-tests", &["peeklock-amqp", "peeklock-engine", "peeklock-storage"]),
];

/// Words that may not appear under a path, except in tests.
const FORBIDDEN_WORDS: [(&str, &[&str]); 18] = [
    ("crates/budget/src", &["peeklock_", "tokio", "std::net", "std::fs", "std::time"]),
    ("crates/connections/src", &["peeklock_", "std::net::Tcp", "std::fs", "std::time::Instant"]),
    ("crates/memcopy/src", &["peeklock_", "std::", "alloc::"]),
    ("crates/metrics/src", &["peeklock_engine", "peeklock_storage", "tokio", "std::net", "std::fs"]),
    ("crates/rules/src", &["peeklock_", "tokio", "std::net", "std::fs", "std::time", "rand::", "serde"]),
    ("crates/engine/src/partition", &["tokio", "std::fs", "std::time", "serde", "postcard", "prost"]),
    ("crates/engine/src/options", &["serde", "postcard", "prost"]),
    ("crates/engine/src", &["std::net", "amqp::"]),
    ("crates/errors/src", &["tokio", "std::net", "std::fs", "std::time"]),
    ("crates/storage/src", &["peeklock_budget", "peeklock_engine", "peeklock_message", "peeklock_wire"]),
    (
        "crates/storage/src/cluster",
        &[
            "std::fs",
            "std::net",
            "Instant",
            "SystemTime",
            "thread::spawn",
            "thread::sleep",
            "tokio::time",
            "tokio::spawn",
        ],
    ),
    (
        "crates/postgres/src",
        // A cancel would end the wait for a standby, and the commit would be answered without it.
        &["cancel_token", "cancel_query", "peeklock_engine", "peeklock_message", "std::fs", "SystemTime"],
    ),
    ("crates/wire/src", &["tokio", "peeklock_", "std::net", "std::fs"]),
    ("crates/net/src", &["peeklock_", "axum", "hyper"]),
    ("crates/client/src", &["servicebus::", "server::", "runtime::", "partition::"]),
    ("crates/message/src", &["tokio", "std::net", "std::fs", "std::time"]),
    ("crates/amqp/src/endpoint", &["tokio", "peeklock_engine", "crate::servicebus", "crate::server"]),
    ("crates/amqp/src/servicebus", &["tokio::net", "std::net::Tcp"]),
];

const LINES_MAX: usize = 400;

/// Files beyond [`LINES_MAX`], each with its reason.
const LONG_FILES: [(&str, &str); 0] = [];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace exists")
}

/// All Rust source files under a folder: path from the root, and text.
fn sources(folder: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() && !path.ends_with("node_modules") && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).expect("inside the root").display().to_string();
                found.insert(name, fs::read_to_string(&path).expect("UTF-8"));
            }
        }
    }
    assert!(!found.is_empty(), "{folder} holds no source");
    found
}

fn is_test(name: &str) -> bool {
    name.contains("/tests/") || name.contains("/benches/") || name.ends_with("tests.rs")
}

/// The text before the first test module, without comments.
fn code(text: &str) -> String {
    let body = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    body.lines().map(|line| line.split("//").next().unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn dependencies_between_crates_point_one_way() {
    let metadata =
        MetadataCommand::new().manifest_path(root().join("Cargo.toml")).no_deps().exec().expect("metadata");
    assert_eq!(
        metadata.workspace_packages().len(),
        DEPENDENCIES.len(),
        "a new crate needs its dependencies here"
    );
    for package in metadata.workspace_packages() {
        let name = package.name.as_str();
        let (_, allowed) = DEPENDENCIES.iter().find(|(known, _)| *known == name).expect("a known crate");
        for dependency in package.dependencies.iter().filter(|d| d.kind == DependencyKind::Normal) {
            let ours = dependency.name.starts_with("peeklock");
            assert!(!ours || allowed.contains(&dependency.name.as_str()), "{name} uses {}", dependency.name);
        }
    }
}

#[test]
fn no_part_uses_words_of_another() {
    let mut offences = Vec::new();
    for (folder, words) in FORBIDDEN_WORDS {
        for (name, text) in sources(folder).iter().filter(|(name, _)| !is_test(name)) {
            let code = code(text);
            offences.extend(
                words.iter().filter(|word| code.contains(*word)).map(|word| format!("{name}: {word}")),
            );
        }
    }
    assert_eq!(offences, Vec::<String>::new());
}

#[test]
fn files_are_short_or_have_a_reason() {
    let mut all = sources("crates");
    all.extend(sources("tests"));
    let is_listed = |name: &str| LONG_FILES.iter().any(|(file, _)| *file == name);
    let mut long = Vec::new();
    for (name, text) in &all {
        let lines = text.lines().count();
        if lines > LINES_MAX && !is_listed(name) {
            long.push(format!("{name}: {lines} lines"));
        }
        assert!(lines > LINES_MAX || !is_listed(name), "{name} is short now: take it off the list");
    }
    assert_eq!(long, Vec::<String>::new(), "split them by concern");
    for (file, reason) in LONG_FILES {
        assert!(all.contains_key(file) && !reason.is_empty(), "{file} is listed and gone, or has no reason");
    }
}

/// Every attribute that allows or expects a lint: from its first to its last line.
fn lint_exceptions(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let starts =
        |line: &str| ["#[allow(", "#![allow(", "#[expect("].iter().any(|start| line.starts_with(start));
    let first_lines = lines.iter().enumerate().filter(|(_, line)| starts(line.trim_start()));
    let whole = |first: usize| {
        let length = lines[first..].iter().position(|line| line.contains(")]")).map_or(1, |last| last + 1);
        lines[first..first + length].join(" ")
    };
    first_lines.map(|(first, _)| whole(first)).collect()
}

#[test]
fn an_allowed_lint_has_its_reason_with_it() {
    let mut bare = Vec::new();
    for (name, text) in sources("crates").iter().chain(&sources("tests")) {
        let is_bare = |attribute: &String| !attribute.contains("reason =") && !attribute.contains(")] // ");
        bare.extend(
            lint_exceptions(text).into_iter().filter(is_bare).map(|found| format!("{name}: {found}")),
        );
    }
    assert_eq!(bare, Vec::<String>::new());
}

#[test]
fn nothing_is_left_unfinished() {
    let marks = [concat!("unimplemented", "!("), concat!("todo", "!(")];
    for (name, text) in sources("crates") {
        assert!(!marks.iter().any(|mark| code(&text).contains(mark)), "{name} holds an unfinished body");
    }
}

#[test]
fn every_crate_takes_the_workspace_lints() {
    for folder in [
        "crates/budget",
        "crates/connections",
        "crates/memcopy",
        "crates/storage",
        "crates/engine",
        "crates/wire",
        "crates/amqp",
        "crates/admin",
        "crates/client",
        "crates/net",
        "crates/peeklock",
        "tests",
    ] {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).expect("a manifest");
        assert!(manifest.contains("[lints]\nworkspace = true"), "{folder}");
    }
}

/// A missing case would otherwise be noticed only when a release is made.
#[test]
fn the_profile_of_releases_is_made_of_cases_that_the_benchmark_has() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let script = read("packaging/profiled.sh");
    let listed = script.split_once("\ncases=(").and_then(|(_, rest)| rest.split_once(')')).unwrap().0;
    let cases = read("tests/benches/end_to_end/cases.rs");
    let is_there = |name: &&str| cases.contains(&format!("name: \"{name}\""));
    let (there, missing): (Vec<_>, Vec<_>) = listed.split_whitespace().partition(is_there);
    assert!(there.len() > 5 && missing.is_empty(), "{missing:?}");
}
