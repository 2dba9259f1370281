//! Named values with types: the properties of correlation filters, the parameters of SQL.

use std::borrow::Cow;

use jiff::Timestamp;
use peeklock_admin::untyped;
use peeklock_engine::PropertyValue;
use toml::Spanned;
use toml::de::{DeFloat, DeInteger, DeTable, DeValue};

use super::names::Place;
use super::table::{Table, show};

/// The type of null, which has no value.
pub(super) const NULL: &str = "null";

/// The values of a table inside a table, by name; names are case-insensitive.
pub(super) fn read(
    table: &mut Table<'_, '_>,
    key: &'static str,
    example: &str,
) -> Vec<(Box<str>, PropertyValue)> {
    let Some((_, span)) = table.value(key) else { return Vec::new() };
    let Some(fields) = table.read(key, |value| match value {
        DeValue::Table(fields) => Ok(fields.iter().map(read_field).collect::<Vec<_>>()),
        other => Err(format!("expected a table, found {}; write {key} = {example}", show(other))),
    }) else {
        return Vec::new();
    };
    let mut values: Vec<(Box<str>, PropertyValue)> = Vec::with_capacity(fields.len());
    for (name, place, value) in fields {
        let same = values.iter().find(|(earlier, _)| earlier.eq_ignore_ascii_case(&name));
        match (value, same) {
            _ if name.is_empty() => table.report(&span, key, "the name is empty; remove it"),
            (Ok(_), Some((same, _))) => {
                table.report(&place, key, &format!("\"{same}\" and \"{name}\" are the same; remove one"));
            }
            (Ok(value), None) => values.push((name, value)),
            (Err(message), _) => {
                table.report(&place, &format!("{key}.{name}"), &message);
                // So that an expression that uses the name causes no further error.
                values.push((name, PropertyValue::Null));
            }
        }
    }
    values
}

type Field = (Box<str>, Place, Result<PropertyValue, String>);

fn read_field((name, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)) -> Field {
    (name.get_ref().as_ref().into(), value.span(), read_value(value.get_ref()))
}

fn read_value(value: &DeValue<'_>) -> Result<PropertyValue, String> {
    match value {
        DeValue::String(text) => Ok(PropertyValue::Text(text.as_ref().into())),
        DeValue::Boolean(flag) => Ok(PropertyValue::Boolean(*flag)),
        DeValue::Integer(number) => read_integer(number),
        DeValue::Float(number) => read_float(number),
        // An AMQP timestamp has milliseconds.
        DeValue::Datetime(instant) => match instant.to_string().parse::<Timestamp>() {
            Ok(instant) => Ok(PropertyValue::Timestamp(instant.as_millisecond())),
            Err(_) => Err(format!(
                "{instant} is not a point in time; write date, time and offset, such as 2026-01-31T12:00:00Z"
            )),
        },
        DeValue::Table(fields) => read_typed(fields),
        DeValue::Array(_) => {
            Err(format!("expected a text, number, boolean or date-time, found {}", show(value)))
        }
    }
}

/// A value of a type that TOML lacks: `{ type = "guid", value = "…" }`, with the types of the management API.
fn read_typed(fields: &DeTable<'_>) -> Result<PropertyValue, String> {
    let field = |name: &str| match fields.get(name).map(Spanned::get_ref) {
        Some(DeValue::String(text)) => Some(text.to_string()),
        _ => None,
    };
    let (kind, value) = (field("type"), field("value"));
    match (kind, value, fields.len()) {
        (Some(kind), None, 1) if kind == NULL => Ok(PropertyValue::Null),
        (Some(kind), Some(value), 2) if kind != NULL => {
            within_doubles(&value, untyped(Some((kind, value.clone())))?)
        }
        _ => Err("found a table; a value with a type is { type = \"guid\", value = \"…\" }".to_owned()),
    }
}

fn read_integer(number: &DeInteger<'_>) -> Result<PropertyValue, String> {
    let (digits, radix) = (number.as_str(), number.radix());
    i64::from_str_radix(digits, radix)
        .map(PropertyValue::Integer)
        .or_else(|_| u64::from_str_radix(digits, radix).map(PropertyValue::Unsigned))
        .map_err(|_| format!("{number} does not fit into 64 bits"))
}

fn read_float(number: &DeFloat<'_>) -> Result<PropertyValue, String> {
    match number.as_str().parse::<f64>() {
        Ok(value) if !value.is_nan() => within_doubles(number.as_str(), PropertyValue::Double(value)),
        _ => Err(format!("{number} equals no value; write a number")),
    }
}

/// Rust parses a number that is too large as infinity; only the word means infinity.
fn within_doubles(text: &str, value: PropertyValue) -> Result<PropertyValue, String> {
    match value {
        PropertyValue::Double(number)
            if number.is_infinite() && text.bytes().any(|byte| byte.is_ascii_digit()) =>
        {
            Err(format!(
                "{text} is beyond the largest double, {:e}; write a smaller number, or inf",
                f64::MAX
            ))
        }
        value => Ok(value),
    }
}
