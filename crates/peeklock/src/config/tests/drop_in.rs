//! The emulator's file and variables together with a file in TOML, flags and variables.

use std::fs;

use tempfile::TempDir;

use super::*;
use crate::config::args::EmulatorArgs;

const JSON: &str = r#"{"UserConfig": {"Namespaces": [{"Name": "ns", "Queues": [{"Name": "orders", "Properties": {"Odd": 1}}]}]}}"#;

fn variables() -> EmulatorArgs {
    EmulatorArgs { accept_eula: Some("Y".into()), sql_server: Some("sql".into()), ..EmulatorArgs::default() }
}

fn names(config: &Config) -> Vec<&str> {
    let queues = config.queues.iter().map(|queue| queue.name.as_str());
    queues.chain(config.topics.iter().map(|topic| topic.name.as_str())).collect()
}

/// A directory with both files, and arguments that name them.
fn both(toml: &str, json: &str) -> (TempDir, ServeArgs) {
    let directory = TempDir::new().unwrap();
    let (config, emulators) = (directory.path().join("p.toml"), directory.path().join("Config.json"));
    fs::write(&config, toml).unwrap();
    fs::write(&emulators, json).unwrap();
    let emulator = EmulatorArgs { emulator_config: Some(emulators), ..EmulatorArgs::default() };
    (directory, ServeArgs { config: Some(config), emulator, ..ServeArgs::default() })
}

#[test]
fn the_emulators_file_declares_entities_beside_those_of_the_other() {
    let (_directory, args) = both("[log]\nlevel = \"warn\"\n[[queues]]\nname = \"own\"\n", JSON);
    let config = Config::resolve(args).unwrap();
    assert_eq!(names(&config), ["own", "orders"]);
    assert_eq!(
        (config.namespace.name.as_deref(), config.replaces_emulator, config.undeclared),
        (Some("ns"), true, false)
    );
    assert_eq!(config.log_filter.to_string(), "warn");
    assert!(
        config.notes[0].ends_with("Config.json:1:92: queue \"orders\": Odd is unknown and has no effect"),
        "{:?}",
        config.notes
    );
}

#[test]
fn entities_declared_in_both_files_are_refused() {
    let (_directory, args) = both("[[topics]]\nname = \"ORDERS\"\n", JSON);
    let error = Config::resolve(args).unwrap_err().to_string();
    assert_eq!(error, "both configuration files declare \"orders\"; remove it from one");
}

#[test]
fn its_mistakes_are_named_with_the_file() {
    let (_directory, args) = both("", "{}");
    let error = Config::resolve(args).unwrap_err().to_string();
    assert!(error.contains("Config.json:1:1: UserConfig: missing"), "{error}");
    let emulator = EmulatorArgs { emulator_config: Some("/nowhere".into()), ..EmulatorArgs::default() };
    let error = Config::resolve(ServeArgs { emulator, ..ServeArgs::default() }).unwrap_err().to_string();
    assert!(error.starts_with("/nowhere:1:1: can't be read:"), "{error}");
}

#[test]
fn a_file_that_ends_with_json_is_the_emulators() {
    let (directory, _) = both("", JSON);
    let args = ServeArgs { config: Some(directory.path().join("Config.json")), ..ServeArgs::default() };
    let config = Config::resolve(args).unwrap();
    assert_eq!((names(&config), config.replaces_emulator), (vec!["orders"], true));
}

#[test]
fn with_the_emulators_variables_and_nothing_else_there_is_its_sample() {
    let config = Config::resolve(ServeArgs { emulator: variables(), ..ServeArgs::default() }).unwrap();
    assert_eq!((names(&config), config.replaces_emulator), (vec!["queue.1", "topic.1"], true));
    let queues = vec!["mine".to_owned()];
    let config =
        Config::resolve(ServeArgs { emulator: variables(), queues, ..ServeArgs::default() }).unwrap();
    assert_eq!((names(&config).len(), config.replaces_emulator), (0, true));
    let config = Config::resolve(ServeArgs::default()).unwrap();
    assert!(!config.replaces_emulator && config.undeclared);
}

#[test]
fn the_emulators_port_beats_the_port_of_the_http_address() {
    let emulator = EmulatorArgs { emulator_http_port: Some(81), ..EmulatorArgs::default() };
    let http = Some("0.0.0.0:5300".parse().unwrap());
    let config = Config::resolve(ServeArgs {
        emulator: emulator.clone(),
        http,
        allow_default_key: Some(true),
        ..ServeArgs::default()
    })
    .unwrap();
    assert_eq!(config.http_listen.to_string(), "0.0.0.0:81");
    let config = Config::resolve(ServeArgs { emulator, ..ServeArgs::default() }).unwrap();
    assert_eq!(config.http_listen.to_string(), "127.0.0.1:81");
}
