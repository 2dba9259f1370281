//! Writes the entities of a configuration in TOML, leaving out what is the default, and shared access rules: their keys
//! belong into no output.

use std::fmt::{Display, Write};

use peeklock_engine::{
    CorrelationFilter, EntityStatus, Filter, Forwarding, Kept, PropertyValue, QueueOptions, Rule,
    SubscriptionOptions, TopicOptions,
};

use super::duration;
use super::file::FileConfig;
use super::queue::QueueConfig;
use super::subscription::SubscriptionConfig;
use super::topic::TopicConfig;

const KILOBYTE: u64 = 1 << 10;
const MEGABYTE: u64 = 1 << 20;

/// The entities of a file as a file in TOML declares them.
pub(crate) fn to_toml(file: &FileConfig) -> String {
    let mut text = Text::default();
    for queue in &file.queues {
        write_queue(&mut text, queue);
    }
    for topic in &file.topics {
        write_topic(&mut text, topic);
    }
    text.0
}

/// TOML being written.
#[derive(Default)]
struct Text(String);

impl Text {
    fn header(&mut self, header: &str) {
        let space = if self.0.is_empty() { "" } else { "\n" };
        // Writing into a string can't fail; so below.
        let _ = writeln!(self.0, "{space}[[{header}]]");
    }

    fn set(&mut self, key: &str, value: impl Display) {
        let _ = writeln!(self.0, "{key} = {value}");
    }

    /// A property, unless it has its default.
    fn property<T: PartialEq>(&mut self, key: &str, value: &T, default: &T, show: impl FnOnce(&T) -> String) {
        if value != default {
            self.set(key, show(value));
        }
    }

    fn flag(&mut self, key: &str, value: bool, default: bool) {
        self.property(key, &value, &default, bool::to_string);
    }

    /// A duration that may have no end.
    fn optional_ms(&mut self, key: &str, value: Option<u64>) {
        if let Some(value_ms) = value {
            self.set(key, quoted(&duration::iso(value_ms)));
        }
    }

    fn target(&mut self, key: &str, target: Option<&str>) {
        if let Some(name) = target {
            self.set(key, quoted(name));
        }
    }
}

fn write_queue(text: &mut Text, QueueConfig { name, options }: &QueueConfig) {
    let default = QueueOptions::default();
    text.header("queues");
    text.set("name", quoted(name));
    text.property("lock_duration", &options.lock_duration_ms, &default.lock_duration_ms, iso);
    text.property(
        "max_delivery_count",
        &options.max_delivery_count,
        &default.max_delivery_count,
        u32::to_string,
    );
    text.optional_ms("default_message_time_to_live", options.default_message_time_to_live_ms);
    text.flag("dead_lettering_on_message_expiration", options.dead_lettering_on_message_expiration, false);
    text.flag("requires_session", options.requires_session, false);
    text.optional_ms("auto_delete_on_idle", options.auto_delete_on_idle_ms);
    let sizes = (options.max_message_size_bytes, options.max_size_bytes);
    write_sizes(text, sizes, (default.max_message_size_bytes, default.max_size_bytes));
    write_detection(
        text,
        options.requires_duplicate_detection,
        options.duplicate_detection_history_time_window_ms,
        default.duplicate_detection_history_time_window_ms,
    );
    write_rest(text, options.status, Some(&options.forwarding));
    write_kept(text, &options.kept);
}

fn write_topic(text: &mut Text, TopicConfig { name, options, subscriptions }: &TopicConfig) {
    let default = TopicOptions::default();
    text.header("topics");
    text.set("name", quoted(name));
    text.optional_ms("default_message_time_to_live", options.default_message_time_to_live_ms);
    text.optional_ms("auto_delete_on_idle", options.auto_delete_on_idle_ms);
    let sizes = (options.max_message_size_bytes, options.max_size_bytes);
    write_sizes(text, sizes, (default.max_message_size_bytes, default.max_size_bytes));
    write_detection(
        text,
        options.requires_duplicate_detection,
        options.duplicate_detection_history_time_window_ms,
        default.duplicate_detection_history_time_window_ms,
    );
    write_rest(text, options.status, None);
    write_kept(text, &options.kept);
    for subscription in subscriptions {
        write_subscription(text, subscription);
    }
}

fn write_subscription(text: &mut Text, SubscriptionConfig { name, options, rules }: &SubscriptionConfig) {
    let default = SubscriptionOptions::default();
    text.header("topics.subscriptions");
    text.set("name", quoted(name));
    text.property("lock_duration", &options.lock_duration_ms, &default.lock_duration_ms, iso);
    text.property(
        "max_delivery_count",
        &options.max_delivery_count,
        &default.max_delivery_count,
        u32::to_string,
    );
    text.optional_ms("default_message_time_to_live", options.default_message_time_to_live_ms);
    text.flag("dead_lettering_on_message_expiration", options.dead_lettering_on_message_expiration, false);
    text.flag(
        "dead_lettering_on_filter_evaluation_exceptions",
        options.dead_lettering_on_filter_evaluation_exceptions,
        default.dead_lettering_on_filter_evaluation_exceptions,
    );
    text.flag("requires_session", options.requires_session, false);
    text.optional_ms("auto_delete_on_idle", options.auto_delete_on_idle_ms);
    write_rest(text, options.status, Some(&options.forwarding));
    write_kept(text, &options.kept);
    if rules.is_empty() {
        text.set("rules", "[]");
    } else if *rules != [Rule::default_rule()] {
        for rule in rules {
            write_rule(text, rule);
        }
    }
}

fn write_sizes(text: &mut Text, (message, total): (u64, u64), (message_default, total_default): (u64, u64)) {
    text.property("max_message_size_in_kilobytes", &message, &message_default, |bytes| {
        (bytes / KILOBYTE).to_string()
    });
    text.property("max_size_in_megabytes", &total, &total_default, |bytes| (bytes / MEGABYTE).to_string());
}

fn write_detection(text: &mut Text, is_required: bool, window_ms: u64, default_ms: u64) {
    text.flag("requires_duplicate_detection", is_required, false);
    text.property("duplicate_detection_history_time_window", &window_ms, &default_ms, iso);
}

fn write_kept(text: &mut Text, kept: &Kept) {
    text.target("user_metadata", kept.user_metadata.as_deref());
    text.flag("enable_batched_operations", kept.enable_batched_operations, true);
    text.flag("enable_partitioning", kept.enable_partitioning, false);
    text.flag("enable_express", kept.enable_express, false);
    text.flag("support_ordering", kept.support_ordering, true);
    text.flag("filtering_messages_before_publishing", kept.filtering_messages_before_publishing, false);
    text.flag("enable_subscription_partitioning", kept.enable_subscription_partitioning, false);
}

fn write_rest(text: &mut Text, status: EntityStatus, forwarding: Option<&Forwarding>) {
    text.property("status", &status, &EntityStatus::Active, |status| quoted(&format!("{status:?}")));
    if let Some(Forwarding { forward_to, forward_dead_lettered_messages_to }) = forwarding {
        text.target("forward_to", forward_to.as_deref());
        text.target("forward_dead_lettered_messages_to", forward_dead_lettered_messages_to.as_deref());
    }
}

fn write_rule(text: &mut Text, rule: &Rule) {
    text.header("topics.subscriptions.rules");
    text.set("name", quoted(&rule.name));
    match &rule.filter {
        Filter::True => text.set("filter", quoted("true")),
        Filter::False => text.set("filter", quoted("false")),
        Filter::Correlation(filter) => text.set("correlation", correlation(filter)),
        Filter::Sql(filter) => text.set("sql", quoted(filter.expression())),
    }
    if let Some(action) = &rule.action {
        text.set("action", quoted(action.expression()));
    }
    let parameters = parameters(rule);
    if !parameters.is_empty() {
        text.set("parameters", rule_properties(&parameters));
    }
}

/// In a file filter and action have their parameters in common.
fn parameters(rule: &Rule) -> Vec<(Box<str>, PropertyValue)> {
    let mut all = match &rule.filter {
        Filter::Sql(filter) => filter.parameters().to_vec(),
        _ => Vec::new(),
    };
    for (name, value) in rule.action.iter().flat_map(|action| action.parameters()) {
        if !all.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
            all.push((name.clone(), value.clone()));
        }
    }
    all
}

fn correlation(filter: &CorrelationFilter) -> String {
    let fields = [
        ("correlation_id", &filter.correlation_id),
        ("message_id", &filter.message_id),
        ("to", &filter.to),
        ("reply_to", &filter.reply_to),
        ("label", &filter.label),
        ("session_id", &filter.session_id),
        ("reply_to_session_id", &filter.reply_to_session_id),
        ("content_type", &filter.content_type),
    ];
    let set = fields.iter().filter_map(|(key, field)| Some((*key, field.as_deref()?)));
    let mut parts: Vec<String> = set.map(|(key, text)| format!("{key} = {}", quoted(text))).collect();
    if !filter.user.is_empty() {
        parts.push(format!("properties = {}", rule_properties(&filter.user)));
    }
    format!("{{ {} }}", parts.join(", "))
}

fn rule_properties(values: &[(Box<str>, PropertyValue)]) -> String {
    let parts = values.iter().map(|(name, value)| format!("{} = {}", quoted(name), fact(value)));
    format!("{{ {} }}", parts.collect::<Vec<_>>().join(", "))
}

/// A value that a filter can have; neither reader makes the last ones.
fn fact(value: &PropertyValue) -> String {
    match value {
        PropertyValue::Boolean(flag) => flag.to_string(),
        PropertyValue::Integer(number) => number.to_string(),
        PropertyValue::Unsigned(number) => number.to_string(),
        // As TOML wants it: always with a point or an exponent.
        PropertyValue::Double(number) => format!("{number:?}"),
        PropertyValue::Text(text) => quoted(text),
        PropertyValue::Timestamp(ms) => {
            jiff::Timestamp::from_millisecond(*ms).map_or_else(|_| quoted(""), |instant| instant.to_string())
        }
        PropertyValue::Given(given) => fact(&given.plain()),
        PropertyValue::Null
        | PropertyValue::Uuid(_)
        | PropertyValue::Other(_)
        | PropertyValue::TimeSpan(_)
        | PropertyValue::DateTimeOffset(_)
        | PropertyValue::Decimal(_) => quoted(""),
    }
}

fn iso(milliseconds: &u64) -> String {
    quoted(&duration::iso(*milliseconds))
}

/// A basic string: quotation marks, backslashes and control characters are escaped.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            _ if char.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(char));
            }
            _ => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}
