//! The emulator's file: its meaning, and its errors.

mod mistakes;

use peeklock_engine::{
    CorrelationFilter, EntityStatus, Filter, Forwarding, Kept, PropertyValue, QueueOptions, Rule, RuleLimits,
    SqlAction, SubscriptionOptions, TopicOptions,
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

/// Every property of every entity, with a value other than its default.
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
        {"Name": "none", "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "1=0"},
          "Action": {"SqlExpression": " "}}},
        {"Name": "sql", "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "a = '\"\\\u0007\n'"},
          "Action": {"SqlExpression": "SET a = 'ü'; REMOVE b"}}},
        {"Name": "both", "Properties": {"CorrelationFilter": {"To": "x"}, "Action": {"SqlExpression": "REMOVE c"}}}]},
       {"Name": "plain"}]}"#;
    file(queue, topic)
}

#[test]
fn the_sample_declares_the_same_entities_as_the_emulators() {
    let sample = read(SAMPLE).unwrap();
    assert_eq!(sample.notes, [] as [&str; 0]);
    assert!(sample.is_emulators);
    assert_eq!(sample.namespace.name.as_deref(), Some("sbemulatorns"));
    let queue = QueueOptions {
        default_message_time_to_live_ms: Some(60 * MINUTE_MS),
        max_delivery_count: 3,
        duplicate_detection_history_time_window_ms: 20_000,
        ..QueueOptions::default()
    };
    assert_eq!(sample.queues, [QueueConfig { name: "queue.1".into(), options: queue }]);
    let [topic] = &sample.topics[..] else { panic!("one topic") };
    assert_eq!((topic.name.as_str(), topic.subscriptions.len()), ("topic.1", 4));
    let names: Vec<&str> = topic.subscriptions[..2].iter().map(|one| &*one.rules[0].name).collect();
    assert_eq!(names, ["app-prop-filter-1", "user-prop-filter-1"], "and so no $Default");
    assert_eq!(topic.subscriptions[2].rules, [Rule::default_rule()]);
    let sql = "sys.MessageId = '123456' AND userProp1 = 'value1'";
    let [rule] = &topic.subscriptions[3].rules[..] else { panic!("one rule") };
    assert_eq!(rule.filter, Filter::sql(sql, Vec::new()).unwrap());
    assert_eq!(rule.action, Some(SqlAction::new("SET sys.To = 'Entity'", Vec::new()).unwrap()));
}

/// The emulator reads its file by .NET's configuration builder ("'ConfigFiles/Config.json' was not found at …",
/// azure-service-bus-emulator-installer 94), for which every value is text, and logs it with numbers for filter types (96).
#[test]
fn values_may_be_quoted_and_filter_types_numbers() {
    let queue = r#"{"Name": "q", "Properties": {"MaxDeliveryCount": "10", "RequiresSession": "True",
        "RequiresDuplicateDetection": "false"}}"#;
    let quoted = read(&file(queue, "")).unwrap();
    let options = &quoted.queues[0].options;
    assert_eq!((options.max_delivery_count, options.requires_session), (10, true));
    assert!(!options.requires_duplicate_detection);
    let rules = r#"{"Name": "fields", "Properties": {"Action": null, "CorrelationFilter": {"To": "x", "Properties": {}},
        "FilterType": 0, "SqlFilter": null}},
        {"Name": "sql", "Properties": {"FilterType": 1, "CorrelationFilter": null, "SqlFilter": {"SqlExpression": "a = 1"}}}"#;
    let logged = read(&rules_file(rules)).unwrap();
    let [fields, sql] = &logged.topics[0].subscriptions[0].rules[..] else { panic!("two rules") };
    assert_eq!(sql.filter, Filter::sql("a = 1", Vec::new()).unwrap());
    assert!(matches!(&fields.filter, Filter::Correlation(filter) if filter.to.as_deref() == Some("x")));
}

#[test]
fn missing_values_have_the_emulators_defaults() {
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
        // Five seconds are below Service Bus's minimum.
        duplicate_detection_history_time_window_ms: 20_000,
        kept: Kept { enable_express: true, support_ordering: false, ..Kept::default() },
        ..TopicOptions::default()
    };
    assert_eq!(topic.options, expected);
    let expected = SubscriptionOptions {
        client: None,
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
        ("flag", PropertyValue::Boolean(true)),
        ("half", PropertyValue::Double(0.5)),
        ("large", PropertyValue::Unsigned(u64::MAX)),
        ("text", PropertyValue::Text("é\n".into())),
        ("whole", PropertyValue::Integer(-5)),
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
    let filters: Vec<(&str, &Filter)> = rules[..3].iter().map(|rule| (&*rule.name, &rule.filter)).collect();
    let expected = Filter::Correlation(Box::new(filter));
    let [all, none] = [" 1 = 1 ", "1=0"].map(|sql| Filter::sql(sql, Vec::new()).unwrap());
    assert_eq!(filters, [("fields", &expected), ("$Default", &all), ("none", &none)]);
    assert!(rules[..3].iter().all(|rule| rule.action.is_none()), "an empty action is none");
    let [sql, both] = &rules[3..] else { panic!("two more") };
    assert_eq!(sql.filter, Filter::sql("a = '\"\\\u{7}\n'", Vec::new()).unwrap());
    assert_eq!(sql.action, Some(SqlAction::new("SET a = 'ü'; REMOVE b", Vec::new()).unwrap()));
    assert_eq!(both.action, Some(SqlAction::new("REMOVE c", Vec::new()).unwrap()));
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
    assert_eq!(file.namespace.name.as_deref(), Some("ns"));
}

#[test]
fn values_without_effect_are_noted_with_their_place() {
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
fn the_limits_of_rules_hold() {
    let rules = RuleLimits { sql_expression_characters: 10, action_statements: 1, ..RuleLimits::default() };
    let limits =
        crate::config::limits::LimitsConfig { rules, ..crate::config::limits::LimitsConfig::default() };
    let bounds = Bounds { limits, ..Bounds::default() };
    let rule = |filter: &str, action: &str| {
        let properties = format!(
            "{{\"SqlFilter\": {{\"SqlExpression\": \"{filter}\"}}, \"Action\": {{\"SqlExpression\": \"{action}\"}}}}"
        );
        super::parse("c", &rules_file(&format!("{{\"Name\": \"r\", \"Properties\": {properties}}}")), bounds)
    };
    assert!(rule("a = 'four'", "REMOVE abc").is_ok());
    for (filter, action, text) in [
        (
            "a = 'fours'",
            "REMOVE a",
            "SqlExpression: has 11 characters, and sql_expression_characters in [limits] is 10",
        ),
        (
            "1=1",
            "REMOVE abcd",
            "SqlExpression: has 11 characters, and sql_expression_characters in [limits] is 10",
        ),
    ] {
        let error = rule(filter, action).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
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

/// The fuzz target `config_json` tests the same with more inputs.
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
