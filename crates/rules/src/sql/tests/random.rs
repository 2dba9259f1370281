//! Random expressions and messages of every kind, with few different values so that matches are frequent.

use proptest::prelude::*;

use crate::sql::tree::{
    ArithmeticOperator, ComparisonOperator, Constant, Expression, Property, Sign, SystemProperty,
};
use crate::{Arrival, PropertyValue, RuleProperties};

/// 2026-11-22T10:00:00Z.
const AT_MS: i64 = 1_795_341_600_000;

/// When the random messages are published.
pub(super) const ARRIVAL: Arrival<'static> = Arrival {
    sequence_number: 5,
    enqueued_sequence_number: 5,
    enqueued_at_ms: AT_MS as u64,
    time_to_live_ms: Some(60_000),
    scheduled_enqueue_time_ms: None,
    size_bytes: 100,
    dead_letter_source: None,
};

fn text() -> impl Strategy<Value = Box<str>> {
    let texts = [
        "",
        "a",
        "A",
        "b",
        "ab",
        "aab",
        "%",
        "_",
        "a%",
        "%b",
        "a_",
        "!%",
        "!",
        "5",
        "true",
        "sys.Label",
        "sys.x",
        "ä",
        "2026-11-22T10:00:00Z",
        "2026-11-22",
        "00:01:00",
        "00000000-0000-0000-0000-000000000001",
    ];
    prop::sample::select(texts.to_vec()).prop_map(Into::into)
}

fn double() -> impl Strategy<Value = f64> {
    prop::sample::select(vec![
        0.0,
        -0.0,
        1.0,
        2.5,
        5.0,
        -1e300,
        f64::NAN,
        f64::INFINITY,
        9_223_372_036_854_775_808.0,
    ])
}

fn integer() -> impl Strategy<Value = i64> {
    prop_oneof![-3_i64..6, prop::sample::select(vec![i64::MAX, i64::MIN, AT_MS, 1 << 53])]
}

/// A value of any type.
pub(super) fn value() -> impl Strategy<Value = PropertyValue> {
    let decimals = vec![0x303e << 112 | 125, 0x3040 << 112 | 5, 0x7800 << 112, 0x7c00 << 112];
    let ticks = vec![0, 600_000_000, i64::MAX, i64::MIN, AT_MS * 10_000 + 621_355_968_000_000_000];
    prop_oneof![
        3 => Just(PropertyValue::Null),
        4 => any::<bool>().prop_map(PropertyValue::Boolean),
        4 => integer().prop_map(PropertyValue::Integer),
        1 => prop::sample::select(vec![1 << 63, u64::MAX]).prop_map(PropertyValue::Unsigned),
        2 => double().prop_map(PropertyValue::Double),
        4 => text().prop_map(PropertyValue::Text),
        1 => prop::sample::select(vec![0, AT_MS, i64::MAX, i64::MIN]).prop_map(PropertyValue::Timestamp),
        1 => prop::sample::select(ticks.clone()).prop_map(PropertyValue::DateTimeOffset),
        1 => prop::sample::select(ticks).prop_map(PropertyValue::TimeSpan),
        1 => (0..3_u128).prop_map(PropertyValue::Uuid),
        1 => prop::sample::select(decimals).prop_map(PropertyValue::Decimal),
        1 => prop::sample::select(vec![[0x45].into(), [0xC0].into()]).prop_map(PropertyValue::Other),
    ]
}

/// A message with some of the properties that the expressions name.
pub(super) fn rule_properties() -> impl Strategy<Value = RuleProperties> {
    let user = prop::collection::vec((prop::sample::select(vec!["a", "B", "c", "D", "Ä"]), value()), 0..7);
    let texts = (prop::option::of(text()), prop::option::of(text()));
    (user, texts).prop_map(|(user, (label, to))| RuleProperties {
        label,
        to,
        user: user.into_iter().map(|(name, value)| (name.into(), value)).collect(),
        ..RuleProperties::default()
    })
}

/// The values of `@x` and `@y`.
pub(super) fn parameters() -> impl Strategy<Value = Vec<(Box<str>, PropertyValue)>> {
    (value(), value()).prop_map(|(x, y)| vec![("@x".into(), x), ("Y".into(), y)])
}

fn property() -> impl Strategy<Value = Property> {
    let system = [
        SystemProperty::Label,
        SystemProperty::To,
        SystemProperty::SequenceNumber,
        SystemProperty::EnqueuedTimeUtc,
        SystemProperty::TimeToLive,
        SystemProperty::ForcePersistence,
        SystemProperty::LockToken,
    ];
    prop_oneof![
        4 => prop::sample::select(vec!["A", "b", "c", "d", "ä", "e"]).prop_map(|name| Property::User(name.into())),
        1 => prop::sample::select(system.to_vec()).prop_map(Property::System),
    ]
}

fn leaf() -> impl Strategy<Value = Expression> {
    let constant = prop_oneof![
        1 => Just(Constant::Null),
        3 => any::<bool>().prop_map(Constant::Boolean),
        3 => integer().prop_map(Constant::Integer),
        2 => double().prop_map(Constant::Double),
        3 => text().prop_map(Constant::Text),
    ];
    prop_oneof![
        4 => constant.prop_map(Expression::Constant),
        8 => property().prop_map(Expression::Property),
        1 => prop::sample::select(vec!["x", "y", "z"]).prop_map(|name| Expression::Parameter(name.into())),
        1 => Just(Expression::NewId),
        2 => property().prop_map(Expression::Exists),
        2 => (any::<bool>(), property()).prop_map(|(negated, property)| Expression::IsNull { negated, property }),
    ]
}

/// An expression of any kind.
pub(super) fn expression() -> impl Strategy<Value = Expression> {
    leaf().prop_recursive(5, 32, 4, |inner| {
        let arithmetic = prop::sample::select(vec![
            ArithmeticOperator::Add,
            ArithmeticOperator::Subtract,
            ArithmeticOperator::Multiply,
            ArithmeticOperator::Divide,
            ArithmeticOperator::Remainder,
        ]);
        let comparison = prop::sample::select(vec![
            ComparisonOperator::Equal,
            ComparisonOperator::NotEqual,
            ComparisonOperator::Greater,
            ComparisonOperator::GreaterOrEqual,
            ComparisonOperator::Less,
            ComparisonOperator::LessOrEqual,
        ]);
        let boxed = || inner.clone().prop_map(Box::new);
        let several = || prop::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            1 => boxed().prop_map(Expression::PropertyByName),
            1 => (prop::sample::select(vec![Sign::Plus, Sign::Minus]), boxed())
                .prop_map(|(sign, value)| Expression::Signed(sign, value)),
            2 => (arithmetic, boxed(), boxed())
                .prop_map(|(operator, left, right)| Expression::Arithmetic(operator, left, right)),
            6 => (comparison, boxed(), boxed())
                .prop_map(|(operator, left, right)| Expression::Comparison(operator, left, right)),
            2 => (any::<bool>(), boxed(), boxed(), prop::option::of(boxed())).prop_map(
                |(negated, value, pattern, escape)| Expression::Like { negated, value, pattern, escape }
            ),
            2 => (any::<bool>(), boxed(), prop::collection::vec(inner.clone(), 1..4))
                .prop_map(|(negated, value, list)| Expression::In { negated, value, list }),
            3 => boxed().prop_map(Expression::Not),
            5 => several().prop_map(Expression::And),
            5 => several().prop_map(Expression::Or),
        ]
    })
}
