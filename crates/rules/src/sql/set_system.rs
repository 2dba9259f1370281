//! Values that system properties can be set to.

use super::arithmetic::PROPERTY_BYTES_MAX;
use super::instant::{self, TICKS_PER_MS};
use super::message::text_property;
use super::text;
use super::time_span;
use super::tree::SystemProperty;
use super::value::{Fault, Value};
use crate::{PropertyChanges, TextProperty};

/// Longest id in characters, like the limit for incoming messages, so that every accepted id can be set again
/// (semantics §3).
const ID_CHARACTERS_MAX: usize = 128;

/// A change of a system property.
#[derive(Debug, PartialEq)]
pub(super) enum SystemChange {
    Text(TextProperty, Option<Box<str>>),
    ScheduledEnqueueTime(Option<u64>),
    TimeToLive(Option<u64>),
}

impl SystemChange {
    pub(super) fn apply(self, changes: &mut PropertyChanges) {
        match self {
            Self::Text(property, value) => changes.set_text(property, value),
            Self::ScheduledEnqueueTime(at_ms) => changes.scheduled_enqueue_time_ms = Some(at_ms),
            Self::TimeToLive(lives_ms) => changes.time_to_live_ms = Some(lives_ms),
        }
    }
}

/// The change for setting a system property; UNKNOWN removes it (inferred).
///
/// # Errors
/// Actions may not set the property, or not to this value.
pub(super) fn of(property: SystemProperty, value: &Value<'_>) -> Result<SystemChange, Fault> {
    if let Some(text) = text_property(property) {
        return of_text(text, property, value);
    }
    match property {
        SystemProperty::ScheduledEnqueueTimeUtc => {
            scheduled_at(value).map(SystemChange::ScheduledEnqueueTime)
        }
        SystemProperty::TimeToLive => time_to_live(value).map(SystemChange::TimeToLive),
        _ => Err(Fault(format!("sys.{} can't be changed.", property.name()))),
    }
}

/// A text, or any value that can be converted to text.
fn of_text(text: TextProperty, property: SystemProperty, value: &Value<'_>) -> Result<SystemChange, Fault> {
    if *value == Value::Unknown {
        return Ok(SystemChange::Text(text, None));
    }
    let written = text::text(value).ok_or_else(|| refused(property, value))?;
    let is_id =
        matches!(text, TextProperty::MessageId | TextProperty::SessionId | TextProperty::PartitionKey);
    let characters = written.chars().count();
    let name = property.name();
    if is_id && characters > ID_CHARACTERS_MAX {
        let limit = ID_CHARACTERS_MAX;
        return Err(Fault(format!("sys.{name} would be {characters} characters long; it may have {limit}.")));
    }
    if written.len() > PROPERTY_BYTES_MAX {
        let (length, limit) = (written.len(), PROPERTY_BYTES_MAX);
        return Err(Fault(format!("sys.{name} would be {length} bytes long; a property may have {limit}.")));
    }
    Ok(SystemChange::Text(text, Some(written.into())))
}

/// A time or a text that contains one, not before 1970 (inferred).
fn scheduled_at(value: &Value<'_>) -> Result<Option<u64>, Fault> {
    let at_ms = match value {
        Value::Unknown => return Ok(None),
        Value::Timestamp(at_ms) => Some(*at_ms),
        Value::DateTimeOffset(ticks) => Some(instant::ms_of_ticks(*ticks)),
        Value::Text(text) => instant::parse(text).map(instant::ms_of_ticks),
        _ => None,
    };
    let at_ms = at_ms.and_then(|at_ms| u64::try_from(at_ms).ok());
    at_ms.map(Some).ok_or_else(|| refused(SystemProperty::ScheduledEnqueueTimeUtc, value))
}

/// A positive duration or a text that contains one; not a number, because it has no unit (inferred). .NET's largest
/// duration means no limit.
fn time_to_live(value: &Value<'_>) -> Result<Option<u64>, Fault> {
    let ticks = match value {
        Value::Unknown => return Ok(None),
        Value::TimeSpan(ticks) => Some(*ticks),
        Value::Text(text) => time_span::parse(text),
        _ => None,
    };
    match ticks {
        Some(i64::MAX) => Ok(None),
        Some(ticks @ 1..) => Ok(Some((ticks / TICKS_PER_MS).unsigned_abs().max(1))),
        _ => Err(refused(SystemProperty::TimeToLive, value)),
    }
}

fn refused(property: SystemProperty, value: &Value<'_>) -> Fault {
    let name = property.name();
    let wanted = match property {
        SystemProperty::TimeToLive => {
            "a time span greater than zero, or a string such as '00:05:00' or 'PT5M'"
        }
        SystemProperty::ScheduledEnqueueTimeUtc => {
            "an instant from 1970 on, or a string such as '2026-11-22T10:00:00Z'"
        }
        _ => "a value that can be written as a string",
    };
    Fault(format!("sys.{name} takes {wanted}, and this is {}.", value.kind()))
}
