//! How a subscription looks in the store: one version byte, then postcard.
//!
//! Options and rules are stored as they are; a new option is a new version beside the old one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::encoding::{append_version, read, read_version};
use super::stored_rule::{RuleWithoutAction, StoredRule};
use crate::{EntityTimes, QueueId, Rule, Subscription, SubscriptionOptions};

/// First byte.
const VERSION: u8 = 3;
/// Before rules had actions; read, no longer written.
const VERSION_WITHOUT_ACTIONS: u8 = 2;

/// What is stored beside the id, which is in the key.
#[derive(Serialize, Deserialize)]
struct StoredSubscription {
    name: Box<str>,
    times: EntityTimes,
    options: SubscriptionOptions,
    rules: Vec<StoredRule>,
}

/// Before rules had actions.
#[derive(Deserialize)]
struct StoredVersion2 {
    name: Box<str>,
    times: EntityTimes,
    options: SubscriptionOptions,
    rules: Vec<RuleWithoutAction>,
}

impl From<StoredVersion2> for StoredSubscription {
    fn from(StoredVersion2 { name, times, options, rules }: StoredVersion2) -> Self {
        Self { name, times, options, rules: rules.into_iter().map(Into::into).collect() }
    }
}

/// Before there was administration; read, no longer written.
#[derive(Deserialize)]
struct StoredVersion1 {
    name: Box<str>,
    options: OptionsVersion1,
    rules: Vec<RuleWithoutAction>,
}

#[derive(Deserialize)]
struct OptionsVersion1 {
    lock_duration_ms: u64,
    max_delivery_count: u32,
    default_message_time_to_live_ms: Option<u64>,
    dead_lettering_on_message_expiration: bool,
    dead_lettering_on_filter_evaluation_exceptions: bool,
    requires_session: bool,
    auto_delete_on_idle_ms: Option<u64>,
}

impl From<StoredVersion1> for StoredSubscription {
    fn from(StoredVersion1 { name, options, rules }: StoredVersion1) -> Self {
        let options = SubscriptionOptions {
            lock_duration_ms: options.lock_duration_ms,
            max_delivery_count: options.max_delivery_count,
            default_message_time_to_live_ms: options.default_message_time_to_live_ms,
            dead_lettering_on_message_expiration: options.dead_lettering_on_message_expiration,
            dead_lettering_on_filter_evaluation_exceptions: options
                .dead_lettering_on_filter_evaluation_exceptions,
            requires_session: options.requires_session,
            auto_delete_on_idle_ms: options.auto_delete_on_idle_ms,
            ..SubscriptionOptions::default()
        };
        let rules = rules.into_iter().map(Into::into).collect();
        Self { name, times: EntityTimes::default(), options, rules }
    }
}

/// Appends the stored form of a subscription.
pub(in crate::partition) fn append_subscription(subscription: &Subscription, to: Vec<u8>) -> Vec<u8> {
    let stored = StoredSubscription {
        name: subscription.name.clone(),
        times: subscription.times,
        options: subscription.options.clone(),
        rules: subscription.rules.iter().map(|rule| StoredRule::from(&**rule)).collect(),
    };
    append_version(VERSION, &stored, to)
}

/// Reads the stored form of a subscription.
pub(in crate::partition) fn read_subscription(queue: QueueId, bytes: &[u8]) -> Result<Subscription, String> {
    let StoredSubscription { name, times, options, rules } = match bytes.first() {
        Some(&VERSION) => read_version(VERSION, bytes)?,
        Some(&VERSION_WITHOUT_ACTIONS) => {
            read_version::<StoredVersion2>(VERSION_WITHOUT_ACTIONS, bytes)?.into()
        }
        _ => read::<StoredVersion1>(bytes)?.into(),
    };
    let rules = rules.into_iter().map(|stored| Rule::try_from(stored).map(Arc::new));
    let rules =
        rules.collect::<Result<_, _>>().map_err(|reason| format!("subscription '{name}': {reason}"))?;
    Ok(Subscription { queue, name, times, options, rules })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CorrelationFilter, Filter, Given, PropertyValue, SqlAction, SqlFilter, Timestamp};

    fn subscription() -> Subscription {
        let filter = CorrelationFilter {
            label: Some("x".into()),
            user: vec![("a".into(), PropertyValue::Integer(-1))],
            ..CorrelationFilter::default()
        };
        let rule = Rule {
            name: "r".into(),
            filter: Filter::Correlation(Box::new(filter)),
            action: None,
            created_at: Timestamp(3),
        };
        let options = SubscriptionOptions {
            requires_session: true,
            default_message_time_to_live_ms: Some(5),
            auto_delete_on_idle_ms: Some(7),
            ..SubscriptionOptions::default()
        };
        let rules = vec![Arc::new(Rule::default_rule()), Arc::new(rule)];
        subscription_with(rules, options)
    }

    fn subscription_with(rules: Vec<Arc<Rule>>, options: SubscriptionOptions) -> Subscription {
        let times = EntityTimes { created_at: Timestamp(1), updated_at: Timestamp(2) };
        Subscription { queue: QueueId(9), name: "Eu".into(), times, options, rules }
    }

    /// The format on disk must not change by accident.
    #[test]
    fn the_stored_form_is_pinned() {
        let bytes = append_subscription(&subscription(), Vec::new());
        let expected = b"\x03\x02Eu\x01\x02\xe0\xd4\x03\x0a\x01\x05\x00\x01\x01\x01\x07\
            \0\0\0\0\x01\0\0\x01\0\0\x02\x08$Default\x00\x00\x00\
            \x01r\x02\0\0\0\0\x01\x01x\0\0\0\x01\x01a\x02\x01\x00\x03";
        assert_eq!(bytes, expected);
        assert_eq!(read_subscription(QueueId(9), &bytes), Ok(subscription()));
    }

    #[test]
    fn the_stored_form_of_sql_is_pinned() {
        let parameters = || vec![("@p".into(), PropertyValue::Integer(1))];
        let rule = Rule {
            name: "s".into(),
            filter: Filter::Sql(Box::new(SqlFilter::new("a = @p", parameters()).unwrap())),
            action: Some(SqlAction::new("REMOVE a", Vec::new()).unwrap()),
            created_at: Timestamp(3),
        };
        let filters = [Filter::False, rule.filter.clone()];
        let rules = filters.map(|filter| Arc::new(Rule { filter, ..rule.clone() })).to_vec();
        let subscription = subscription_with(rules, SubscriptionOptions::default());
        let bytes = append_subscription(&subscription, Vec::new());
        let expected = b"\x02\x01s\x01\x01\x08REMOVE a\x00\x03\
            \x01s\x03\x06a = @p\x01\x02@p\x02\x02\x01\x08REMOVE a\x00\x03";
        assert!(bytes.ends_with(expected), "{:?}", bytes.utf8_chunks().collect::<Vec<_>>());
        assert_eq!(read_subscription(QueueId(9), &bytes), Ok(subscription));
    }

    #[test]
    fn the_stored_form_of_values_with_types_of_their_own_is_pinned() {
        let text = "2026-11-23T00:00:00.1234567";
        let given = |given| PropertyValue::Given(Box::new(given));
        let filter = CorrelationFilter {
            user: vec![
                ("i".into(), given(Given::Int(-1))),
                ("t".into(), given(Given::DateTime { at_ms: 1, text: text.into() })),
            ],
            ..CorrelationFilter::default()
        };
        let filter = Filter::Correlation(Box::new(filter));
        let rule = Rule { name: "r".into(), filter, action: None, created_at: Timestamp(3) };
        let subscription = subscription_with(vec![Arc::new(rule)], SubscriptionOptions::default());
        let bytes = append_subscription(&subscription, Vec::new());
        let expected = b"\x02\x01i\x0c\x02\x01\x01t\x0c\x0c\x02\x1b2026-11-23T00:00:00.1234567\0\x03";
        assert!(bytes.ends_with(expected), "{:?}", bytes.utf8_chunks().collect::<Vec<_>>());
        assert_eq!(read_subscription(QueueId(9), &bytes), Ok(subscription));
    }

    /// What an earlier version of the language accepted, or a disk changed.
    #[test]
    fn sql_that_can_not_be_read_is_refused_with_rule_and_place() {
        let sql = |text: &str| Filter::Sql(Box::new(SqlFilter::new(text, Vec::new()).unwrap()));
        let rule = Rule {
            name: "s".into(),
            filter: sql("a = 5"),
            action: Some(SqlAction::new("REMOVE a", Vec::new()).unwrap()),
            created_at: Timestamp(3),
        };
        let subscription = subscription_with(vec![Arc::new(rule)], SubscriptionOptions::default());
        let stored = append_subscription(&subscription, Vec::new());
        for (good, bad, what) in [
            ("a = 5", "a = =", "the filter of the rule 's'"),
            ("REMOVE a", "REMOVE 7", "the action of the rule 's'"),
        ] {
            let at = stored.windows(good.len()).position(|window| window == good.as_bytes()).unwrap();
            let mut damaged = stored.clone();
            damaged[at..at + bad.len()].copy_from_slice(bad.as_bytes());
            let error = read_subscription(QueueId(9), &damaged).unwrap_err();
            assert!(error.contains("subscription 'Eu'") && error.contains(what), "{error}");
            assert!(error.contains("at character") && error.contains(bad), "{error}");
        }
    }

    #[test]
    fn subscriptions_stored_before_rules_had_actions_stay_readable() {
        let stored = b"\x02\x02Eu\x01\x02\xe0\xd4\x03\x0a\x01\x05\x00\x01\x01\x01\x07\
            \0\0\0\0\x01\0\0\x01\0\0\x02\x08$Default\x00\x00\
            \x01r\x02\0\0\0\0\x01\x01x\0\0\0\x01\x01a\x02\x01\x03";
        assert_eq!(read_subscription(QueueId(9), stored), Ok(subscription()));
    }

    #[test]
    fn subscriptions_stored_before_there_was_administration_stay_readable() {
        let stored = b"\x01\x02Eu\xe0\xd4\x03\x0a\x01\x05\x00\x01\x01\x01\x07\x02\x08$Default\x00\x00\
            \x01r\x02\0\0\0\0\x01\x01x\0\0\0\x01\x01a\x02\x01\x03";
        let expected = Subscription { times: EntityTimes::default(), ..subscription() };
        assert_eq!(read_subscription(QueueId(9), stored), Ok(expected));
    }

    #[test]
    fn damaged_records_are_refused_with_the_cause() {
        let good = append_subscription(&subscription(), Vec::new());
        for end in 0..good.len() {
            assert!(read_subscription(QueueId(9), &good[..end]).is_err(), "cut at {end}");
        }
        let longer = [good.as_slice(), &[0]].concat();
        assert!(read_subscription(QueueId(9), &longer).unwrap_err().contains("1 bytes too many"));
        let newer = [&[9], &good[1..]].concat();
        assert!(read_subscription(QueueId(9), &newer).unwrap_err().contains("version 9"));
    }
}
