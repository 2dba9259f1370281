//! Parses a selector: any text is accepted or rejected; an accepted text parses to the same names again, and its
//! evaluation ends for values of every type.

use peeklock_rules::{PropertyValue, Selector};

/// A value for each name, of the type that its first letter selects.
fn value_of(name: &str) -> Option<PropertyValue> {
    match name.as_bytes().first()? {
        b'b' => Some(PropertyValue::Boolean(true)),
        b'i' => Some(PropertyValue::Integer(i64::MIN)),
        b'u' => Some(PropertyValue::Unsigned(u64::MAX)),
        b'd' => Some(PropertyValue::Double(1.5)),
        b't' => Some(PropertyValue::Text("x_%".into())),
        b's' => Some(PropertyValue::Timestamp(1_000)),
        b'g' => Some(PropertyValue::Uuid(7)),
        b'o' => Some(PropertyValue::Other([1, 2].into())),
        b'J' => Some(PropertyValue::Text("ID:1".into())),
        b'n' => Some(PropertyValue::Null),
        _ => None,
    }
}

pub(crate) fn exercise(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match Selector::new(text) {
        Ok(selector) => {
            let again = Selector::new(selector.text()).expect("it was read before");
            assert!(again.names().eq(selector.names()));
            assert_eq!(again.matches(value_of), selector.matches(value_of));
        }
        Err(error) => assert!(error.position <= text.chars().count()),
    }
}
