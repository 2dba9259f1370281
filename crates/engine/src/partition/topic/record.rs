//! How a subscription looks in the store: one version byte, then postcard.
//!
//! The stored options are apart from the ones in use, so that adding an option can't silently change what old bytes
//! mean. Rules are stored as they are: their types say so.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::encoding::{append, read};
use crate::{QueueId, Rule, Subscription, SubscriptionOptions};

/// The bit that sets the `Meta` numbers of subscriptions apart; the rest is the subscription's id.
const SUBSCRIPTION: u64 = 1 << 63;

/// Where a subscription is stored in the `Meta` space of its topic.
pub(in crate::partition) const fn subscription_number(id: QueueId) -> u64 {
    SUBSCRIPTION | id.0
}

/// The subscription stored under this number, if it is the number of one.
pub(in crate::partition) fn subscription_of(number: u64) -> Option<QueueId> {
    (number > SUBSCRIPTION).then_some(QueueId(number ^ SUBSCRIPTION))
}

#[derive(Serialize, Deserialize)]
struct StoredSubscription {
    name: Box<str>,
    options: StoredOptions,
    rules: Vec<Arc<Rule>>,
}

#[derive(Serialize, Deserialize)]
struct StoredOptions {
    lock_duration_ms: u64,
    max_delivery_count: u32,
    default_message_time_to_live_ms: Option<u64>,
    dead_lettering_on_message_expiration: bool,
    dead_lettering_on_filter_evaluation_exceptions: bool,
    requires_session: bool,
    auto_delete_on_idle_ms: Option<u64>,
}

impl From<&SubscriptionOptions> for StoredOptions {
    fn from(options: &SubscriptionOptions) -> Self {
        // Taken apart in full, so that a new option can't be forgotten here.
        let SubscriptionOptions {
            lock_duration_ms,
            max_delivery_count,
            default_message_time_to_live_ms,
            dead_lettering_on_message_expiration,
            dead_lettering_on_filter_evaluation_exceptions,
            requires_session,
            auto_delete_on_idle_ms,
        } = *options;
        Self {
            lock_duration_ms,
            max_delivery_count,
            default_message_time_to_live_ms,
            dead_lettering_on_message_expiration,
            dead_lettering_on_filter_evaluation_exceptions,
            requires_session,
            auto_delete_on_idle_ms,
        }
    }
}

impl From<StoredOptions> for SubscriptionOptions {
    fn from(stored: StoredOptions) -> Self {
        Self {
            lock_duration_ms: stored.lock_duration_ms,
            max_delivery_count: stored.max_delivery_count,
            default_message_time_to_live_ms: stored.default_message_time_to_live_ms,
            dead_lettering_on_message_expiration: stored.dead_lettering_on_message_expiration,
            dead_lettering_on_filter_evaluation_exceptions: stored
                .dead_lettering_on_filter_evaluation_exceptions,
            requires_session: stored.requires_session,
            auto_delete_on_idle_ms: stored.auto_delete_on_idle_ms,
        }
    }
}

/// Appends the stored form of a subscription.
pub(in crate::partition) fn append_subscription(subscription: &Subscription, to: Vec<u8>) -> Vec<u8> {
    let stored = StoredSubscription {
        name: subscription.name.clone(),
        options: StoredOptions::from(&subscription.options),
        rules: subscription.rules.clone(),
    };
    append(&stored, to)
}

/// Reads the stored form of a subscription.
pub(super) fn read_subscription(queue: QueueId, bytes: &[u8]) -> Result<Subscription, String> {
    let StoredSubscription { name, options, rules } = read(bytes)?;
    Ok(Subscription { queue, name, options: options.into(), rules })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CorrelationFilter, FactValue, Filter, Timestamp};

    fn subscription() -> Subscription {
        let filter = CorrelationFilter {
            label: Some("x".into()),
            user: vec![("a".into(), FactValue::Integer(-1))],
            ..CorrelationFilter::default()
        };
        let rule = Rule {
            name: "r".into(),
            filter: Filter::Correlation(Box::new(filter)),
            created_at: Timestamp(3),
        };
        let options = SubscriptionOptions {
            requires_session: true,
            default_message_time_to_live_ms: Some(5),
            auto_delete_on_idle_ms: Some(7),
            ..SubscriptionOptions::default()
        };
        let rules = vec![Arc::new(Rule::default_rule()), Arc::new(rule)];
        Subscription { queue: QueueId(9), name: "Eu".into(), options, rules }
    }

    /// The format on disk must not change by accident.
    #[test]
    fn the_stored_form_is_pinned() {
        let bytes = append_subscription(&subscription(), Vec::new());
        let expected = b"\x01\x02Eu\xe0\xd4\x03\x0a\x01\x05\x00\x01\x01\x01\x07\x02\x08$Default\x00\x00\
            \x01r\x02\0\0\0\0\x01\x01x\0\0\0\x01\x01a\x02\x01\x03";
        assert_eq!(bytes, expected);
        assert_eq!(read_subscription(QueueId(9), &bytes), Ok(subscription()));
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

    #[test]
    fn numbers_tell_subscriptions_from_everything_else() {
        assert_eq!(subscription_of(subscription_number(QueueId(9))), Some(QueueId(9)));
        for number in [0, 16, 1 << 62, SUBSCRIPTION] {
            assert_eq!(subscription_of(number), None);
        }
    }
}
