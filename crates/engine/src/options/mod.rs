//! Entity options.
//!
//! Their stored form is in `crate::stored`: a new option is one line there, and tests that name every option do not compile
//! without it.

mod authorization;
mod check;
mod client;
mod forwarding;
mod kept;
mod rule_limits;
pub mod schema;
mod status;
mod tier;
mod times;

pub use self::authorization::{AuthorizationRule, Right, Rights, Secret};
pub use self::client::{CLIENT_ID_CHARS_MAX, ClientAffinity};
pub use self::forwarding::{Forwarding, ForwardingTarget, TargetScheme};
pub use self::kept::Kept;
pub use self::rule_limits::{RULE_LIMITS, RuleLimit, RuleLimits};
pub use self::status::EntityStatus;
pub use self::tier::Tier;
pub use self::times::EntityTimes;

/// Service Bus's defaults.
const LOCK_DURATION_MS: u64 = 60_000;
const MAX_DELIVERY_COUNT: u32 = 10;
/// Default of the premium tier.
const MAX_MESSAGE_SIZE_BYTES: u64 = 1024 * 1024;
/// Maximum of the premium tier.
const MAX_SIZE_BYTES: u64 = 80 * 1024 * 1024 * 1024;
/// Service Bus's default; also stored without duplicate detection.
const DUPLICATE_DETECTION_HISTORY_TIME_WINDOW_MS: u64 = 10 * 60_000;

/// Options of a queue; names and defaults are Service Bus's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueOptions {
    /// Duration of a message lock and of each renewal, in milliseconds; 5 s to 5 min, default 1 min.
    pub lock_duration_ms: u64,
    /// Failed deliveries after which a message is dead-lettered; at least 1, default 10.
    pub max_delivery_count: u32,
    /// Default and maximum of the time to live in milliseconds (S-10…S-13); `None` means no limit (S-15).
    pub default_message_time_to_live_ms: Option<u64>,
    /// Whether expired messages are dead-lettered (S-17) or removed (S-18).
    pub dead_lettering_on_message_expiration: bool,
    /// Whether messages belong to sessions, each of which has one receiver at a time; never changes.
    pub requires_session: bool,
    /// Idle time in milliseconds after which the queue is deleted (S-26); `None` for never (S-29).
    pub auto_delete_on_idle_ms: Option<u64>,
    /// Largest encoded message accepted, in bytes.
    pub max_message_size_bytes: u64,
    /// Maximum total size of stored bodies, in bytes; sends beyond it are refused.
    pub max_size_bytes: u64,
    /// Whether a message with a previously accepted id is acknowledged and dropped (semantics §11); never changes.
    pub requires_duplicate_detection: bool,
    /// For how long an id is remembered, in milliseconds; 20 s to 7 days, default 10 min.
    pub duplicate_detection_history_time_window_ms: u64,
    /// Whether sending and receiving are allowed.
    pub status: EntityStatus,
    /// Its forwarding targets.
    pub forwarding: Forwarding,
    /// Shared access rules of this queue, in addition to those of the namespace.
    pub authorization_rules: Vec<AuthorizationRule>,
    /// Whether it exists only as long as the connection that created it; never changes, and is not visible to administration.
    pub is_temporary: bool,
    /// Properties without effect, stored for clients.
    pub kept: Kept,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            lock_duration_ms: LOCK_DURATION_MS,
            max_delivery_count: MAX_DELIVERY_COUNT,
            default_message_time_to_live_ms: None,
            dead_lettering_on_message_expiration: false,
            requires_session: false,
            auto_delete_on_idle_ms: None,
            max_message_size_bytes: MAX_MESSAGE_SIZE_BYTES,
            max_size_bytes: MAX_SIZE_BYTES,
            requires_duplicate_detection: false,
            duplicate_detection_history_time_window_ms: DUPLICATE_DETECTION_HISTORY_TIME_WINDOW_MS,
            status: EntityStatus::Active,
            forwarding: Forwarding::default(),
            authorization_rules: Vec::new(),
            is_temporary: false,
            kept: Kept::default(),
        }
    }
}

/// Options of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicOptions {
    /// Default and maximum of the time to live in milliseconds; `None` means no limit.
    pub default_message_time_to_live_ms: Option<u64>,
    /// Idle time in milliseconds after which the topic is deleted with its subscriptions; `None` for never.
    pub auto_delete_on_idle_ms: Option<u64>,
    /// Largest encoded message accepted, in bytes.
    pub max_message_size_bytes: u64,
    /// Maximum total size of stored bodies, in bytes, counted once however many subscriptions refer to a body; sends beyond it
    /// are refused.
    pub max_size_bytes: u64,
    /// Whether a message with a previously accepted id is acknowledged and dropped; never changes.
    pub requires_duplicate_detection: bool,
    /// For how long an id is remembered, in milliseconds.
    pub duplicate_detection_history_time_window_ms: u64,
    /// Whether sending to it, and receiving from its subscriptions, are allowed.
    pub status: EntityStatus,
    /// Shared access rules of this topic and its subscriptions, in addition to those of the namespace.
    pub authorization_rules: Vec<AuthorizationRule>,
    /// Whether it exists only as long as the connection that created it; never changes, and is not visible to administration.
    pub is_temporary: bool,
    /// Properties without effect, stored for clients.
    pub kept: Kept,
}

impl Default for TopicOptions {
    fn default() -> Self {
        Self {
            default_message_time_to_live_ms: None,
            auto_delete_on_idle_ms: None,
            max_message_size_bytes: MAX_MESSAGE_SIZE_BYTES,
            max_size_bytes: MAX_SIZE_BYTES,
            requires_duplicate_detection: false,
            duplicate_detection_history_time_window_ms: DUPLICATE_DETECTION_HISTORY_TIME_WINDOW_MS,
            status: EntityStatus::Active,
            authorization_rules: Vec::new(),
            is_temporary: false,
            kept: Kept::default(),
        }
    }
}

/// Options of a subscription; each means the same as in [`QueueOptions`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionOptions {
    /// Duration of a lock.
    pub lock_duration_ms: u64,
    /// Maximum delivery count.
    pub max_delivery_count: u32,
    /// Default and maximum of the time to live; a smaller one of the topic takes precedence (S-16).
    pub default_message_time_to_live_ms: Option<u64>,
    /// Whether expired messages are dead-lettered.
    pub dead_lettering_on_message_expiration: bool,
    /// Whether messages for which a rule can't be evaluated are dead-lettered here; otherwise that rule does not match.
    pub dead_lettering_on_filter_evaluation_exceptions: bool,
    /// Whether messages belong to sessions; never changes.
    pub requires_session: bool,
    /// Idle time in milliseconds after which the subscription is deleted; `None` for never.
    pub auto_delete_on_idle_ms: Option<u64>,
    /// Whether receiving is allowed.
    pub status: EntityStatus,
    /// Its forwarding targets.
    pub forwarding: Forwarding,
    /// The client that created it, if it is one for JMS; never changes, and is not visible to administration.
    pub client: Option<Box<ClientAffinity>>,
    /// Properties without effect, stored for clients.
    pub kept: Kept,
}

impl Default for SubscriptionOptions {
    fn default() -> Self {
        Self {
            lock_duration_ms: LOCK_DURATION_MS,
            max_delivery_count: MAX_DELIVERY_COUNT,
            default_message_time_to_live_ms: None,
            dead_lettering_on_message_expiration: false,
            dead_lettering_on_filter_evaluation_exceptions: true,
            requires_session: false,
            auto_delete_on_idle_ms: None,
            status: EntityStatus::Active,
            forwarding: Forwarding::default(),
            client: None,
            kept: Kept::default(),
        }
    }
}

impl SubscriptionOptions {
    /// Whether it exists only as long as a client consumes from it.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        self.client.as_ref().is_some_and(|client| !client.is_durable)
    }
}

/// Options of a queue or topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntityOptions {
    /// A queue.
    Queue(QueueOptions),
    /// A topic; its subscriptions have options of their own.
    Topic(TopicOptions),
}

impl From<QueueOptions> for EntityOptions {
    fn from(options: QueueOptions) -> Self {
        Self::Queue(options)
    }
}

impl From<TopicOptions> for EntityOptions {
    fn from(options: TopicOptions) -> Self {
        Self::Topic(options)
    }
}

impl EntityOptions {
    /// Largest encoded message accepted, in bytes.
    #[must_use]
    pub const fn max_message_size_bytes(&self) -> u64 {
        match self {
            Self::Queue(queue) => queue.max_message_size_bytes,
            Self::Topic(topic) => topic.max_message_size_bytes,
        }
    }

    /// Maximum total size of stored bodies, in bytes.
    #[must_use]
    pub const fn max_size_bytes(&self) -> u64 {
        match self {
            Self::Queue(queue) => queue.max_size_bytes,
            Self::Topic(topic) => topic.max_size_bytes,
        }
    }

    /// Default and maximum of the time to live in milliseconds.
    #[must_use]
    pub const fn default_message_time_to_live_ms(&self) -> Option<u64> {
        match self {
            Self::Queue(queue) => queue.default_message_time_to_live_ms,
            Self::Topic(topic) => topic.default_message_time_to_live_ms,
        }
    }

    /// Whether duplicate detection is enabled.
    #[must_use]
    pub const fn requires_duplicate_detection(&self) -> bool {
        match self {
            Self::Queue(queue) => queue.requires_duplicate_detection,
            Self::Topic(topic) => topic.requires_duplicate_detection,
        }
    }

    /// Whether it is partitioned, which clients see in sequence numbers.
    #[must_use]
    pub const fn is_partitioned(&self) -> bool {
        match self {
            Self::Queue(queue) => queue.kept.enable_partitioning,
            Self::Topic(topic) => topic.kept.enable_partitioning,
        }
    }

    /// Whether sending and receiving are allowed.
    #[must_use]
    pub const fn status(&self) -> EntityStatus {
        match self {
            Self::Queue(queue) => queue.status,
            Self::Topic(topic) => topic.status,
        }
    }

    /// Whether it exists only as long as the connection that created it.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        match self {
            Self::Queue(queue) => queue.is_temporary,
            Self::Topic(topic) => topic.is_temporary,
        }
    }

    /// The same options, temporary or not.
    #[must_use]
    pub(crate) fn with_temporary(mut self, is_temporary: bool) -> Self {
        match &mut self {
            Self::Queue(queue) => queue.is_temporary = is_temporary,
            Self::Topic(topic) => topic.is_temporary = is_temporary,
        }
        self
    }

    /// Its shared access rules.
    #[must_use]
    pub fn authorization_rules(&self) -> &[AuthorizationRule] {
        match self {
            Self::Queue(queue) => &queue.authorization_rules,
            Self::Topic(topic) => &topic.authorization_rules,
        }
    }
}
