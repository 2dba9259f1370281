//! A subscription of a topic: its name, times, options and rules.

use std::sync::Arc;

use super::options::StoredSubscriptionOptions;
use super::rule::StoredRule;
use super::{frame, legacy};
use crate::{EntityTimes, QueueId, Rule, Subscription, SubscriptionOptions, Timestamp};

/// The stored form of a subscription. Its id is in the key.
#[derive(Clone, PartialEq, prost::Message)]
struct StoredSubscription {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(uint64, tag = "2")]
    created_at_ms: u64,
    #[prost(uint64, tag = "3")]
    updated_at_ms: u64,
    #[prost(message, optional, tag = "4")]
    options: Option<StoredSubscriptionOptions>,
    #[prost(message, repeated, tag = "5")]
    rules: Vec<StoredRule>,
}

/// Appends the record of a subscription.
pub(crate) fn append_subscription(subscription: &Subscription, to: &mut Vec<u8>) {
    let stored = StoredSubscription {
        name: Some(subscription.name.to_string()),
        created_at_ms: subscription.times.created_at.0,
        updated_at_ms: subscription.times.updated_at.0,
        options: Some((&subscription.options).into()),
        rules: subscription.rules.iter().map(|rule| StoredRule::from(&**rule)).collect(),
    };
    frame::append(&stored, to);
}

/// Reads the record of a subscription.
///
/// # Errors
/// The reason why it can't be decoded.
pub(crate) fn read_subscription(queue: QueueId, bytes: &[u8]) -> Result<Subscription, String> {
    if !frame::is_tagged(bytes) {
        return legacy::read_subscription(queue, bytes);
    }
    let StoredSubscription { name, created_at_ms, updated_at_ms, options, rules } = frame::read(bytes)?;
    let name: Box<str> = frame::required(name, "name")?.into();
    let in_subscription = |reason| format!("subscription '{name}': {reason}");
    let options = frame::required(options, "options").and_then(SubscriptionOptions::try_from);
    let options = options.map_err(in_subscription)?;
    let rules = rules.into_iter().map(|stored| Rule::try_from(stored).map(Arc::new));
    let rules = rules.collect::<Result<_, _>>().map_err(in_subscription)?;
    let times = EntityTimes { created_at: Timestamp(created_at_ms), updated_at: Timestamp(updated_at_ms) };
    Ok(Subscription { queue, name, times, options, rules })
}
