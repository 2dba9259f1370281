//! Application properties on the command line: `name=value`, or `name:type=value`.

use peeklock_wire::Value;

/// One property.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Property {
    /// Its name.
    pub(super) name: String,
    /// Its value.
    pub(super) value: Value,
}

const TYPES: &str = "string, int, long, double, bool, uuid or time";

/// Parses a property.
///
/// # Errors
/// A message with the valid form.
pub(super) fn property(text: &str) -> Result<Property, String> {
    let (head, value) =
        text.split_once('=').ok_or("write name=value, or name:int=5 for another type than text")?;
    let (name, kind) = head.rsplit_once(':').unwrap_or((head, "string"));
    if name.is_empty() {
        return Err("a property needs a name".to_owned());
    }
    let wrong = || format!("\"{value}\" is not a valid {kind}");
    let value = match kind {
        "string" => Value::from(value),
        "int" => Value::Int(value.parse().map_err(|_| wrong())?),
        "long" => Value::Long(value.parse().map_err(|_| wrong())?),
        "double" => Value::Double(double(value)?),
        "bool" | "boolean" => Value::Bool(value.parse().map_err(|_| wrong())?),
        "uuid" => Value::Uuid(*uuid::Uuid::parse_str(value).map_err(|_| wrong())?.as_bytes()),
        "time" => Value::Timestamp(super::text::instant_ms(value)?),
        other => return Err(format!("\"{other}\" is not a type; write {TYPES}")),
    };
    Ok(Property { name: name.to_owned(), value })
}

/// A number, or one of the words `inf` and `nan`. Rust also parses a number that is too large as infinity.
fn double(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("\"{text}\" is not a double"))?;
    if value.is_infinite() && text.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "\"{text}\" is beyond the largest double, {:e}; write a smaller number, or inf",
            f64::MAX
        ));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_behind_a_colon() {
        let value = |text: &str| property(text).map(|property| property.value);
        assert_eq!(value("region=eu"), Ok("eu".into()));
        assert_eq!(value("amount:int=5"), Ok(Value::Int(5)));
        assert_eq!(value("a:double=1.5"), Ok(Value::Double(1.5)));
        assert_eq!(value("sum=1+1=2"), Ok("1+1=2".into()));
        assert_eq!(value("a:double=-inf"), Ok(Value::Double(f64::NEG_INFINITY)));
        for wrong in ["region", "=eu", "a:int=x", "a:color=red", "a:double=1e400", "a:double=-1e400"] {
            assert!(property(wrong).is_err(), "{wrong}");
        }
    }
}
