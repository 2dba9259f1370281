//! Creates and updates the declared subscriptions.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use peeklock_engine::runtime::{Mailbox, Namespace, Output, Request, Response, SubscriptionRef};
use peeklock_engine::{
    Command, CorrelationFilter, EntityOptions, Filter, PropertyValue, Rule, SubscriptionOptions, name_key,
    same_name,
};

use super::entities::note_undeclared;
use super::error::ServeError;
use crate::config::{Config, SubscriptionConfig, TopicConfig};

/// Rules requested at a time.
const RULES_PER_PAGE: u32 = 100;

/// A declared subscription: name, options, rules.
type Subscription = (String, SubscriptionOptions, Vec<Rule>);

/// Creates and updates the configured subscriptions, topic by topic; the topics exist already. An existing subscription
/// keeps its rules, because clients may have changed them. Stored ones that the configuration doesn't mention are kept.
///
/// # Errors
/// A change that an existing subscription does not allow, or the store's error.
pub(super) async fn declare(namespace: &Namespace, config: &Config) -> Result<(), ServeError> {
    for topic in config.topics.iter().filter(|topic| !namespace.is_damaged(&topic.name)) {
        for subscription in &topic.subscriptions {
            warn_of_other_rules(namespace, &topic.name, subscription).await;
        }
        find_undeclared(namespace, topic, config);
        let mut subscriptions: Vec<Subscription> = topic.subscriptions.iter().map(declared).collect();
        subscriptions.extend(missing(namespace, &topic.name, config));
        namespace.declare_subscriptions(&topic.name, subscriptions).await?;
    }
    let in_file = |name: &str| config.topics.iter().any(|topic| same_name(&topic.name, name));
    for asked in config.topics_if_missing.iter().filter(|asked| !in_file(&asked.topic)) {
        if namespace.is_damaged(&asked.topic) {
            continue;
        }
        namespace.declare_subscriptions(&asked.topic, missing(namespace, &asked.topic, config)).await?;
    }
    Ok(())
}

/// Checks the configured subscriptions before anything is declared; `stored` are the queues and topics that exist.
///
/// # Errors
/// As for [`declare`].
pub(super) fn check(
    namespace: &Namespace,
    config: &Config,
    stored: &[(String, EntityOptions)],
) -> Result<(), ServeError> {
    let queues = config.queues.iter().map(|queue| &queue.name).chain(&config.queues_if_missing);
    let topics = config.topics.iter().map(|topic| &topic.name);
    let asked = config.topics_if_missing.iter().map(|asked| &asked.topic);
    let stored = stored.iter().map(|(name, _)| name);
    let known: HashSet<Box<str>> =
        queues.chain(topics).chain(asked).chain(stored).map(|name| name_key(name)).collect();
    for topic in config.topics.iter().filter(|topic| !namespace.is_damaged(&topic.name)) {
        let subscriptions: Vec<Subscription> = topic.subscriptions.iter().map(declared).collect();
        namespace.check_subscriptions(&topic.name, &subscriptions, |key| known.contains(key))?;
    }
    Ok(())
}

fn declared(SubscriptionConfig { name, options, rules }: &SubscriptionConfig) -> Subscription {
    (name.clone(), options.clone(), rules.clone())
}

/// The subscriptions of a topic that are requested by flag and don't exist.
fn missing(namespace: &Namespace, topic: &str, config: &Config) -> Vec<Subscription> {
    let asked = config.topics_if_missing.iter().filter(|asked| same_name(&asked.topic, topic));
    let names = asked.filter_map(|asked| asked.subscription.as_ref());
    let missing = names.filter(|name| namespace.subscription(topic, name).is_none());
    missing.map(|name| declared(&SubscriptionConfig::plain(name.clone()))).collect()
}

/// Logs undeclared subscriptions; not for topics that are undeclared themselves.
fn find_undeclared(namespace: &Namespace, topic: &TopicConfig, config: &Config) {
    let in_file = topic.subscriptions.iter().map(|subscription| &subscription.name);
    let asked = config.topics_if_missing.iter().filter(|asked| same_name(&asked.topic, &topic.name));
    let asked = asked.filter_map(|asked| asked.subscription.as_ref());
    let declared: HashSet<Box<str>> = in_file.chain(asked).map(|name| name_key(name)).collect();
    let stored = namespace.subscription_names(&topic.name).unwrap_or_default().into_iter();
    let others = stored.filter(|name| !declared.contains(&name_key(name)));
    let others = others.map(|name| format!("subscription \"{name}\" of topic \"{}\"", topic.name));
    note_undeclared(others.collect());
}

async fn warn_of_other_rules(namespace: &Namespace, topic: &str, declared: &SubscriptionConfig) {
    let name = &declared.name;
    let Some(subscription) = namespace.subscription(topic, name) else { return };
    let stored = stored_rules(&subscription).await;
    if stored.is_some_and(|stored| !same_rules(&stored, &declared.rules)) {
        tracing::warn!(
            "subscription \"{name}\" of topic \"{topic}\" has rules that differ from the file; the stored rules are kept"
        );
    }
}

/// `None` when its topic does not answer, which is reported elsewhere.
async fn stored_rules(subscription: &SubscriptionRef) -> Option<Vec<Arc<Rule>>> {
    let mut rules = Vec::new();
    loop {
        let (mailbox, mut answers) = Mailbox::new();
        let skip = u32::try_from(rules.len()).ok()?;
        let command = Command::ListRules { queue: subscription.queue, skip, top: RULES_PER_PAGE };
        subscription.partition.submit(Request { mailbox, tag: Some(0), command });
        let Some(Output::Response { response: Response::Rules(Ok(page)), .. }) = answers.recv().await else {
            return None;
        };
        if page.is_empty() {
            return Some(rules);
        }
        rules.extend(page);
    }
}

/// Whether two sets of rules have the same names and match the same messages, in any order.
fn same_rules(stored: &[Arc<Rule>], declared: &[Rule]) -> bool {
    let by_name: HashMap<Box<str>, &Rule> =
        stored.iter().map(|stored| (name_key(&stored.name), &**stored)).collect();
    let is_stored =
        |rule: &Rule| by_name.get(&name_key(&rule.name)).is_some_and(|stored| same_rule(stored, rule));
    stored.len() == declared.len() && declared.iter().all(is_stored)
}

fn same_rule(one: &Rule, other: &Rule) -> bool {
    let actions = (one.action.as_ref(), other.action.as_ref());
    same_filter(&one.filter, &other.filter)
        && match actions {
            (None, None) => true,
            (Some(one), Some(other)) => {
                one.expression() == other.expression() && named(one.parameters()) == named(other.parameters())
            }
            _ => false,
        }
}

fn same_filter(one: &Filter, other: &Filter) -> bool {
    match (one, other) {
        (Filter::Correlation(one), Filter::Correlation(other)) => {
            let bare = |filter: &CorrelationFilter| CorrelationFilter { user: Vec::new(), ..filter.clone() };
            bare(one) == bare(other) && named(&one.user) == named(&other.user)
        }
        (Filter::Sql(one), Filter::Sql(other)) => {
            one.expression() == other.expression() && named(one.parameters()) == named(other.parameters())
        }
        // Earlier versions stored `1=1` as a true filter, and `1=0` as a false one.
        (one, other) => one.constant().is_some() && one.constant() == other.constant(),
    }
}

/// Values by their names, independent of order, case, the `@` that SDKs write before parameters and the types of
/// numbers, which may differ if a client created the rule.
fn named(values: &[(Box<str>, PropertyValue)]) -> BTreeMap<String, PropertyValue> {
    let bare = |name: &str| name.strip_prefix('@').unwrap_or(name).to_ascii_lowercase();
    values.iter().map(|(name, value)| (bare(name), value.plain())).collect()
}

#[cfg(test)]
mod tests {
    use peeklock_engine::{Given, SqlAction, Timestamp};

    use super::*;

    fn rule(name: &str, properties: &[(&str, i64)]) -> Rule {
        let user = properties.iter().map(|(name, value)| ((*name).into(), PropertyValue::Integer(*value)));
        let filter = CorrelationFilter { user: user.collect(), ..CorrelationFilter::default() };
        Rule {
            name: name.into(),
            filter: Filter::Correlation(Box::new(filter)),
            action: None,
            created_at: Timestamp::default(),
        }
    }

    #[test]
    fn rules_are_compared_by_name_and_filter_in_any_order() {
        let stored = [rule("a", &[("x", 1), ("y", 2)]), rule("b", &[("x", 3)])].map(Arc::new);
        let same = |declared: &[Rule]| same_rules(&stored, declared);
        assert!(same(&[rule("B", &[("x", 3)]), rule("A", &[("y", 2), ("x", 1)])]));
        assert!(!same(&[rule("a", &[("x", 1), ("y", 2)])]), "one is missing");
        assert!(!same(&[rule("a", &[("x", 1), ("y", 2)]), rule("c", &[("x", 3)])]), "another name");
        assert!(!same(&[rule("a", &[("x", 1), ("y", 2)]), rule("b", &[("x", 4)])]), "another value");
        assert!(!same(&[]));
        assert!(same_rules(&[], &[]));
    }

    #[test]
    fn sql_is_compared_with_its_parameters_and_the_action() {
        let values = |name: &str, value| vec![(name.into(), PropertyValue::Integer(value))];
        let sql = |text: &str, parameters, action: Option<(&str, Vec<_>)>| Rule {
            filter: Filter::sql(text, parameters).unwrap(),
            action: action.map(|(text, parameters)| SqlAction::new(text, parameters).unwrap()),
            ..rule("r", &[])
        };
        let act = |value| Some(("SET b = @y", values("y", value)));
        let stored = [Arc::new(sql("a = @x", values("@X", 1), act(2)))];
        let same = |declared: Rule| same_rules(&stored, &[declared]);
        assert!(same(sql("a = @x", values("x", 1), act(2))));
        assert!(!same(sql("a = @x ", values("x", 1), act(2))), "another text");
        assert!(!same(sql("a = @x", values("x", 2), act(2))), "another parameter");
        assert!(!same(sql("a = @x", values("x", 1), act(3))), "another parameter of the action");
        assert!(!same(sql("a = @x", values("x", 1), Some(("REMOVE b", values("y", 2))))), "another action");
        assert!(!same(sql("a = @x", values("x", 1), None)), "no action");
        let given = vec![("x".into(), PropertyValue::Given(Box::new(Given::Int(1))))];
        assert!(same(sql("a = @x", given, act(2))), "the type of a number");
    }

    #[test]
    fn a_true_filter_that_an_earlier_version_stored_is_the_condition_that_the_file_declares() {
        let stored = |filter| [Arc::new(Rule { filter, ..rule("r", &[]) })];
        let declared = |text| [Rule { filter: Filter::sql(text, Vec::new()).unwrap(), ..rule("r", &[]) }];
        assert!(same_rules(&stored(Filter::True), &declared("1=1")));
        assert!(same_rules(&stored(Filter::False), &declared("1 = 0")));
        assert!(!same_rules(&stored(Filter::True), &declared("1=0")));
        assert!(!same_rules(&stored(Filter::True), &declared("a = 1")));
    }
}
