//! The emulator's Config.json: any text is read or refused, and what is read is the same in TOML.
#![no_main]
// The binary has no library to depend on, and needs none of its own configuration here but the readers.
#![allow(dead_code, unused_imports)]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

#[path = "../../crates/peeklock/src/audit/mod.rs"]
mod audit;
#[path = "../../crates/peeklock/src/config/mod.rs"]
mod config;
#[path = "../../crates/peeklock/src/logging/mod.rs"]
mod logging;

/// Files are what the readers take; these are in memory on most machines.
static FILES: LazyLock<[PathBuf; 2]> = LazyLock::new(|| {
    let folder = PathBuf::from("/dev/shm");
    let folder = if folder.is_dir() { folder } else { std::env::temp_dir() };
    ["json", "toml"].map(|kind| folder.join(format!("peeklock-fuzz-{}.{kind}", std::process::id())))
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let [json, toml] = &*FILES;
    fs::write(json, input).unwrap();
    if let Ok(read) = config::load(json) {
        let text = config::to_toml(&read);
        fs::write(toml, &text).unwrap();
        let again = config::load(toml).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(config::to_toml(&again), text);
    }
});
