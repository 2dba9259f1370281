//! Arithmetic on values.

use std::borrow::Cow;

use super::time_arithmetic;
use super::tree::{ArithmeticOperator, Sign};
use super::value::{Fault, Value};

/// Largest size of a property (semantics §3), and so of any computed text.
pub(super) const PROPERTY_BYTES_MAX: usize = 32 * 1024;

/// Combines two values: UNKNOWN if one of them is. Integers are checked as in C#; combined with a double or decimal
/// they are doubles; texts are concatenated (semantics §13.4); times and durations follow C#, too.
///
/// # Errors
/// An operand that is neither number nor time, an integer overflow, a division by zero, a text too long.
pub(super) fn arithmetic<'a>(
    operator: ArithmeticOperator,
    left: Value<'a>,
    right: Value<'a>,
) -> Result<Value<'a>, Fault> {
    match (left, right) {
        (Value::Unknown, _) | (_, Value::Unknown) => Ok(Value::Unknown),
        (Value::Text(left), Value::Text(right)) if operator == ArithmeticOperator::Add => {
            joined(left, &right)
        }
        (Value::Integer(left), Value::Integer(right)) => of_integers(operator, left, right),
        (left, right) => match time_arithmetic::arithmetic(operator, &left, &right) {
            Some(result) => result.ok_or_else(|| too_far(symbol(operator))),
            None => of_numbers(operator, &left, &right),
        },
    }
}

fn too_far(operator: char) -> Fault {
    Fault(format!("The result of '{operator}' does not fit an instant or a length of time."))
}

fn joined<'a>(left: Cow<'a, str>, right: &str) -> Result<Value<'a>, Fault> {
    let length = left.len() + right.len();
    if length > PROPERTY_BYTES_MAX {
        return Err(Fault(format!(
            "The strings joined by '+' are {length} bytes long; a property may have {PROPERTY_BYTES_MAX}."
        )));
    }
    let mut joined = left.into_owned();
    joined.push_str(right);
    Ok(Value::Text(joined.into()))
}

fn of_integers<'a>(operator: ArithmeticOperator, left: i64, right: i64) -> Result<Value<'a>, Fault> {
    let result = match operator {
        ArithmeticOperator::Add => left.checked_add(right),
        ArithmeticOperator::Subtract => left.checked_sub(right),
        ArithmeticOperator::Multiply => left.checked_mul(right),
        ArithmeticOperator::Divide => left.checked_div(right),
        ArithmeticOperator::Remainder => left.checked_rem(right),
    };
    result.map(Value::Integer).ok_or_else(|| refused(operator, right == 0))
}

fn of_numbers<'a>(
    operator: ArithmeticOperator,
    left: &Value<'_>,
    right: &Value<'_>,
) -> Result<Value<'a>, Fault> {
    if let (Some(left), Some(right)) = (left.as_integer(), right.as_integer()) {
        return of_large_integers(operator, left, right);
    }
    let (Some(first), Some(second)) = (left.as_double(), right.as_double()) else {
        let (operator, left, right) = (symbol(operator), left.kind(), right.kind());
        return Err(Fault(format!("The operator '{operator}' can't be applied to {left} and {right}.")));
    };
    Ok(Value::Double(match operator {
        ArithmeticOperator::Add => first + second,
        ArithmeticOperator::Subtract => first - second,
        ArithmeticOperator::Multiply => first * second,
        ArithmeticOperator::Divide => first / second,
        ArithmeticOperator::Remainder => first % second,
    }))
}

/// At least one operand exceeds 63 bits; the result may as well (inferred: in C# these two types can't be combined).
fn of_large_integers<'a>(operator: ArithmeticOperator, left: i128, right: i128) -> Result<Value<'a>, Fault> {
    let result = match operator {
        ArithmeticOperator::Add => left.checked_add(right),
        ArithmeticOperator::Subtract => left.checked_sub(right),
        ArithmeticOperator::Multiply => left.checked_mul(right),
        ArithmeticOperator::Divide => left.checked_div(right),
        ArithmeticOperator::Remainder => left.checked_rem(right),
    };
    result.and_then(integer).ok_or_else(|| refused(operator, right == 0))
}

fn integer<'a>(number: i128) -> Option<Value<'a>> {
    let signed = i64::try_from(number).map(Value::Integer);
    signed.or_else(|_| u64::try_from(number).map(Value::Unsigned)).ok()
}

fn refused(operator: ArithmeticOperator, by_zero: bool) -> Fault {
    let divides = matches!(operator, ArithmeticOperator::Divide | ArithmeticOperator::Remainder);
    if divides && by_zero {
        return Fault("An integer is divided by zero.".to_owned());
    }
    Fault(format!("The result of '{}' does not fit an integer of 64 bits.", symbol(operator)))
}

fn symbol(operator: ArithmeticOperator) -> char {
    match operator {
        ArithmeticOperator::Add => '+',
        ArithmeticOperator::Subtract => '-',
        ArithmeticOperator::Multiply => '*',
        ArithmeticOperator::Divide => '/',
        ArithmeticOperator::Remainder => '%',
    }
}

/// A value with a sign: UNKNOWN if the value is.
///
/// # Errors
/// An operand that is neither number nor duration, or an integer whose negative does not fit.
pub(super) fn signed(sign: Sign, value: Value<'_>) -> Result<Value<'_>, Fault> {
    if let Some(result) = time_arithmetic::signed(sign, &value) {
        return result.ok_or_else(|| too_far('-'));
    }
    match (sign, value) {
        (_, Value::Unknown) => Ok(Value::Unknown),
        (Sign::Plus, value) if value.as_double().is_some() => Ok(value),
        (Sign::Minus, value) if value.as_integer().is_some() => {
            let negative = value.as_integer().and_then(i128::checked_neg).and_then(integer);
            let negative = negative.filter(|negative| matches!(negative, Value::Integer(_)));
            negative.ok_or_else(|| refused(ArithmeticOperator::Subtract, false))
        }
        (Sign::Minus, Value::Decimal(bits)) => Ok(Value::Decimal(bits ^ 1 << 127)),
        (Sign::Minus, value) if value.as_double().is_some() => {
            Ok(value.as_double().map_or(Value::Unknown, |number| Value::Double(-number)))
        }
        (sign, value) => {
            let sign = if sign == Sign::Plus { '+' } else { '-' };
            Err(Fault(format!("The sign '{sign}' can't be applied to {}.", value.kind())))
        }
    }
}
