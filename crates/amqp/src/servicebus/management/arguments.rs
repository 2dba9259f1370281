//! The body of a request: a map, read leniently. Integers may have any width (P, J and N disagree).

use peeklock_engine::{LockToken, SequenceNumber};

use super::ITEMS_MAX;
use crate::servicebus::envelope::{lookup, text};
use crate::servicebus::errors::Fault;
use crate::servicebus::lock_token;
use crate::wire::Value;

/// The arguments of a request.
#[derive(Debug)]
pub(crate) struct Arguments {
    entries: Vec<(Value, Value)>,
}

impl Arguments {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// [`Fault::Argument`] when it is not a map.
    pub(crate) fn new(body: Value) -> Result<Self, Fault> {
        match body {
            Value::Map(entries) => Ok(Self { entries }),
            _ => Err(Fault::Argument("The body of a request must be a map as amqp-value.".to_owned())),
        }
    }

    /// A value that is present and not null.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        lookup(&self.entries, key).filter(|value| **value != Value::Null)
    }

    /// A value that is present, null or not.
    pub(crate) fn entry(&self, key: &str) -> Option<&Value> {
        lookup(&self.entries, key)
    }

    /// An optional string.
    pub(crate) fn text(&self, key: &str) -> Result<Option<&str>, Fault> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => text(value).map(Some).ok_or_else(|| wrong(key, "a string")),
        }
    }

    /// An optional boolean, by default false.
    pub(crate) fn flag(&self, key: &str) -> Result<bool, Fault> {
        match self.get(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(wrong(key, "a boolean")),
        }
    }

    /// A required integer.
    pub(crate) fn integer(&self, key: &str) -> Result<i64, Fault> {
        self.get(key).and_then(integer).ok_or_else(|| wrong(key, "an integer"))
    }

    /// A required map.
    pub(crate) fn map(&self, key: &str) -> Result<&[(Value, Value)], Fault> {
        match self.get(key) {
            Some(Value::Map(entries)) => Ok(entries),
            _ => Err(wrong(key, "a map")),
        }
    }

    /// `skip`, the number of items to leave out (default 0), and `top`, the number to list, at least 1 and at most
    /// `top_max`.
    pub(crate) fn page(&self, top_max: u32) -> Result<(u32, u32), Fault> {
        let skip = match self.get("skip") {
            None => 0,
            Some(skip) => integer(skip)
                .and_then(|skip| u32::try_from(skip).ok())
                .ok_or_else(|| wrong("skip", "a number of at least 0"))?,
        };
        let top = self.integer("top")?;
        if top < 1 {
            return Err(wrong("top", "a number of at least 1"));
        }
        Ok((skip, u32::try_from(top).unwrap_or(top_max).min(top_max)))
    }

    /// A required, non-empty array of sequence numbers.
    pub(crate) fn sequence_numbers(&self, key: &str) -> Result<Vec<SequenceNumber>, Fault> {
        let number =
            |value: &Value| integer(value).and_then(|number| u64::try_from(number).ok()).map(SequenceNumber);
        self.items(key, "a non-empty array of sequence numbers", number)
    }

    /// A required, non-empty array of lock tokens.
    pub(crate) fn lock_tokens(&self, key: &str) -> Result<Vec<LockToken>, Fault> {
        let token = |value: &Value| match value {
            Value::Uuid(uuid) => Some(lock_token::from_uuid(*uuid)),
            _ => None,
        };
        self.items(key, "a non-empty array of uuids", token)
    }

    /// A required, non-empty array or list, or a single item.
    pub(crate) fn items<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Vec<T>, Fault> {
        let values = match self.get(key) {
            Some(Value::Array(values) | Value::List(values)) => values.as_slice(),
            Some(single) => std::slice::from_ref(single),
            None => &[],
        };
        if values.is_empty() {
            return Err(wrong(key, expected));
        }
        if values.len() > ITEMS_MAX {
            return Err(Fault::Argument(format!("'{key}' may have at most {ITEMS_MAX} entries.")));
        }
        values.iter().map(read).collect::<Option<_>>().ok_or_else(|| wrong(key, expected))
    }
}

/// An integer of any width.
pub(crate) fn integer(value: &Value) -> Option<i64> {
    match *value {
        Value::UByte(number) => Some(number.into()),
        Value::UShort(number) => Some(number.into()),
        Value::UInt(number) => Some(number.into()),
        Value::ULong(number) => i64::try_from(number).ok(),
        Value::Byte(number) => Some(number.into()),
        Value::Short(number) => Some(number.into()),
        Value::Int(number) => Some(number.into()),
        Value::Long(number) => Some(number),
        _ => None,
    }
}

/// The error for a missing or ill-typed argument.
pub(super) fn wrong(key: &str, expected: &str) -> Fault {
    Fault::Argument(format!("The request needs '{key}', {expected}."))
}
