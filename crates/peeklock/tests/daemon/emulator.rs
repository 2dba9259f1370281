//! A daemon that replaces the Service Bus emulator.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::Signal;

use crate::broker::{Home, errors, get, peeklock, run, wait_for, write};

const CONFIG: &str = r#"{
    // As the emulator reads it.
    "UserConfig": {"Namespaces": [{"Name": "sbemulatorns",
        "Queues": [{"Name": "orders", "Properties": {"MaxDeliveryCount": 5, "Odd": true}}],
        "Topics": [{"Name": "news", "Subscriptions": [{"Name": "all"}]}]}]}
}"#;

const UP: &str = "Emulator Service is Successfully Up!";

#[test]
fn its_file_is_declared_and_its_line_is_printed_when_the_broker_is_ready() {
    let home = Home::new();
    write(&home.path("Config.json"), CONFIG);
    let mut command = home.command();
    command.args(["--emulator-config", "Config.json", "--ready-file", "ready.json", "--log-level", "debug"]);
    command.env("MSSQL_SA_PASSWORD", "secret").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim_end(), UP);
    let ready: serde_json::Value =
        serde_json::from_slice(&std::fs::read(home.path("ready.json")).unwrap()).unwrap();
    let (status, body) = get(ready["http"].as_str().unwrap(), "/health");
    assert_eq!((status, body.as_str()), (200, r#"{"status":"healthy","message":"Service is healthy."}"#));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let log = errors(&output);
    assert!(log.contains("queues=1 topics=1"), "{log}");
    assert!(log.contains("Config.json:4:77: queue \"orders\": Odd is unknown and has no effect"), "{log}");
    assert_eq!(log.matches("MSSQL_SA_PASSWORD is the emulator's and has no effect").count(), 1, "{log}");
    assert!(!log.contains("secret"), "{log}");
}

/// An unused port outside the range of automatically assigned ports: the emulator's variable does not allow port 0.
fn free_port() -> String {
    let from = 10_000 + std::process::id() % 20_000;
    let is_free = |port: &u32| std::net::TcpListener::bind(format!("127.0.0.1:{port}")).is_ok();
    (from..32_768).find(is_free).unwrap().to_string()
}

#[test]
fn the_emulators_variables_choose_the_port_and_bring_its_sample() {
    let home = Home::new();
    let mut command = home.command();
    let port = free_port();
    command.env("ACCEPT_EULA", "Y").env("SQL_SERVER", "sqledge").env("EMULATOR_HTTP_PORT", &port);
    let broker = home.started(command);
    assert!(broker.address("http").ends_with(&format!(":{port}")));
    let health = peeklock().arg("health").env("EMULATOR_HTTP_PORT", &port).output().unwrap();
    assert_eq!(health.status.code(), Some(0), "{}", errors(&health));
    broker.signal(Signal::TERM);
    let (_, log) = broker.finish();
    assert!(log.contains("queues=1 topics=1"), "{log}");
}

#[test]
fn a_broker_of_its_own_does_not_claim_to_be_the_emulator() {
    let home = Home::new();
    let mut command = home.command();
    command.args(["--ready-file", "ready.json"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    wait_for(|| home.path("ready.json").exists().then_some(()));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout), "");
}

#[test]
fn every_mistake_of_its_file_is_refused_at_start_with_its_place() {
    let home = Home::new();
    write(&home.path("Config.json"), &CONFIG.replace("5,", "0,").replace("\"all\"", "\"a/b\""));
    let (code, log) = home.refused(&["--emulator-config", "Config.json"]);
    assert_eq!(code, Some(2), "{log}");
    assert!(
        log.contains("Config.json:4:74: queue \"orders\": MaxDeliveryCount: 0 is not a whole number"),
        "{log}"
    );
    assert!(
        log.contains("Config.json:5:64: topic \"news\": Subscriptions: Name: \"a/b\" can't be used"),
        "{log}"
    );
}

#[test]
fn it_is_checked_and_converted() {
    let home = Home::new();
    let (json, toml) = (home.path("Config.json"), home.path("p.toml"));
    write(&json, CONFIG);
    let checked = run(&["config", "check", json.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(0));
    let text = String::from_utf8_lossy(&checked.stdout);
    assert!(text.contains("valid, queues declared: 1, topics: 1, subscriptions: 1"), "{text}");
    assert!(
        errors(&checked).contains("note: ") && errors(&checked).contains("Odd is unknown"),
        "{}",
        errors(&checked)
    );
    let converted = run(&["config", "convert", json.to_str().unwrap()]);
    assert_eq!(converted.status.code(), Some(0));
    std::fs::write(&toml, &converted.stdout).unwrap();
    let text = String::from_utf8_lossy(&converted.stdout).into_owned();
    let expected =
        "[namespace]\nname = \"sbemulatorns\"\n\n[[queues]]\nname = \"orders\"\nmax_delivery_count = 5\n";
    assert!(text.starts_with(expected), "{text}");
    assert_eq!(run(&["config", "check", toml.to_str().unwrap()]).status.code(), Some(0));
    write(&json, "{");
    let refused = run(&["config", "convert", json.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(errors(&refused).contains("Config.json:1:"), "{}", errors(&refused));
}
