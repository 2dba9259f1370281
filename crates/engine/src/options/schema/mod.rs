//! One schema of the options of queues, topics and subscriptions: names, values and fields. The administration, the
//! configuration files and the checks read it, so a new option needs only a field and a row of [`OPTIONS`].

mod rows;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

use super::{
    AuthorizationRule, EntityStatus, ForwardingTarget, QueueOptions, SubscriptionOptions, Tier, TopicOptions,
};

pub use self::rows::{AUTHORIZATION_RULES_MAX, OPTIONS, TIME_TO_LIVE_MS_MIN};

/// One option.
#[derive(Debug)]
pub struct EntityOption {
    /// Its name in TOML: `lock_duration`.
    pub name: &'static str,
    /// Service Bus's name, in descriptions over HTTP and in the emulator's file: `LockDuration`.
    pub service_name: &'static str,
    /// Its type, range and fields. The default is that of the field.
    pub kind: OptionKind,
    /// Whether it is set at creation and can't be changed.
    pub is_fixed: bool,
    /// Whether the engine enforces the range, too. Otherwise it refuses only 0, so that tests can use shorter times.
    pub is_enforced: bool,
    /// The lowest tier of Service Bus that has it.
    pub since: Tier,
}

/// The type and range of an option.
#[derive(Debug)]
pub enum OptionKind {
    /// True or false.
    Boolean(Fields<bool>),
    /// A whole number in a range.
    Count(Fields<u32>, RangeInclusive<u64>),
    /// A duration in a range, in milliseconds.
    Duration(Fields<u64>, RangeInclusive<u64>),
    /// A time to live in milliseconds, with its minimum; `None` for no limit. `[limits]` sets a maximum.
    TimeToLive(Fields<Option<u64>>, u64),
    /// An idle time in milliseconds; `None` for no limit. `[limits]` sets a minimum.
    IdleTime(Fields<Option<u64>>),
    /// A number of bytes, written as a number of units in a range.
    Size(Fields<u64>, SizeUnit, RangeInclusive<u64>),
    /// A text with its maximum number of characters; `None` for an empty one.
    Text(Fields<Option<Box<str>>>, usize),
    /// The name of another queue or topic.
    Target(Fields<Option<ForwardingTarget>>),
    /// Whether sending and receiving are allowed.
    Status(Fields<EntityStatus>),
    /// Shared access rules, at most [`AUTHORIZATION_RULES_MAX`].
    AuthorizationRules(Fields<Vec<AuthorizationRule>>),
}

/// The unit in which a size is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeUnit {
    /// 1024 bytes.
    Kilobyte,
    /// 1048576 bytes.
    Megabyte,
}

impl SizeUnit {
    /// Its length in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Kilobyte => 1 << 10,
            Self::Megabyte => 1 << 20,
        }
    }
}

/// Accesses a value in options `O`.
#[derive(Debug)]
pub struct Field<O, T> {
    get: fn(&O) -> &T,
    get_mut: fn(&mut O) -> &mut T,
}

/// Accesses a value in the options of each kind of entity; `None` for kinds without it.
#[derive(Debug)]
pub struct Fields<T> {
    queue: Option<Field<QueueOptions, T>>,
    topic: Option<Field<TopicOptions, T>>,
    subscription: Option<Field<SubscriptionOptions, T>>,
}

impl<T> Fields<T> {
    /// The value; `None` for kinds of entities without it.
    pub fn get<'o, O: OptionSet>(&self, options: &'o O) -> Option<&'o T> {
        O::field(self).map(|field| (field.get)(options))
    }

    /// The value, mutable.
    pub fn get_mut<'o, O: OptionSet>(&self, options: &'o mut O) -> Option<&'o mut T> {
        O::field(self).map(|field| (field.get_mut)(options))
    }
}

impl<T: Clone> Fields<T> {
    fn copy<O: OptionSet>(&self, from: &O, to: &mut O) {
        if let (Some(value), Some(place)) = (self.get(from), self.get_mut(to)) {
            place.clone_from(value);
        }
    }
}

/// The options of one kind of entity.
pub trait OptionSet: Clone + Default + 'static {
    /// The name of the kind in messages: `queue`.
    const NOUN: &'static str;

    /// The accessor for this kind.
    fn field<T>(fields: &Fields<T>) -> Option<&Field<Self, T>>;

    /// Maximum size of a message and of all stored messages, in bytes; `None` for a subscription, whose topic stores them.
    fn sizes_bytes(&self) -> Option<(u64, u64)>;

    /// The same, mutable.
    fn sizes_bytes_mut(&mut self) -> Option<(&mut u64, &mut u64)>;

    /// Whether it is partitioned.
    fn is_partitioned(&self) -> bool;

    /// Whether both `enable_express` and `requires_duplicate_detection` are set, which Service Bus refuses.
    fn is_express_with_duplicate_detection(&self) -> bool;
}

impl OptionSet for QueueOptions {
    const NOUN: &'static str = "queue";

    fn field<T>(fields: &Fields<T>) -> Option<&Field<Self, T>> {
        fields.queue.as_ref()
    }

    fn sizes_bytes(&self) -> Option<(u64, u64)> {
        Some((self.max_message_size_bytes, self.max_size_bytes))
    }

    fn sizes_bytes_mut(&mut self) -> Option<(&mut u64, &mut u64)> {
        Some((&mut self.max_message_size_bytes, &mut self.max_size_bytes))
    }

    fn is_partitioned(&self) -> bool {
        self.kept.enable_partitioning
    }

    fn is_express_with_duplicate_detection(&self) -> bool {
        self.kept.enable_express && self.requires_duplicate_detection
    }
}

impl OptionSet for TopicOptions {
    const NOUN: &'static str = "topic";

    fn field<T>(fields: &Fields<T>) -> Option<&Field<Self, T>> {
        fields.topic.as_ref()
    }

    fn sizes_bytes(&self) -> Option<(u64, u64)> {
        Some((self.max_message_size_bytes, self.max_size_bytes))
    }

    fn sizes_bytes_mut(&mut self) -> Option<(&mut u64, &mut u64)> {
        Some((&mut self.max_message_size_bytes, &mut self.max_size_bytes))
    }

    fn is_partitioned(&self) -> bool {
        self.kept.enable_partitioning
    }

    fn is_express_with_duplicate_detection(&self) -> bool {
        self.kept.enable_express && self.requires_duplicate_detection
    }
}

impl OptionSet for SubscriptionOptions {
    const NOUN: &'static str = "subscription";

    fn field<T>(fields: &Fields<T>) -> Option<&Field<Self, T>> {
        fields.subscription.as_ref()
    }

    fn sizes_bytes(&self) -> Option<(u64, u64)> {
        None
    }

    fn sizes_bytes_mut(&mut self) -> Option<(&mut u64, &mut u64)> {
        None
    }

    fn is_partitioned(&self) -> bool {
        false
    }

    fn is_express_with_duplicate_detection(&self) -> bool {
        false
    }
}

impl EntityOption {
    /// The option with this name in TOML.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        OPTIONS.iter().find(|option| option.name == name)
    }

    /// The option with this name in Service Bus.
    #[must_use]
    pub fn of_service(service_name: &str) -> Option<&'static Self> {
        OPTIONS.iter().find(|option| option.service_name == service_name)
    }

    /// Whether this kind of entity has it.
    #[must_use]
    pub fn is_of<O: OptionSet>(&self) -> bool {
        match &self.kind {
            OptionKind::Boolean(at) => O::field(at).is_some(),
            OptionKind::Count(at, _) => O::field(at).is_some(),
            OptionKind::Duration(at, _) | OptionKind::Size(at, ..) => O::field(at).is_some(),
            OptionKind::TimeToLive(at, _) | OptionKind::IdleTime(at) => O::field(at).is_some(),
            OptionKind::Text(at, _) => O::field(at).is_some(),
            OptionKind::Target(at) => O::field(at).is_some(),
            OptionKind::Status(at) => O::field(at).is_some(),
            OptionKind::AuthorizationRules(at) => O::field(at).is_some(),
        }
    }

    /// Copies its value; does nothing for kinds of entities without it.
    pub fn copy<O: OptionSet>(&self, from: &O, to: &mut O) {
        match &self.kind {
            OptionKind::Boolean(at) => at.copy(from, to),
            OptionKind::Count(at, _) => at.copy(from, to),
            OptionKind::Duration(at, _) | OptionKind::Size(at, ..) => at.copy(from, to),
            OptionKind::TimeToLive(at, _) | OptionKind::IdleTime(at) => at.copy(from, to),
            OptionKind::Text(at, _) => at.copy(from, to),
            OptionKind::Target(at) => at.copy(from, to),
            OptionKind::Status(at) => at.copy(from, to),
            OptionKind::AuthorizationRules(at) => at.copy(from, to),
        }
    }

    /// Whether it has the same value in both; true for kinds of entities without it. The scheme of a target is no difference.
    #[must_use]
    pub fn is_equal<O: OptionSet>(&self, one: &O, other: &O) -> bool {
        match &self.kind {
            OptionKind::Boolean(at) => at.get(one) == at.get(other),
            OptionKind::Count(at, _) => at.get(one) == at.get(other),
            OptionKind::Duration(at, _) | OptionKind::Size(at, ..) => at.get(one) == at.get(other),
            OptionKind::TimeToLive(at, _) | OptionKind::IdleTime(at) => at.get(one) == at.get(other),
            OptionKind::Text(at, _) => at.get(one) == at.get(other),
            OptionKind::Target(at) => {
                let target = |options| at.get(options).and_then(Option::as_deref);
                target(one) == target(other)
            }
            OptionKind::Status(at) => at.get(one) == at.get(other),
            OptionKind::AuthorizationRules(at) => at.get(one) == at.get(other),
        }
    }
}
