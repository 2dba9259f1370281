//! The language once more, as plainly as it can be said: recursive, with copies, without a program.

use uuid::Uuid;

use super::random::ARRIVAL;
use crate::decimal;
use crate::sql::tree::{
    ArithmeticOperator, ComparisonOperator, Constant, Expression, Property, Sign, SystemProperty,
};
use crate::sql::{instant, time_span};
use crate::{FactValue, Facts};

/// It comes to nothing.
#[derive(Debug, PartialEq)]
pub(super) struct Failed;

/// Evaluates expressions for one message.
pub(super) struct Reference<'a> {
    pub(super) facts: &'a Facts,
    pub(super) parameters: &'a [(Box<str>, FactValue)],
    /// How many ids were drawn.
    pub(super) drawn: u128,
}

impl Reference<'_> {
    /// The value of an expression; `Null` is UNKNOWN.
    pub(super) fn value(&mut self, expression: &Expression) -> Result<FactValue, Failed> {
        Ok(match expression {
            Expression::Constant(Constant::Null) => FactValue::Null,
            Expression::Constant(Constant::Boolean(truth)) => FactValue::Boolean(*truth),
            Expression::Constant(Constant::Integer(number)) => FactValue::Integer(*number),
            Expression::Constant(Constant::Double(number)) => FactValue::Double(*number),
            Expression::Constant(Constant::Text(text)) => FactValue::Text(text.clone()),
            Expression::Property(property) => self.property(property).unwrap_or(FactValue::Null),
            Expression::Parameter(name) => {
                let is_meant = |known: &str| known.trim_start_matches('@').eq_ignore_ascii_case(name);
                let found = self.parameters.iter().find(|(known, _)| is_meant(known));
                found.ok_or(Failed)?.1.clone()
            }
            Expression::NewId => {
                self.drawn += 1;
                FactValue::Uuid(self.drawn)
            }
            Expression::PropertyByName(name) => match self.value(name)? {
                FactValue::Null => FactValue::Null,
                FactValue::Text(name) => self.by_name(&name)?,
                _ => return Err(Failed),
            },
            Expression::Signed(sign, value) => {
                let value = self.value(value)?;
                let zero =
                    if integer(&value).is_some() { FactValue::Integer(0) } else { FactValue::Double(-0.0) };
                match (sign, value) {
                    (_, FactValue::Null) => FactValue::Null,
                    (Sign::Plus, FactValue::TimeSpan(ticks)) => FactValue::TimeSpan(ticks),
                    (Sign::Minus, FactValue::TimeSpan(ticks)) => {
                        FactValue::TimeSpan(0_i64.checked_sub(ticks).ok_or(Failed)?)
                    }
                    (Sign::Plus, value) if double(&value).is_some() => value,
                    (Sign::Minus, FactValue::Decimal(bits)) => FactValue::Decimal(bits ^ 1 << 127),
                    (Sign::Minus, value) => match arithmetic(ArithmeticOperator::Subtract, &zero, &value)? {
                        FactValue::Unsigned(_) => return Err(Failed),
                        negative => negative,
                    },
                    (Sign::Plus, _) => return Err(Failed),
                }
            }
            Expression::Arithmetic(operator, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                arithmetic(*operator, &left, &right)?
            }
            _ => self.truth(expression)?.map_or(FactValue::Null, FactValue::Boolean),
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
                if value == FactValue::Null {
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
                let is_null = self.property(property).is_none_or(|value| value == FactValue::Null);
                Ok(Some(is_null != *negated))
            }
            Expression::Exists(property) => Ok(Some(self.property(property).is_some())),
            Expression::Not(operand) => Ok(self.truth(operand)?.map(|truth| !truth)),
            Expression::And(terms) => self.joined(terms, false),
            Expression::Or(terms) => self.joined(terms, true),
            value => match self.value(value)? {
                FactValue::Null => Ok(None),
                FactValue::Boolean(truth) => Ok(Some(truth)),
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

    fn property(&self, property: &Property) -> Option<FactValue> {
        let text = |text: &Option<Box<str>>| text.clone().map(FactValue::Text);
        match property {
            Property::User(name) => {
                let found =
                    self.facts.user.iter().find(|(known, _)| known.to_uppercase() == name.to_uppercase());
                found.map(|(_, value)| value.clone())
            }
            Property::System(SystemProperty::Label) => text(&self.facts.label),
            Property::System(SystemProperty::To) => text(&self.facts.to),
            Property::System(SystemProperty::SequenceNumber) => Some(FactValue::Integer(5)),
            Property::System(SystemProperty::EnqueuedTimeUtc) => {
                Some(FactValue::Timestamp(ARRIVAL.enqueued_at_ms as i64))
            }
            Property::System(SystemProperty::TimeToLive) => Some(FactValue::TimeSpan(600_000_000)),
            Property::System(SystemProperty::ForcePersistence) => Some(FactValue::Boolean(false)),
            Property::System(SystemProperty::LockToken) => None,
            Property::System(other) => panic!("the random expressions do not name {other:?}"),
        }
    }

    fn by_name(&self, name: &str) -> Result<FactValue, Failed> {
        let property = match name.strip_prefix("sys.") {
            Some("Label") => Property::System(SystemProperty::Label),
            Some(_) => return Err(Failed),
            None => Property::User(name.into()),
        };
        Ok(self.property(&property).unwrap_or(FactValue::Null))
    }
}

fn integer(value: &FactValue) -> Option<i128> {
    match value {
        FactValue::Integer(number) => Some((*number).into()),
        FactValue::Unsigned(number) => Some((*number).into()),
        _ => None,
    }
}

fn double(value: &FactValue) -> Option<f64> {
    match value {
        FactValue::Double(number) => Some(*number),
        FactValue::Decimal(bits) => Some(decimal::to_double(*bits)),
        value => integer(value).map(|number| number as f64),
    }
}

fn arithmetic(
    operator: ArithmeticOperator,
    left: &FactValue,
    right: &FactValue,
) -> Result<FactValue, Failed> {
    use ArithmeticOperator::{Add, Divide, Multiply, Remainder, Subtract};
    if *left == FactValue::Null || *right == FactValue::Null {
        return Ok(FactValue::Null);
    }
    if let (FactValue::Text(left), FactValue::Text(right), Add) = (left, right, operator) {
        return Ok(FactValue::Text(format!("{left}{right}").into()));
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
            // As .NET: what the division could not hold, the remainder does not have either.
            Remainder if first == i128::from(i64::MIN) && second == -1 => return Err(Failed),
            Remainder => first % second,
        };
        let is_large = |value: &FactValue| matches!(value, FactValue::Unsigned(_));
        if let Ok(number) = i64::try_from(result) {
            return Ok(FactValue::Integer(number));
        }
        let has_large = is_large(left) || is_large(right);
        return u64::try_from(result).ok().filter(|_| has_large).map(FactValue::Unsigned).ok_or(Failed);
    }
    if let Some(result) = of_times(operator, left, right) {
        return result;
    }
    let (Some(first), Some(second)) = (double(left), double(right)) else { return Err(Failed) };
    Ok(FactValue::Double(match operator {
        Add => first + second,
        Subtract => first - second,
        Multiply => first * second,
        Divide => first / second,
        Remainder => first % second,
    }))
}

/// Instants and lengths of time, by the table of C#.
fn of_times(
    operator: ArithmeticOperator,
    left: &FactValue,
    right: &FactValue,
) -> Option<Result<FactValue, Failed>> {
    let sign = match operator {
        ArithmeticOperator::Add => 1,
        ArithmeticOperator::Subtract => -1,
        _ => return None,
    };
    let length = |ticks: i128| i64::try_from(ticks).map(FactValue::TimeSpan).map_err(|_| Failed);
    match (left, right) {
        (FactValue::TimeSpan(first), FactValue::TimeSpan(second)) => {
            Some(length(i128::from(*first) + sign * i128::from(*second)))
        }
        (_, FactValue::TimeSpan(by)) => {
            let at = ticks(left)? + sign * i128::from(*by);
            let is_instant = (0..=3_155_378_975_999_999_999).contains(&at);
            let at = i64::try_from(at).ok().filter(|_| is_instant).ok_or(Failed);
            Some(at.map(|at| match left {
                FactValue::DateTimeOffset(_) => FactValue::DateTimeOffset(at),
                _ => FactValue::Timestamp((at - 621_355_968_000_000_000).div_euclid(10_000)),
            }))
        }
        _ if sign == -1 => Some(length(ticks(left)? - ticks(right)?)),
        _ => None,
    }
}

/// Less, equal, greater by three questions.
fn compared(operator: ComparisonOperator, left: &FactValue, right: &FactValue) -> Option<bool> {
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

fn relation(left: &FactValue, right: &FactValue) -> Option<(bool, bool, bool, bool)> {
    fn of<T: PartialOrd>(left: T, right: T) -> Option<(bool, bool, bool, bool)> {
        Some((left < right, left == right, left > right, true))
    }
    use FactValue::{Boolean, Other, Text, TimeSpan, Uuid as Guid};
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

fn ticks(value: &FactValue) -> Option<i128> {
    match value {
        FactValue::Timestamp(at_ms) => Some(i128::from(*at_ms) * 10_000 + 621_355_968_000_000_000),
        FactValue::DateTimeOffset(ticks) => Some((*ticks).into()),
        _ => None,
    }
}

fn read_as(text: &str, beside: &FactValue) -> Option<FactValue> {
    match beside {
        FactValue::Timestamp(_) => instant::parse(text)
            .map(|ticks| FactValue::Timestamp((ticks - 621_355_968_000_000_000).div_euclid(10_000))),
        FactValue::DateTimeOffset(_) => instant::parse(text).map(FactValue::DateTimeOffset),
        FactValue::TimeSpan(_) => time_span::parse(text).map(FactValue::TimeSpan),
        FactValue::Uuid(_) => Uuid::try_parse(text).ok().map(|uuid| FactValue::Uuid(uuid.as_u128())),
        _ => None,
    }
}

fn liked(value: &FactValue, pattern: &FactValue, escape: Option<&FactValue>) -> Result<Option<bool>, Failed> {
    if [Some(value), Some(pattern), escape].contains(&Some(&FactValue::Null)) {
        return Ok(None);
    }
    let FactValue::Text(pattern) = pattern else { return Err(Failed) };
    let escape = match escape {
        None => None,
        Some(FactValue::Text(escape)) if escape.chars().count() == 1 => escape.chars().next(),
        Some(FactValue::Text(_)) if !matches!(value, FactValue::Text(_)) => None,
        Some(_) => return Err(Failed),
    };
    let FactValue::Text(text) = value else { return Ok(None) };
    // A character that stands for itself is marked.
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
