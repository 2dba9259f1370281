//! Actions of the grammar: building parts of the tree, and checks beyond the grammar.

use super::parameters;
use super::tree::SystemProperty;
use super::tree::{ArithmeticOperator, ComparisonOperator, Constant, Expression, Property, Sign, Statement};
use crate::PropertyValue;

/// Deepest nesting of an expression, parentheses included. It bounds recursion over a tree, so that no text overflows
/// the stack. Service Bus documents no such limit; its 1024 characters allow more levels than this, but no sensible
/// ones (inferred).
pub const DEPTH_MAX: usize = 256;

/// An error, and its byte position in the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Problem {
    pub(super) at: usize,
    pub(super) message: String,
}

impl Place<'_> {
    fn value(&self, name: &str) -> Option<&PropertyValue> {
        parameters::value(self.parameters, name)
    }
}

impl Problem {
    pub(super) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}

/// Context of parsing.
pub(super) struct Place<'given> {
    /// The values of `@name`.
    pub(super) parameters: &'given [(Box<str>, PropertyValue)],
}

/// A part of a tree, with data for errors about it.
#[derive(Debug, Clone)]
pub(super) struct Node {
    expression: Expression,
    /// Position of its first byte.
    at: usize,
    /// Depth in levels, parentheses included.
    depth: usize,
}

type Built = Result<Node, Problem>;

impl Node {
    fn leaf(at: usize, expression: Expression) -> Self {
        Self { expression, at, depth: 1 }
    }

    /// An expression above others, the deepest of which has `depth` levels.
    fn over(at: usize, depth: usize, expression: Expression) -> Built {
        if depth >= DEPTH_MAX {
            let message =
                format!("the expression that starts here is nested more than {DEPTH_MAX} levels deep");
            return Err(Problem::new(at, message));
        }
        Ok(Self { expression, at, depth: depth + 1 })
    }

    fn boxed(self) -> Box<Expression> {
        Box::new(self.expression)
    }

    /// The expression.
    pub(super) const fn expression(&self) -> &Expression {
        &self.expression
    }

    /// Position of its first byte.
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// Whether it can only be TRUE, FALSE or UNKNOWN.
    pub(super) fn is_condition(&self) -> bool {
        match &self.expression {
            Expression::Comparison(..)
            | Expression::Like { .. }
            | Expression::In { .. }
            | Expression::IsNull { .. }
            | Expression::Exists(_)
            | Expression::Not(_)
            | Expression::And(_)
            | Expression::Or(_) => true,
            Expression::Constant(_)
            | Expression::Property(_)
            | Expression::Parameter(_)
            | Expression::NewId
            | Expression::PropertyByName(_)
            | Expression::Signed(..)
            | Expression::Arithmetic(..) => false,
        }
    }
}

/// A property, and the position of its name.
#[derive(Debug)]
pub(super) struct Target {
    property: Property,
    at: usize,
}

impl Target {
    pub(super) fn user(at: usize, name: Box<str>) -> Self {
        Self { property: Property::User(name), at }
    }

    pub(super) fn scoped(at: usize, scope: &str, name_at: usize, name: Box<str>) -> Result<Self, Problem> {
        if scope.eq_ignore_ascii_case("user") {
            return Ok(Self::user(at, name));
        }
        if !scope.eq_ignore_ascii_case("sys") {
            return Err(Problem::new(at, format!("there is no scope '{scope}', only sys and user")));
        }
        match SystemProperty::from_name(&name) {
            Some(property) => Ok(Self { property: Property::System(property), at }),
            None => Err(Problem::new(name_at, unknown_system(&name))),
        }
    }
}

fn unknown_system(name: &str) -> String {
    let near = SystemProperty::nearest(name);
    let hint = near.map(|near| format!(": did you mean sys.{}?", near.name())).unwrap_or_default();
    format!("there is no system property '{name}'{hint}")
}

/// Builds a whole filter.
pub(super) fn filter(place: &Place<'_>, node: Node) -> Result<Expression, Problem> {
    Ok(*condition(place, node)?.boxed())
}

/// Refuses an expression that can't be TRUE or FALSE for any message; the documented grammar excludes these as well.
fn condition(place: &Place<'_>, node: Node) -> Built {
    let found = match &node.expression {
        Expression::Constant(Constant::Integer(_) | Constant::Double(_)) => "a number",
        Expression::Constant(Constant::Text(_)) => "a text",
        Expression::NewId => "an id",
        Expression::Signed(..) => "a number",
        Expression::Arithmetic(..) => "a value that is computed",
        Expression::Parameter(name) => match place.value(name) {
            Some(PropertyValue::Boolean(_) | PropertyValue::Null) | None => return Ok(node),
            Some(_) => "the value of a parameter",
        },
        _ => return Ok(node),
    };
    Err(Problem::new(node.at, format!("a condition was expected, and this is {found}")))
}

pub(super) fn or(place: &Place<'_>, left: Node, right: Node) -> Built {
    let parts = |expression| match expression {
        Expression::Or(all) => Ok(all),
        one => Err(one),
    };
    chain(place, left, right, parts, Expression::Or)
}

pub(super) fn and(place: &Place<'_>, left: Node, right: Node) -> Built {
    let parts = |expression| match expression {
        Expression::And(all) => Ok(all),
        one => Err(one),
    };
    chain(place, left, right, parts, Expression::And)
}

/// Adds one level for a whole chain, regardless of its length and of parentheses in it.
fn chain(
    place: &Place<'_>,
    left: Node,
    right: Node,
    parts: impl Fn(Expression) -> Result<Vec<Expression>, Expression>,
    whole: impl Fn(Vec<Expression>) -> Expression,
) -> Built {
    let (left, right) = (condition(place, left)?, condition(place, right)?);
    let (mut all, below_left) = match parts(left.expression) {
        Ok(all) => (all, left.depth - 1),
        Err(one) => (vec![one], left.depth),
    };
    match parts(right.expression) {
        Ok(others) => all.extend(others),
        Err(one) => all.push(one),
    }
    Node::over(left.at, below_left.max(right.depth), whole(all))
}

pub(super) fn not(place: &Place<'_>, at: usize, operand: Node) -> Built {
    let operand = condition(place, operand)?;
    Node::over(at, operand.depth, Expression::Not(operand.boxed()))
}

pub(super) fn comparison(left: Node, operator: ComparisonOperator, right: Node) -> Built {
    let (at, depth) = (left.at, left.depth.max(right.depth));
    Node::over(at, depth, Expression::Comparison(operator, left.boxed(), right.boxed()))
}

pub(super) fn arithmetic(left: Node, operator: ArithmeticOperator, right: Node) -> Built {
    let (at, depth) = (left.at, left.depth.max(right.depth));
    Node::over(at, depth, Expression::Arithmetic(operator, left.boxed(), right.boxed()))
}

/// A sign before a numeric literal becomes part of the literal.
pub(super) fn signed(at: usize, operand: Node, sign: Sign) -> Built {
    match (&operand.expression, sign) {
        (Expression::Constant(Constant::Integer(_) | Constant::Double(_)), Sign::Plus) => {
            Ok(Node { at, ..operand })
        }
        (Expression::Constant(Constant::Integer(number)), Sign::Minus) => {
            let negative = number.checked_neg().map(Constant::Integer);
            let negative =
                negative.ok_or_else(|| Problem::new(at, super::token::Refused::Integer.message("")))?;
            Ok(Node { expression: Expression::Constant(negative), at, ..operand })
        }
        (Expression::Constant(Constant::Double(number)), Sign::Minus) => {
            Ok(Node { expression: Expression::Constant(Constant::Double(-number)), at, ..operand })
        }
        _ => Node::over(at, operand.depth, Expression::Signed(sign, operand.boxed())),
    }
}

pub(super) fn like(
    place: &Place<'_>,
    value: Node,
    negated: bool,
    pattern: Node,
    escape: Option<Node>,
) -> Built {
    let mut depth = value.depth.max(pattern.depth);
    if let Some(escape) = &escape {
        depth = depth.max(escape.depth);
        check_escape(place, escape)?;
    }
    let (at, escape) = (value.at, escape.map(Node::boxed));
    Node::over(
        at,
        depth,
        Expression::Like { negated, value: value.boxed(), pattern: pattern.boxed(), escape },
    )
}

/// The value of ESCAPE must be one character (semantics §13.4); checked here if it is a constant.
fn check_escape(place: &Place<'_>, escape: &Node) -> Result<(), Problem> {
    let text: Option<&str> = match &escape.expression {
        Expression::Constant(Constant::Text(text)) => Some(text),
        Expression::Constant(_) => None,
        Expression::Parameter(name) => match place.value(name) {
            Some(PropertyValue::Text(text)) => Some(text),
            _ => None,
        },
        _ => return Ok(()),
    };
    match text {
        Some(text) if text.chars().count() == 1 => Ok(()),
        _ => Err(Problem::new(escape.at, "ESCAPE must be followed by a string of one character")),
    }
}

pub(super) fn is_in(value: Node, negated: bool, list: Vec<Node>) -> Built {
    let depth = list.iter().map(|node| node.depth).fold(value.depth, usize::max);
    let list = list.into_iter().map(|node| node.expression).collect();
    Node::over(value.at, depth, Expression::In { negated, value: value.boxed(), list })
}

pub(super) fn is_null(value: Node, negated: bool) -> Built {
    match value.expression {
        Expression::Property(property) => Ok(Node::leaf(value.at, Expression::IsNull { negated, property })),
        _ => Err(Problem::new(value.at, "IS NULL must follow the name of a property")),
    }
}

pub(super) fn constant(at: usize, constant: Constant) -> Node {
    Node::leaf(at, Expression::Constant(constant))
}

pub(super) fn property(target: Target) -> Node {
    Node::leaf(target.at, Expression::Property(target.property))
}

pub(super) fn exists(at: usize, target: Target) -> Node {
    Node::leaf(at, Expression::Exists(target.property))
}

pub(super) fn parentheses(at: usize, inner: Node) -> Built {
    Node::over(at, inner.depth, inner.expression)
}

pub(super) fn parameter(place: &Place<'_>, at: usize, name: &str) -> Built {
    match place.value(name) {
        Some(_) => Ok(Node::leaf(at, Expression::Parameter(name.into()))),
        None => Err(Problem::new(at, format!("there is no parameter '@{name}'"))),
    }
}

/// `newid()`, `property(name)` and `p(name)`. These names are not reserved: without parentheses they are properties.
pub(super) fn function(at: usize, name: &str, arguments: Option<Vec<Node>>) -> Built {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    let mut arguments = arguments.unwrap_or_default();
    if is("newid") {
        return match arguments.first() {
            None => Ok(Node::leaf(at, Expression::NewId)),
            Some(argument) => Err(Problem::new(argument.at, "newid() takes no arguments")),
        };
    }
    if !is("property") && !is("p") {
        let message = format!("there is no function '{name}', only newid(), property(name) and p(name)");
        return Err(Problem::new(at, message));
    }
    match (arguments.pop(), arguments.pop()) {
        (Some(argument), None) => {
            Node::over(at, argument.depth, Expression::PropertyByName(argument.boxed()))
        }
        _ => Err(Problem::new(at, format!("{name}(name) takes one argument, a name"))),
    }
}

pub(super) fn set(target: Target, value: Node) -> Result<Statement, Problem> {
    if value.is_condition() {
        return Err(Problem::new(value.at, "SET needs a value, and this is a condition"));
    }
    Ok(Statement::Set(settable(target)?, value.expression))
}

pub(super) fn remove(target: Target) -> Result<Statement, Problem> {
    settable(target).map(Statement::Remove)
}

fn settable(target: Target) -> Result<Property, Problem> {
    match target.property {
        Property::System(property) if !property.is_settable() => {
            Err(Problem::new(target.at, format!("sys.{} can't be changed", property.name())))
        }
        property => Ok(property),
    }
}
