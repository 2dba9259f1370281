//! The filter with which a receiver requests a session, and its answer about the accepted one.
//!
//! Python, JavaScript, .NET and Java send the bare value, Go a described one; each reads its own form only.

use peeklock_engine::{AcceptedSession, SessionLock, Timestamp};

use super::errors::Fault;
use super::lock_token;
use super::management::integer;
use super::submission::ID_CHARACTERS_MAX;
use crate::wire::performative::Attach;
use crate::wire::{Fields, Str, Value};

/// Key of the filter, and the symbolic form of its descriptor.
const SESSION_FILTER: &str = "com.microsoft:session-filter";
/// The numeric form of its descriptor.
const SESSION_FILTER_CODE: u64 = 0x0000_0013_7000_000C;
/// Key of the filter for a session that others may take over (N 7.21.0).
const NON_EXCLUSIVE_FILTER: &str = "com.microsoft:non-exclusive-session-filter";
/// The numeric form of its descriptor.
const NON_EXCLUSIVE_FILTER_CODE: u64 = 0x0000_0013_7000_000E;
/// The symbolic form of its descriptor.
const NON_EXCLUSIVE_FILTER_TYPE: &str = "com.microsoft:non-exclusive-session-filter:list";
/// Link property: end of the session's lock, a long of ticks (a timestamp breaks every SDK).
const LOCKED_UNTIL: &str = "com.microsoft:locked-until-utc";
/// Link property: how long to wait for an available session, in milliseconds, an integer of any width.
const TIMEOUT: &str = "com.microsoft:timeout";
/// How long a receiver waits for an available session by default (P: "65 seconds").
pub(crate) const SESSION_WAIT_DEFAULT_MS: u64 = 65_000;

/// Ticks of .NET: units of 100 ns since the year 1.
const TICKS_PER_MS: u64 = 10_000;
/// 1970-01-01 in ticks.
const UNIX_EPOCH_TICKS: u64 = 621_355_968_000_000_000;

/// A request for a session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SessionFilter {
    /// The session id; the empty string is one. `None` for the next available.
    pub(crate) id: Option<Box<str>>,
    /// Whether others may take the session over.
    pub(crate) lock: SessionLock,
    /// The descriptor of the filter's value, to be repeated.
    descriptor: Option<Value>,
}

impl SessionFilter {
    /// Finds the filter in a source's filters. Absent is not the same as null.
    ///
    /// # Errors
    /// [`Fault::Argument`] for ids that are no strings or too long, for tokens that are no UUIDs, for unknown
    /// descriptors, and for two filters at once.
    pub(crate) fn find(filters: &Fields) -> Result<Option<Self>, Fault> {
        let value = |name: &str| filters.iter().find(|(key, _)| &**key == name).map(|(_, value)| value);
        let filter = match (value(SESSION_FILTER), value(NON_EXCLUSIVE_FILTER)) {
            (None, None) => return Ok(None),
            (Some(value), None) => Self::exclusive(value)?,
            (None, Some(value)) => Self::non_exclusive(value)?,
            (Some(_), Some(_)) => {
                let text = format!("{SESSION_FILTER} and {NON_EXCLUSIVE_FILTER} exclude each other.");
                return Err(Fault::Argument(text));
            }
        };
        if filter.id.as_deref().is_some_and(|id| id.chars().count() > ID_CHARACTERS_MAX) {
            return Err(Fault::Argument(format!(
                "The session id is longer than {ID_CHARACTERS_MAX} characters."
            )));
        }
        Ok(Some(filter))
    }

    fn exclusive(value: &Value) -> Result<Self, Fault> {
        let (descriptor, value) = match value {
            Value::Described(described) => (Some(&described.descriptor), &described.value),
            bare => (None, bare),
        };
        if let Some(descriptor) = descriptor {
            check_descriptor(descriptor, SESSION_FILTER, (SESSION_FILTER_CODE, SESSION_FILTER))?;
        }
        let (id, descriptor) = (session_id(value, SESSION_FILTER)?, descriptor.cloned());
        Ok(Self { id, lock: SessionLock::Exclusive, descriptor })
    }

    /// Reads a list of the session's id and the token of the lock to be taken over, each of which may be null.
    fn non_exclusive(value: &Value) -> Result<Self, Fault> {
        let Value::Described(described) = value else {
            return Err(Fault::Argument(format!("{NON_EXCLUSIVE_FILTER} must be a described list.")));
        };
        let names = (NON_EXCLUSIVE_FILTER_CODE, NON_EXCLUSIVE_FILTER_TYPE);
        check_descriptor(&described.descriptor, NON_EXCLUSIVE_FILTER, names)?;
        let Value::List(fields) = &described.value else {
            return Err(Fault::Argument(format!("{NON_EXCLUSIVE_FILTER} must be a described list.")));
        };
        let id = session_id(fields.first().unwrap_or(&Value::Null), NON_EXCLUSIVE_FILTER)?;
        let lock = match fields.get(1).unwrap_or(&Value::Null) {
            Value::Null => SessionLock::NonExclusive,
            Value::Uuid(token) => SessionLock::TakeOver(lock_token::from_uuid(*token)),
            _ => {
                let text = format!("The lock token in {NON_EXCLUSIVE_FILTER} must be a uuid or null.");
                return Err(Fault::Argument(text));
            }
        };
        Ok(Self { id, lock, descriptor: Some(described.descriptor.clone()) })
    }

    /// Writes the accepted session into the answer to the attach.
    pub(crate) fn confirm(self, accepted: &AcceptedSession, reply: &mut Attach) {
        reply.source.get_or_insert_default().filter = vec![self.answer(accepted)];
        reply.properties.retain(|(key, _)| &**key != LOCKED_UNTIL);
        reply.properties.push((LOCKED_UNTIL.into(), Value::Long(ticks(accepted.locked_until))));
    }

    /// The filter in the answer: as it was sent, with the accepted session.
    fn answer(self, accepted: &AcceptedSession) -> (Str, Value) {
        let id = Value::String((*accepted.id).into());
        let (name, value) = match accepted.token {
            Some(token) => {
                let token = Value::Uuid(lock_token::to_uuid(token));
                (NON_EXCLUSIVE_FILTER, Value::List(vec![id, token]))
            }
            None => (SESSION_FILTER, id),
        };
        let value = match self.descriptor {
            Some(descriptor) => Value::described(descriptor, value),
            None => value,
        };
        (name.into(), value)
    }
}

/// The id in a filter; null means the next available session.
fn session_id(value: &Value, filter: &str) -> Result<Option<Box<str>>, Fault> {
    match value {
        Value::Null => Ok(None),
        Value::String(id) => Ok(Some(id.clone())),
        _ => Err(Fault::Argument(format!("The session id in {filter} must be a string or null."))),
    }
}

/// Checks that a descriptor is the expected one, as a number or by name.
fn check_descriptor(descriptor: &Value, filter: &str, (code, name): (u64, &str)) -> Result<(), Fault> {
    match descriptor {
        Value::ULong(number) if *number == code => Ok(()),
        Value::Symbol(symbol) if &**symbol == name => Ok(()),
        _ => Err(Fault::Argument(format!("The descriptor in {filter} is unknown."))),
    }
}

/// When the wait for an available session ends, according to the attach's properties.
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
        let lock = SessionLock::Exclusive;
        let requested = |id: Option<&str>| SessionFilter { id: id.map(Into::into), lock, descriptor: None };
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

    fn find_shared(descriptor: Value, fields: Value) -> Result<Option<SessionFilter>, Fault> {
        let value = Value::described(descriptor, fields);
        SessionFilter::find(&vec![("com.microsoft:non-exclusive-session-filter".into(), value)])
    }

    #[test]
    fn a_list_of_id_and_token_asks_for_a_session_that_others_may_take_over() {
        let token = Value::Uuid([7; 16]);
        let taken = SessionLock::TakeOver(peeklock_engine::LockToken(u128::from_be_bytes([7; 16])));
        let cases = [
            (vec!["s".into(), Value::Null], Some("s"), SessionLock::NonExclusive),
            (vec![Value::Null, Value::Null], None, SessionLock::NonExclusive),
            (vec!["s".into()], Some("s"), SessionLock::NonExclusive),
            (vec!["".into(), token.clone()], Some(""), taken),
            (vec![Value::Null, token], None, taken),
            (vec![], None, SessionLock::NonExclusive),
        ];
        let names = ["com.microsoft:non-exclusive-session-filter:list"];
        for (fields, id, lock) in cases {
            for descriptor in [Value::ULong(0x13_7000_000E), Value::symbol(names[0])] {
                let filter = find_shared(descriptor, Value::List(fields.clone())).unwrap().unwrap();
                assert_eq!((filter.id.as_deref(), filter.lock), (id, lock));
            }
        }
    }

    #[test]
    fn invalid_session_filters_are_refused() {
        let code = || Value::ULong(0x13_7000_000E);
        let wrong = [
            find_shared(Value::ULong(0x13_7000_000C), Value::List(vec![])),
            find_shared(code(), "s".into()),
            find_shared(code(), Value::List(vec![Value::Int(1), Value::Null])),
            find_shared(code(), Value::List(vec!["s".into(), "token".into()])),
            find_shared(code(), Value::List(vec!["x".repeat(129).as_str().into(), Value::Null])),
            SessionFilter::find(&vec![("com.microsoft:non-exclusive-session-filter".into(), Value::Null)]),
            SessionFilter::find(&vec![
                ("com.microsoft:session-filter".into(), Value::Null),
                (NON_EXCLUSIVE_FILTER.into(), Value::described(code(), Value::List(vec![]))),
            ]),
        ];
        for found in wrong {
            assert_eq!(found.unwrap_err().condition_and_status().0, "com.microsoft:argument-error");
        }
    }

    #[test]
    fn the_answer_repeats_the_filter_with_id_and_token() {
        let filter = find_shared(Value::ULong(0x13_7000_000E), Value::List(vec![])).unwrap().unwrap();
        let token = Some(peeklock_engine::LockToken(5));
        let accepted = AcceptedSession { id: "s".into(), locked_until: Timestamp(1), token };
        let token = Value::Uuid(5_u128.to_be_bytes());
        let value = Value::described(Value::ULong(0x13_7000_000E), Value::List(vec!["s".into(), token]));
        assert_eq!(filter.answer(&accepted), (NON_EXCLUSIVE_FILTER.into(), value));
    }
}
