//! `[[topics.subscriptions]]`: the properties of a subscription, and its rules.

use peeklock_engine::{Rule, RuleLimits, SubscriptionOptions, TopicOptions};

use super::entity::{self, Bounds};
use super::names::{Names, Place};
use super::options;
use super::rule;
use super::table::Table;

/// A subscription that the configuration declares.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SubscriptionConfig {
    /// Its name, as written.
    pub(crate) name: String,
    /// Its properties.
    pub(crate) options: SubscriptionOptions,
    /// The rules that it is created with; their creation time is not known here.
    pub(crate) rules: Vec<Rule>,
}

impl SubscriptionConfig {
    /// A subscription with defaults: it receives every message.
    pub(crate) fn plain(name: String) -> Self {
        Self { name, options: SubscriptionOptions::default(), rules: vec![Rule::default_rule()] }
    }
}

/// Reads one table of `topic`, and the position of its name; `None` when its name is invalid, which has been reported.
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
    let options = options::read(&mut table, SubscriptionOptions::default(), None, bounds);
    let rules = read_rules(&mut table, &bounds.limits.rules);
    let advice = "topics have it, not subscriptions; write it in [[topics]]";
    options::report_misplaced::<SubscriptionOptions, TopicOptions>(&mut table, advice);
    table.misplaced("default_rule_description", "write [[topics.subscriptions.rules]] instead");
    table.finish();
    let (name, place) = name?;
    Some((SubscriptionConfig { name, options, rules }, place))
}

/// Reads the rules. Without the key, a subscription has the default rule; with an empty list it has none.
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
