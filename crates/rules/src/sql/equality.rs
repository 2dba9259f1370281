//! Equalities that a condition requires, by which a rule can be indexed.

use uuid::Uuid;

use super::program::{Junction, Named, Program, Step};
use super::tree::ComparisonOperator;
use super::{instant, time_span};
use crate::PropertyValue;

/// A property, and values of which it must have one for the condition to be TRUE. A value matches one of these when it
/// is identical, or the same number in another type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Equality {
    pub(crate) property: Named,
    pub(crate) values: Vec<PropertyValue>,
}

/// Static knowledge about a value.
enum Known<'p> {
    Constant(&'p PropertyValue),
    Property(&'p Named),
    /// A condition that never fails and is not TRUE unless all of these hold.
    Condition(Vec<Equality>),
}

/// The equalities without which the result of a program is FALSE or UNKNOWN. A program that may fail has none: without
/// evaluating it, the failure would be missed.
pub(super) fn equalities(program: &Program) -> Vec<Equality> {
    let mut stack = Vec::new();
    for step in &program.steps {
        if follow(step, &mut stack).is_none() {
            return Vec::new();
        }
    }
    match (stack.pop(), stack.is_empty()) {
        (Some(Known::Condition(needed)), true) => needed,
        _ => Vec::new(),
    }
}

/// Executes one step symbolically; `None` when it may fail or is not supported. Jumps only skip steps that would not
/// change the result.
fn follow<'p>(step: &'p Step, stack: &mut Vec<Known<'p>>) -> Option<()> {
    let result = match step {
        Step::Constant(constant) => Known::Constant(constant),
        Step::Property(property) => Known::Property(property),
        Step::CompareProperty { property, operator, constant } => {
            comparison(*operator, &Known::Property(property), &Known::Constant(constant))
        }
        Step::Compare(operator) => {
            let (right, left) = (stack.pop()?, stack.pop()?);
            comparison(*operator, &left, &right)
        }
        Step::InConstants { negated, list } => match (stack.pop()?, negated) {
            (Known::Property(property), false) => Known::Condition(one_of(property, list)),
            _ => Known::Condition(Vec::new()),
        },
        Step::LikePattern { .. } => {
            stack.pop()?;
            Known::Condition(Vec::new())
        }
        Step::IsNull { .. } | Step::Exists(_) => Known::Condition(Vec::new()),
        Step::Not => {
            condition(stack.pop()?)?;
            Known::Condition(Vec::new())
        }
        Step::Condition => Known::Condition(condition(stack.pop()?)?),
        Step::StopIf { .. } => Known::Condition(condition(stack.pop()?)?),
        Step::Join(junction) => {
            let (right, left) = (condition(stack.pop()?)?, condition(stack.pop()?)?);
            Known::Condition(match junction {
                Junction::And => left.into_iter().chain(right).collect(),
                Junction::Or => either(left, right),
            })
        }
        Step::NewId
        | Step::PropertyByName
        | Step::Signed(_)
        | Step::Arithmetic(_)
        | Step::Like { .. }
        | Step::InStart { .. }
        | Step::InMember { .. }
        | Step::InEnd { .. }
        | Step::NoParameter(_) => return None,
    };
    stack.push(result);
    Some(())
}

/// A value used as a condition: anything but truth values fails there.
fn condition(known: Known<'_>) -> Option<Vec<Equality>> {
    match known {
        Known::Condition(needed) => Some(needed),
        Known::Constant(PropertyValue::Boolean(_) | PropertyValue::Null) => Some(Vec::new()),
        Known::Constant(_) | Known::Property(_) => None,
    }
}

fn comparison<'p>(operator: ComparisonOperator, left: &Known<'_>, right: &Known<'_>) -> Known<'p> {
    let needed = match (operator, left, right) {
        (ComparisonOperator::Equal, Known::Property(property), Known::Constant(constant))
        | (ComparisonOperator::Equal, Known::Constant(constant), Known::Property(property)) => {
            one_of(property, std::slice::from_ref(*constant))
        }
        _ => Vec::new(),
    };
    Known::Condition(needed)
}

/// A property equals one of some constants, if all values equal to each are known.
fn one_of(property: &Named, constants: &[PropertyValue]) -> Vec<Equality> {
    let mut values = Vec::new();
    for constant in constants {
        match constant {
            PropertyValue::Null => {}
            PropertyValue::Text(text) => values.extend(readings(text)),
            PropertyValue::Boolean(_)
            | PropertyValue::Integer(_)
            | PropertyValue::Unsigned(_)
            | PropertyValue::Double(_)
            | PropertyValue::Decimal(_) => values.push(constant.clone()),
            // Many different texts mean the same time.
            PropertyValue::Timestamp(_)
            | PropertyValue::DateTimeOffset(_)
            | PropertyValue::TimeSpan(_)
            | PropertyValue::Uuid(_)
            | PropertyValue::Other(_)
            | PropertyValue::Given(_) => return Vec::new(),
        }
    }
    vec![Equality { property: property.clone(), values }]
}

/// The values equal to a text: itself, and the values parsed from it in comparisons with other types (see `compare`).
fn readings(text: &str) -> impl Iterator<Item = PropertyValue> {
    let ticks = instant::parse(text);
    [
        Some(PropertyValue::Text(text.into())),
        ticks.map(|ticks| PropertyValue::Timestamp(instant::ms_of_ticks(ticks))),
        ticks.map(PropertyValue::DateTimeOffset),
        time_span::parse(text).map(PropertyValue::TimeSpan),
        Uuid::try_parse(text).ok().map(|uuid| PropertyValue::Uuid(uuid.as_u128())),
    ]
    .into_iter()
    .flatten()
}

/// The equalities required by a disjunction: a property that both conditions require has one of the values of either.
fn either(left: Vec<Equality>, right: Vec<Equality>) -> Vec<Equality> {
    let mut needed = left;
    needed.retain_mut(|equality| {
        let other = right.iter().find(|other| is_same(&other.property, &equality.property));
        other.inspect(|other| equality.values.extend_from_slice(&other.values)).is_some()
    });
    needed
}

fn is_same(left: &Named, right: &Named) -> bool {
    match (left, right) {
        (Named::User(left), Named::User(right)) => left.is(right.written()),
        (Named::System(left), Named::System(right)) => left == right,
        _ => false,
    }
}
