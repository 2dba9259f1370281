//! Queues, topics and subscriptions, with the emulator's defaults for what they don't say.

use peeklock_engine::{EntityStatus, Forwarding, Kept, QueueOptions, SubscriptionOptions, TopicOptions};

use super::object::{Object, place};
use super::rules;
use crate::config::duration::{self, Duration};
use crate::config::entity::{
    Bounds, DUPLICATE_DETECTION_WINDOW_MS, LOCK_DURATION_MS, MAX_DELIVERY_COUNT, MAX_MESSAGE_SIZE_KB,
    MAX_SIZE_MB, TIME_TO_LIVE_MS_MIN, check_name, check_subscription_name, parse_status, parse_user_metadata,
};
use crate::config::file::FileConfig;
use crate::config::forwarding::parse_target;
use crate::config::names::{Names, Place};
use crate::config::queue::QueueConfig;
use crate::config::subscription::SubscriptionConfig;
use crate::config::topic::TopicConfig;

const KILOBYTE: u64 = 1 << 10;
const MEGABYTE: u64 = 1 << 20;
const SECOND_MS: u64 = 1_000;
const TIME_TO_LIVE_MS_DEFAULT: u64 = 3_600 * SECOND_MS;
const MAX_DELIVERY_COUNT_DEFAULT: u64 = 3;
const HISTORY_WINDOW_MS_DEFAULT: u64 = 20 * SECOND_MS;
/// The emulator's least.
const HISTORY_WINDOW_MS_MIN: u64 = 5 * SECOND_MS;

/// Reads the namespace with all that is in it.
pub(super) fn read_namespace(mut namespace: Object<'_, '_>, bounds: Bounds, config: &mut FileConfig) {
    namespace.set_title("namespace: ".to_owned());
    config.namespace = namespace.text("Name", "sbemulatorns", |name| match name {
        "" => Err("is empty".to_owned()),
        _ => Ok(name.to_owned()),
    });
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
    let default = QueueOptions::default();
    let sizes = (default.max_message_size_bytes, default.max_size_bytes);
    let (max_message_size_bytes, max_size_bytes) = sizes_bytes(&mut properties, sizes, bounds);
    let (requires_duplicate_detection, duplicate_detection_history_time_window_ms) =
        duplicate_detection(&mut properties);
    let own_name = name.as_ref().map(|(name, _)| name.as_str());
    let options = QueueOptions {
        lock_duration_ms: lock_duration_ms(&mut properties, default.lock_duration_ms),
        max_delivery_count: max_delivery_count(&mut properties),
        default_message_time_to_live_ms: time_to_live_ms(&mut properties, bounds),
        dead_lettering_on_message_expiration: properties.boolean("DeadLetteringOnMessageExpiration", false),
        requires_session: properties.boolean("RequiresSession", false),
        auto_delete_on_idle_ms: auto_delete_on_idle_ms(&mut properties, bounds),
        max_message_size_bytes,
        max_size_bytes,
        requires_duplicate_detection,
        duplicate_detection_history_time_window_ms,
        status: status(&mut properties),
        forwarding: forwarding(&mut properties, own_name),
        kept: kept(&mut properties, requires_duplicate_detection),
        ..default
    };
    properties.finish();
    let (name, place) = name?;
    Some((QueueConfig { name, options }, place))
}

fn read_topic(mut topic: Object<'_, '_>, bounds: Bounds) -> Option<(TopicConfig, Place)> {
    let name = named(&mut topic, check_name, |name| format!("topic \"{name}\": "));
    let mut properties = properties(&mut topic);
    let default = TopicOptions::default();
    let sizes = (default.max_message_size_bytes, default.max_size_bytes);
    let (max_message_size_bytes, max_size_bytes) = sizes_bytes(&mut properties, sizes, bounds);
    let (requires_duplicate_detection, duplicate_detection_history_time_window_ms) =
        duplicate_detection(&mut properties);
    let options = TopicOptions {
        default_message_time_to_live_ms: time_to_live_ms(&mut properties, bounds),
        auto_delete_on_idle_ms: auto_delete_on_idle_ms(&mut properties, bounds),
        max_message_size_bytes,
        max_size_bytes,
        requires_duplicate_detection,
        duplicate_detection_history_time_window_ms,
        status: status(&mut properties),
        kept: Kept {
            support_ordering: properties.boolean("SupportOrdering", true),
            ..kept(&mut properties, requires_duplicate_detection)
        },
        ..default
    };
    properties.finish();
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
    let default = SubscriptionOptions::default();
    let options = SubscriptionOptions {
        lock_duration_ms: lock_duration_ms(&mut properties, default.lock_duration_ms),
        max_delivery_count: max_delivery_count(&mut properties),
        default_message_time_to_live_ms: time_to_live_ms(&mut properties, bounds),
        dead_lettering_on_message_expiration: properties.boolean("DeadLetteringOnMessageExpiration", false),
        dead_lettering_on_filter_evaluation_exceptions: properties.boolean(
            "DeadLetteringOnFilterEvaluationExceptions",
            default.dead_lettering_on_filter_evaluation_exceptions,
        ),
        requires_session: properties.boolean("RequiresSession", false),
        auto_delete_on_idle_ms: auto_delete_on_idle_ms(&mut properties, bounds),
        status: status(&mut properties),
        forwarding: forwarding(&mut properties, None),
        kept: kept_of_all(&mut properties),
    };
    for key in ["ClientAffineProperties", "DuplicateDetectionHistoryTimeWindow", "IsClientAffine"] {
        properties.ignored(key, "has no effect");
    }
    properties.finish();
    let rules = rules::read(&mut subscription, &bounds.limits.rules);
    subscription.finish();
    let (name, place) = name?;
    Some((SubscriptionConfig { name, options, rules }, place))
}

/// The name of an object, which from then on is called after it in messages.
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

fn lock_duration_ms(properties: &mut Object<'_, '_>, default_ms: u64) -> u64 {
    properties.duration_ms("LockDuration", default_ms, &LOCK_DURATION_MS)
}

fn max_delivery_count(properties: &mut Object<'_, '_>) -> u32 {
    let count = properties.integer("MaxDeliveryCount", MAX_DELIVERY_COUNT_DEFAULT, &MAX_DELIVERY_COUNT);
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The emulator's longest is an hour; here there is no longest, unless `[limits]` sets one.
fn time_to_live_ms(properties: &mut Object<'_, '_>, bounds: Bounds) -> Option<u64> {
    let max_ms = bounds.limits.message_time_to_live_max_ms.unwrap_or(u64::MAX);
    let asked = properties.text("DefaultMessageTimeToLive", "PT1H", |text| {
        let length_ms = match duration::parse(text)? {
            Duration::Unlimited => None,
            Duration::Milliseconds(length_ms) => Some(length_ms),
        };
        match length_ms.unwrap_or(u64::MAX) {
            length_ms if length_ms < TIME_TO_LIVE_MS_MIN => Err(format!("\"{text}\" is less than a second")),
            length_ms if length_ms > max_ms => {
                let most = duration::iso(max_ms);
                Err(format!("longer than message_time_to_live_max in [limits]; write at most \"{most}\""))
            }
            _ => Ok(length_ms),
        }
    });
    asked.unwrap_or(Some(TIME_TO_LIVE_MS_DEFAULT.min(max_ms)))
}

/// Not a property of the emulator's, but .NET Aspire writes it.
fn auto_delete_on_idle_ms(properties: &mut Object<'_, '_>, bounds: Bounds) -> Option<u64> {
    let min_ms = bounds.limits.auto_delete_on_idle_min_ms;
    let parse = |text: &str| match duration::parse(text)? {
        Duration::Unlimited => Ok(None),
        Duration::Milliseconds(length_ms) if length_ms < min_ms => {
            Err(format!("\"{text}\" is too short; write at least \"{}\"", duration::iso(min_ms)))
        }
        Duration::Milliseconds(length_ms) => Ok(Some(length_ms)),
    };
    properties.text("AutoDeleteOnIdle", "PT1H", parse).flatten()
}

/// Service Bus remembers ids for 20 seconds at least, the emulator for 5: less is understood as the least.
fn duplicate_detection(properties: &mut Object<'_, '_>) -> (bool, u64) {
    let (least_ms, most_ms) = DUPLICATE_DETECTION_WINDOW_MS.into_inner();
    let range_ms = HISTORY_WINDOW_MS_MIN..=most_ms;
    let key = "DuplicateDetectionHistoryTimeWindow";
    let window_ms = properties.duration_ms(key, HISTORY_WINDOW_MS_DEFAULT, &range_ms);
    (properties.boolean("RequiresDuplicateDetection", false), window_ms.max(least_ms))
}

/// Not a property of the emulator's, but .NET Aspire writes it.
fn status(properties: &mut Object<'_, '_>) -> EntityStatus {
    properties.text("Status", "Active", parse_status).unwrap_or_default()
}

/// An empty text is the same as nothing.
fn forwarding(properties: &mut Object<'_, '_>, own_name: Option<&str>) -> Forwarding {
    let mut target = |key| properties.text(key, "archive", |text| parse_target(text, own_name)).flatten();
    Forwarding {
        forward_to: target("ForwardTo"),
        forward_dead_lettered_messages_to: target("ForwardDeadLetteredMessagesTo"),
    }
}

/// Not properties of the emulator's, but .NET Aspire writes some of them.
fn kept(properties: &mut Object<'_, '_>, requires_duplicate_detection: bool) -> Kept {
    let kept = Kept {
        enable_partitioning: properties.boolean("EnablePartitioning", false),
        enable_express: properties.boolean("EnableExpress", false),
        ..kept_of_all(properties)
    };
    if let (true, true, Some(value)) =
        (kept.enable_express, requires_duplicate_detection, properties.value("EnableExpress"))
    {
        let message = "can't be combined with RequiresDuplicateDetection; remove one of them";
        properties.report(&place(value), "EnableExpress", message);
    }
    kept
}

fn kept_of_all(properties: &mut Object<'_, '_>) -> Kept {
    Kept {
        user_metadata: properties.text("UserMetadata", "owned by sales", parse_user_metadata).flatten(),
        enable_batched_operations: properties.boolean("EnableBatchedOperations", true),
        ..Kept::default()
    }
}

/// Not properties of the emulator's, but .NET Aspire writes them.
fn sizes_bytes(
    properties: &mut Object<'_, '_>,
    (message_default, total_default): (u64, u64),
    bounds: Bounds,
) -> (u64, u64) {
    let key = "MaxMessageSizeInKilobytes";
    let total_mb = properties.integer("MaxSizeInMegabytes", total_default / MEGABYTE, &MAX_SIZE_MB);
    let message_kb = properties.integer(key, message_default / KILOBYTE, &MAX_MESSAGE_SIZE_KB);
    let (message_bytes, total_bytes) = (message_kb * KILOBYTE, total_mb * MEGABYTE);
    if let Some(value) = properties.value(key)
        && message_bytes > total_bytes.min(bounds.reassembly_bytes_max)
    {
        let advice = "raise MaxSizeInMegabytes, or reassembly_size_max in [amqp]";
        let message = format!("a message of {message_kb} KB never fits; {advice}");
        properties.report(&place(value), key, &message);
    }
    (message_bytes, total_bytes)
}
