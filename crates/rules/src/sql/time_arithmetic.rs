//! Arithmetic on times and durations, like C#'s DateTime, DateTimeOffset and TimeSpan. Filters by age need it:
//! `sys.EnqueuedTimeUtc - sent > @limit` (azure-sdk-for-net 6629).

use super::instant::{LAST_TICKS, ms_of_ticks, ticks_of_ms};
use super::tree::{ArithmeticOperator, Sign};
use super::value::Value;

/// The result for two values; `None` when C# has no such operator, `Some(None)` when the result does not fit its type.
pub(super) fn arithmetic<'a>(
    operator: ArithmeticOperator,
    left: &Value<'_>,
    right: &Value<'_>,
) -> Option<Option<Value<'a>>> {
    use Value::{DateTimeOffset, TimeSpan, Timestamp};
    let is_sum = match operator {
        ArithmeticOperator::Add => true,
        ArithmeticOperator::Subtract => false,
        _ => return None,
    };
    let moved = |ticks: i128, by: i64| if is_sum { ticks + i128::from(by) } else { ticks - i128::from(by) };
    match (left, right) {
        (Timestamp(at_ms), TimeSpan(by)) => Some(timestamp(moved(ticks_of_ms(*at_ms), *by))),
        (DateTimeOffset(at), TimeSpan(by)) => Some(instant(moved((*at).into(), *by)).map(DateTimeOffset)),
        (TimeSpan(length), TimeSpan(by)) => {
            Some(i64::try_from(moved((*length).into(), *by)).ok().map(TimeSpan))
        }
        _ if is_sum => None,
        _ => Some(i64::try_from(ticks(left)? - ticks(right)?).ok().map(TimeSpan)),
    }
}

/// A duration with a sign applied; `None` for other values, `Some(None)` when the result does not fit.
pub(super) fn signed<'a>(sign: Sign, value: &Value<'_>) -> Option<Option<Value<'a>>> {
    let Value::TimeSpan(ticks) = value else { return None };
    let ticks = if sign == Sign::Plus { Some(*ticks) } else { ticks.checked_neg() };
    Some(ticks.map(Value::TimeSpan))
}

/// A time, in ticks since the year 1.
fn ticks(value: &Value<'_>) -> Option<i128> {
    match value {
        Value::Timestamp(at_ms) => Some(ticks_of_ms(*at_ms)),
        Value::DateTimeOffset(ticks) => Some((*ticks).into()),
        _ => None,
    }
}

/// A time in ticks, if it is in the range of .NET.
fn instant(ticks: i128) -> Option<i64> {
    i64::try_from(ticks).ok().filter(|ticks| (0..=LAST_TICKS).contains(ticks))
}

/// The same in whole milliseconds, the resolution of a timestamp.
fn timestamp<'a>(ticks: i128) -> Option<Value<'a>> {
    instant(ticks).map(|ticks| Value::Timestamp(ms_of_ticks(ticks)))
}
