//! `/metrics`: access, and consistency with documents, dashboard and alert rules.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::broker::{Broker, Home, get, http_with, wait_for, write};

const DOCUMENT: &str = include_str!("../../../../docs/metrics.md");
const BOARD: &str = include_str!("../../../../packaging/grafana/peeklock.json");
const ALERTS: &str = include_str!("../../../../packaging/prometheus/alerts.yml");

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn page(broker: &Broker) -> String {
    let (status, text) = get(&broker.address("http"), "/metrics");
    assert_eq!(status, 200, "{text}");
    text
}

/// Families with their names in documents: counters with `_total`.
fn families(page: &str) -> BTreeSet<String> {
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types.map(|(name, kind)| format!("{name}{}", if kind == "counter" { "_total" } else { "" })).collect()
}

/// The names of metrics in a text.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|char: char| !(char.is_ascii_alphanumeric() || char == '_'));
    let is_metric = |word: &&str| {
        ["peeklock_", "process_"]
            .iter()
            .any(|prefix| word.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty()))
    };
    words.filter(is_metric).map(str::to_owned).collect()
}

/// The family of a series of a histogram, otherwise the name itself.
fn family(name: &str) -> &str {
    ["_bucket", "_count", "_sum"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

/// The rows of the document. Those of nodes on PostgreSQL are compared by tests/python/test_store_copy.py, where
/// PostgreSQL is available.
fn documented(of_nodes: bool) -> BTreeSet<String> {
    let rows = DOCUMENT.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let is_of_nodes =
        |name: &str| name.starts_with("peeklock_postgres_") || name.starts_with("peeklock_cluster_");
    let names = rows.map(|(name, _)| name.to_owned()).filter(|name| name.contains('_'));
    names.filter(|name| is_of_nodes(name) == of_nodes).collect()
}

#[test]
fn the_document_lists_exactly_the_metrics_that_there_are() {
    let home = Home::new();
    let broker = home.start(&["--queue", "orders"]);
    assert_eq!(documented(false), families(&page(&broker)));
}

#[test]
fn every_metric_of_the_board_and_the_alert_rules_exists() {
    let home = Home::new();
    let broker = home.start(&["--queue", "orders"]);
    let families = &families(&page(&broker)) | &documented(true);
    let board: Value = serde_json::from_str(BOARD).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let of_board = targets.map(|target| target["expr"].as_str().unwrap());
    let of_alerts = ALERTS.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let expressions: Vec<&str> = of_board.chain(of_alerts).collect();
    assert!(expressions.len() > 40, "{expressions:?}");
    for expression in expressions {
        let names = named(expression);
        assert!(!names.is_empty(), "{expression}");
        for name in names {
            assert!(families.contains(family(&name)), "{name} in {expression}");
        }
    }
}

#[test]
fn a_scraper_behind_a_proxy_needs_the_token_and_a_local_one_does_not() {
    let home = Home::new();
    let config = home.path("peeklock.toml");
    write(&config, &format!("[metrics]\ntoken = \"{TOKEN}\"\n[[queues]]\nname = \"orders\"\n"));
    let broker = home.start(&["--config", config.to_str().unwrap()]);
    let address = broker.address("http");
    assert!(page(&broker).contains("entity=\"orders\""));
    let proxied = "X-Forwarded-For: 10.0.0.7\r\n";
    assert_eq!(http_with(&address, "GET", "/metrics", proxied).0, 401);
    let wrong = format!("{proxied}Authorization: Bearer {}\r\n", TOKEN.replace('f', "e"));
    assert_eq!(http_with(&address, "GET", "/metrics", &wrong).0, 401);
    let right = format!("{proxied}Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(http_with(&address, "GET", "/metrics", &right).0, 200);
    let foreign = http_with(&address, "GET", "/metrics", "Origin: http://evil.example\r\n");
    assert_eq!(foreign.0, 403, "{}", foreign.1);
    let text = page(&broker);
    let refused = "peeklock_http_request_duration_seconds_count{route=\"metrics\",status=\"401\"} 2";
    assert!(text.lines().any(|line| line == refused), "{text}");
    // The scraper's own connection; the end of closed ones is noticed with a delay.
    let own = "peeklock_connections{protocol=\"http\"} 1\n";
    wait_for(|| page(&broker).contains(own).then_some(()));
}

#[test]
fn metrics_are_not_shown_under_a_name_that_an_attacker_may_own() {
    let home = Home::new();
    let config = home.path("peeklock.toml");
    let rule = "[[authorization.rules]]\nname = \"root\"\nrights = [\"Listen\", \"Send\", \"Manage\"]\nprimary_key = \"a-key\"\n";
    write(&config, rule);
    let broker = home.start(&["--config", config.to_str().unwrap()]);
    let address = broker.address("http");
    assert_eq!(get(&address, "/metrics").0, 200);
    let by_name = crate::broker::http_of_host(&address, "evil.example", "/metrics");
    assert_eq!(by_name.0, 421, "{}", by_name.1);
    assert_ne!(crate::broker::http_of_host(&address, "evil.example", "/health").0, 421);
}

/// The page as a scraper gets it that does not read OpenMetrics.
fn in_text_format(broker: &Broker) -> String {
    let accept = "Accept: text/plain;version=0.0.4;q=0.3\r\n";
    let (status, text) = http_with(&broker.address("http"), "GET", "/metrics", accept);
    assert_eq!(status, 200, "{text}");
    text
}

/// The output of promtool, which is empty for valid input; `None` if it is not installed.
fn promtool(arguments: &[&str], input: &str) -> Option<(bool, String)> {
    let mut command = Command::new("promtool");
    let command = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut promtool = match command.stderr(Stdio::piped()).spawn() {
        Ok(promtool) => promtool,
        Err(error) => {
            eprintln!("SKIPPED: promtool can't be run ({error}); it comes with Prometheus");
            return None;
        }
    };
    let mut stdin = promtool.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = promtool.wait_with_output().unwrap();
    Some((output.status.success(), String::from_utf8(output.stderr).unwrap()))
}

#[test]
fn the_text_format_has_the_same_series_and_promtool_has_nothing_to_say_about_them() {
    let home = Home::new();
    let broker = home.start(&["--queue", "orders"]);
    // The first request adds series of its own.
    page(&broker);
    let text = in_text_format(&broker);
    assert!(
        text.contains("# TYPE peeklock_config_reloads_total counter\n") && !text.contains("# EOF"),
        "{text}"
    );
    let series = |page: &str| page.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(series(&text), series(&page(&broker)));
    if let Some(outcome) = promtool(&["check", "metrics"], &text) {
        assert_eq!(outcome, (true, String::new()));
    }
}

#[test]
fn promtool_takes_the_alert_rules_and_they_fire_as_expected() {
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/prometheus/alerts.yml");
    let expected = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/daemon/alerts_test.yml");
    for arguments in [["check", "rules", rules], ["test", "rules", expected]] {
        if let Some((is_ok, said)) = promtool(&arguments, "") {
            assert!(is_ok, "{said}");
        }
    }
}
