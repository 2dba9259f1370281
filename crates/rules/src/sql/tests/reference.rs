//! A reference implementation of the language, as simple as possible: recursive, with copies, without a program.

use uuid::Uuid;

use super::random::ARRIVAL;
use crate::decimal;
use crate::sql::tree::{
    ArithmeticOperator, ComparisonOperator, Constant, Expression, Property, Sign, SystemProperty,
};
use crate::sql::{instant, time_span};
use crate::{PropertyValue, RuleProperties};

/// Evaluation failed.
#[derive(Debug, PartialEq)]
pub(super) struct Failed;

/// Evaluates expressions for one message.
pub(super) struct Reference<'a> {
    pub(super) rule_properties: &'a RuleProperties,
    pub(super) parameters: &'a [(Box<str>, PropertyValue)],
    /// Number of ids generated.
    pub(super) drawn: u128,
}

impl Reference<'_> {
    /// The value of an expression; `Null` is UNKNOWN.
    pub(super) fn value(&mut self, expression: &Expression) -> Result<PropertyValue, Failed> {
        Ok(match expression {
            Expression::Constant(Constant::Null) => PropertyValue::Null,
            Expression::Constant(Constant::Boolean(truth)) => PropertyValue::Boolean(*truth),
            Expression::Constant(Constant::Integer(number)) => PropertyValue::Integer(*number),
            Expression::Constant(Constant::Double(number)) => PropertyValue::Double(*number),
            Expression::Constant(Constant::Text(text)) => PropertyValue::Text(text.clone()),
            Expression::Property(property) => self.property(property).unwrap_or(PropertyValue::Null),
            Expression::Parameter(name) => {
                let is_meant = |known: &str| known.trim_start_matches('@').eq_ignore_ascii_case(name);
                let found = self.parameters.iter().find(|(known, _)| is_meant(known));
                found.ok_or(Failed)?.1.clone()
            }
            Expression::NewId => {
                self.drawn += 1;
                PropertyValue::Uuid(self.drawn)
            }
            Expression::PropertyByName(name) => match self.value(name)? {
                PropertyValue::Null => PropertyValue::Null,
                PropertyValue::Text(name) => self.by_name(&name)?,
                _ => return Err(Failed),
            },
            Expression::Signed(sign, value) => {
                let value = self.value(value)?;
                let zero = if integer(&value).is_some() {
                    PropertyValue::Integer(0)
                } else {
                    PropertyValue::Double(-0.0)
                };
                match (sign, value) {
                    (_, PropertyValue::Null) => PropertyValue::Null,
                    (Sign::Plus, PropertyValue::TimeSpan(ticks)) => PropertyValue::TimeSpan(ticks),
                    (Sign::Minus, PropertyValue::TimeSpan(ticks)) => {
                        PropertyValue::TimeSpan(0_i64.checked_sub(ticks).ok_or(Failed)?)
                    }
                    (Sign::Plus, value) if double(&value).is_some() => value,
                    (Sign::Minus, PropertyValue::Decimal(bits)) => PropertyValue::Decimal(bits ^ 1 << 127),
                    (Sign::Minus, value) => match arithmetic(ArithmeticOperator::Subtract, &zero, &value)? {
                        PropertyValue::Unsigned(_) => return Err(Failed),
                        negative => negative,
                    },
                    (Sign::Plus, _) => return Err(Failed),
                }
            }
            Expression::Arithmetic(operator, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                arithmetic(*operator, &left, &right)?
            }
            _ => self.truth(expression)?.map_or(PropertyValue::Null, PropertyValue::Boolean),
        })
    }

    /// A condition; `None` is UNKNOWN.
    pub(super) fn truth(&mut self, expression: &Expression) -> Result<Option<bool>, Failed> {
        match expression {
            Expression::Comparison(operator, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                Ok(compared(*operator, &left, &right))
            }
            Expression::Like { negated, value, pattern, escape } => {
                let (value, pattern) = (self.value(value)?, self.value(pattern)?);
                let escape = escape.as_deref().map(|escape| self.value(escape)).transpose()?;
                Ok(liked(&value, &pattern, escape.as_ref())?.map(|likes| likes != *negated))
            }
            Expression::In { negated, value, list } => {
                let value = self.value(value)?;
                if value == PropertyValue::Null {
                    return Ok(None);
                }
                for member in list {
                    let member = self.value(member)?;
                    if compared(ComparisonOperator::Equal, &value, &member) == Some(true) {
                        return Ok(Some(!negated));
                    }
                }
                Ok(Some(*negated))
            }
            Expression::IsNull { negated, property } => {
                let is_null = self.property(property).is_none_or(|value| value == PropertyValue::Null);
                Ok(Some(is_null != *negated))
            }
            Expression::Exists(property) => Ok(Some(self.property(property).is_some())),
            Expression::Not(operand) => Ok(self.truth(operand)?.map(|truth| !truth)),
            Expression::And(terms) => self.joined(terms, false),
            Expression::Or(terms) => self.joined(terms, true),
            value => match self.value(value)? {
                PropertyValue::Null => Ok(None),
                PropertyValue::Boolean(truth) => Ok(Some(truth)),
                _ => Err(Failed),
            },
        }
    }

    fn joined(&mut self, terms: &[Expression], decisive: bool) -> Result<Option<bool>, Failed> {
        let mut joined = Some(!decisive);
        for term in terms {
            match self.truth(term)? {
                Some(truth) if truth == decisive => return Ok(Some(decisive)),
                Some(_) => {}
                None => joined = None,
            }
        }
        Ok(joined)
    }

    fn property(&self, property: &Property) -> Option<PropertyValue> {
        let text = |text: &Option<Box<str>>| text.clone().map(PropertyValue::Text);
        match property {
            Property::User(name) => {
                let found = self
                    .rule_properties
                    .user
                    .iter()
                    .find(|(known, _)| known.to_uppercase() == name.to_uppercase());
                found.map(|(_, value)| value.clone())
            }
            Property::System(SystemProperty::Label) => text(&self.rule_properties.label),
            Property::System(SystemProperty::To) => text(&self.rule_properties.to),
            Property::System(SystemProperty::SequenceNumber) => Some(PropertyValue::Integer(5)),
            Property::System(SystemProperty::EnqueuedTimeUtc) => {
                Some(PropertyValue::Timestamp(ARRIVAL.enqueued_at_ms as i64))
            }
            Property::System(SystemProperty::TimeToLive) => Some(PropertyValue::TimeSpan(600_000_000)),
            Property::System(SystemProperty::ForcePersistence) => Some(PropertyValue::Boolean(false)),
            Property::System(SystemProperty::LockToken) => None,
            Property::System(other) => panic!("the random expressions do not name {other:?}"),
        }
    }

    fn by_name(&self, name: &str) -> Result<PropertyValue, Failed> {
        let property = match name.strip_prefix("sys.") {
            Some("Label") => Property::System(SystemProperty::Label),
            Some(_) => return Err(Failed),
            None => Property::User(name.into()),
        };
        Ok(self.property(&property).unwrap_or(PropertyValue::Null))
    }
}

fn integer(value: &PropertyValue) -> Option<i128> {
    match value {
        PropertyValue::Integer(number) => Some((*number).into()),
        PropertyValue::Unsigned(number) => Some((*number).into()),
        _ => None,
    }
}

fn double(value: &PropertyValue) -> Option<f64> {
    match value {
        PropertyValue::Double(number) => Some(*number),
        PropertyValue::Decimal(bits) => Some(decimal::to_double(*bits)),
        value => integer(value).map(|number| number as f64),
    }
}

fn arithmetic(
    operator: ArithmeticOperator,
    left: &PropertyValue,
    right: &PropertyValue,
) -> Result<PropertyValue, Failed> {
    use ArithmeticOperator::{Add, Divide, Multiply, Remainder, Subtract};
    if *left == PropertyValue::Null || *right == PropertyValue::Null {
        return Ok(PropertyValue::Null);
    }
    if let (PropertyValue::Text(left), PropertyValue::Text(right), Add) = (left, right, operator) {
        return Ok(PropertyValue::Text(format!("{left}{right}").into()));
    }
    if let (Some(first), Some(second)) = (integer(left), integer(right)) {
        if second == 0 && matches!(operator, Divide | Remainder) {
            return Err(Failed);
        }
        let result = match operator {
            Add => first + second,
            Subtract => first - second,
            Multiply => first.checked_mul(second).ok_or(Failed)?,
            Divide => first / second,
            // As in .NET: if the division overflows, the remainder does too.
            Remainder if first == i128::from(i64::MIN) && second == -1 => return Err(Failed),
            Remainder => first % second,
        };
        let is_large = |value: &PropertyValue| matches!(value, PropertyValue::Unsigned(_));
        if let Ok(number) = i64::try_from(result) {
            return Ok(PropertyValue::Integer(number));
        }
        let has_large = is_large(left) || is_large(right);
        return u64::try_from(result).ok().filter(|_| has_large).map(PropertyValue::Unsigned).ok_or(Failed);
    }
    if let Some(result) = of_times(operator, left, right) {
        return result;
    }
    let (Some(first), Some(second)) = (double(left), double(right)) else { return Err(Failed) };
    Ok(PropertyValue::Double(match operator {
        Add => first + second,
        Subtract => first - second,
        Multiply => first * second,
        Divide => first / second,
        Remainder => first % second,
    }))
}

/// Times and durations, by C#'s rules.
fn of_times(
    operator: ArithmeticOperator,
    left: &PropertyValue,
    right: &PropertyValue,
) -> Option<Result<PropertyValue, Failed>> {
    let sign = match operator {
        ArithmeticOperator::Add => 1,
        ArithmeticOperator::Subtract => -1,
        _ => return None,
    };
    let length = |ticks: i128| i64::try_from(ticks).map(PropertyValue::TimeSpan).map_err(|_| Failed);
    match (left, right) {
        (PropertyValue::TimeSpan(first), PropertyValue::TimeSpan(second)) => {
            Some(length(i128::from(*first) + sign * i128::from(*second)))
        }
        (_, PropertyValue::TimeSpan(by)) => {
            let at = ticks(left)? + sign * i128::from(*by);
            let is_instant = (0..=3_155_378_975_999_999_999).contains(&at);
            let at = i64::try_from(at).ok().filter(|_| is_instant).ok_or(Failed);
            Some(at.map(|at| match left {
                PropertyValue::DateTimeOffset(_) => PropertyValue::DateTimeOffset(at),
                _ => PropertyValue::Timestamp((at - 621_355_968_000_000_000).div_euclid(10_000)),
            }))
        }
        _ if sign == -1 => Some(length(ticks(left)? - ticks(right)?)),
        _ => None,
    }
}

/// Evaluates a comparison by testing less, equal and greater.
fn compared(operator: ComparisonOperator, left: &PropertyValue, right: &PropertyValue) -> Option<bool> {
    let (less, equal, greater, ordered) = relation(left, right)?;
    match operator {
        ComparisonOperator::Equal => Some(equal),
        ComparisonOperator::NotEqual => Some(!equal),
        _ if !ordered => None,
        ComparisonOperator::Greater => Some(greater),
        ComparisonOperator::GreaterOrEqual => Some(greater || equal),
        ComparisonOperator::Less => Some(less),
        ComparisonOperator::LessOrEqual => Some(less || equal),
    }
}

fn relation(left: &PropertyValue, right: &PropertyValue) -> Option<(bool, bool, bool, bool)> {
    fn of<T: PartialOrd>(left: T, right: T) -> Option<(bool, bool, bool, bool)> {
        Some((left < right, left == right, left > right, true))
    }
    use PropertyValue::{Boolean, Other, Text, TimeSpan, Uuid as Guid};
    match (left, right) {
        (Text(left), Text(right)) => {
            of(left.encode_utf16().collect::<Vec<_>>(), right.encode_utf16().collect::<Vec<_>>())
        }
        (Boolean(left), Boolean(right)) => Some((false, left == right, false, false)),
        (Other(left), Other(right)) => Some((false, left == right, false, false)),
        (Guid(left), Guid(right)) => of(left, right),
        (TimeSpan(left), TimeSpan(right)) => of(left, right),
        (Text(text), other) => relation(&read_as(text, other)?, other),
        (other, Text(text)) => relation(other, &read_as(text, other)?),
        _ => match (integer(left), integer(right), ticks(left), ticks(right)) {
            (Some(left), Some(right), ..) => of(left, right),
            (.., Some(left), Some(right)) => of(left, right),
            _ => of(double(left)?, double(right)?),
        },
    }
}

fn ticks(value: &PropertyValue) -> Option<i128> {
    match value {
        PropertyValue::Timestamp(at_ms) => Some(i128::from(*at_ms) * 10_000 + 621_355_968_000_000_000),
        PropertyValue::DateTimeOffset(ticks) => Some((*ticks).into()),
        _ => None,
    }
}

fn read_as(text: &str, beside: &PropertyValue) -> Option<PropertyValue> {
    match beside {
        PropertyValue::Timestamp(_) => instant::parse(text)
            .map(|ticks| PropertyValue::Timestamp((ticks - 621_355_968_000_000_000).div_euclid(10_000))),
        PropertyValue::DateTimeOffset(_) => instant::parse(text).map(PropertyValue::DateTimeOffset),
        PropertyValue::TimeSpan(_) => time_span::parse(text).map(PropertyValue::TimeSpan),
        PropertyValue::Uuid(_) => Uuid::try_parse(text).ok().map(|uuid| PropertyValue::Uuid(uuid.as_u128())),
        _ => None,
    }
}

fn liked(
    value: &PropertyValue,
    pattern: &PropertyValue,
    escape: Option<&PropertyValue>,
) -> Result<Option<bool>, Failed> {
    if [Some(value), Some(pattern), escape].contains(&Some(&PropertyValue::Null)) {
        return Ok(None);
    }
    let PropertyValue::Text(pattern) = pattern else { return Err(Failed) };
    let escape = match escape {
        None => None,
        Some(PropertyValue::Text(escape)) if escape.chars().count() == 1 => escape.chars().next(),
        Some(PropertyValue::Text(_)) if !matches!(value, PropertyValue::Text(_)) => None,
        Some(_) => return Err(Failed),
    };
    let PropertyValue::Text(text) = value else { return Ok(None) };
    // A literal character is marked.
    let mut places = Vec::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        places.push(match escape {
            Some(escape) if escape == character => (true, characters.next().ok_or(Failed)?),
            _ => (false, character),
        });
    }
    Ok(Some(matches(&text.chars().collect::<Vec<_>>(), &places)))
}

fn matches(text: &[char], places: &[(bool, char)]) -> bool {
    match (places.split_first(), text.split_first()) {
        (None, _) => text.is_empty(),
        (Some(((false, '%'), rest)), None) => matches(text, rest),
        (Some(((false, '%'), rest)), Some((_, behind))) => matches(text, rest) || matches(behind, places),
        (Some(_), None) => false,
        (Some(((false, '_'), rest)), Some((_, behind))) => matches(behind, rest),
        (Some(((_, wanted), rest)), Some((found, behind))) => wanted == found && matches(behind, rest),
    }
}
