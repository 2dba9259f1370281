//! The filter by which a receiver asks for a session, and what it is told about the one it got.
//!
//! Python, JavaScript, .NET and Java write the bare value, Go a described one; each reads its own shape only.

use peeklock_engine::{AcceptedSession, Timestamp};

use super::errors::Fault;
use super::management::integer;
use super::submission::ID_CHARACTERS_MAX;
use crate::wire::performative::Attach;
use crate::wire::{Fields, Value};

/// Key of the filter, and the symbolic form of its descriptor.
const SESSION_FILTER: &str = "com.microsoft:session-filter";
/// The numeric form of its descriptor.
const SESSION_FILTER_CODE: u64 = 0x0000_0013_7000_000C;
/// Link property: end of the session's lock, a long of ticks (a timestamp breaks every SDK).
const LOCKED_UNTIL: &str = "com.microsoft:locked-until-utc";
/// Link property: how long to wait for an available session, in milliseconds, an integer of any width.
const TIMEOUT: &str = "com.microsoft:timeout";
/// How long a receiver waits for an available session when it does not say (P: "65 seconds").
pub(crate) const SESSION_WAIT_DEFAULT_MS: u64 = 65_000;

/// Ticks of .NET: units of 100 ns since the year 1.
const TICKS_PER_MS: u64 = 10_000;
/// 1970-01-01 in ticks.
const UNIX_EPOCH_TICKS: u64 = 621_355_968_000_000_000;

/// A request for a session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SessionFilter {
    /// Which; the empty string is one. `None` for the next available.
    pub(crate) id: Option<Box<str>>,
    /// What the value was described with, to be repeated.
    descriptor: Option<Value>,
}

impl SessionFilter {
    /// Finds the filter in a source's filters. Absent is not the same as null.
    ///
    /// # Errors
    /// [`Fault::Argument`] for ids that are no strings or too long, and for foreign descriptors.
    pub(crate) fn find(filters: &Fields) -> Result<Option<Self>, Fault> {
        let Some((_, value)) = filters.iter().find(|(key, _)| &**key == SESSION_FILTER) else {
            return Ok(None);
        };
        let (descriptor, value) = match value {
            Value::Described(described) => (Some(&described.descriptor), &described.value),
            bare => (None, bare),
        };
        match descriptor {
            None | Some(Value::ULong(SESSION_FILTER_CODE)) => {}
            Some(Value::Symbol(symbol)) if &**symbol == SESSION_FILTER => {}
            Some(_) => {
                return Err(Fault::Argument(format!("The descriptor in {SESSION_FILTER} is unknown.")));
            }
        }
        let id = match value {
            Value::Null => None,
            Value::String(id) => Some(id.clone()),
            _ => return Err(Fault::Argument(format!("{SESSION_FILTER} must be a string or null."))),
        };
        if id.as_deref().is_some_and(|id| id.chars().count() > ID_CHARACTERS_MAX) {
            return Err(Fault::Argument(format!(
                "The session id is longer than {ID_CHARACTERS_MAX} characters."
            )));
        }
        Ok(Some(Self { id, descriptor: descriptor.cloned() }))
    }

    /// Writes the accepted session into the answer to the attach.
    pub(crate) fn confirm(self, accepted: &AcceptedSession, reply: &mut Attach) {
        let id = Value::String((*accepted.id).into());
        let value = match self.descriptor {
            Some(descriptor) => Value::described(descriptor, id),
            None => id,
        };
        reply.source.get_or_insert_default().filter = vec![(SESSION_FILTER.into(), value)];
        reply.properties.retain(|(key, _)| &**key != LOCKED_UNTIL);
        reply.properties.push((LOCKED_UNTIL.into(), Value::Long(ticks(accepted.locked_until))));
    }
}

/// Until when an attach waits for an available session, as its properties say.
pub(crate) fn wait_until(now: Timestamp, properties: &Fields) -> Timestamp {
    let requested = properties.iter().find(|(key, _)| &**key == TIMEOUT).map(|(_, value)| value);
    let wait_ms = requested.and_then(integer).and_then(|wait_ms| u64::try_from(wait_ms).ok());
    now.plus_ms(wait_ms.unwrap_or(SESSION_WAIT_DEFAULT_MS))
}

fn ticks(at: Timestamp) -> i64 {
    let ticks = at.0.saturating_mul(TICKS_PER_MS).saturating_add(UNIX_EPOCH_TICKS);
    i64::try_from(ticks).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(value: Value) -> Result<Option<SessionFilter>, Fault> {
        SessionFilter::find(&vec![("com.microsoft:session-filter".into(), value)])
    }

    #[test]
    fn absent_null_and_empty_differ() {
        assert_eq!(SessionFilter::find(&Vec::new()), Ok(None));
        let requested = |id: Option<&str>| SessionFilter { id: id.map(Into::into), descriptor: None };
        assert_eq!(find(Value::Null), Ok(Some(requested(None))));
        assert_eq!(find("".into()), Ok(Some(requested(Some("")))));
    }

    #[test]
    fn both_shapes_of_descriptor_are_read_and_repeated() {
        for descriptor in [Value::ULong(0x13_7000_000C), Value::symbol("com.microsoft:session-filter")] {
            let described = Value::described(descriptor.clone(), "s".into());
            let filter = find(described).unwrap().unwrap();
            assert_eq!((filter.id.as_deref(), &filter.descriptor), (Some("s"), &Some(descriptor)));
        }
        assert!(find(Value::described(Value::ULong(0x137_0000_000C), Value::Null)).is_err(), "one zero more");
    }

    #[test]
    fn ids_are_strings_of_bounded_length() {
        assert!(find("ä".repeat(128).as_str().into()).is_ok());
        for value in ["x".repeat(129).as_str().into(), Value::Int(1), Value::Bool(true), Value::symbol("s")] {
            assert_eq!(find(value).unwrap_err().condition_and_status().0, "com.microsoft:argument-error");
        }
    }

    #[test]
    fn the_wait_is_read_in_any_width() {
        let until =
            |value: Value| wait_until(Timestamp(1000), &vec![("com.microsoft:timeout".into(), value)]);
        for value in [Value::UInt(5), Value::ULong(5), Value::Long(5), Value::Int(5), Value::UByte(5)] {
            assert_eq!(until(value), Timestamp(1005));
        }
        assert_eq!(until(Value::UInt(0)), Timestamp(1000), "no time left");
        for senseless in [Value::Int(-1), Value::Null, "5".into()] {
            assert_eq!(until(senseless), Timestamp(66_000));
        }
        assert_eq!(wait_until(Timestamp(1000), &Vec::new()), Timestamp(66_000));
        assert_eq!(until(Value::ULong(u64::MAX)), Timestamp(66_000));
    }

    #[test]
    fn ticks_count_from_the_year_one() {
        assert_eq!(ticks(Timestamp(0)), 621_355_968_000_000_000);
        // 2023-11-14T22:13:20.123Z
        assert_eq!(ticks(Timestamp(1_700_000_000_123)), 638_355_968_001_230_000);
        assert_eq!(ticks(Timestamp::NEVER), i64::MAX);
    }
}
