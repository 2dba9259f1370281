//! The rows of the schema.

use std::ops::RangeInclusive;

use super::OptionKind::{
    AuthorizationRules, Boolean, Count, Duration, IdleTime, Size, Status, Target, Text, TimeToLive,
};
use super::{
    EntityOption, Field, Fields, OptionKind, QueueOptions, SizeUnit, SubscriptionOptions, TopicOptions,
};
use crate::options::Tier;

const SECOND_MS: u64 = 1_000;
const DAY_MS: u64 = 86_400 * SECOND_MS;

/// Ranges of Service Bus (semantics §2.2). Those of sizes are wider, so that tests can fill queues quickly.
const LOCK_DURATION_MS: RangeInclusive<u64> = 5 * SECOND_MS..=300 * SECOND_MS;
const HISTORY_WINDOW_MS: RangeInclusive<u64> = 20 * SECOND_MS..=7 * DAY_MS;
const MAX_DELIVERY_COUNT: RangeInclusive<u64> = 1..=i32::MAX as u64;
/// Minimum default time to live, in milliseconds; applies to `[limits]` as well.
pub const TIME_TO_LIVE_MS_MIN: u64 = SECOND_MS;
const USER_METADATA_CHARS_MAX: usize = 1_024;
/// Maximum number of shared access rules of an entity, and of the namespace.
pub const AUTHORIZATION_RULES_MAX: usize = 12;
/// Service Bus allows 1024 to 81920; here up to 10 TiB.
const MAX_SIZE_MB: RangeInclusive<u64> = 1..=10 << 20;
/// Service Bus allows 1024 to 102400.
const MAX_MESSAGE_SIZE_KB: RangeInclusive<u64> = 1..=102_400;

impl<T> Fields<T> {
    const NONE: Self = Self { queue: None, topic: None, subscription: None };

    const fn queue(mut self, field: Field<QueueOptions, T>) -> Self {
        self.queue = Some(field);
        self
    }

    const fn topic(mut self, field: Field<TopicOptions, T>) -> Self {
        self.topic = Some(field);
        self
    }

    const fn subscription(mut self, field: Field<SubscriptionOptions, T>) -> Self {
        self.subscription = Some(field);
        self
    }
}

impl EntityOption {
    const fn new(name: &'static str, service_name: &'static str, kind: OptionKind) -> Self {
        Self { name, service_name, kind, is_fixed: false, is_enforced: false, since: Tier::Basic }
    }

    const fn fixed(mut self) -> Self {
        self.is_fixed = true;
        self
    }

    const fn enforced(mut self) -> Self {
        self.is_enforced = true;
        self
    }

    const fn since(mut self, tier: Tier) -> Self {
        self.since = tier;
        self
    }
}

/// The field `$field` in the options of each `$kind`.
macro_rules! fields {
    ($field:ident of $($kind:ident),+) => {
        Fields::NONE$(.$kind(Field { get: |o| &o.$field, get_mut: |o| &mut o.$field }))+
    };
    ($part:ident.$field:ident of $($kind:ident),+) => {
        Fields::NONE$(.$kind(Field { get: |o| &o.$part.$field, get_mut: |o| &mut o.$part.$field }))+
    };
}

/// Every option, with the tier according to Service Bus's refusals (MassTransit 657 and ServiceBusExplorer 745 for idle times,
/// azure-docs 17743 for sessions, PoshBot 93 for duplicate detection, azure-docs 104074 for large messages, semantics §13 for
/// forwarding), in the order used in messages and converted files.
pub static OPTIONS: &[EntityOption] = &[
    EntityOption::new(
        "max_size_in_megabytes",
        "MaxSizeInMegabytes",
        Size(fields!(max_size_bytes of queue, topic), SizeUnit::Megabyte, MAX_SIZE_MB),
    ),
    EntityOption::new(
        "max_message_size_in_kilobytes",
        "MaxMessageSizeInKilobytes",
        Size(fields!(max_message_size_bytes of queue, topic), SizeUnit::Kilobyte, MAX_MESSAGE_SIZE_KB),
    )
    .since(Tier::Premium),
    EntityOption::new(
        "lock_duration",
        "LockDuration",
        Duration(fields!(lock_duration_ms of queue, subscription), LOCK_DURATION_MS),
    ),
    EntityOption::new(
        "max_delivery_count",
        "MaxDeliveryCount",
        Count(fields!(max_delivery_count of queue, subscription), MAX_DELIVERY_COUNT),
    ),
    EntityOption::new(
        "default_message_time_to_live",
        "DefaultMessageTimeToLive",
        TimeToLive(
            fields!(default_message_time_to_live_ms of queue, topic, subscription),
            TIME_TO_LIVE_MS_MIN,
        ),
    ),
    EntityOption::new(
        "dead_lettering_on_message_expiration",
        "DeadLetteringOnMessageExpiration",
        Boolean(fields!(dead_lettering_on_message_expiration of queue, subscription)),
    ),
    EntityOption::new(
        "dead_lettering_on_filter_evaluation_exceptions",
        "DeadLetteringOnFilterEvaluationExceptions",
        Boolean(fields!(dead_lettering_on_filter_evaluation_exceptions of subscription)),
    ),
    EntityOption::new(
        "requires_session",
        "RequiresSession",
        Boolean(fields!(requires_session of queue, subscription)),
    )
    .fixed()
    .since(Tier::Standard),
    EntityOption::new(
        "auto_delete_on_idle",
        "AutoDeleteOnIdle",
        IdleTime(fields!(auto_delete_on_idle_ms of queue, topic, subscription)),
    )
    .since(Tier::Standard),
    EntityOption::new(
        "requires_duplicate_detection",
        "RequiresDuplicateDetection",
        Boolean(fields!(requires_duplicate_detection of queue, topic)),
    )
    .fixed()
    .since(Tier::Standard),
    EntityOption::new(
        "duplicate_detection_history_time_window",
        "DuplicateDetectionHistoryTimeWindow",
        Duration(fields!(duplicate_detection_history_time_window_ms of queue, topic), HISTORY_WINDOW_MS),
    )
    .enforced(),
    EntityOption::new("status", "Status", Status(fields!(status of queue, topic, subscription))),
    EntityOption::new(
        "forward_to",
        "ForwardTo",
        Target(fields!(forwarding.forward_to of queue, subscription)),
    )
    .since(Tier::Standard),
    EntityOption::new(
        "forward_dead_lettered_messages_to",
        "ForwardDeadLetteredMessagesTo",
        Target(fields!(forwarding.forward_dead_lettered_messages_to of queue, subscription)),
    )
    .since(Tier::Standard),
    EntityOption::new(
        "user_metadata",
        "UserMetadata",
        Text(fields!(kept.user_metadata of queue, topic, subscription), USER_METADATA_CHARS_MAX),
    ),
    EntityOption::new(
        "enable_batched_operations",
        "EnableBatchedOperations",
        Boolean(fields!(kept.enable_batched_operations of queue, topic, subscription)),
    ),
    EntityOption::new(
        "enable_partitioning",
        "EnablePartitioning",
        Boolean(fields!(kept.enable_partitioning of queue, topic)),
    )
    .fixed(),
    EntityOption::new(
        "enable_express",
        "EnableExpress",
        Boolean(fields!(kept.enable_express of queue, topic)),
    ),
    EntityOption::new(
        "support_ordering",
        "SupportOrdering",
        Boolean(fields!(kept.support_ordering of queue, topic)),
    ),
    EntityOption::new(
        "filtering_messages_before_publishing",
        "FilteringMessagesBeforePublishing",
        Boolean(fields!(kept.filtering_messages_before_publishing of topic)),
    ),
    EntityOption::new(
        "enable_subscription_partitioning",
        "EnableSubscriptionPartitioning",
        Boolean(fields!(kept.enable_subscription_partitioning of topic)),
    ),
    EntityOption::new(
        "authorization_rules",
        "AuthorizationRules",
        AuthorizationRules(fields!(authorization_rules of queue, topic)),
    ),
];
