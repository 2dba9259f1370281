//! Tests of parsing, printing and evaluation.

mod arbitrary;
mod canonical;
mod hostile;
mod laws;
mod mistakes;
mod random;
mod reference;
mod round_trip;

use crate::PropertyValue;

/// The values of `@name` in these tests.
fn parameters() -> Vec<(Box<str>, PropertyValue)> {
    vec![
        ("@text".into(), PropertyValue::Text("orders".into())),
        ("Number".into(), PropertyValue::Integer(5)),
        ("@yes".into(), PropertyValue::Boolean(true)),
    ]
}
