//! Random trees and texts.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::sql::tree::{
    ArithmeticOperator, ComparisonOperator, Constant, Expression, Property, Sign, Statement, SystemProperty,
};

/// Words of the language, and beginnings of words.
const WORDS: &str = "AND or Not IN LIKE ESCAPE IS NULL EXISTS TRUE false SET REMOVE = <> != > >= < <= + - * / % ( ) ( ) \
                     , ; . sys.To sys user a b_1 é [a] \"b\" newid newid() p( property @text @number @yes @ 1 1.5 2e3 \
                     9223372036854775808 'x' '\\' 'it''s' ' [ \" # \n";

const NAMES: &[&str] = &[
    "a", "B_1", "größe", "and", "Set", "sys", "user", "p", "newid", "a]b", "]", "[x]", "\"", "'", "HR-1", " ",
];

/// A condition as produced by the parser: in normal form, with the parameters of [`super::parameters`].
pub(super) fn condition() -> impl Strategy<Value = Expression> {
    expression().prop_map(as_condition)
}

/// A statement of an action, in normal form.
pub(super) fn statement() -> impl Strategy<Value = Statement> {
    let settable = SystemProperty::ALL.into_iter().filter(|property| property.is_settable());
    let settable = select(settable.collect::<Vec<_>>()).prop_map(Property::System);
    let property = prop_oneof![name().prop_map(Property::User), settable];
    prop_oneof![
        3 => (property.clone(), expression().prop_filter("a value", |value| !is_condition(value)))
            .prop_map(|(property, value)| Statement::Set(property, value)),
        1 => property.prop_map(Statement::Remove),
    ]
}

/// Text of random words of the language.
pub(super) fn soup() -> impl Strategy<Value = String> {
    let word = prop_oneof![9 => select(WORDS.split(' ').collect::<Vec<_>>()).prop_map(str::to_owned), 1 => any::<String>()];
    (vec(word, 0..24), select(&["", " "][..])).prop_map(|(words, between)| words.join(between))
}

fn name() -> impl Strategy<Value = Box<str>> + Clone {
    let any_name = any::<String>().prop_filter("a name has a character", |name| !name.is_empty());
    prop_oneof![3 => select(NAMES).prop_map(str::to_owned), 1 => any_name].prop_map(Into::into)
}

fn property() -> impl Strategy<Value = Property> + Clone {
    prop_oneof![name().prop_map(Property::User), select(&SystemProperty::ALL[..]).prop_map(Property::System)]
}

fn constant() -> impl Strategy<Value = Constant> {
    let integers = prop_oneof![any::<i64>(), -9..9_i64, Just(i64::MIN), Just(i64::MAX)];
    let doubles = any::<f64>().prop_filter("a number can be written", |number| number.is_finite());
    prop_oneof![
        Just(Constant::Null),
        any::<bool>().prop_map(Constant::Boolean),
        integers.prop_map(Constant::Integer),
        doubles.prop_map(Constant::Double),
        any::<String>().prop_map(|text| Constant::Text(text.into())),
    ]
}

fn expression() -> impl Strategy<Value = Expression> + Clone {
    let leaf = prop_oneof![
        constant().prop_map(Expression::Constant),
        property().prop_map(Expression::Property),
        select(&["text", "NUMBER", "yes"][..]).prop_map(|name| Expression::Parameter(name.into())),
        Just(Expression::NewId),
        property().prop_map(Expression::Exists),
        (any::<bool>(), property()).prop_map(|(negated, property)| Expression::IsNull { negated, property }),
    ];
    leaf.prop_recursive(6, 48, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|name| Expression::PropertyByName(Box::new(name))),
            (select(&[Sign::Plus, Sign::Minus][..]), inner.clone()).prop_map(signed),
            (arithmetic_operator(), inner.clone(), inner.clone()).prop_map(|(operator, left, right)| {
                Expression::Arithmetic(operator, Box::new(left), Box::new(right))
            }),
            (comparison_operator(), inner.clone(), inner.clone()).prop_map(|(operator, left, right)| {
                Expression::Comparison(operator, Box::new(left), Box::new(right))
            }),
            (any::<bool>(), inner.clone(), inner.clone(), option::of(inner.clone())).prop_map(like),
            (any::<bool>(), inner.clone(), vec(inner.clone(), 1..4))
                .prop_map(|(negated, value, list)| Expression::In { negated, value: Box::new(value), list }),
            inner.clone().prop_map(|operand| Expression::Not(Box::new(as_condition(operand)))),
            vec(inner.clone(), 2..5).prop_map(and),
            vec(inner, 2..5).prop_map(or),
        ]
    })
}

fn arithmetic_operator() -> impl Strategy<Value = ArithmeticOperator> + Clone {
    use ArithmeticOperator::{Add, Divide, Multiply, Remainder, Subtract};
    select(&[Add, Subtract, Multiply, Divide, Remainder][..])
}

fn comparison_operator() -> impl Strategy<Value = ComparisonOperator> + Clone {
    use ComparisonOperator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    select(&[Equal, NotEqual, Greater, GreaterOrEqual, Less, LessOrEqual][..])
}

/// A numeric literal includes its sign.
fn signed((sign, operand): (Sign, Expression)) -> Expression {
    match operand {
        Expression::Constant(Constant::Integer(_) | Constant::Double(_)) => operand,
        _ => Expression::Signed(sign, Box::new(operand)),
    }
}

/// A constant ESCAPE is one character.
fn like((negated, value, pattern, escape): (bool, Expression, Expression, Option<Expression>)) -> Expression {
    let escape = escape.map(|escape| match escape {
        Expression::Constant(_) | Expression::Parameter(_) => {
            Expression::Constant(Constant::Text("\\".into()))
        }
        other => other,
    });
    let (value, pattern) = (Box::new(value), Box::new(pattern));
    Expression::Like { negated, value, pattern, escape: escape.map(Box::new) }
}

/// A chain in a chain becomes one chain.
fn and(terms: Vec<Expression>) -> Expression {
    let terms = terms.into_iter().map(as_condition).flat_map(|term| match term {
        Expression::And(terms) => terms,
        one => vec![one],
    });
    Expression::And(terms.collect())
}

fn or(terms: Vec<Expression>) -> Expression {
    let terms = terms.into_iter().map(as_condition).flat_map(|term| match term {
        Expression::Or(terms) => terms,
        one => vec![one],
    });
    Expression::Or(terms.collect())
}

/// An expression that can't be TRUE or FALSE is compared with something.
fn as_condition(expression: Expression) -> Expression {
    match expression {
        Expression::Constant(Constant::Integer(_) | Constant::Double(_) | Constant::Text(_))
        | Expression::NewId
        | Expression::Signed(..)
        | Expression::Arithmetic(..)
        | Expression::Parameter(_) => {
            let null = Box::new(Expression::Constant(Constant::Null));
            Expression::Comparison(ComparisonOperator::Equal, Box::new(expression), null)
        }
        other => other,
    }
}

fn is_condition(expression: &Expression) -> bool {
    let compared = as_condition(expression.clone());
    compared == *expression
        && !matches!(
            expression,
            Expression::Constant(_) | Expression::Property(_) | Expression::PropertyByName(_)
        )
}
