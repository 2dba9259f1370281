//! Writes the entities of a configuration in TOML, omitting defaults and shared access rules, whose keys must not be in
//! any output.

use std::fmt::{Display, Write};

use peeklock_engine::schema::{EntityOption, OPTIONS, OptionKind, OptionSet};
use peeklock_engine::{CorrelationFilter, Filter, PropertyValue, Rule, Tier};

use super::duration;
use super::file::FileConfig;
use super::namespace::{NamespaceConfig, written};
use super::queue::QueueConfig;
use super::subscription::SubscriptionConfig;
use super::topic::TopicConfig;
use super::values::NULL;

/// The entities of a file, declared in TOML.
pub(crate) fn to_toml(file: &FileConfig) -> String {
    let mut text = Text::default();
    let tier = file.namespace.tier;
    write_namespace(&mut text, &file.namespace);
    for queue in &file.queues {
        write_queue(&mut text, queue, tier);
    }
    for topic in &file.topics {
        write_topic(&mut text, topic, tier);
    }
    text.0
}

/// A TOML text under construction.
#[derive(Default)]
struct Text(String);

impl Text {
    /// Writes the header of an entry of a list.
    fn header(&mut self, header: &str) {
        self.section(&format!("[{header}]"));
    }

    fn section(&mut self, header: &str) {
        let space = if self.0.is_empty() { "" } else { "\n" };
        // Writing to a string can't fail, here and below.
        let _ = writeln!(self.0, "{space}[{header}]");
    }

    fn set(&mut self, key: &str, value: impl Display) {
        let _ = writeln!(self.0, "{key} = {value}");
    }

    /// Writes the options that don't have their defaults.
    fn options<O: OptionSet>(&mut self, options: &O, tier: Tier) {
        let default: O = tier.defaults();
        for option in OPTIONS.iter().filter(|option| !option.is_equal(options, &default)) {
            if let Some(value) = shown(option, options) {
                self.set(option.name, value);
            }
        }
    }
}

/// An option in TOML; `None` without a value, and for keys, which must not be in any output.
pub(crate) fn shown<O: OptionSet>(option: &EntityOption, options: &O) -> Option<String> {
    Some(match &option.kind {
        OptionKind::Boolean(at) => at.get(options)?.to_string(),
        OptionKind::Count(at, _) => at.get(options)?.to_string(),
        OptionKind::Duration(at, _) => iso(*at.get(options)?),
        OptionKind::TimeToLive(at, _) | OptionKind::IdleTime(at) => iso((*at.get(options)?)?),
        OptionKind::Size(at, unit, _) => (at.get(options)? / unit.bytes()).to_string(),
        OptionKind::Text(at, _) => quoted(at.get(options)?.as_deref()?),
        OptionKind::Target(at) => quoted(at.get(options)?.as_deref()?),
        OptionKind::Status(at) => quoted(at.get(options)?.name()),
        OptionKind::AuthorizationRules(_) => return None,
    })
}

fn write_namespace(text: &mut Text, NamespaceConfig { name, tier }: &NamespaceConfig) {
    if name.is_none() && *tier == Tier::default() {
        return;
    }
    text.section("namespace");
    if let Some(name) = name {
        text.set("name", quoted(name));
    }
    if *tier != Tier::default() {
        text.set("tier", quoted(&written(*tier)));
    }
}

fn write_queue(text: &mut Text, QueueConfig { name, options }: &QueueConfig, tier: Tier) {
    text.header("queues");
    text.set("name", quoted(name));
    text.options(options, tier);
}

fn write_topic(text: &mut Text, TopicConfig { name, options, subscriptions }: &TopicConfig, tier: Tier) {
    text.header("topics");
    text.set("name", quoted(name));
    text.options(options, tier);
    for subscription in subscriptions {
        write_subscription(text, subscription, tier);
    }
}

fn write_subscription(
    text: &mut Text,
    SubscriptionConfig { name, options, rules }: &SubscriptionConfig,
    tier: Tier,
) {
    text.header("topics.subscriptions");
    text.set("name", quoted(name));
    text.options(options, tier);
    if rules.is_empty() {
        text.set("rules", "[]");
    } else if *rules != [Rule::default_rule()] {
        for rule in rules {
            write_rule(text, rule);
        }
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
        // A file can't declare one: selectors belong to the subscriptions of clients.
        Filter::Selector(_) => {}
    }
    if let Some(action) = &rule.action {
        text.set("action", quoted(action.expression()));
    }
    let parameters = parameters(rule);
    if !parameters.is_empty() {
        text.set("parameters", rule_properties(&parameters));
    }
}

/// Parameters with different values in filter and action, which a file can't express.
pub(crate) fn ambiguous_parameters(rule: &Rule) -> Vec<&str> {
    let Filter::Sql(filter) = &rule.filter else { return Vec::new() };
    let of_action = rule.action.iter().flat_map(|action| action.parameters());
    let differs = |(name, value): &&(Box<str>, PropertyValue)| {
        let same = filter.parameters().iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        same.is_some_and(|(_, other)| other.plain() != value.plain())
    };
    of_action.filter(differs).map(|(name, _)| &**name).collect()
}

/// In a file, filter and action share their parameters.
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

/// The message fields that a filter compares, by their names in TOML, without application properties.
pub(crate) fn correlation_fields(filter: &CorrelationFilter) -> Vec<(&'static str, &str)> {
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
    fields.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?))).collect()
}

fn correlation(filter: &CorrelationFilter) -> String {
    let set = correlation_fields(filter).into_iter();
    let mut parts: Vec<String> = set.map(|(key, text)| format!("{key} = {}", quoted(text))).collect();
    if !filter.user.is_empty() {
        parts.push(format!("properties = {}", rule_properties(&filter.user)));
    }
    format!("{{ {} }}", parts.join(", "))
}

/// Sorted by name, because the order has no meaning: equal rules have equal texts.
fn rule_properties(values: &[(Box<str>, PropertyValue)]) -> String {
    let mut values: Vec<_> = values.iter().collect();
    values.sort_by_key(|(name, _)| name.to_lowercase());
    let parts = values.into_iter().map(|(name, value)| format!("{} = {}", quoted(name), value_text(value)));
    format!("{{ {} }}", parts.collect::<Vec<_>>().join(", "))
}

/// A value in a filter. TOML has no form of its own for the last ones.
pub(crate) fn value_text(value: &PropertyValue) -> String {
    match value {
        PropertyValue::Boolean(flag) => flag.to_string(),
        PropertyValue::Integer(number) => number.to_string(),
        PropertyValue::Unsigned(number) => number.to_string(),
        // TOML requires a point or an exponent.
        PropertyValue::Double(number) => format!("{number:?}"),
        PropertyValue::Text(text) => quoted(text),
        PropertyValue::Timestamp(ms) => jiff::Timestamp::from_millisecond(*ms)
            .map_or_else(|_| with_type(value), |instant| instant.to_string()),
        PropertyValue::Given(given) => value_text(&given.plain()),
        PropertyValue::Null
        | PropertyValue::Uuid(_)
        | PropertyValue::Other(_)
        | PropertyValue::TimeSpan(_)
        | PropertyValue::DateTimeOffset(_)
        | PropertyValue::Decimal(_) => with_type(value),
    }
}

fn with_type(value: &PropertyValue) -> String {
    match peeklock_admin::typed(value) {
        Some((kind, text)) => format!("{{ type = {}, value = {} }}", quoted(kind), quoted(&text)),
        None => format!("{{ type = {} }}", quoted(NULL)),
    }
}

fn iso(milliseconds: u64) -> String {
    quoted(&duration::iso(milliseconds))
}

/// A basic string: quotation marks, backslashes and control characters are escaped.
pub(crate) fn quoted(text: &str) -> String {
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
