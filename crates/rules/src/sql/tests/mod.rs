//! Texts, trees and mistakes.

mod arbitrary;
mod canonical;
mod hostile;
mod laws;
mod mistakes;
mod random;
mod reference;
mod round_trip;

use crate::FactValue;

/// What `@name` stands for in these tests.
fn parameters() -> Vec<(Box<str>, FactValue)> {
    vec![
        ("@text".into(), FactValue::Text("orders".into())),
        ("Number".into(), FactValue::Integer(5)),
        ("@yes".into(), FactValue::Boolean(true)),
    ]
}
