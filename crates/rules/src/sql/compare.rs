//! Comparison of two values.

use std::cmp::Ordering;

use uuid::Uuid;

use super::instant;
use super::time_span;
use super::tree::ComparisonOperator;
use super::value::Value;

/// Whether a comparison holds; `None` for UNKNOWN: an operand is unknown, or the types are not comparable (semantics
/// §13.4; that this is UNKNOWN and not an error is inferred).
///
/// Numbers compare by value, with a double or decimal as doubles do in C#. Texts compare ordinally as in .NET: by
/// UTF-16 code units, case-sensitively. A text compared with a time, a duration or a GUID is parsed as one (inferred).
/// Booleans and values of types unknown to SQL can only be equal or not.
pub(super) fn compare(operator: ComparisonOperator, left: &Value<'_>, right: &Value<'_>) -> Option<bool> {
    match relation(operator, left, right)? {
        Relation::Ordered(ordering) => Some(holds(operator, ordering)),
        Relation::Different => Some(operator == ComparisonOperator::NotEqual),
        Relation::Unordered(equal) => match operator {
            ComparisonOperator::Equal => Some(equal),
            ComparisonOperator::NotEqual => Some(!equal),
            _ => None,
        },
    }
}

/// The relation of two values.
enum Relation {
    Ordered(Ordering),
    /// Neither less nor equal nor greater: NaN.
    Different,
    /// Equal or not, but without an order.
    Unordered(bool),
}

fn relation(operator: ComparisonOperator, left: &Value<'_>, right: &Value<'_>) -> Option<Relation> {
    use Value::{Boolean, Integer, Other, Text};
    match (left, right) {
        (Value::Unknown, _) | (_, Value::Unknown) => None,
        (Text(left), Text(right)) => Some(Relation::Ordered(texts(operator, left, right))),
        (Integer(left), Integer(right)) => Some(Relation::Ordered(left.cmp(right))),
        (Boolean(left), Boolean(right)) => Some(Relation::Unordered(left == right)),
        (Other(left), Other(right)) => Some(Relation::Unordered(left == right)),
        (Text(text), _) => {
            read_beside(text, right).map(|left| left.cmp(&place(right))).map(Relation::Ordered)
        }
        (_, Text(text)) => {
            read_beside(text, left).map(|right| place(left).cmp(&right)).map(Relation::Ordered)
        }
        _ => numbers(left, right).or_else(|| places(left, right).map(Relation::Ordered)),
    }
}

fn holds(operator: ComparisonOperator, ordering: Ordering) -> bool {
    match operator {
        ComparisonOperator::Equal => ordering.is_eq(),
        ComparisonOperator::NotEqual => ordering.is_ne(),
        ComparisonOperator::Greater => ordering.is_gt(),
        ComparisonOperator::GreaterOrEqual => ordering.is_ge(),
        ComparisonOperator::Less => ordering.is_lt(),
        ComparisonOperator::LessOrEqual => ordering.is_le(),
    }
}

fn texts(operator: ComparisonOperator, left: &str, right: &str) -> Ordering {
    match operator {
        // The order does not matter here, and equality is faster to determine.
        ComparisonOperator::Equal | ComparisonOperator::NotEqual if left == right => Ordering::Equal,
        ComparisonOperator::Equal | ComparisonOperator::NotEqual => Ordering::Less,
        _ => ordinal(left, right),
    }
}

/// The order of UTF-16 code units. It is the same as that of UTF-8 bytes, except that characters beyond 16 bits come
/// before U+E000 to U+FFFF.
fn ordinal(left: &str, right: &str) -> Ordering {
    let differing = left.bytes().zip(right.bytes()).find(|(left, right)| left != right);
    let rank = |byte: u8| if byte == 0xEE || byte == 0xEF { byte + 0x10 } else { byte };
    differing.map_or_else(|| left.len().cmp(&right.len()), |(left, right)| rank(left).cmp(&rank(right)))
}

fn numbers(left: &Value<'_>, right: &Value<'_>) -> Option<Relation> {
    if let (Some(left), Some(right)) = (left.as_integer(), right.as_integer()) {
        return Some(Relation::Ordered(left.cmp(&right)));
    }
    let (left, right) = (left.as_double()?, right.as_double()?);
    Some(left.partial_cmp(&right).map_or(Relation::Different, Relation::Ordered))
}

/// A comparable form of a value: a time or a duration in ticks, a GUID as a number (in .NET's order).
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Ticks(i128),
    Uuid(u128),
    Nowhere,
}

fn place(value: &Value<'_>) -> Place {
    match value {
        Value::Timestamp(at_ms) => Place::Ticks(instant::ticks_of_ms(*at_ms)),
        Value::DateTimeOffset(ticks) | Value::TimeSpan(ticks) => Place::Ticks((*ticks).into()),
        Value::Uuid(uuid) => Place::Uuid(*uuid),
        _ => Place::Nowhere,
    }
}

fn places(left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    use Value::{DateTimeOffset, TimeSpan, Timestamp, Uuid};
    let are_alike = matches!(
        (left, right),
        (Timestamp(_) | DateTimeOffset(_), Timestamp(_) | DateTimeOffset(_))
            | (TimeSpan(_), TimeSpan(_))
            | (Uuid(_), Uuid(_))
    );
    are_alike.then(|| place(left).cmp(&place(right)))
}

/// Parses a text as the type of the other operand, as precisely as possible.
fn read_beside(text: &str, beside: &Value<'_>) -> Option<Place> {
    match beside {
        Value::Timestamp(_) => {
            let at_ms = instant::ms_of_ticks(instant::parse(text)?);
            Some(Place::Ticks(instant::ticks_of_ms(at_ms)))
        }
        Value::DateTimeOffset(_) => instant::parse(text).map(|ticks| Place::Ticks(ticks.into())),
        Value::TimeSpan(_) => time_span::parse(text).map(|ticks| Place::Ticks(ticks.into())),
        Value::Uuid(_) => Uuid::try_parse(text).ok().map(|uuid| Place::Uuid(uuid.as_u128())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_are_in_the_order_of_utf_16() {
        assert_eq!(ordinal("\u{FFFF}", "\u{10000}"), Ordering::Greater);
        assert_eq!(ordinal("\u{D7FF}", "\u{10000}"), Ordering::Less);
        assert_eq!(ordinal("a", "ab"), Ordering::Less);
        assert_eq!(ordinal("Z", "a"), Ordering::Less);
    }

    proptest! {
        #[test]
        fn the_order_is_that_of_code_units(left in "[a\u{E9}\u{D7FF}\u{E000}\u{FFFD}\u{10000}\u{10FFFF}]{0,4}",
                                           right in "[a\u{E9}\u{D7FF}\u{E000}\u{FFFD}\u{10000}\u{10FFFF}]{0,4}") {
            prop_assert_eq!(ordinal(&left, &right), left.encode_utf16().cmp(right.encode_utf16()));
        }
    }
}
