//! Queues, topics, subscriptions and rules: valid ones, invalid ones, and those requested by flag.

use peeklock_engine::schema::{EntityOption, Fields, OPTIONS, OptionKind, OptionSet};
use peeklock_engine::{
    CorrelationFilter, EntityStatus, Filter, Forwarding, Kept, PropertyValue, QueueOptions, Rule,
    SubscriptionOptions, TopicOptions,
};

use super::*;

#[test]
fn queues_are_read_with_every_property() {
    let config = merged(
        ServeArgs::default(),
        r#"
        [[queues]]
        name = "Orders/eu"
        lock_duration = "30s"
        max_delivery_count = 5
        default_message_time_to_live = "14 days"
        dead_lettering_on_message_expiration = true
        requires_session = true
        auto_delete_on_idle = "PT5M"
        max_message_size_in_kilobytes = 2048
        max_size_in_megabytes = 0x10
        requires_duplicate_detection = true
        duplicate_detection_history_time_window = "P7D"
        status = "SendDisabled"
        forward_to = "sb://localhost:5672/archive/eu"
        forward_dead_lettered_messages_to = "dead"
        user_metadata = "owned by sales"
        enable_batched_operations = false
        enable_partitioning = true
        support_ordering = false
        [[queues]]
        name = "plain"
        forward_to = ""
        user_metadata = ""
        status = "Active"
        enable_express = false
        default_message_time_to_live = "P10675199DT2H48M5.4775807S"
        auto_delete_on_idle = "P10675199DT2H48M5.4775807S"
        requires_session = false
        "#,
    );
    let options = QueueOptions {
        is_temporary: false,
        lock_duration_ms: 30_000,
        max_delivery_count: 5,
        default_message_time_to_live_ms: Some(1_209_600_000),
        dead_lettering_on_message_expiration: true,
        requires_session: true,
        auto_delete_on_idle_ms: Some(300_000),
        max_message_size_bytes: 2 << 20,
        max_size_bytes: 16 << 20,
        requires_duplicate_detection: true,
        duplicate_detection_history_time_window_ms: 604_800_000,
        status: EntityStatus::SendDisabled,
        forwarding: Forwarding {
            forward_to: Some("archive/eu".into()),
            forward_dead_lettered_messages_to: Some("dead".into()),
        },
        authorization_rules: Vec::new(),
        kept: Kept {
            user_metadata: Some("owned by sales".into()),
            enable_batched_operations: false,
            enable_partitioning: true,
            support_ordering: false,
            ..Kept::default()
        },
    };
    let plain = QueueOptions::default();
    let queue = |name: &str, options: QueueOptions| QueueConfig { name: name.into(), options };
    assert_eq!(config.queues, [queue("Orders/eu", options), queue("plain", plain)]);
}

/// Options that differ from the default only in this one.
fn with_another<O: OptionSet>(option: &EntityOption) -> O {
    const HOUR_MS: u64 = 3_600_000;
    fn set<T, O: OptionSet>(at: &Fields<T>, options: &mut O, change: impl FnOnce(&mut T)) {
        if let Some(value) = at.get_mut(options) {
            change(value);
        }
    }
    let mut options = O::default();
    match &option.kind {
        OptionKind::Boolean(at) => set(at, &mut options, |flag| *flag = !*flag),
        OptionKind::Count(at, _) => set(at, &mut options, |count| *count += 1),
        OptionKind::Duration(at, range_ms) => set(at, &mut options, |length_ms| *length_ms = *range_ms.end()),
        OptionKind::TimeToLive(at, _) | OptionKind::IdleTime(at) => {
            set(at, &mut options, |length_ms| *length_ms = Some(HOUR_MS));
        }
        OptionKind::Size(at, unit, _) => set(at, &mut options, |bytes| *bytes = 7 * unit.bytes()),
        OptionKind::Text(at, _) => set(at, &mut options, |text| *text = Some("other".into())),
        OptionKind::Target(at) => set(at, &mut options, |target| *target = Some("other".into())),
        OptionKind::Status(at) => set(at, &mut options, |status| *status = EntityStatus::Disabled),
        // Their keys must not be in any output.
        OptionKind::AuthorizationRules(_) => {}
    }
    options
}

#[test]
fn every_option_comes_back_from_the_toml_that_it_is_converted_to() {
    for option in OPTIONS {
        let subscription = SubscriptionConfig {
            options: with_another::<SubscriptionOptions>(option),
            ..SubscriptionConfig::plain("s".into())
        };
        let file = FileConfig {
            queues: vec![QueueConfig { name: "q".into(), options: with_another::<QueueOptions>(option) }],
            topics: vec![TopicConfig {
                name: "t".into(),
                options: with_another::<TopicOptions>(option),
                subscriptions: vec![subscription],
            }],
            ..FileConfig::default()
        };
        let toml = to_toml(&file);
        let is_of_no_output = matches!(option.kind, OptionKind::AuthorizationRules(_));
        assert!(toml.contains(option.name) || is_of_no_output, "{toml}");
        let read = parse("toml", &toml).unwrap_or_else(|problems| panic!("{problems}\n{toml}"));
        assert_eq!((read.queues, read.topics), (file.queues, file.topics), "{toml}");
    }
}

fn all_options() -> SubscriptionOptions {
    SubscriptionOptions {
        client: None,
        lock_duration_ms: 30_000,
        max_delivery_count: 5,
        default_message_time_to_live_ms: Some(1_800_000),
        dead_lettering_on_message_expiration: true,
        dead_lettering_on_filter_evaluation_exceptions: false,
        requires_session: true,
        auto_delete_on_idle_ms: Some(2_000),
        status: EntityStatus::ReceiveDisabled,
        forwarding: Forwarding { forward_to: Some("archive".into()), ..Forwarding::default() },
        kept: Kept { user_metadata: Some("m".into()), ..Kept::default() },
    }
}

#[test]
fn topics_and_subscriptions_are_read_with_every_property() {
    let config = merged(
        ServeArgs::default(),
        r#"
        [limits]
        auto_delete_on_idle_min = "200ms"
        [[topics]]
        name = "News/eu"
        default_message_time_to_live = "1h"
        max_size_in_megabytes = 16
        max_message_size_in_kilobytes = 2048
        auto_delete_on_idle = "200ms"
        requires_duplicate_detection = true
        duplicate_detection_history_time_window = "20s"
        status = "Disabled"
        support_ordering = false
        filtering_messages_before_publishing = true
        enable_subscription_partitioning = true
        [[topics.subscriptions]]
        name = "all"
        lock_duration = "30s"
        max_delivery_count = 5
        default_message_time_to_live = "30m"
        dead_lettering_on_message_expiration = true
        dead_lettering_on_filter_evaluation_exceptions = false
        requires_session = true
        auto_delete_on_idle = "2 seconds"
        status = "ReceiveDisabled"
        forward_to = "SB://host/archive"
        user_metadata = "m"
        [[topics.subscriptions]]
        name = "none"
        rules = []
        [[topics]]
        name = "plain"
        auto_delete_on_idle = "unlimited"
        "#,
    );
    let options = TopicOptions {
        is_temporary: false,
        default_message_time_to_live_ms: Some(3_600_000),
        auto_delete_on_idle_ms: Some(200),
        max_message_size_bytes: 2 << 20,
        max_size_bytes: 16 << 20,
        requires_duplicate_detection: true,
        duplicate_detection_history_time_window_ms: 20_000,
        status: EntityStatus::Disabled,
        authorization_rules: Vec::new(),
        kept: Kept {
            support_ordering: false,
            filtering_messages_before_publishing: true,
            enable_subscription_partitioning: true,
            ..Kept::default()
        },
    };
    let all = all_options();
    let all = SubscriptionConfig { options: all, ..SubscriptionConfig::plain("all".into()) };
    assert_eq!(all.rules, [Rule::default_rule()], "a subscription without the key gets every message");
    let none = SubscriptionConfig { rules: Vec::new(), ..SubscriptionConfig::plain("none".into()) };
    let news = TopicConfig { name: "News/eu".into(), options, subscriptions: vec![all, none] };
    let plain =
        TopicConfig { name: "plain".into(), options: TopicOptions::default(), subscriptions: Vec::new() };
    assert_eq!(config.topics, [news, plain]);
}

/// The filters of the rules in one subscription, by name.
fn filters(rules: &str) -> Vec<(String, Filter)> {
    let text = format!("[[topics]]\nname = \"t\"\n[[topics.subscriptions]]\nname = \"s\"\n{rules}");
    let config = merged(ServeArgs::default(), &text);
    let rules = config.topics[0].subscriptions[0].rules.clone();
    rules.into_iter().map(|rule| (rule.name.into(), rule.filter)).collect()
}

#[test]
fn a_rule_has_one_of_three_kinds_of_filter() {
    let found = filters(
        r#"rules = [
            { name = "$Default", filter = "true" },
            { name = "off", filter = "false" },
            { name = "sql", sql = " 1 = 1 " },
            { name = "sql off", sql = "1=0" },
            { name = "red", correlation = { label = "red" } },
        ]"#,
    );
    let red = CorrelationFilter { label: Some("red".into()), ..CorrelationFilter::default() };
    let expected = [
        ("$Default", Filter::True),
        ("off", Filter::False),
        ("sql", Filter::sql(" 1 = 1 ", Vec::new()).unwrap()),
        ("sql off", Filter::sql("1=0", Vec::new()).unwrap()),
        ("red", Filter::Correlation(Box::new(red))),
    ];
    assert_eq!(found, expected.map(|(name, filter)| (name.to_owned(), filter)));
}

#[test]
fn a_correlation_filter_may_name_every_field_and_typed_properties() {
    let found = filters(
        r#"
        [[topics.subscriptions.rules]]
        name = "everything"
        [topics.subscriptions.rules.correlation]
        correlation_id = "c"
        message_id = "m"
        to = "t"
        reply_to = "r"
        subject = "s"
        session_id = ""
        reply_to_session_id = "rs"
        content_type = "text/plain"
        [topics.subscriptions.rules.correlation.properties]
        text = "eu"
        less = -7
        more = 0xFFFF_FFFF_FFFF_FFFF
        real = 1.5
        flag = true
        then = 2026-01-31T13:00:00.5+01:00
        "#,
    );
    let user = [
        ("flag", PropertyValue::Boolean(true)),
        ("less", PropertyValue::Integer(-7)),
        ("more", PropertyValue::Unsigned(u64::MAX)),
        ("real", PropertyValue::Double(1.5)),
        ("text", PropertyValue::Text("eu".into())),
        ("then", PropertyValue::Timestamp(1_769_860_800_500)),
    ];
    let text = |text: &str| Some(text.into());
    let filter = CorrelationFilter {
        correlation_id: text("c"),
        message_id: text("m"),
        to: text("t"),
        reply_to: text("r"),
        label: text("s"),
        session_id: text(""),
        reply_to_session_id: text("rs"),
        content_type: text("text/plain"),
        user: user.map(|(name, value)| (name.into(), value)).into(),
    };
    assert_eq!(found, [("everything".to_owned(), Filter::Correlation(Box::new(filter)))]);
}

fn asking(queues: &[&str], topics: &[&str]) -> ServeArgs {
    ServeArgs {
        queues: queues.iter().map(|name| (*name).to_owned()).collect(),
        topics: topics.iter().map(|name| name.parse().unwrap()).collect(),
        ..ServeArgs::default()
    }
}

#[test]
fn an_entity_of_the_file_is_not_asked_for_again_by_flag() {
    let file =
        "[[queues]]\nname = \"orders\"\n[[topics]]\nname = \"news\"\nsubscriptions = [{ name = \"all\" }]";
    let args = asking(&["ORDERS", "other"], &["NEWS/All", "news", "news/eu", "News/EU", "sport"]);
    let config = merged(args, file);
    assert_eq!(config.queues_if_missing, ["other"]);
    let missing: Vec<AskedTopic> = ["news/eu", "sport"].map(|text| text.parse().unwrap()).into();
    assert_eq!(config.topics_if_missing, missing);
    assert_eq!((config.queues.len(), config.topics.len()), (1, 1));
}

#[test]
fn a_name_asked_for_as_queue_and_as_topic_is_refused() {
    let refused = |args: ServeArgs, text: &str| {
        let file = parse("test.toml", text).unwrap();
        Config::merge(args, file, false).unwrap_err().to_string()
    };
    assert_eq!(
        refused(asking(&["News"], &[]), "[[topics]]\nname = \"news\""),
        "--queue News: the file declares a topic of this name; choose another"
    );
    assert_eq!(
        refused(asking(&[], &["News/all"]), "[[queues]]\nname = \"news\""),
        "--topic News: the file declares a queue of this name; choose another"
    );
    assert_eq!(
        refused(asking(&["news"], &["News"]), ""),
        "--topic News: --queue declares a queue of this name; choose another"
    );
}

#[test]
fn s15_the_limit_is_the_default_without_a_time_to_live() {
    let config = merged(
        ServeArgs::default(),
        r#"
        [limits]
        message_time_to_live_max = "P14D"
        [[queues]]
        name = "silent"
        [[queues]]
        name = "shorter"
        default_message_time_to_live = "P1D"
        [[topics]]
        name = "news"
        [[topics.subscriptions]]
        name = "all"
        "#,
    );
    let day_ms = 24 * 3_600_000;
    let queues = config.queues.iter().map(|queue| queue.options.default_message_time_to_live_ms);
    assert_eq!(queues.collect::<Vec<_>>(), [Some(14 * day_ms), Some(day_ms)]);
    let topic = &config.topics[0];
    assert_eq!(topic.options.default_message_time_to_live_ms, Some(14 * day_ms));
    assert_eq!(topic.subscriptions[0].options.default_message_time_to_live_ms, Some(14 * day_ms));
    assert_eq!(
        config.limits.message_time_to_live_max_ms,
        Some(14 * day_ms),
        "for entities asked for by flag"
    );
}
