//! Values of properties in JSON: no lists, no objects.

use std::fmt;

use peeklock_wire::Value;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A value of a property.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Scalar {
    /// Present and null, or absent.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number without a fraction.
    Integer(i64),
    /// Any other number.
    Double(f64),
    /// A string.
    Text(String),
}

impl Scalar {
    /// The value as text; `None` for null.
    pub(super) fn into_text(self) -> Option<String> {
        match self {
            Self::Null => None,
            Self::Bool(truth) => Some(truth.to_string()),
            Self::Integer(number) => Some(number.to_string()),
            Self::Double(number) => Some(number.to_string()),
            Self::Text(text) => Some(text),
        }
    }

    /// The value as an application property: integers are ints if they fit, as .NET reads JSON.
    pub(super) fn into_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(truth) => Value::Bool(truth),
            Self::Integer(number) => i32::try_from(number).map_or(Value::Long(number), Value::Int),
            Self::Double(number) => Value::Double(number),
            Self::Text(text) => Value::String(text.into()),
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string, a number, true, false or null")
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<Scalar, E> {
        Ok(Scalar::Bool(truth))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar::Integer(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Scalar, E> {
        // Beyond the range of a long it becomes a double, as in JavaScript.
        #[allow(clippy::cast_precision_loss)] // as JSON's own numbers
        Ok(i64::try_from(number).map_or(Scalar::Double(number as f64), Scalar::Integer))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Scalar, E> {
        Ok(Scalar::Double(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Scalar, E> {
        Ok(Scalar::Text(text))
    }

    fn visit_unit<E: Error>(self) -> Result<Scalar, E> {
        Ok(Scalar::Null)
    }
}
