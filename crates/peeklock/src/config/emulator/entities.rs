//! Queues, topics and subscriptions, with the emulator's defaults for missing properties.

use peeklock_engine::{QueueOptions, SubscriptionOptions, TopicOptions};

use super::object::Object;
use super::rules;
use crate::config::entity::{Bounds, check_name, check_subscription_name};
use crate::config::file::FileConfig;
use crate::config::names::{Names, Place};
use crate::config::namespace::parse_name;
use crate::config::options;
use crate::config::queue::QueueConfig;
use crate::config::subscription::SubscriptionConfig;
use crate::config::topic::TopicConfig;

/// Where the emulator's defaults differ from the service's. An hour is also its longest time to live; here it is
/// unlimited, unless `[limits]` sets a maximum.
const TIME_TO_LIVE_MS_DEFAULT: u64 = 3_600_000;
const MAX_DELIVERY_COUNT_DEFAULT: u32 = 3;
const HISTORY_WINDOW_MS_DEFAULT: u64 = 20_000;

/// Reads the namespace with its entities.
pub(super) fn read_namespace(mut namespace: Object<'_, '_>, bounds: Bounds, config: &mut FileConfig) {
    namespace.set_title("namespace: ".to_owned());
    config.namespace.name = namespace.text("Name", "sbemulatorns", parse_name);
    let mut names = Names::default();
    namespace.set_title(String::new());
    for queue in namespace.list("Queues").into_iter().flatten() {
        let Some((queue, place)) = read_queue(queue, bounds) else { continue };
        if namespace.take_name(&mut names, "queue", &queue.name, &place) {
            config.queues.push(queue);
        }
    }
    for topic in namespace.list("Topics").into_iter().flatten() {
        let Some((topic, place)) = read_topic(topic, bounds) else { continue };
        if namespace.take_name(&mut names, "topic", &topic.name, &place) {
            config.topics.push(topic);
        }
    }
    namespace.ignored("Properties", "the emulator's limits don't exist here");
    namespace.finish();
}

fn read_queue(mut queue: Object<'_, '_>, bounds: Bounds) -> Option<(QueueConfig, Place)> {
    let name = named(&mut queue, check_name, |name| format!("queue \"{name}\": "));
    let mut properties = properties(&mut queue);
    queue.finish();
    let default = QueueOptions {
        max_delivery_count: MAX_DELIVERY_COUNT_DEFAULT,
        default_message_time_to_live_ms: Some(TIME_TO_LIVE_MS_DEFAULT),
        duplicate_detection_history_time_window_ms: HISTORY_WINDOW_MS_DEFAULT,
        ..bounds.tier.defaults()
    };
    let own_name = name.as_ref().map(|(name, _)| name.as_str());
    let options = options::read(&mut properties, default, own_name, bounds);
    properties.finish();
    let (name, place) = name?;
    Some((QueueConfig { name, options }, place))
}

fn read_topic(mut topic: Object<'_, '_>, bounds: Bounds) -> Option<(TopicConfig, Place)> {
    let name = named(&mut topic, check_name, |name| format!("topic \"{name}\": "));
    let mut properties = properties(&mut topic);
    let default = TopicOptions {
        default_message_time_to_live_ms: Some(TIME_TO_LIVE_MS_DEFAULT),
        duplicate_detection_history_time_window_ms: HISTORY_WINDOW_MS_DEFAULT,
        ..bounds.tier.defaults()
    };
    let options = options::read(&mut properties, default, None, bounds);
    properties.finish();
    if let Some((_, place)) = &name {
        options::check_topics(&topic, place, bounds);
    }
    let mut names = Names::default();
    let mut subscriptions = Vec::new();
    for subscription in topic.list("Subscriptions").into_iter().flatten() {
        let title = topic.title().trim_end_matches(": ").to_owned();
        let Some((subscription, place)) = read_subscription(subscription, &title, bounds) else { continue };
        if topic.take_name(&mut names, "subscription", &subscription.name, &place) {
            subscriptions.push(subscription);
        }
    }
    topic.finish();
    let (name, place) = name?;
    Some((TopicConfig { name, options, subscriptions }, place))
}

fn read_subscription(
    mut subscription: Object<'_, '_>,
    topic: &str,
    bounds: Bounds,
) -> Option<(SubscriptionConfig, Place)> {
    let title = |name: &str| format!("{topic}, subscription \"{name}\": ");
    let name = named(&mut subscription, check_subscription_name, title);
    let mut properties = properties(&mut subscription);
    let default = SubscriptionOptions {
        max_delivery_count: MAX_DELIVERY_COUNT_DEFAULT,
        default_message_time_to_live_ms: Some(TIME_TO_LIVE_MS_DEFAULT),
        ..SubscriptionOptions::default()
    };
    let options = options::read(&mut properties, default, None, bounds);
    for key in ["ClientAffineProperties", "DuplicateDetectionHistoryTimeWindow", "IsClientAffine"] {
        properties.ignored(key, "has no effect");
    }
    properties.finish();
    let rules = rules::read(&mut subscription, &bounds.limits.rules);
    subscription.finish();
    let (name, place) = name?;
    Some((SubscriptionConfig { name, options, rules }, place))
}

/// The name of an object, which is used for it in messages from then on.
fn named(
    object: &mut Object<'_, '_>,
    check: fn(&str) -> Result<(), String>,
    title: impl FnOnce(&str) -> String,
) -> Option<(String, Place)> {
    let name = object.name(check);
    if let Some((name, _)) = &name {
        object.set_title(title(name));
    }
    name
}

fn properties<'a, 'i>(object: &mut Object<'a, 'i>) -> Object<'a, 'i> {
    let title = object.title().to_owned();
    object.object("Properties", title.clone()).unwrap_or_else(|| object.missing(title))
}
