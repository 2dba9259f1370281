//! `[namespace]`: its name, and the options that its tier supports.

use std::fmt::Write as _;

use peeklock_engine::Tier;

use super::*;
use crate::config::entity::Bounds;

const GIGABYTE: u64 = 1 << 30;

/// Settings refused in a tier, from line 5 on.
const BAD: &[(&str, &str, &str)] = &[
    (
        "standard",
        "max_message_size_in_kilobytes = 1024",
        "5:33: queue \"q\": max_message_size_in_kilobytes: not in the tier \"standard\"; remove it, or write tier = \"premium\" in [namespace]",
    ),
    (
        "standard",
        "max_size_in_megabytes = 6144",
        "5:25: queue \"q\": max_size_in_megabytes: must be one of 1024, 2048, 3072, 4096, 5120 in the tier \"standard\"; remove",
    ),
    (
        "basic",
        "requires_session = true",
        "5:20: queue \"q\": requires_session: not in the tier \"basic\"; remove it, or write tier = \"standard\" in [namespace]",
    ),
    (
        "basic",
        "requires_duplicate_detection = true",
        "requires_duplicate_detection: not in the tier \"basic\"",
    ),
    ("basic", "forward_to = \"a\"", "forward_to: not in the tier \"basic\""),
    ("basic", "forward_dead_lettered_messages_to = \"a\"", "dead_lettered_messages_to: not in the tier"),
    ("basic", "auto_delete_on_idle = \"PT1H\"", "auto_delete_on_idle: not in the tier \"basic\""),
    (
        "basic",
        "default_message_time_to_live = \"P15D\"",
        "default_message_time_to_live: longer than the tier \"basic\" in [namespace] allows; write at most \"PT336H\"",
    ),
    (
        "basic",
        "[[topics]]\nname = \"t\"",
        "6:8: topic \"t\": tier: no topics in the tier \"basic\"; remove it, or write tier = \"standard\" in [namespace]",
    ),
    (
        "Basic",
        "",
        "2:8: [namespace] tier: \"Basic\" is not a tier; write \"premium\", \"standard\" or \"basic\"",
    ),
    ("premium", "[namespace.x]", "unknown key `x`; known keys are name, tier"),
];

fn file(tier: &str, lines: &str) -> String {
    format!("[namespace]\ntier = \"{tier}\"\n[[queues]]\nname = \"q\"\n{lines}\n")
}

#[test]
fn options_unsupported_by_a_tier_are_refused_with_place_and_advice() {
    let mut wrong = String::new();
    for (tier, lines, expected) in BAD {
        let message = only_message(&file(tier, lines));
        if !message.contains(expected) {
            writeln!(wrong, "{lines}\n expected: {expected}\n found:    {message}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn entities_have_the_defaults_of_the_tier() {
    let config = |tier: &str, lines: &str| merged(ServeArgs::default(), &file(tier, lines));
    let sizes = |config: &Config| {
        let options = &config.queues[0].options;
        (options.max_message_size_bytes, options.max_size_bytes)
    };
    let standard = config("standard", "");
    assert_eq!(sizes(&standard), (256 << 10, GIGABYTE));
    assert_eq!(standard.queues[0].options.default_message_time_to_live_ms, None);
    assert_eq!(sizes(&config("standard", "enable_partitioning = true")), (256 << 10, 16 * GIGABYTE));
    let largest = "enable_partitioning = true\nmax_size_in_megabytes = 5120";
    assert_eq!(sizes(&config("basic", largest)), (256 << 10, 80 * GIGABYTE));
    assert_eq!(sizes(&config("premium", "enable_partitioning = true")), (1 << 20, 80 * GIGABYTE));
    let basic = config("basic", "auto_delete_on_idle = \"unlimited\"\nrequires_session = false");
    assert_eq!(basic.queues[0].options.default_message_time_to_live_ms, Some(14 * 86_400_000));
    assert_eq!(basic.limits.message_time_to_live_max_ms, Some(14 * 86_400_000));
    let shorter = config("basic", "[limits]\nmessage_time_to_live_max = \"P1D\"");
    assert_eq!(shorter.queues[0].options.default_message_time_to_live_ms, Some(86_400_000));
}

#[test]
fn a_topic_asked_for_by_flag_needs_a_tier_with_topics() {
    let args = ServeArgs { topics: vec!["t".parse().unwrap()], ..ServeArgs::default() };
    let file = parse("t", &file("basic", "")).unwrap();
    let error = Config::merge(args, file, false).unwrap_err().to_string();
    assert!(error.contains("the tier basic in [namespace] has no topics"), "{error}");
}

#[test]
fn the_name_and_the_tier_come_back_from_the_toml_that_they_are_converted_to() {
    let read = parse("t", &file("standard", "").replace("tier", "name = \"a \\\"b\"\ntier")).unwrap();
    assert_eq!(read.namespace, NamespaceConfig { name: Some("a \"b".to_owned()), tier: Tier::Standard });
    let toml = to_toml(&read);
    assert_eq!(parse("t", &toml).unwrap(), read, "{toml}");
    assert!(!toml.contains("max_size"), "{toml}");
}

#[test]
fn the_tier_holds_for_the_entities_of_the_emulators_file() {
    let json = "{\"UserConfig\": {\"Namespaces\": [{\"Name\": \"n\", \"Queues\": [{\"Name\": \"q\", \
                \"Properties\": {\"RequiresSession\": SESSION}}], \"Topics\": TOPICS}]}}";
    let read = |session: &str, topics: &str| {
        let bounds = Bounds { tier: Tier::Basic, ..Bounds::default() };
        emulator::parse("c", &json.replace("SESSION", session).replace("TOPICS", topics), bounds)
    };
    let file = read("false", "[]").unwrap();
    assert_eq!(file.queues[0].options.max_message_size_bytes, 256 << 10);
    assert_eq!(file.namespace.name.as_deref(), Some("n"));
    for (session, topics, expected) in [
        ("true", "[]", "RequiresSession: not in the tier \"basic\""),
        ("false", "[{\"Name\": \"t\"}]", "no topics in the tier \"basic\""),
    ] {
        let error = read(session, topics).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
