//! Tree → text: the canonical text, which is parsed to the same tree.

use std::fmt::{Display, Formatter, Result, Write};

use super::token::is_bare;
use super::tree::{ArithmeticOperator, ComparisonOperator, Constant, Expression, Property, Sign, Statement};

/// Binding strength of an expression: it is put in parentheses where a stronger one is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Or,
    And,
    Not,
    Comparison,
    Sum,
    Product,
    Signed,
    Value,
}

impl Expression {
    fn binding(&self) -> Binding {
        match self {
            Self::Or(_) => Binding::Or,
            Self::And(_) => Binding::And,
            Self::Not(_) => Binding::Not,
            Self::Comparison(..) | Self::Like { .. } | Self::In { .. } | Self::IsNull { .. } => {
                Binding::Comparison
            }
            Self::Arithmetic(ArithmeticOperator::Add | ArithmeticOperator::Subtract, ..) => Binding::Sum,
            Self::Arithmetic(..) => Binding::Product,
            Self::Signed(..) => Binding::Signed,
            Self::Constant(_)
            | Self::Property(_)
            | Self::Parameter(_)
            | Self::NewId
            | Self::PropertyByName(_)
            | Self::Exists(_) => Binding::Value,
        }
    }
}

impl Display for Expression {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        match self {
            Self::Constant(constant) => constant.fmt(out),
            Self::Property(property) => property.fmt(out),
            Self::Parameter(name) => write!(out, "@{name}"),
            Self::NewId => out.write_str("newid()"),
            Self::PropertyByName(name) => write!(out, "property({name})"),
            Self::Signed(sign, operand) => {
                // Two adjacent signs would be misread.
                let gap = if matches!(**operand, Self::Signed(..)) { " " } else { "" };
                write!(out, "{}{gap}{}", sign.text(), Within(operand, Binding::Signed))
            }
            Self::Arithmetic(operator, left, right) => {
                let (left_binding, right_binding) = match self.binding() {
                    Binding::Sum => (Binding::Sum, Binding::Product),
                    _ => (Binding::Product, Binding::Signed),
                };
                let (left, right) = (Within(left, left_binding), Within(right, right_binding));
                write!(out, "{left} {} {right}", operator.text())
            }
            Self::Comparison(operator, left, right) => {
                let (left, right) = (Within(left, Binding::Sum), Within(right, Binding::Sum));
                write!(out, "{left} {} {right}", operator.text())
            }
            Self::Like { negated, value, pattern, escape } => {
                let (value, pattern) = (Within(value, Binding::Sum), Within(pattern, Binding::Sum));
                write!(out, "{value}{} LIKE {pattern}", not(*negated))?;
                escape.iter().try_for_each(|escape| write!(out, " ESCAPE {}", Within(escape, Binding::Sum)))
            }
            Self::In { negated, value, list } => {
                write!(out, "{}{} IN (", Within(value, Binding::Sum), not(*negated))?;
                separated(out, list, ", ", Binding::Or)?;
                out.write_char(')')
            }
            Self::IsNull { negated, property } => write!(out, "{property} IS{} NULL", not(*negated)),
            Self::Exists(property) => write!(out, "EXISTS({property})"),
            Self::Not(operand) => write!(out, "NOT {}", Within(operand, Binding::Not)),
            Self::And(all) => separated(out, all, " AND ", Binding::Not),
            Self::Or(all) => separated(out, all, " OR ", Binding::And),
        }
    }
}

/// An expression in a place that requires at least this binding strength.
struct Within<'tree>(&'tree Expression, Binding);

impl Display for Within<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let Self(expression, binding) = self;
        if expression.binding() < *binding { write!(out, "({expression})") } else { expression.fmt(out) }
    }
}

fn separated(out: &mut Formatter<'_>, all: &[Expression], separator: &str, binding: Binding) -> Result {
    for (position, expression) in all.iter().enumerate() {
        if position > 0 {
            out.write_str(separator)?;
        }
        Within(expression, binding).fmt(out)?;
    }
    Ok(())
}

fn not(negated: bool) -> &'static str {
    if negated { " NOT" } else { "" }
}

impl Display for Constant {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        match self {
            Self::Null => out.write_str("NULL"),
            Self::Boolean(true) => out.write_str("TRUE"),
            Self::Boolean(false) => out.write_str("FALSE"),
            Self::Integer(number) => number.fmt(out),
            // The shortest digits that represent this number, always with a point or an exponent.
            Self::Double(number) => write!(out, "{number:?}"),
            Self::Text(text) => write!(out, "'{}'", text.replace('\'', "''")),
        }
    }
}

impl Display for Property {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        match self {
            Self::User(name) if is_bare(name) => out.write_str(name),
            Self::User(name) => write!(out, "[{}]", name.replace(']', "]]")),
            Self::System(property) => write!(out, "sys.{}", property.name()),
        }
    }
}

impl Display for Statement {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        match self {
            Self::Set(property, value) => write!(out, "SET {property} = {}", Within(value, Binding::Sum)),
            Self::Remove(property) => write!(out, "REMOVE {property}"),
        }
    }
}

impl Sign {
    fn text(self) -> &'static str {
        match self {
            Self::Plus => "+",
            Self::Minus => "-",
        }
    }
}

impl ArithmeticOperator {
    fn text(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        }
    }
}

impl ComparisonOperator {
    fn text(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
        }
    }
}
