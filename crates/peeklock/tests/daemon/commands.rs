//! The commands that terminate.

use std::path::{Path, PathBuf};
use std::process::Output;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::broker::{Home, errors, get, peeklock, run, write};

#[test]
fn health_exits_with_0_or_1() {
    let home = Home::new();
    let broker = home.start(&[]);
    let address = broker.address("http");
    let url = format!("http://{address}/health");
    let by_url = run(&["health", &url]);
    assert_eq!(by_url.status.code(), Some(0), "{}", errors(&by_url));
    assert!(String::from_utf8_lossy(&by_url.stdout).contains("Service is healthy."));
    assert_eq!(run(&["health", "--http", &address]).status.code(), Some(0));
    assert_eq!(run(&["health", &format!("http://{address}/nothing")]).status.code(), Some(1));
    drop(broker);
    let gone = run(&["health", &url]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(errors(&gone).contains("does not answer"), "{}", errors(&gone));
    assert_eq!(run(&["health", "not a url"]).status.code(), Some(2));
}

#[test]
fn config_check_reports_places_for_people_and_programs() {
    let home = Home::new();
    let (good, bad) = (home.path("good.toml"), home.path("bad.toml"));
    let entities =
        "[[queues]]\nname = \"orders\"\n[[topics]]\nname = \"news\"\nsubscriptions = [{ name = \"all\" }]\n";
    write(&good, entities);
    write(&bad, "[[queues]]\nname = \"a@b\"\n");
    let (good, bad) = (good.to_str().unwrap(), bad.to_str().unwrap());
    let passed = run(&["config", "check", good]);
    assert_eq!(passed.status.code(), Some(0));
    let text = String::from_utf8_lossy(&passed.stdout);
    assert!(text.contains("valid, queues declared: 1, topics: 1, subscriptions: 1"), "{text}");
    let passed = run(&["config", "check", "--json", good]);
    let report: Value = serde_json::from_slice(&passed.stdout).unwrap();
    assert_eq!(report["queues"], json!(["orders"]));
    assert_eq!(report["topics"], json!([{ "name": "news", "subscriptions": ["all"] }]));
    let refused = run(&["config", "check", bad]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(errors(&refused).contains(&format!("{bad}:2:8: ")), "{}", errors(&refused));
    let refused = run(&["config", "check", "--json", bad]);
    let report: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(report["valid"], false);
    assert_eq!(report["problems"][0]["line"], 2);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn config_check_reports_mistakes_that_a_start_would_refuse() {
    let home = Home::new();
    let file = home.path("p.toml");
    let check = |arguments: &[&str]| {
        let mut command = peeklock();
        command.current_dir(home.path("")).args(["config", "check", "p.toml"]).args(arguments);
        command.output().unwrap()
    };
    write(&file, "[http]\nlisten = \"0.0.0.0:0\"\n");
    let refused = check(&[]);
    assert_eq!(refused.status.code(), Some(2));
    let text = errors(&refused);
    assert!(
        text.contains("the configuration has 1 mistake\np.toml:2:10: HTTP listens on 0.0.0.0:0"),
        "{text}"
    );

    write(&file, "[[queues]]\nname = \"a\"\nforward_to = \"b\"\n");
    let refused = check(&[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(errors(&refused).contains("there is no queue or topic \"b\""), "{}", errors(&refused));
    let (code, log) = home.refused(&["--config", "p.toml"]);
    assert_eq!(code, Some(2), "a start says the same: {log}");
    let elsewhere = check(&["--text-only"]);
    assert_eq!(elsewhere.status.code(), Some(0));
    assert!(
        errors(&elsewhere).starts_with("note: p.toml:3:14: queue \"a\": forward_to: "),
        "{}",
        errors(&elsewhere)
    );
    assert_eq!(check(&["--text-only", "--strict"]).status.code(), Some(2));
}

#[test]
fn a_misspelt_variable_is_refused_with_the_one_that_was_meant() {
    let home = Home::new();
    let mut command = home.command();
    let output = command.env("PEEKLOCK_LOGLEVEL", "debug").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let expected = "error: unknown variable PEEKLOCK_LOGLEVEL; did you mean PEEKLOCK_LOG_LEVEL?\n";
    assert_eq!(errors(&output), expected);
    assert!(!home.path("data").exists());
}

#[test]
fn wrong_usage_exits_with_2() {
    for arguments in [
        &["--nonsense"][..],
        &["serve", "--amqp", "nowhere"],
        &["serve", "--data-dir", "postgres://peeklock@pg-1/peeklock"],
        &["store"],
        &["config", "check"],
        &["send", "q", "--ttl", "0s"],
        &["send", "q", "--prop", "a:double=1e400"],
        &["token", "q/$nothing"],
    ] {
        assert_eq!(run(arguments).status.code(), Some(2), "{arguments:?}");
    }
    assert_eq!(run(&["--help"]).status.code(), Some(0));
    assert_eq!(run(&["--version"]).status.code(), Some(0));
}

/// The home of a broker that has stored messages and stopped.
fn stopped_home() -> Home {
    let home = Home::new();
    let broker = home.start(&["--queue", "orders"]);
    broker.signal(Signal::TERM);
    assert_eq!(broker.finish().0.code(), Some(0));
    home
}

fn check(data: &Path) -> Output {
    run(&["store", "check", data.to_str().unwrap()])
}

#[test]
fn store_check_reports_an_intact_directory() {
    let home = stopped_home();
    let checked = check(&home.path("data"));
    assert_eq!(checked.status.code(), Some(0), "{}", errors(&checked));
    let text = String::from_utf8_lossy(&checked.stdout);
    assert!(text.contains("intact") && text.contains("in good order"), "{text}");
    let checked = run(&["store", "check", "--json", home.path("data").to_str().unwrap()]);
    let report: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(report["intact"], true);
    assert_eq!(report["closed"], true);
    assert_eq!(report["keys"]["head"], 0);
    assert!(report["keys"]["meta"].as_u64().unwrap() >= 1, "{report}");
}

#[test]
fn store_check_exits_with_3_where_no_data_is_or_a_broker_runs() {
    let home = stopped_home();
    let nothing = check(&home.path("nothing"));
    assert_eq!(nothing.status.code(), Some(3));
    assert!(!home.path("nothing").exists(), "checking creates nothing");
    // For a wrong directory, the error names none of the files that belong in a data directory.
    for name in ["nothing", "data/tls", "data/tls/ca.pem"] {
        let directory = home.path(name);
        let directory = directory.to_str().unwrap();
        let (backup, copy) = (home.path("backup"), home.path("copy"));
        let (backup, copy) = (backup.to_str().unwrap(), copy.to_str().unwrap());
        for command in [
            ["check", directory].as_slice(),
            &["salvage", directory],
            &["backup", "--data-dir", directory, backup],
            &["copy", "--from", directory, "--to", copy],
        ] {
            let refused = run(&[&["store"], command].concat());
            let text = errors(&refused);
            assert_eq!(refused.status.code(), Some(3), "{command:?}: {text}");
            let expected = format!("error: there is no data directory {directory}: ");
            assert!(text.contains(&expected) && !text.contains("LOCK"), "{command:?}: {text}");
        }
        assert!(!home.path("backup").exists() && !home.path("copy").exists(), "{name}");
    }
    let _broker = home.start(&[]);
    let busy = check(&home.path("data"));
    assert_eq!(busy.status.code(), Some(3));
    assert!(errors(&busy).contains("in use by another Peeklock"), "{}", errors(&busy));
}

#[test]
fn damage_is_named_by_store_check_and_costs_only_the_entity_that_it_hits() {
    let home = Home::new();
    drop(home.start(&["--queue", "orders"]));
    std::fs::remove_file(home.path("ready.json")).unwrap();
    // The second start's writes show that damage in the first one's is not a torn end.
    drop(home.start(&["--queue", "payments"]));
    std::fs::remove_file(home.path("ready.json")).unwrap();
    let segment = first_segment(&home.path("data"));
    let mut bytes = std::fs::read(&segment).unwrap();
    let place = bytes.windows(6).position(|window| window == b"orders").unwrap();
    bytes[place] ^= 0xff;
    std::fs::write(&segment, bytes).unwrap();
    let file = segment.file_name().unwrap().to_str().unwrap();
    let checked = check(&home.path("data"));
    assert_eq!(checked.status.code(), Some(3));
    let text = String::from_utf8(checked.stdout).unwrap();
    assert!(text.contains(file) && text.contains("DAMAGED in 1 place"), "{text}");
    let broker = home.start(&[]);
    let (status, ready) = get(&broker.address("http"), "/health/ready");
    assert_eq!(status, 200, "{ready}");
    let ready: Value = serde_json::from_str(&ready).unwrap();
    assert_eq!((&ready["degraded"], &ready["damage_count"]), (&true.into(), &1.into()), "{ready}");
    assert!(ready.to_string().contains(file), "{ready}");
    let (status, metrics) = get(&broker.address("http"), "/metrics");
    assert_eq!(status, 200, "{metrics}");
    for line in ["peeklock_ready 1", "peeklock_damage 1", "peeklock_quarantined_messages 0"] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
    let payments = "peeklock_messages_received_total{entity=\"payments\",entity_type=\"queue\"} 0";
    assert!(metrics.lines().any(|found| found == payments), "{metrics}");
}

/// The log's first file.
fn first_segment(data: &Path) -> PathBuf {
    let files = std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "segment")).min().unwrap()
}
