//! Valid files, invalid files, precedence, and the reference file compared with the code.

mod authorization;
mod authorization_rules;
mod corpus;
mod drop_in;
mod entities;
mod mistakes;
mod reference;
mod rules;
mod storage;
mod tiers;

use std::path::Path;

use super::file::parse;
use super::*;

fn merged(args: ServeArgs, text: &str) -> Config {
    let file = parse("test.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
    Config::merge(args, file, false).unwrap()
}

#[test]
fn an_empty_file_gives_the_defaults() {
    let config = merged(ServeArgs::default(), "");
    assert_eq!(config.amqp_listen.to_string(), AMQP_LISTEN_DEFAULT);
    assert_eq!(config.http_listen.to_string(), HTTP_LISTEN_DEFAULT);
    assert_eq!(config.data_dir, Path::new(DATA_DIR_DEFAULT));
    assert_eq!(config.log_filter.to_string(), "info");
    assert_eq!(config.log_format, LogFormat::Text);
    assert_eq!(config.queues, []);
}

#[test]
fn a_flag_or_variable_beats_the_file_and_the_file_beats_the_default() {
    let text = "[amqp]\nlisten = \"0.0.0.0:1\"\n[http]\nlisten = \"0.0.0.0:2\"\n[storage]\ndata_dir = \"d\"\n\
                [log]\nlevel = \"warn\"\nformat = \"json\"\n\
                [authorization]\nallow_default_key = true\n";
    let config = merged(ServeArgs::default(), text);
    assert_eq!(config.amqp_listen.to_string(), "0.0.0.0:1");
    assert_eq!(config.http_listen.to_string(), "0.0.0.0:2");
    assert_eq!(config.data_dir, Path::new("d"));
    assert_eq!(config.log_filter.to_string(), "warn");
    assert_eq!(config.log_format, LogFormat::Json);
    let args = ServeArgs {
        amqp: Some("127.0.0.1:3".parse().unwrap()),
        http: Some("127.0.0.1:4".parse().unwrap()),
        data_dir: Some("e".into()),
        log_level: Some("debug".parse().unwrap()),
        log_format: Some(LogFormat::Text),
        ..ServeArgs::default()
    };
    let config = merged(args, text);
    assert_eq!(config.amqp_listen.to_string(), "127.0.0.1:3");
    assert_eq!(config.http_listen.to_string(), "127.0.0.1:4");
    assert_eq!(config.data_dir, Path::new("e"));
    assert_eq!(config.log_filter.to_string(), "debug");
    assert_eq!(config.log_format, LogFormat::Text);
}

#[test]
fn an_address_named_twice_is_one() {
    let text = "[network]\nalso_listen = [\"127.0.0.1:5671\", \"127.0.0.1:5672\"]";
    let addresses = |args| {
        let config = merged(args, text);
        config.addresses().iter().map(|(_, address)| address.to_string()).collect::<Vec<_>>()
    };
    let all = addresses(ServeArgs::default());
    assert_eq!(all, ["127.0.0.1:5672", "127.0.0.1:5300", "127.0.0.1:5671"]);
    let args = ServeArgs {
        amqp: Some(HTTP_LISTEN_DEFAULT.parse().unwrap()),
        also_listen: Some(vec!["[::1]:443".parse().unwrap()]),
        ..ServeArgs::default()
    };
    assert_eq!(addresses(args), ["127.0.0.1:5300", "[::1]:443"]);
}

#[test]
fn half_a_pair_of_certificate_and_key_is_refused() {
    for (key, missing) in [("certificate", "tls.key is missing"), ("key", "tls.certificate is missing")] {
        let file = parse("test.toml", &format!("[tls]\n{key} = \"a.pem\"")).unwrap();
        let error = Config::merge(ServeArgs::default(), file, false).unwrap_err().to_string();
        assert!(error.contains(missing), "{error}");
    }
}

#[test]
fn time_travel_is_off_until_asked_for_and_a_flag_beats_the_file() {
    let on = "[development]\ntime_travel = true";
    let asked = |time_travel, text: &str| {
        merged(ServeArgs { time_travel, ..ServeArgs::default() }, text).development.time_travel
    };
    assert!(!asked(None, ""));
    assert!(asked(None, on) && asked(Some(true), "") && !asked(Some(false), on));
}

#[test]
fn time_travel_is_refused_where_other_machines_may_connect() {
    let attempt = |text: &str| {
        let args =
            ServeArgs { time_travel: Some(true), allow_default_key: Some(true), ..ServeArgs::default() };
        Config::merge(args, parse("test.toml", text).unwrap(), false)
    };
    for (section, what, address) in
        [("amqp", "AMQP", "0.0.0.0:1"), ("http", "HTTP", "192.0.2.1:2"), ("http", "HTTP", "broker:3")]
    {
        let listen = format!("[{section}]\nlisten = \"{address}\"\n");
        let error = attempt(&listen).unwrap_err().to_string();
        assert!(error.contains(&format!("{what} listens on {address}, which other machines")), "{error}");
        assert!(error.contains("allow_remote = true"), "{error}");
        attempt(&format!("{listen}[development]\nallow_remote = true")).unwrap();
        merged(ServeArgs { allow_default_key: Some(true), ..ServeArgs::default() }, &listen);
    }
    attempt("[amqp]\nlisten = \"localhost:1\"\n[http]\nlisten = \"[::1]:1\"").unwrap();
}

#[test]
fn a_queue_of_the_file_is_not_asked_for_again_by_flag() {
    let args = ServeArgs { queues: vec!["ORDERS".into(), "other".into()], ..ServeArgs::default() };
    let config = merged(args, "[[queues]]\nname = \"orders\"\nmax_delivery_count = 3");
    assert_eq!(config.queues_if_missing, ["other"]);
    assert_eq!(config.queues.len(), 1);
}

/// Each text with the only message it must cause, including the position.
const BAD: &[(&str, &str)] = &[
    ("[amqp\n", "t:1:6: not TOML: "),
    ("\n[ampq]\n", "t:2:2: unknown key `ampq`; did you mean `amqp`?"),
    (
        "colour = 1",
        "t:1:1: unknown key `colour`; known keys are amqp, http, network, console, tls, storage, cluster, log, metrics, telemetry, development, authorization, namespace, limits, throttling, transactions, queues, topics",
    ),
    ("amqp = 1", "t:1:8: `amqp` is a table; write [amqp] on a line of its own"),
    ("[amqp]\nLISTEN = \"a:1\"", "t:2:1: [amqp] unknown key `LISTEN`; did you mean `listen`?"),
    (
        "[amqp]\nlisten = 5672",
        "t:2:10: [amqp] listen: expected a text in quotes, found 5672; write listen = \"127",
    ),
    ("[http]\nlisten = \"5300\"", "t:2:10: [http] listen: \"5300\" has no port; write ADDR:PORT, such as"),
    ("[storage]\ndata_dir = \"\"", "t:2:12: [storage] data_dir: is empty"),
    (
        "[storage]\ndata_dir = \"postgres://a:b@c/d\"",
        "t:2:12: [storage] data_dir: is the URL of a database; write it as url",
    ),
    (
        "[storage]\nsegment_size = 64",
        "t:2:16: [storage] segment_size: expected a text in quotes, found 64; write segm",
    ),
    (
        "[storage]\nsegment_size = \"2 GiB\"",
        "t:2:16: [storage] segment_size: \"2 GiB\" is outside the range from 1 MiB",
    ),
    (
        "[storage]\nsize_max = \"1 MiB\"",
        "t:2:12: [storage] size_max: \"1 MiB\" is less than 6 segments of 64 MiB; write",
    ),
    (
        "[storage]\nreserve = \"5 MB\"",
        "t:2:11: [storage] reserve: \"5 MB\" is not a size; write a whole number with",
    ),
    (
        "[amqp]\nidle_time_out = \"1s\"",
        "t:2:17: [amqp] idle_time_out: \"1s\" is outside the range from PT5S to PT1H",
    ),
    ("[amqp]\nlinks_max = 0", "t:2:13: [amqp] links_max: 0 is outside the range from 1 to 65535"),
    (
        "[amqp]\nsasl_optional = 1",
        "t:2:17: [amqp] sasl_optional: expected true or false, found 1; write sasl_optio",
    ),
    (
        "[amqp]\nidle_timeout = \"1m\"",
        "t:2:1: [amqp] unknown key `idle_timeout`; did you mean `idle_time_out`?",
    ),
    ("[log]\nlevel = \"loud\"", "t:2:9: [log] level: \"loud\" is not a log level; write off, error"),
    (
        "[log]\nformat = \"xml\"",
        "t:2:10: [log] format: \"xml\" is not a log format; write \"text\" or \"json\"",
    ),
    (
        "[development]\ntime_travel = \"on\"",
        "t:2:15: [development] time_travel: expected true or false, found \"on\"; write time_travel = false",
    ),
    ("[queues]\nname = \"q\"", "t:1:1: `queues` is a list of tables; write [[queues]], in double brackets"),
    ("[[queue]]\nname = \"q\"", "t:1:3: unknown key `queue`; did you mean `queues`?"),
    ("[topics]\nname = \"t\"", "t:1:1: `topics` is a list of tables; write [[topics]], in double brackets"),
    (
        "[[topics.subscriptions]]\nname = \"s\"",
        "t:1:3: `topics` is a list of tables; write [[topics]], in double brackets, before",
    ),
    (
        "[limits]\nauto_delete_on_idle_min = \"10ms\"",
        "t:2:27: [limits] auto_delete_on_idle_min: \"10ms\" is outside the range from PT0.1S to PT5M",
    ),
    (
        "[limits]\nqueues_max = 1",
        "t:2:1: [limits] unknown key `queues_max`; known keys are auto_delete_on_idle_min",
    ),
    ("[[queues]]\n", "t:1:1: [[queues]] name: missing; write name = \"orders\" or the like"),
    (
        "[[queues]]\nname = \"a@b\"",
        "t:2:8: [[queues]] name: \"a@b\" can't be used: it contains '@', which is not allowed",
    ),
    (
        "[[queues]]\nname = \"q\"\n[[queues]]\nname = \"Q\"",
        "t:4:8: queue \"Q\" is already declared in line 2 as \"q\"; names match regardless of case",
    ),
    (
        "[[topics]]\nname = \"x\"\n[[topics]]\nname = \"X\"",
        "t:4:8: topic \"X\" is already declared in line 2 as \"x\"; names match regardless of case",
    ),
    (
        "[[queues]]\nname = \"x\"\n[[topics]]\nname = \"X\"",
        "t:4:8: topic \"X\" is already declared in line 2 as queue \"x\"; names match regardless of case",
    ),
];

fn only_message(text: &str) -> String {
    let problems = parse("t", text).expect_err(text);
    assert_eq!(problems.list.len(), 1, "{text}: {problems}");
    problems.to_string()
}

#[test]
fn every_mistake_is_refused_with_its_place_and_advice() {
    for (text, expected) in BAD {
        let message = only_message(text);
        assert!(message.starts_with(expected), "{text}\n expected: {expected}\n found:    {message}");
    }
}

#[test]
fn all_mistakes_are_reported_at_once_in_the_order_of_lines() {
    let text = "[[queues]]\nmax_delivery_count = 0\nname = \"q\"\nlock_duration = \"1s\"\n[log]\nlevel = 1\n";
    let problems = parse("t", text).unwrap_err();
    assert_eq!(problems.list.iter().map(|problem| problem.line).collect::<Vec<_>>(), [2, 4, 6]);
}

#[test]
fn a_missing_file_is_named() {
    let problems = load(Path::new("/nowhere/peeklock.toml")).unwrap_err();
    assert!(problems.to_string().starts_with("/nowhere/peeklock.toml:1:1: can't be read: No such file"));
}
