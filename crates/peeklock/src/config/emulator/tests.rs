//! The emulator's file: what it means, and what is wrong with it.

use std::fmt::Write as _;

use peeklock_engine::{
    CorrelationFilter, EntityStatus, FactValue, Filter, Forwarding, Kept, QueueOptions, Rule,
    SubscriptionOptions, TopicOptions,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::config::convert::to_toml;
use crate::config::queue::QueueConfig;
use crate::config::subscription::SubscriptionConfig;
use crate::config::{self};

const MINUTE_MS: u64 = 60_000;

fn read(text: &str) -> Result<FileConfig, Problems> {
    super::parse("Config.json", text, Bounds::default())
}

/// A file with these lists.
fn file(queues: &str, topics: &str) -> String {
    format!(
        "{{\"UserConfig\": {{\"Namespaces\": [{{\"Name\": \"sbemulatorns\",\n\"Queues\": [\n{queues}\n],\n\"Topics\": [\n{topics}\n]}}],\n\
         \"Logging\": {{\"Type\": \"File\"}}}}}}"
    )
}

fn rules_file(text: &str) -> String {
    file(
        "",
        &format!("{{\"Name\": \"t\", \"Subscriptions\": [\n{{\"Name\": \"s\", \"Rules\": [\n{text}\n]}}]}}"),
    )
}

/// Every property of every entity, with a value that is not its default.
fn everything() -> String {
    let queue = r#"{"Name": "q", "Properties": {
        "AutoDeleteOnIdle": "PT10M", "DeadLetteringOnMessageExpiration": true, "DefaultMessageTimeToLive": "P14D",
        "DuplicateDetectionHistoryTimeWindow": "PT5M", "EnableBatchedOperations": false, "EnableExpress": false,
        "EnablePartitioning": true, "ForwardDeadLetteredMessagesTo": "dead", "ForwardTo": "t",
        "LockDuration": "PT30S", "MaxDeliveryCount": 7, "MaxMessageSizeInKilobytes": 256, "MaxSizeInMegabytes": 1024,
        "RequiresDuplicateDetection": true, "RequiresSession": false, "Status": "SendDisabled", "UserMetadata": "x \" \\ \u0007"}},
        {"Name": "dead"}"#;
    let topic = r#"{"Name": "t", "Properties": {
        "AutoDeleteOnIdle": "PT20M", "DefaultMessageTimeToLive": "P10675199DT2H48M5.4775807S",
        "DuplicateDetectionHistoryTimeWindow": "PT5S", "EnableBatchedOperations": true, "EnableExpress": true,
        "EnablePartitioning": false, "MaxMessageSizeInKilobytes": 2048, "MaxSizeInMegabytes": 5,
        "RequiresDuplicateDetection": false, "Status": "Active", "SupportOrdering": false},
      "Subscriptions": [{"Name": "s", "Properties": {
        "AutoDeleteOnIdle": "PT5M", "DeadLetteringOnFilterEvaluationExceptions": false,
        "DeadLetteringOnMessageExpiration": true, "DefaultMessageTimeToLive": "PT1S",
        "ForwardDeadLetteredMessagesTo": "dead", "ForwardTo": "", "LockDuration": "PT5M", "MaxDeliveryCount": 1,
        "RequiresSession": true, "Status": "ReceiveDisabled", "UserMetadata": "y"},
       "Rules": [
        {"Name": "fields", "Properties": {"FilterType": "Correlation", "CorrelationFilter": {
          "ContentType": "a", "CorrelationId": "b", "Label": "c", "MessageId": "d", "ReplyTo": "e",
          "ReplyToSessionId": "f", "SessionId": "g", "To": "h",
          "Properties": {"flag": true, "half": 0.5, "large": 18446744073709551615, "text": "é\n", "whole": -5}}}},
        {"Name": "$Default", "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": " 1 = 1 "}}},
        {"Name": "none", "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "1=0"}}}]},
       {"Name": "plain"}]}"#;
    file(queue, topic)
}

#[test]
fn the_sample_declares_what_the_emulators_own_does() {
    let sample = read(SAMPLE).unwrap();
    assert_eq!(sample.notes, [] as [&str; 0]);
    assert!(sample.is_emulators);
    assert_eq!(sample.namespace.as_deref(), Some("sbemulatorns"));
    let queue = QueueOptions {
        default_message_time_to_live_ms: Some(60 * MINUTE_MS),
        max_delivery_count: 3,
        duplicate_detection_history_time_window_ms: 20_000,
        ..QueueOptions::default()
    };
    assert_eq!(sample.queues, [QueueConfig { name: "queue.1".into(), options: queue }]);
    let [topic] = &sample.topics[..] else { panic!("one topic") };
    assert_eq!((topic.name.as_str(), topic.subscriptions.len()), ("topic.1", 3));
    let names: Vec<&str> = topic.subscriptions[..2].iter().map(|one| &*one.rules[0].name).collect();
    assert_eq!(names, ["app-prop-filter-1", "user-prop-filter-1"], "and so no $Default");
    assert_eq!(topic.subscriptions[2].rules, [Rule::default_rule()]);
}

#[test]
fn what_is_not_said_has_the_emulators_defaults() {
    let file = read(&file(
        "{\"Name\": \"q\"}",
        "{\"Name\": \"t\", \"Subscriptions\": [{\"Name\": \"s\"}, {\"Name\": \"u\", \"Rules\": [], \"Properties\": {}}]}",
    ))
    .unwrap();
    let hour = Some(60 * MINUTE_MS);
    let queue = &file.queues[0].options;
    assert_eq!((queue.max_delivery_count, queue.default_message_time_to_live_ms), (3, hour));
    assert_eq!(queue.duplicate_detection_history_time_window_ms, 20_000);
    assert_eq!(queue.lock_duration_ms, MINUTE_MS);
    let topic = &file.topics[0];
    assert_eq!(topic.options.default_message_time_to_live_ms, hour);
    assert_eq!(topic.options.duplicate_detection_history_time_window_ms, 20_000);
    for subscription in &topic.subscriptions {
        let options = &subscription.options;
        assert_eq!((options.max_delivery_count, options.default_message_time_to_live_ms), (3, hour));
        assert_eq!(subscription.rules, [Rule::default_rule()], "{}", subscription.name);
    }
}

#[test]
fn every_property_is_understood() {
    let file = read(&everything()).unwrap();
    assert_eq!(file.notes, [] as [&str; 0]);
    let expected = QueueOptions {
        lock_duration_ms: 30_000,
        max_delivery_count: 7,
        default_message_time_to_live_ms: Some(14 * 24 * 60 * MINUTE_MS),
        dead_lettering_on_message_expiration: true,
        auto_delete_on_idle_ms: Some(10 * MINUTE_MS),
        max_message_size_bytes: 256 << 10,
        max_size_bytes: 1 << 30,
        requires_duplicate_detection: true,
        duplicate_detection_history_time_window_ms: 5 * MINUTE_MS,
        status: EntityStatus::SendDisabled,
        forwarding: Forwarding {
            forward_to: Some("t".into()),
            forward_dead_lettered_messages_to: Some("dead".into()),
        },
        kept: Kept {
            user_metadata: Some("x \" \\ \u{7}".into()),
            enable_batched_operations: false,
            enable_partitioning: true,
            ..Kept::default()
        },
        ..QueueOptions::default()
    };
    assert_eq!(file.queues[0].options, expected);
    let topic = &file.topics[0];
    let expected = TopicOptions {
        default_message_time_to_live_ms: None,
        auto_delete_on_idle_ms: Some(20 * MINUTE_MS),
        max_message_size_bytes: 2 << 20,
        max_size_bytes: 5 << 20,
        // Five seconds are less than Service Bus knows.
        duplicate_detection_history_time_window_ms: 20_000,
        kept: Kept { enable_express: true, support_ordering: false, ..Kept::default() },
        ..TopicOptions::default()
    };
    assert_eq!(topic.options, expected);
    let expected = SubscriptionOptions {
        lock_duration_ms: 5 * MINUTE_MS,
        max_delivery_count: 1,
        default_message_time_to_live_ms: Some(1_000),
        dead_lettering_on_message_expiration: true,
        dead_lettering_on_filter_evaluation_exceptions: false,
        requires_session: true,
        auto_delete_on_idle_ms: Some(5 * MINUTE_MS),
        status: EntityStatus::ReceiveDisabled,
        forwarding: Forwarding { forward_to: None, forward_dead_lettered_messages_to: Some("dead".into()) },
        kept: Kept { user_metadata: Some("y".into()), ..Kept::default() },
    };
    assert_eq!(topic.subscriptions[0].options, expected);
}

#[test]
fn every_kind_of_rule_is_understood() {
    let file = read(&everything()).unwrap();
    let SubscriptionConfig { rules, .. } = &file.topics[0].subscriptions[0];
    let user = [
        ("flag", FactValue::Boolean(true)),
        ("half", FactValue::Double(0.5)),
        ("large", FactValue::Unsigned(u64::MAX)),
        ("text", FactValue::Text("é\n".into())),
        ("whole", FactValue::Integer(-5)),
    ];
    let filter = CorrelationFilter {
        content_type: Some("a".into()),
        correlation_id: Some("b".into()),
        label: Some("c".into()),
        message_id: Some("d".into()),
        reply_to: Some("e".into()),
        reply_to_session_id: Some("f".into()),
        session_id: Some("g".into()),
        to: Some("h".into()),
        user: user.map(|(name, value)| (name.into(), value)).into(),
    };
    let filters: Vec<(&str, &Filter)> = rules.iter().map(|rule| (&*rule.name, &rule.filter)).collect();
    let expected = Filter::Correlation(Box::new(filter));
    assert_eq!(filters, [("fields", &expected), ("$Default", &Filter::True), ("none", &Filter::False)]);
    for other in
        [r#""SendTo": "h", "Subject": "c""#, r#""To": "h", "Label": "c", "RequiresPreprocessing": false"#]
    {
        let text = format!("{{\"Name\": \"r\", \"Properties\": {{\"CorrelationFilter\": {{{other}}}}}}}");
        let file = read(&rules_file(&text)).unwrap();
        let Filter::Correlation(filter) = &file.topics[0].subscriptions[0].rules[0].filter else { panic!() };
        assert_eq!((filter.to.as_deref(), filter.label.as_deref()), (Some("h"), Some("c")), "{other}");
    }
}

#[test]
fn comments_a_last_comma_a_byte_order_mark_null_and_any_case_are_understood() {
    let text = "\u{feff}// first\n{ /* a\n comment */ \"userConfig\": {\"namespaces\": [{\"name\": \"ns\", \"queues\": [\n\
                {\"name\": \"q\", \"properties\": {\"lockduration\": \"PT5S\", \"ForwardTo\": null,},}, ],\n\
                \"topics\": null, \"Properties\": null}], \"Logging\": null}}";
    let file = read(text).unwrap();
    assert_eq!((file.queues[0].options.lock_duration_ms, file.notes.len()), (5_000, 0));
    assert_eq!(file.namespace.as_deref(), Some("ns"));
}

#[test]
fn what_has_no_effect_is_remarked_on_with_its_place() {
    let text = file(
        "{\"Name\": \"q\", \"Properties\": {\n\"LockDuraton\": \"PT5S\",\n\"Zone\": 1}}",
        "{\"Name\": \"t\", \"Subscriptions\": [{\"Name\": \"s\", \"Properties\": {\n\"IsClientAffine\": false}}]}",
    )
    .replace("\"Name\": \"sbemulatorns\"", "\"Name\": \"x\", \"Properties\": {\"MaxAllowedConnections\": 5}");
    assert_eq!(
        read(&text).unwrap().notes,
        [
            "Config.json:1:60: Properties: the emulator's limits don't exist here",
            "Config.json:4:1: queue \"q\": LockDuraton is unknown and has no effect; did you mean LockDuration?",
            "Config.json:5:1: queue \"q\": Zone is unknown and has no effect",
            "Config.json:9:19: topic \"t\", subscription \"s\": IsClientAffine: has no effect",
        ]
    );
}

/// Queues, each with the one message it gives.
const BAD_QUEUES: &[(&str, &str)] = &[
    ("5", "3:1: Queues: holds objects, found 5; write [ { \"Name\": ... } ]"),
    ("{}", "3:1: Queues: Name: missing; write \"Name\": \"orders\""),
    ("{\"Name\": 5}", "3:10: Queues: Name: expected a text in quotes, found 5; write \"Name\": \"orders\""),
    ("{\"Name\": \"a@b\"}", "3:10: Queues: Name: \"a@b\" has the character '@'"),
    (
        "{\"Name\": \"q\"}, {\"Name\": \"Q\"}",
        "3:25: queue \"Q\" is already declared in line 3 as \"q\"; names match",
    ),
    ("{\"Name\": \"q\", \"Name\": \"r\"}", "3:15: Queues: Name: is there twice; remove one"),
    (
        "{\"Name\": \"q\", \"Properties\": []}",
        "3:29: queue \"q\": Properties: expected an object, found a list",
    ),
];

/// As [`BAD_QUEUES`], each within the properties of a queue, from line 4 on.
const BAD_PROPERTIES: &[(&str, &str)] = &[
    (
        "\"LockDuration\": \"PT4S\"",
        "4:17: queue \"q\": LockDuration: \"PT4S\" is outside the range from PT5S to PT5M",
    ),
    (
        "\"LockDuration\": 60",
        "LockDuration: expected a text in quotes, found 60; write \"LockDuration\": \"PT1M\"",
    ),
    ("\"LockDuration\": \"P1M\"", "LockDuration: \"P1M\" has years or months"),
    ("\"MaxDeliveryCount\": 0", "MaxDeliveryCount: 0 is no whole number from 1 to 2147483647"),
    ("\"MaxDeliveryCount\": 2.5", "MaxDeliveryCount: 2.5 is no whole number from 1"),
    ("\"MaxDeliveryCount\": \"3\"", "expected a whole number, found \"3\"; write \"MaxDeliveryCount\": 3"),
    ("\"DefaultMessageTimeToLive\": \"PT0S\"", "DefaultMessageTimeToLive: \"PT0S\" is less than a second"),
    ("\"DefaultMessageTimeToLive\": \"soon\"", "DefaultMessageTimeToLive: \"soon\" is not a duration"),
    (
        "\"RequiresSession\": \"yes\"",
        "RequiresSession: expected true or false, found \"yes\"; write \"RequiresSession\": false",
    ),
    ("\"RequiresDuplicateDetection\": 1", "RequiresDuplicateDetection: expected true or false, found 1"),
    ("\"DuplicateDetectionHistoryTimeWindow\": \"PT4S\"", "is outside the range from PT5S to PT168H"),
    ("\"DeadLetteringOnMessageExpiration\": {}", "expected true or false, found an object"),
    ("\"ForwardTo\": \"a?\"", "ForwardTo: \"a?\" has the character '?'"),
    ("\"ForwardTo\": \"Q\"", "ForwardTo: \"Q\" is the queue itself"),
    (
        "\"ForwardDeadLetteredMessagesTo\": 5",
        "ForwardDeadLetteredMessagesTo: expected a text in quotes, found 5",
    ),
    ("\"AutoDeleteOnIdle\": \"PT1M\"", "AutoDeleteOnIdle: \"PT1M\" is too short; write at least \"PT5M\""),
    ("\"Status\": \"Off\"", "Status: \"Off\" is no status; write \"Active\""),
    ("\"MaxSizeInMegabytes\": 0", "MaxSizeInMegabytes: 0 is no whole number from 1"),
    ("\"MaxMessageSizeInKilobytes\": 102400", "a message of 102400 KB never fits; raise"),
    (
        "\"EnableExpress\": true, \"RequiresDuplicateDetection\": true",
        "EnableExpress: can't be combined with",
    ),
    (
        "\"RequiresSession\": true, \"requiressession\": true",
        "4:26: queue \"q\": RequiresSession: is there twice",
    ),
];

/// As [`BAD_QUEUES`], for topics.
const BAD_TOPICS: &[(&str, &str)] = &[
    ("{}", "6:1: Topics: Name: missing"),
    (
        "{\"Name\": \"t\", \"Subscriptions\": {}}",
        "6:32: topic \"t\": Subscriptions: expected a list, found an object",
    ),
    (
        "{\"Name\": \"t\", \"Subscriptions\": [{\"Name\": \"a/b\"}]}",
        "topic \"t\": Subscriptions: Name: \"a/b\" has the char",
    ),
    (
        "{\"Name\": \"t\", \"Subscriptions\": [{\"Name\": \"s\"}, {\"Name\": \"S\"}]}",
        "topic \"t\": subscription \"S\" is already declared in line 6 as \"s\"",
    ),
    (
        "{\"Name\": \"t\", \"Properties\": {\"DefaultMessageTimeToLive\": 1}}",
        "topic \"t\": DefaultMessageTimeToLive: exp",
    ),
    (
        "{\"Name\": \"t\", \"Subscriptions\": [{\"Name\": \"s\", \"Properties\": {\"LockDuration\": \"PT6M\"}}]}",
        "topic \"t\", subscription \"s\": LockDuration: \"PT6M\" is outside",
    ),
    (
        "{\"Name\": \"t\", \"Subscriptions\": [{\"Name\": \"s\", \"Rules\": 1}]}",
        "subscription \"s\": Rules: expected a list",
    ),
];

/// As [`BAD_QUEUES`], for rules.
const BAD_RULES: &[(&str, &str)] = &[
    ("{}", "8:1: topic \"t\", subscription \"s\": Rules: Properties: missing; write"),
    (
        "{\"Name\": \"r\"}",
        "8:1: topic \"t\", subscription \"s\", rule \"r\": Properties: missing; write \"Properties\"",
    ),
    (
        "{\"Name\": \"a#\", \"Properties\": {\"SqlFilter\": {\"SqlExpression\": \"1=1\"}}}",
        "Name: \"a#\" has the character",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {}}",
        "8:29: topic \"t\", subscription \"s\", rule \"r\": CorrelationFilter: missing",
    ),
    ("{\"Name\": \"r\", \"Properties\": {\"FilterType\": \"Sql\"}}", "rule \"r\": SqlFilter: missing; write"),
    (
        "{\"Name\": \"r\", \"Properties\": {\"FilterType\": \"Red\"}}",
        "FilterType: \"Red\" is no filter; write \"Correlation\"",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {\"FilterType\": \"Sql\",\n\"SqlFilter\": {\"SqlExpression\": \"a > 5\"}}}",
        "9:32: topic \"t\", subscription \"s\", rule \"r\": SqlFilter: SqlExpression: SQL filters are not supported yet",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {\"FilterType\": \"Sql\", \"SqlFilter\": {}}}",
        "SqlFilter: SqlExpression: missing; write",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {\"CorrelationFilter\": {\"To\": \"x\"}, \"Action\": {\"SqlExpression\": \"SET a = 1\"}}}",
        "rule \"r\": Action: SqlExpression: SQL actions are not supported yet; remove it",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {\"CorrelationFilter\": {}}}",
        "rule \"r\": CorrelationFilter: sets nothing to compare",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {\"CorrelationFilter\": {\"Properties\": {}}}}",
        "CorrelationFilter: sets nothing to",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {\"CorrelationFilter\": {\"To\": 5}}}",
        "CorrelationFilter: To: expected a text",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {\"CorrelationFilter\": {\"Properties\": {\"a\": 1, \"A\": 2}}}}",
        "CorrelationFilter: Properties: \"A\" is there twice, names match regardless of case",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {\"CorrelationFilter\": {\"Properties\": {\"a\": [1]}}}}",
        "CorrelationFilter: Properties.a: expected a text, number or boolean, found a list",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {\"CorrelationFilter\": {\"Properties\": {\"\": 1}}}}",
        "a property has an empty name",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {\"CorrelationFilter\": {\"Properties\": {\"a\": 1e999}}}}",
        "does not fit into 64",
    ),
];

/// Whole files.
const BAD_FILES: &[(&str, &str)] = &[
    ("", "1:1: expected an object with UserConfig"),
    ("[]", "1:1: expected an object with UserConfig; is this the emulator's Config.json?"),
    ("{}", "1:1: UserConfig: missing; is this the emulator's Config.json?"),
    ("{\n\"UserConfig\": 5}", "2:15: UserConfig: expected an object, found 5"),
    ("{\"UserConfig\": {}}", "1:16: UserConfig: Namespaces: missing; write \"Namespaces\": ["),
    ("{\"UserConfig\": {\"Namespaces\": {}}}", "UserConfig: Namespaces: expected a list, found an object"),
    (
        "{\"UserConfig\": {\"Namespaces\": [{\"Name\": \"a\"}, {\"Name\": \"b\"}]}}",
        "there is one namespace; remove the others",
    ),
    ("{\"UserConfig\": {\"Namespaces\": [{\"Name\": 5}]}}", "namespace: Name: expected a text"),
    ("{\"UserConfig\": {\n\"Namespaces\": [,]}}", "2:16: not JSON: "),
    ("{\"UserConfig\": {\"Namespaces\": []", "not JSON: Unterminated"),
    ("{'UserConfig': {}}", "1:2: not JSON: "),
    ("{UserConfig: {}}", "1:2: not JSON: "),
];

#[test]
fn every_mistake_is_refused_with_its_place_and_advice() {
    let queues = |text: &str| file(text, "");
    let properties = |text: &str| file(&format!("{{\"Name\": \"q\", \"Properties\": {{\n{text}\n}}}}"), "");
    let topics = |text: &str| file("", text);
    let whole = str::to_owned;
    let tables: [(&dyn Fn(&str) -> String, _); 5] = [
        (&queues, BAD_QUEUES),
        (&properties, BAD_PROPERTIES),
        (&topics, BAD_TOPICS),
        (&rules_file, BAD_RULES),
        (&whole, BAD_FILES),
    ];
    let mut wrong = String::new();
    for (make, bad) in tables {
        for (text, expected) in bad {
            let found = read(&make(text)).map_or_else(|problems| problems.to_string(), |_| "nothing".into());
            if !found.contains(expected) {
                writeln!(wrong, "{text}\n expected: {expected}\n found:    {found}").unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let text = file(
        "{\"Name\": \"a@\"},\n{\"Name\": \"q\", \"Properties\": {\"LockDuration\": 1}}",
        "{\"Name\": \"t\", \"Subscriptions\": [\n{\"Name\": \"s\", \"Rules\": [\n{\"Name\": \"r\"}]}]}",
    );
    let problems = read(&text).unwrap_err();
    assert_eq!(problems.list.iter().map(|problem| problem.line).collect::<Vec<_>>(), [3, 4, 9]);
}

#[test]
fn the_limits_of_another_file_hold() {
    let limits = crate::config::limits::LimitsConfig {
        message_time_to_live_max_ms: Some(10 * MINUTE_MS),
        ..crate::config::limits::LimitsConfig::default()
    };
    let bounds = Bounds { limits, ..Bounds::default() };
    let quiet = super::parse("c", &file("{\"Name\": \"q\"}", ""), bounds).unwrap();
    assert_eq!(quiet.queues[0].options.default_message_time_to_live_ms, Some(10 * MINUTE_MS));
    let asks = "{\"Name\": \"q\", \"Properties\": {\"DefaultMessageTimeToLive\": \"PT1H\"}}";
    let error = super::parse("c", &file(asks, ""), bounds).unwrap_err().to_string();
    assert!(
        error.contains("longer than message_time_to_live_max in [limits]; write at most \"PT10M\""),
        "{error}"
    );
}

#[test]
fn in_toml_it_declares_the_same() {
    for text in [SAMPLE.to_owned(), everything()] {
        let file = read(&text).unwrap();
        let toml = to_toml(&file);
        let again = config::file::parse("toml", &toml).unwrap_or_else(|error| panic!("{error}\n{toml}"));
        assert_eq!((again.queues, again.topics), (file.queues, file.topics), "{toml}");
    }
}

/// The fuzz target `config_json` asks the same of more inputs.
#[test]
fn mutated_files_are_survived() {
    const ROUNDS: usize = 5_000;
    let mut random = StdRng::seed_from_u64(7);
    let seeds = [SAMPLE.to_owned(), everything()];
    let mut accepted = 0;
    for round in 0..ROUNDS {
        let mut bytes = seeds[round % seeds.len()].clone().into_bytes();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..bytes.len());
            match random.random_range(0..3) {
                0 => bytes[at] = b"{}[]\",:0e-\n/n"[random.random_range(0..13)],
                1 => drop(bytes.drain(at..(at + random.random_range(1..40)).min(bytes.len()))),
                _ => bytes.truncate(at.max(1)),
            }
        }
        accepted += usize::from(read(&String::from_utf8_lossy(&bytes)).is_ok());
    }
    assert!(accepted > 0, "some mutations keep a file right");
}
