//! Options in records of entities (version 2) and of subscriptions (versions 2 and 3).

use serde::Deserialize;

use crate::{
    AuthorizationRule, EntityStatus, EntityTimes, Forwarding, Kept, QueueOptions, Rights, Secret,
    SubscriptionOptions, Timestamp, TopicOptions,
};

#[derive(Deserialize)]
pub(super) struct Times {
    created_at_ms: u64,
    updated_at_ms: u64,
}

impl From<Times> for EntityTimes {
    fn from(Times { created_at_ms, updated_at_ms }: Times) -> Self {
        Self { created_at: Timestamp(created_at_ms), updated_at: Timestamp(updated_at_ms) }
    }
}

#[derive(Deserialize)]
enum Status {
    Active,
    Disabled,
    SendDisabled,
    ReceiveDisabled,
}

impl From<Status> for EntityStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Active => Self::Active,
            Status::Disabled => Self::Disabled,
            Status::SendDisabled => Self::SendDisabled,
            Status::ReceiveDisabled => Self::ReceiveDisabled,
        }
    }
}

#[derive(Deserialize)]
struct Targets {
    forward_to: Option<Box<str>>,
    forward_dead_lettered_messages_to: Option<Box<str>>,
}

impl From<Targets> for Forwarding {
    fn from(Targets { forward_to, forward_dead_lettered_messages_to }: Targets) -> Self {
        Self {
            forward_to: forward_to.as_deref().map(Into::into),
            forward_dead_lettered_messages_to: forward_dead_lettered_messages_to.as_deref().map(Into::into),
        }
    }
}

#[derive(Deserialize)]
struct AccessRule {
    name: Box<str>,
    listen: bool,
    send: bool,
    manage: bool,
    primary_key: Box<str>,
    secondary_key: Box<str>,
    created_at_ms: u64,
    modified_at_ms: u64,
}

impl From<AccessRule> for AuthorizationRule {
    fn from(rule: AccessRule) -> Self {
        Self {
            name: rule.name,
            rights: Rights { listen: rule.listen, send: rule.send, manage: rule.manage },
            primary_key: Secret::new(rule.primary_key),
            secondary_key: Secret::new(rule.secondary_key),
            created_at: Timestamp(rule.created_at_ms),
            modified_at: Timestamp(rule.modified_at_ms),
        }
    }
}

#[derive(Deserialize)]
struct Properties {
    user_metadata: Option<Box<str>>,
    enable_batched_operations: bool,
    enable_partitioning: bool,
    enable_express: bool,
    support_ordering: bool,
    filtering_messages_before_publishing: bool,
    enable_subscription_partitioning: bool,
}

impl From<Properties> for Kept {
    fn from(properties: Properties) -> Self {
        Self {
            user_metadata: properties.user_metadata,
            enable_batched_operations: properties.enable_batched_operations,
            enable_partitioning: properties.enable_partitioning,
            enable_express: properties.enable_express,
            support_ordering: properties.support_ordering,
            filtering_messages_before_publishing: properties.filtering_messages_before_publishing,
            enable_subscription_partitioning: properties.enable_subscription_partitioning,
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Queue {
    lock_duration_ms: u64,
    max_delivery_count: u32,
    default_message_time_to_live_ms: Option<u64>,
    dead_lettering_on_message_expiration: bool,
    requires_session: bool,
    auto_delete_on_idle_ms: Option<u64>,
    max_message_size_bytes: u64,
    max_size_bytes: u64,
    requires_duplicate_detection: bool,
    duplicate_detection_history_time_window_ms: u64,
    status: Status,
    forwarding: Targets,
    authorization_rules: Vec<AccessRule>,
    kept: Properties,
}

#[allow(clippy::needless_update, reason = "an option that is added later has its default here")]
impl From<Queue> for QueueOptions {
    fn from(queue: Queue) -> Self {
        Self {
            lock_duration_ms: queue.lock_duration_ms,
            max_delivery_count: queue.max_delivery_count,
            default_message_time_to_live_ms: queue.default_message_time_to_live_ms,
            dead_lettering_on_message_expiration: queue.dead_lettering_on_message_expiration,
            requires_session: queue.requires_session,
            auto_delete_on_idle_ms: queue.auto_delete_on_idle_ms,
            max_message_size_bytes: queue.max_message_size_bytes,
            max_size_bytes: queue.max_size_bytes,
            requires_duplicate_detection: queue.requires_duplicate_detection,
            duplicate_detection_history_time_window_ms: queue.duplicate_detection_history_time_window_ms,
            status: queue.status.into(),
            forwarding: queue.forwarding.into(),
            authorization_rules: queue.authorization_rules.into_iter().map(Into::into).collect(),
            kept: queue.kept.into(),
            ..Self::default()
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Topic {
    default_message_time_to_live_ms: Option<u64>,
    auto_delete_on_idle_ms: Option<u64>,
    max_message_size_bytes: u64,
    max_size_bytes: u64,
    requires_duplicate_detection: bool,
    duplicate_detection_history_time_window_ms: u64,
    status: Status,
    authorization_rules: Vec<AccessRule>,
    kept: Properties,
}

#[allow(clippy::needless_update, reason = "an option that is added later has its default here")]
impl From<Topic> for TopicOptions {
    fn from(topic: Topic) -> Self {
        Self {
            default_message_time_to_live_ms: topic.default_message_time_to_live_ms,
            auto_delete_on_idle_ms: topic.auto_delete_on_idle_ms,
            max_message_size_bytes: topic.max_message_size_bytes,
            max_size_bytes: topic.max_size_bytes,
            requires_duplicate_detection: topic.requires_duplicate_detection,
            duplicate_detection_history_time_window_ms: topic.duplicate_detection_history_time_window_ms,
            status: topic.status.into(),
            authorization_rules: topic.authorization_rules.into_iter().map(Into::into).collect(),
            kept: topic.kept.into(),
            ..Self::default()
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Subscription {
    lock_duration_ms: u64,
    max_delivery_count: u32,
    default_message_time_to_live_ms: Option<u64>,
    dead_lettering_on_message_expiration: bool,
    dead_lettering_on_filter_evaluation_exceptions: bool,
    requires_session: bool,
    auto_delete_on_idle_ms: Option<u64>,
    status: Status,
    forwarding: Targets,
    kept: Properties,
}

#[allow(clippy::needless_update, reason = "an option that is added later has its default here")]
impl From<Subscription> for SubscriptionOptions {
    fn from(subscription: Subscription) -> Self {
        let on_failure = subscription.dead_lettering_on_filter_evaluation_exceptions;
        Self {
            lock_duration_ms: subscription.lock_duration_ms,
            max_delivery_count: subscription.max_delivery_count,
            default_message_time_to_live_ms: subscription.default_message_time_to_live_ms,
            dead_lettering_on_message_expiration: subscription.dead_lettering_on_message_expiration,
            dead_lettering_on_filter_evaluation_exceptions: on_failure,
            requires_session: subscription.requires_session,
            auto_delete_on_idle_ms: subscription.auto_delete_on_idle_ms,
            status: subscription.status.into(),
            forwarding: subscription.forwarding.into(),
            kept: subscription.kept.into(),
            ..Self::default()
        }
    }
}
