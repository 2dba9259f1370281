//! Typed values in JSON: `{"type":"long","value":"12"}`. Types have the names in descriptions of rules. Integers are
//! strings, because JavaScript reads only 53 bits of a number.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use peeklock_admin::Typed;
use peeklock_message::rule_properties::given_from_value;
use peeklock_wire::Value;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Value as Json, json};
use uuid::Uuid;

/// Properties of one message or rule.
const PROPERTIES_MAX: usize = 1_000;

/// A value received over AMQP.
pub(crate) fn of_amqp(value: &Value) -> Json {
    let (kind, text) = match value {
        Value::Binary(bytes) => ("base64Binary", STANDARD.encode(bytes)),
        Value::Symbol(text) => ("symbol", text.to_string()),
        Value::Timestamp(at_ms) => ("dateTime", instant(*at_ms)),
        Value::List(_) | Value::Map(_) | Value::Array(_) => ("amqp", STANDARD.encode(value.to_bytes())),
        value => return of_property(&given_from_value(value.clone())),
    };
    json!({ "type": kind, "value": text })
}

/// A value in a rule, or one that an action set.
pub(crate) fn of_property(value: &peeklock_engine::PropertyValue) -> Json {
    match peeklock_admin::typed(value) {
        None => json!({ "type": "null", "value": null }),
        Some(("boolean", text)) => json!({ "type": "boolean", "value": text == "true" }),
        Some((kind, text)) => json!({ "type": kind, "value": text }),
    }
}

/// A timestamp of AMQP, which may be before 1970.
fn instant(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms).map_or_else(|_| at_ms.to_string(), |at| format!("{at:.3}"))
}

/// A value in a request: plain, or with its type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    /// The type; `None` for null.
    kind: Option<String>,
    text: String,
}

impl Asked {
    /// The value for a rule.
    pub(crate) fn typed(self) -> Typed {
        self.kind.map(|kind| (kind, self.text))
    }

    /// The value for a message.
    ///
    /// # Errors
    /// The reason, as the end of a sentence.
    pub(crate) fn amqp(&self) -> Result<Value, String> {
        let Some(kind) = self.kind.as_deref() else { return Ok(Value::Null) };
        let text = self.text.as_str();
        let value = match kind {
            "string" => Some(Value::String(text.into())),
            "symbol" => Some(Value::Symbol(text.into())),
            "boolean" => text.parse().ok().map(Value::Bool),
            "byte" => text.parse().ok().map(Value::Byte),
            "short" => text.parse().ok().map(Value::Short),
            "int" => text.parse().ok().map(Value::Int),
            "long" => text.parse().ok().map(Value::Long),
            "unsignedByte" => text.parse().ok().map(Value::UByte),
            "unsignedShort" => text.parse().ok().map(Value::UShort),
            "unsignedInt" => text.parse().ok().map(Value::UInt),
            "unsignedLong" => text.parse().ok().map(Value::ULong),
            "float" => text.parse().ok().map(Value::Float),
            "double" => text.parse().ok().map(Value::Double),
            "char" => text.parse().ok().and_then(char::from_u32).map(Value::Char),
            "dateTime" => {
                text.parse::<jiff::Timestamp>().ok().map(|at| Value::Timestamp(at.as_millisecond()))
            }
            "guid" => Uuid::parse_str(text).ok().map(|uuid| Value::Uuid(*uuid.as_bytes())),
            "base64Binary" => STANDARD.decode(text).ok().map(|bytes| Value::Binary(bytes.into())),
            "amqp" => encoded(text),
            "decimal" | "duration" | "anyURI" => return self.described(kind),
            _ => {
                return Err(format!(
                    "has the type '{kind}'; string, symbol, boolean, byte, short, int, long, unsignedByte, unsignedShort, \
                     unsignedInt, unsignedLong, float, double, decimal, char, dateTime, duration, guid and base64Binary are understood"
                ));
            }
        };
        value.ok_or_else(|| format!("has a value that is not a valid {kind}"))
    }

    /// Types without a primitive in AMQP, or that are parsed as in rules.
    fn described(&self, kind: &str) -> Result<Value, String> {
        let value = peeklock_admin::untyped(Some((kind.to_owned(), self.text.clone())))?;
        Ok(peeklock_message::rule_properties::to_value(&value))
    }
}

/// A value given by its AMQP encoding.
fn encoded(text: &str) -> Option<Value> {
    let mut rest = Bytes::from(STANDARD.decode(text).ok()?);
    let value = Value::decode(&mut rest).ok()?;
    rest.is_empty().then_some(value)
}

impl<'de> Deserialize<'de> for Asked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let plain = |kind: &str, text: String| Ok(Self { kind: Some(kind.to_owned()), text });
        match Json::deserialize(deserializer)? {
            Json::Null => Ok(Self { kind: None, text: String::new() }),
            Json::String(text) => plain("string", text),
            Json::Bool(truth) => plain("boolean", truth.to_string()),
            // As .NET reads JSON.
            Json::Number(number) => match number.as_i64() {
                Some(whole) if i32::try_from(whole).is_ok() => plain("int", whole.to_string()),
                Some(whole) => plain("long", whole.to_string()),
                None => plain("double", number.to_string()),
            },
            Json::Object(object) => {
                let wrong =
                    || D::Error::custom("a value with a type is {\"type\":\"long\",\"value\":\"12\"}");
                let kind = object.get("type").and_then(Json::as_str).ok_or_else(wrong)?;
                let text = match object.get("value") {
                    _ if object.len() > 2 => return Err(wrong()),
                    None | Some(Json::Null) if kind == "null" => {
                        return Ok(Self { kind: None, text: String::new() });
                    }
                    Some(Json::String(text)) => text.clone(),
                    Some(value @ (Json::Bool(_) | Json::Number(_))) => value.to_string(),
                    _ => return Err(wrong()),
                };
                plain(kind, text)
            }
            Json::Array(_) => Err(D::Error::custom("a property can't be a list")),
        }
    }
}

/// Values by name, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Properties(pub(crate) Vec<(String, Asked)>);

impl Properties {
    /// The values for a rule.
    pub(crate) fn typed(self) -> Vec<(String, Typed)> {
        self.0.into_iter().map(|(name, value)| (name, value.typed())).collect()
    }
}

impl<'de> Deserialize<'de> for Properties {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PropertiesVisitor)
    }
}

struct PropertiesVisitor;

impl<'de> Visitor<'de> for PropertiesVisitor {
    type Value = Properties;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Properties, A::Error> {
        let mut properties = Vec::new();
        while let Some(entry) = map.next_entry::<String, Asked>()? {
            if properties.len() == PROPERTIES_MAX {
                return Err(A::Error::custom(format!("more than {PROPERTIES_MAX} properties")));
            }
            properties.push(entry);
        }
        Ok(Properties(properties))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Value, String> {
        serde_json::from_str::<Asked>(json).map_err(|error| error.to_string())?.amqp()
    }

    #[test]
    fn values_come_back_as_they_were_sent() {
        for value in [
            Value::Null,
            Value::Bool(true),
            Value::UByte(200),
            Value::UShort(1),
            Value::UInt(2),
            Value::ULong(u64::MAX),
            Value::Byte(-1),
            Value::Short(-2),
            Value::Int(-3),
            Value::Long(i64::MIN),
            Value::Float(0.5),
            Value::Double(-0.25),
            Value::Char('\u{1f40e}'),
            Value::Timestamp(-1),
            Value::Uuid([7; 16]),
            Value::Binary(Bytes::from_static(b"\0\xff")),
            Value::String("text".into()),
            Value::Symbol("symbol".into()),
        ] {
            let shown = of_amqp(&value).to_string();
            assert_eq!(read(&shown).as_ref(), Ok(&value), "{shown}");
        }
    }

    #[test]
    fn plain_values_get_the_type_that_fits() {
        assert_eq!(read("\"a\""), Ok(Value::String("a".into())));
        assert_eq!(read("5"), Ok(Value::Int(5)));
        assert_eq!(read("5000000000"), Ok(Value::Long(5_000_000_000)));
        assert_eq!(read("0.5"), Ok(Value::Double(0.5)));
        assert_eq!(read("null"), Ok(Value::Null));
    }

    #[test]
    fn values_that_are_not_of_their_type_are_refused() {
        for json in [
            "[]",
            "{}",
            r#"{"type":"int"}"#,
            r#"{"type":"int","value":"x"}"#,
            r#"{"type":"int","value":"1","more":1}"#,
            r#"{"type":"list","value":"1"}"#,
            r#"{"type":"guid","value":"1"}"#,
        ] {
            assert!(read(json).is_err(), "{json}");
        }
    }
}
