//! Time travel over HTTP.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use rustix::process::Signal;
use serde_json::Value;

use crate::broker::{Broker, Home, errors, get, http, open_connection, peeklock, run, wait_for, write};

const CLOCK: &str = "/development/clock";
const HOUR: Duration = Duration::from_secs(3_600);

fn now(answer: &(u16, String)) -> Duration {
    let (200, body) = answer else { panic!("{answer:?}") };
    let body: Value = serde_json::from_str(body).unwrap();
    let text = body["now"].as_str().unwrap();
    assert_eq!(text.len(), "2026-11-21T18:00:00.000Z".len(), "{text}");
    let instant: Timestamp = text.parse().unwrap();
    Duration::from_millis(instant.as_millisecond().try_into().unwrap())
}

fn ask(broker: &Broker, method: &str, body: &str) -> (u16, String) {
    http(&broker.address("http"), method, CLOCK, body)
}

fn machine_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

#[test]
fn the_clock_is_read_and_advanced() {
    let home = Home::new();
    let broker = home.start(&["--time-travel"]);
    let before = now(&ask(&broker, "GET", ""));
    assert!(before.abs_diff(machine_now()) < HOUR / 2, "the machine's time at first");
    let hour = now(&ask(&broker, "POST", r#"{"advance":"PT1H"}"#));
    assert!(hour >= before + HOUR);
    let days = now(&ask(&broker, "POST", r#"{ "advance": "2 days" }"#));
    assert!(days >= hour + 48 * HOUR);
    assert!(now(&ask(&broker, "GET", "")) >= days);
    broker.signal(Signal::TERM);
    let (status, log) = broker.finish();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(
        log.contains("WARN") && log.contains("TIME TRAVEL IS ON") && log.contains("expire; never"),
        "{log}"
    );
}

#[test]
fn invalid_travel_requests_are_answered_with_advice_and_move_nothing() {
    let home = Home::new();
    write(&home.path("p.toml"), "[development]\ntime_travel = true\n");
    let broker = home.start(&["--config", "p.toml"]);
    let long = format!(r#"{{"advance":"{}"}}"#, "x".repeat(10_000));
    for body in ["", "PT1H", "[]", r#"{"advance":"-PT1H"}"#, r#"{"advance":"1000000 days"}"#, &long] {
        let (status, text) = ask(&broker, "POST", body);
        assert_eq!(status, 400, "{text}");
        assert!(text.contains(r#"write {"advance":"PT1H"}"#), "{text}");
    }
    assert_eq!(ask(&broker, "PUT", r#"{"advance":"PT1H"}"#).0, 405);
    assert!(now(&ask(&broker, "GET", "")).abs_diff(machine_now()) < HOUR / 2);
}

#[test]
fn a_stopping_broker_returns_the_time_and_does_not_advance_it() {
    let home = Home::new();
    write(&home.path("p.toml"), "[amqp]\ndrain_time_out = \"10 minutes\"\n");
    let broker = home.start(&["--config", "p.toml", "--time-travel"]);
    let connection = open_connection(&broker.address("amqp"));
    broker.signal(Signal::TERM);
    wait_for(|| (get(&broker.address("http"), "/health").0 == 503).then_some(()));
    let (status, text) = ask(&broker, "POST", r#"{"advance":"PT1H"}"#);
    assert!(status == 503 && text.contains("starting or stopping"), "{status} {text}");
    assert!(now(&ask(&broker, "GET", "")).abs_diff(machine_now()) < HOUR / 2);
    drop(connection);
}

#[test]
fn there_is_no_clock_to_move_unless_asked_for() {
    let home = Home::new();
    let broker = home.start(&["--time-travel=false"]);
    // For the administration it is the path of an entity, about which unauthenticated peers learn nothing.
    assert_eq!(ask(&broker, "POST", r#"{"advance":"PT1H"}"#).0, 401);
    assert_eq!(get(&broker.address("http"), CLOCK).0, 401);
    broker.signal(Signal::TERM);
    let (_, log) = broker.finish();
    assert!(!log.contains("TIME TRAVEL"), "{log}");
}

#[test]
fn time_travel_is_refused_to_other_machines_unless_they_are_allowed() {
    let home = Home::new();
    let data = home.path("data").display().to_string();
    for flag in ["--amqp", "--http"] {
        let refused = run(&["--data-dir", &data, "--time-travel", flag, "0.0.0.0:0"]);
        assert_eq!(refused.status.code(), Some(2));
        let text = errors(&refused);
        assert!(text.contains("listens on 0.0.0.0:0, which other machines may reach"), "{text}");
    }
    assert!(!home.path("data").exists());
    write(&home.path("p.toml"), "[development]\nallow_remote = true\n");
    let mut command = peeklock();
    command.current_dir(home.path("")).args(["--data-dir", &data, "--config", "p.toml"]);
    command
        .args(["--amqp", "127.0.0.1:0", "--http", "0.0.0.0:0"])
        .envs([("PEEKLOCK_TIME_TRAVEL", "1"), ("PEEKLOCK_ALLOW_DEFAULT_KEY", "1")]);
    let broker = home.started(command);
    let port = broker.address("http").rsplit_once(':').unwrap().1.to_owned();
    assert_eq!(get(&format!("127.0.0.1:{port}"), CLOCK).0, 200);
}

#[test]
fn a_page_in_a_browser_does_not_move_the_clock() {
    let home = Home::new();
    let broker = home.start(&["--time-travel"]);
    let path = format!("{CLOCK} HTTP/1.1\r\nOrigin: http://elsewhere\r\nX: y");
    let (status, body) = http(&broker.address("http"), "POST", &path, r#"{"advance":"PT1H"}"#);
    assert_eq!(status, 403, "{body}");
    assert!(now(&ask(&broker, "GET", "")).abs_diff(machine_now()) < HOUR / 2);
}
