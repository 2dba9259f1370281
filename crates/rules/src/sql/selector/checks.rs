//! Checks of selectors beyond the grammar: operand types and names.

use super::super::builder::{self, Node, Place, Problem, Target};
use super::super::tree::{ArithmeticOperator, ComparisonOperator, Constant, Expression, Property, Sign};
use super::{HEADERS, MESSAGE_ID_NAMES};

type Built = Result<Node, Problem>;

/// Prefixes that JMS clients add to message ids from other clients; removing them yields the original id.
const ID_PREFIXES: [&str; 3] = ["ID:AMQP_NO_PREFIX:", "ID:AMQP_UUID:", "ID:AMQP_ULONG:"];

pub(in crate::sql) fn property(at: usize, name: &str) -> Built {
    if name.starts_with("JMS") && !HEADERS.contains(&name) {
        return Err(Problem::new(at, format!("a selector can't use {name}")));
    }
    Ok(builder::property(Target::user(at, name.into())))
}

/// Texts and truth values can only be equal or not, without an order (3.8.1.2).
pub(in crate::sql) fn comparison(left: Node, operator: ComparisonOperator, right: Node) -> Built {
    let is_ordering = !matches!(operator, ComparisonOperator::Equal | ComparisonOperator::NotEqual);
    for operand in [&left, &right] {
        let constant = match operand.expression() {
            Expression::Constant(constant) => Some(constant),
            _ => None,
        };
        if is_ordering && matches!(constant, Some(Constant::Text(_) | Constant::Boolean(_))) {
            return Err(Problem::new(operand.at(), "only numbers can be less or greater"));
        }
        check_value(operand)?;
    }
    let (left, right) = match (is_identifier(&left), is_identifier(&right)) {
        (true, false) => (left, without_prefix(right)),
        (false, true) => (without_prefix(left), right),
        _ => (left, right),
    };
    builder::comparison(left, operator, right)
}

pub(in crate::sql) fn between(place: &Place<'_>, value: Node, negated: bool, low: Node, high: Node) -> Built {
    let at = value.at();
    let above = comparison(value.clone(), ComparisonOperator::GreaterOrEqual, low)?;
    let below = comparison(value, ComparisonOperator::LessOrEqual, high)?;
    let both = builder::and(place, above, below)?;
    if negated { builder::not(place, at, both) } else { Ok(both) }
}

pub(in crate::sql) fn like(
    place: &Place<'_>,
    value: Node,
    negated: bool,
    pattern: Node,
    escape: Option<Node>,
) -> Built {
    check_property(&value)?;
    builder::like(place, value, negated, pattern, escape)
}

pub(in crate::sql) fn is_in(value: Node, negated: bool, texts: Vec<Node>) -> Built {
    check_property(&value)?;
    let is_identifier = is_identifier(&value);
    let texts = texts.into_iter().map(|text| if is_identifier { without_prefix(text) } else { text });
    builder::is_in(value, negated, texts.collect())
}

pub(in crate::sql) fn arithmetic(left: Node, operator: ArithmeticOperator, right: Node) -> Built {
    check_number(&left)?;
    check_number(&right)?;
    builder::arithmetic(left, operator, right)
}

pub(in crate::sql) fn signed(at: usize, operand: Node, sign: Sign) -> Built {
    check_number(&operand)?;
    builder::signed(at, operand, sign)
}

/// A condition can't be an operand of a comparison, which also bounds the repetition by BETWEEN.
fn check_value(operand: &Node) -> Result<(), Problem> {
    if operand.is_condition() {
        return Err(Problem::new(operand.at(), "a value was expected, and this is a condition"));
    }
    Ok(())
}

fn check_number(operand: &Node) -> Result<(), Problem> {
    check_value(operand)?;
    match operand.expression() {
        Expression::Constant(Constant::Text(_) | Constant::Boolean(_)) => {
            Err(Problem::new(operand.at(), "a number was expected"))
        }
        _ => Ok(()),
    }
}

fn check_property(value: &Node) -> Result<(), Problem> {
    match value.expression() {
        Expression::Property(_) => Ok(()),
        _ => Err(Problem::new(value.at(), "the name of a property was expected")),
    }
}

/// Whether it is a message id or a correlation id.
fn is_identifier(node: &Node) -> bool {
    match node.expression() {
        Expression::Property(Property::User(name)) => MESSAGE_ID_NAMES.contains(&&**name),
        _ => false,
    }
}

/// Converts an id to the form in the message.
fn without_prefix(node: Node) -> Node {
    let Expression::Constant(Constant::Text(text)) = node.expression() else { return node };
    let bare = ID_PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix));
    match bare {
        Some(bare) => builder::constant(node.at(), Constant::Text(bare.into())),
        None => node,
    }
}
