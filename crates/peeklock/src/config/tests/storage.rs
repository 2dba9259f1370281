//! The engine of the store, its database, and the node.

use std::fs;

use super::*;
use crate::config::known::{Reach, examine};

const URL: &str = "postgres://u:hunter2@pg-1,pg-2/peeklock?sslmode=require";

fn database(config: &Config) -> Option<String> {
    (config.storage.engine == StorageEngine::Postgres)
        .then(|| config.storage.url.as_ref().unwrap().expose().to_owned())
}

#[test]
fn the_database_comes_from_the_file_a_file_of_its_own_or_a_flag() {
    let directory = tempfile::tempdir().unwrap();
    let secret = directory.path().join("url");
    fs::write(&secret, format!("{URL}\n")).unwrap();
    let in_file = format!("[storage]\nengine = \"postgres\"\nurl = \"{URL}\"\n");
    let elsewhere = format!("[storage]\nengine = \"postgres\"\nurl_file = \"{}\"\n", secret.display());
    for text in [&in_file, &elsewhere] {
        assert_eq!(database(&merged(ServeArgs::default(), text)).as_deref(), Some(URL));
    }
    let args =
        || ServeArgs { storage_url: Some("postgres://v@h/d".parse().unwrap()), ..ServeArgs::default() };
    for text in [in_file.as_str(), "", "[storage]\nengine = \"postgres\"", "[storage]\nengine = \"local\""] {
        assert_eq!(database(&merged(args(), text)).as_deref(), Some("postgres://v@h/d"), "{text}");
    }
    assert_eq!(database(&merged(ServeArgs::default(), "")), None);
    let debug = format!("{:?}", merged(ServeArgs::default(), &in_file));
    assert!(!debug.contains("hunter2") && debug.contains("postgres://u@pg-1,pg-2/peeklock"), "{debug}");
}

#[test]
fn mistakes_about_the_database_are_reported_without_its_password() {
    for (text, expected) in [
        (
            "engine = \"mysql\"",
            "2:10: [storage] engine: \"mysql\" is not an engine; write \"local\" or \"postgres\"",
        ),
        (
            "engine = \"postgres\"\nurl = \"hunter2\"",
            "3:7: [storage] url: is not the URL of a database; write \"postgres://",
        ),
        (
            "engine = \"postgres\"\nurl = 7",
            "3:7: [storage] url: expected a text in quotes; write url = \"…\"",
        ),
        (
            "url = \"postgres://u:hunter2@h/d\"",
            "2:7: [storage] url: there is no database with engine = \"local\"; write engine = \"postgres\" as well",
        ),
        (
            "engine = \"postgres\"\nurl_file = \"/nowhere\"",
            "3:12: [storage] url_file: \"/nowhere\" can't be read",
        ),
        (
            "durability = \"none\"",
            "2:14: [storage] durability: \"none\" is not a durability; write \"standby\", or",
        ),
        (
            "engine = \"postgres\"\nsize_max = \"1 MiB\"",
            "3:12: [storage] size_max: \"1 MiB\" is less than a log needs; write",
        ),
        (
            "[cluster]\nnode = \"a b\"",
            "3:8: [cluster] node: \"a b\" is not a valid name of a node; write 1 to 100",
        ),
        (
            "[cluster]\nlease_time = \"PT1S\"",
            "3:14: [cluster] lease_time: \"PT1S\" is outside the range from PT3S to PT5M",
        ),
    ] {
        let message = only_message(&format!("[storage]\n{text}"));
        assert!(message.contains(expected), "{text}: {message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
}

#[test]
fn an_engine_without_its_database_is_refused_with_its_place() {
    let text = "[storage]\nengine = \"postgres\"\n";
    let file = parse("t", text).unwrap();
    let found = examine(&file, text, &Reach::Text).problems;
    assert_eq!((found.len(), found[0].line, found[0].column), (1, 2, 10));
    assert!(
        found[0]
            .message
            .starts_with("storage.url is missing: engine = \"postgres\" needs to know the database")
    );
    assert!(found[0].message.ends_with("or set PEEKLOCK_STORAGE_URL"));
}

#[test]
fn keys_without_effect_for_an_engine_are_noted() {
    let notes = |text: &str| parse("t", text).unwrap_or_else(|problems| panic!("{problems}")).notes;
    let text = format!(
        "[storage]\nengine = \"postgres\"\nurl = \"{URL}\"\nsegment_size = \"32 MiB\"\nreserve = \"256 MiB\"\nscrub_interval = \"PT0S\"\n"
    );
    let vain = |place: &str, key: &str| {
        format!("t:{place}: [storage] {key}: has no effect with engine = \"postgres\", which has no files")
    };
    assert_eq!(notes(&text), [vain("4:16", "segment_size"), vain("6:18", "scrub_interval")]);
    assert_eq!(
        notes("[cluster]\nadvertise = \"amqp://a\"\n"),
        [
            "t:2:13: [cluster] has no effect unless [storage] engine = \"postgres\", or --storage-url or PEEKLOCK_STORAGE_URL is set"
        ]
    );
    assert_eq!(notes("[cluster]\nnode = \"\"\n"), [] as [&str; 0]);
}

#[test]
fn a_node_is_called_by_flag_by_file_or_as_the_machine() {
    let text = format!(
        "[storage]\nengine = \"postgres\"\nurl = \"{URL}\"\n[cluster]\nnode = \"a\"\nadvertise = \"amqp://a:1\"\n"
    );
    let config = merged(ServeArgs::default(), &text);
    assert_eq!(
        (config.cluster.node_name().as_str(), config.cluster.advertise.as_deref()),
        ("a", Some("amqp://a:1"))
    );
    let args =
        ServeArgs { node: Some("b".into()), advertise: Some("amqp://b:1".into()), ..ServeArgs::default() };
    let config = merged(args, &text);
    assert_eq!(
        (config.cluster.node_name().as_str(), config.cluster.advertise.as_deref()),
        ("b", Some("amqp://b:1"))
    );
    assert!(!merged(ServeArgs::default(), "").cluster.node_name().is_empty());
}
