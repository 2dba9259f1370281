//! `[[topics.subscriptions]]`: the properties of a subscription, and its rules.

use peeklock_engine::{Rule, RuleLimits, SubscriptionOptions};

use super::entity::{self, Bounds};
use super::forwarding;
use super::names::{Names, Place};
use super::rule;
use super::table::Table;

/// Properties that are the topic's, for all its subscriptions.
const OF_TOPICS: [&str; 5] = [
    "authorization_rules",
    "duplicate_detection_history_time_window",
    "max_message_size_in_kilobytes",
    "max_size_in_megabytes",
    "requires_duplicate_detection",
];

/// A subscription that the configuration declares.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SubscriptionConfig {
    /// Its name, as written.
    pub(crate) name: String,
    /// Its properties.
    pub(crate) options: SubscriptionOptions,
    /// The rules that it is created with; their time of creation is not known here.
    pub(crate) rules: Vec<Rule>,
}

impl SubscriptionConfig {
    /// A subscription of which nothing but the name is said: it receives every message.
    pub(crate) fn plain(name: String) -> Self {
        Self { name, options: SubscriptionOptions::default(), rules: vec![Rule::default_rule()] }
    }
}

/// Reads one table of `topic`, and the place of its name; `None` when its name is unusable, which has been reported
/// then.
pub(super) fn read(
    mut table: Table<'_, '_>,
    place: &Place,
    topic: Option<&str>,
    bounds: Bounds,
) -> Option<(SubscriptionConfig, Place)> {
    let name = entity::read_name(&mut table, place, "\"all\"", entity::check_subscription_name);
    if let (Some((name, _)), Some(topic)) = (&name, topic) {
        table.set_title(format!("topic \"{topic}\", subscription \"{name}\": "));
    }
    let options = read_options(&mut table, bounds);
    let rules = read_rules(&mut table, &bounds.limits.rules);
    for key in OF_TOPICS {
        table.misplaced(key, "topics have it, not subscriptions; write it in [[topics]]");
    }
    table.misplaced("default_rule_description", "write [[topics.subscriptions.rules]] instead");
    table.finish();
    let (name, place) = name?;
    Some((SubscriptionConfig { name, options, rules }, place))
}

fn read_options(table: &mut Table<'_, '_>, bounds: Bounds) -> SubscriptionOptions {
    let default = SubscriptionOptions::default();
    SubscriptionOptions {
        lock_duration_ms: entity::lock_duration_ms(table, default.lock_duration_ms),
        max_delivery_count: entity::max_delivery_count(table, default.max_delivery_count),
        default_message_time_to_live_ms: entity::default_message_time_to_live_ms(table, bounds.limits),
        dead_lettering_on_message_expiration: table
            .boolean("dead_lettering_on_message_expiration", default.dead_lettering_on_message_expiration),
        dead_lettering_on_filter_evaluation_exceptions: table.boolean(
            "dead_lettering_on_filter_evaluation_exceptions",
            default.dead_lettering_on_filter_evaluation_exceptions,
        ),
        requires_session: table.boolean("requires_session", default.requires_session),
        auto_delete_on_idle_ms: entity::auto_delete_on_idle_ms(table, bounds.limits),
        status: entity::status(table),
        forwarding: forwarding::read(table, None),
        kept: entity::kept_of_all(table),
    }
}

/// Without the key, the rule that every subscription has by default; an empty list is no rule at all.
fn read_rules(table: &mut Table<'_, '_>, limits: &RuleLimits) -> Vec<Rule> {
    if table.value("rules").is_none() {
        return vec![Rule::default_rule()];
    }
    let mut names = Names::default();
    let mut rules = Vec::new();
    for (mut inner, place) in table.array("rules", "topics.subscriptions.rules") {
        inner.set_title(format!("{}rule: ", table.title()));
        let Some((rule, place)) = rule::read(inner, &place, table.title(), limits) else { continue };
        if table.take_name(&mut names, "rule", &rule.name, &place) {
            rules.push(rule);
        }
    }
    rules
}
