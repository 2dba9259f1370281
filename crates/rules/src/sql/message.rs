//! The message as seen by an expression: the sent properties, the broker's data, and the changes made by an action so
//! far.

use super::instant::{LAST_MS, TICKS_PER_MS};
use super::program::Named;
use super::tree::SystemProperty;
use super::value::{Fault, Value};
use crate::names::{self, Name};
use crate::{Arrival, PropertyChanges, PropertyValue, RuleProperties, Subject, TextProperty};

/// A message with the changes made so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(super) rule_properties: &'a RuleProperties,
    pub(super) arrival: Arrival<'a>,
    /// `None` for a filter.
    pub(super) changes: Option<&'a PropertyChanges>,
}

impl<'a> Message<'a> {
    pub(crate) fn new(subject: &Subject<'a>) -> Self {
        Self { rule_properties: subject.rule_properties, arrival: subject.arrival, changes: None }
    }

    pub(super) fn property(&self, named: &Named) -> Value<'a> {
        match named {
            Named::User(name) => self.user(name).map_or(Value::Unknown, Value::of),
            Named::System(property) => self.system(*property),
        }
    }

    /// Whether a property exists, even if it is null. A system property exists if it has a value (inferred).
    pub(super) fn has(&self, named: &Named) -> bool {
        match named {
            Named::User(name) => self.user(name).is_some(),
            Named::System(property) => self.system(*property) != Value::Unknown,
        }
    }

    /// An application property.
    pub(super) fn user(&self, name: &Name) -> Option<&'a PropertyValue> {
        self.find_user(|known| name.is(known))
    }

    fn find_user(&self, is_meant: impl Fn(&str) -> bool) -> Option<&'a PropertyValue> {
        if let Some(changes) = self.changes
            && let Some((_, value)) = changes.user.iter().find(|(known, _)| is_meant(known))
        {
            return value.as_ref();
        }
        self.rule_properties.user.iter().find(|(known, _)| is_meant(known)).map(|(_, value)| value)
    }

    /// A property by a computed name; with the prefix `sys.` a system property, otherwise an application property, even
    /// if the name looks like another scope (inferred).
    pub(super) fn by_name(&self, name: &str) -> Result<Value<'a>, Fault> {
        if let Some(property) = system_name(name) {
            let property = SystemProperty::from_name(property);
            return property
                .map(|property| self.system(property))
                .ok_or_else(|| Fault(format!("There is no system property '{}'.", shortened(name))));
        }
        Ok(self.find_user(|known| names::same(known, name)).map_or(Value::Unknown, Value::of))
    }

    /// A system property (semantics §13.2). A property that a message gets only on delivery has the value that it would
    /// have then, or is unknown. Without a limit, TimeToLive and ExpiresAtUtc are .NET's largest values, as in its
    /// clients (inferred); ScheduledEnqueueTimeUtc is unknown if it was not set (inferred).
    pub(crate) fn system(&self, property: SystemProperty) -> Value<'a> {
        if let Some(text) = text_property(property) {
            return Value::optional_text(self.text(text));
        }
        match property {
            SystemProperty::DeadLetterSource => Value::optional_text(self.arrival.dead_letter_source),
            SystemProperty::ViaPartitionKey => {
                Value::optional_text(self.rule_properties.via_partition_key.as_deref())
            }
            SystemProperty::DeliveryCount | SystemProperty::State => Value::Integer(0),
            SystemProperty::EnqueuedSequenceNumber => Value::integer(self.arrival.enqueued_sequence_number),
            SystemProperty::SequenceNumber => Value::integer(self.arrival.sequence_number),
            SystemProperty::Size => Value::integer(self.arrival.size_bytes),
            SystemProperty::ForcePersistence => Value::Boolean(false),
            SystemProperty::EnqueuedTimeUtc => timestamp(Some(self.arrival.enqueued_at_ms)),
            SystemProperty::ExpiresAtUtc => {
                let lives_ms = self.time_to_live_ms().unwrap_or(u64::MAX);
                timestamp(Some(self.arrival.enqueued_at_ms.saturating_add(lives_ms)))
            }
            SystemProperty::ScheduledEnqueueTimeUtc => timestamp(self.scheduled_enqueue_time_ms()),
            SystemProperty::TimeToLive => {
                let ticks = self.time_to_live_ms().and_then(|lives_ms| i64::try_from(lives_ms).ok());
                Value::TimeSpan(ticks.map_or(i64::MAX, |lives_ms| lives_ms.saturating_mul(TICKS_PER_MS)))
            }
            _ => Value::Unknown,
        }
    }

    /// A text system property that actions may set.
    pub(super) fn text(&self, property: TextProperty) -> Option<&'a str> {
        let changed = self.changes.and_then(|changes| changes.text(property));
        changed.unwrap_or_else(|| self.rule_properties.text(property))
    }

    fn time_to_live_ms(&self) -> Option<u64> {
        self.changes.and_then(|changes| changes.time_to_live_ms).unwrap_or(self.arrival.time_to_live_ms)
    }

    fn scheduled_enqueue_time_ms(&self) -> Option<u64> {
        let changed = self.changes.and_then(|changes| changes.scheduled_enqueue_time_ms);
        changed.unwrap_or(self.arrival.scheduled_enqueue_time_ms)
    }
}

/// The name after `sys.`, if a computed name starts with that.
pub(super) fn system_name(name: &str) -> Option<&str> {
    let (scope, name) = name.split_at_checked(4)?;
    scope.eq_ignore_ascii_case("sys.").then_some(name)
}

/// The settable text property that corresponds to a system property, if any.
pub(super) fn text_property(property: SystemProperty) -> Option<TextProperty> {
    Some(match property {
        SystemProperty::ContentType => TextProperty::ContentType,
        SystemProperty::CorrelationId => TextProperty::CorrelationId,
        SystemProperty::Label => TextProperty::Label,
        SystemProperty::MessageId => TextProperty::MessageId,
        SystemProperty::PartitionKey => TextProperty::PartitionKey,
        SystemProperty::ReplyTo => TextProperty::ReplyTo,
        SystemProperty::ReplyToSessionId => TextProperty::ReplyToSessionId,
        SystemProperty::SessionId => TextProperty::SessionId,
        SystemProperty::To => TextProperty::To,
        _ => return None,
    })
}

/// A time, limited to the range of .NET.
fn timestamp<'a>(at_ms: Option<u64>) -> Value<'a> {
    let at_ms = at_ms.map(|at_ms| i64::try_from(at_ms).unwrap_or(LAST_MS).min(LAST_MS));
    at_ms.map_or(Value::Unknown, Value::Timestamp)
}

/// A name shortened for an error message.
pub(super) fn shortened(name: &str) -> String {
    name.chars().take(64).collect()
}
