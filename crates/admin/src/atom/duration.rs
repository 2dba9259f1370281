//! Durations in XML. `jiff` reads these as well, but not as long as Service Bus's maximum.

use std::fmt::Write;

/// Durations are counted in ticks of 100 ns, as in .NET.
const SECOND: u64 = 10_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const TICKS_PER_MS: u64 = 10_000;

/// Significant digits of the fraction of a second.
const FRACTION_DIGITS: usize = 7;

/// The longest duration of Service Bus; it means "no limit".
pub(super) const UNLIMITED: &str = "P10675199DT2H48M5.4775807S";

/// From here on a duration counts as the maximum: Python rounds it when it sends it back.
const UNLIMITED_TICKS: u64 = 10_675_199 * DAY;

/// Designators before and after the `T` with their lengths; years and months as in .NET.
const DATE: [(char, u64); 4] = [('Y', 365 * DAY), ('M', 30 * DAY), ('W', 7 * DAY), ('D', DAY)];
const TIME: [(char, u64); 3] = [('H', HOUR), ('M', MINUTE), ('S', SECOND)];

/// Milliseconds, rounded down; `Some(None)` for the maximum and more, `None` for an invalid duration.
pub(super) fn parse(text: &str) -> Option<Option<u64>> {
    let ticks = parse_ticks(text)?;
    Some((ticks < UNLIMITED_TICKS).then_some(ticks / TICKS_PER_MS))
}

/// Ticks of 100 ns, rounded down and saturating; `None` for an invalid duration.
pub(super) fn parse_ticks(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_uppercase();
    let text = text.strip_prefix('P')?;
    let (date, time) = match text.split_once('T') {
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None if text.is_empty() => return None,
        None => (text, ""),
    };
    Some(part(date, &DATE)?.saturating_add(part(time, &TIME)?))
}

/// The date or time part of a duration: numbers with designators in their order.
fn part(mut text: &str, designators: &[(char, u64)]) -> Option<u64> {
    let mut total: u64 = 0;
    let mut designators = designators.iter();
    while !text.is_empty() {
        let end = text.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let (number, rest) = text.split_at(end);
        let mut rest = rest.chars();
        let found = rest.next()?;
        let (_, length) = designators.find(|(designator, _)| *designator == found)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_fractional = number.contains('.');
        if whole.is_empty()
            || is_fractional && (found != 'S' || fraction.is_empty() || fraction.contains('.'))
        {
            return None;
        }
        let ticks: u64 = format!("{fraction:0<FRACTION_DIGITS$}").get(..FRACTION_DIGITS)?.parse().ok()?;
        // More digits than fit exceed the maximum.
        let whole: u64 = whole.parse().unwrap_or(u64::MAX);
        total = total.saturating_add(whole.saturating_mul(*length)).saturating_add(ticks);
        text = rest.as_str();
    }
    Some(total)
}

/// A duration in .NET's format: `P1DT2H`, `PT0.5S`.
pub(super) fn text(length_ms: u64) -> String {
    ticks_text(length_ms.saturating_mul(TICKS_PER_MS))
}

/// [`text`] for ticks of 100 ns.
pub(super) fn ticks_text(length: u64) -> String {
    let mut text = String::from("P");
    let (days, rest) = (length / DAY, length % DAY);
    if days > 0 {
        let _ = write!(text, "{days}D");
    }
    if rest == 0 && days > 0 {
        return text;
    }
    text.push('T');
    for (count, designator) in [(rest / HOUR, 'H'), (rest % HOUR / MINUTE, 'M')] {
        if count > 0 {
            let _ = write!(text, "{count}{designator}");
        }
    }
    let (seconds, fraction) = (rest % MINUTE / SECOND, rest % SECOND);
    if fraction > 0 {
        let fraction = format!("{fraction:0FRACTION_DIGITS$}");
        let _ = write!(text, "{seconds}.{}S", fraction.trim_end_matches('0'));
    } else if seconds > 0 || length == 0 {
        let _ = write!(text, "{seconds}S");
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY_MS: u64 = DAY / TICKS_PER_MS;

    #[test]
    fn reads_durations_that_the_sdks_write() {
        for (written, read) in [
            ("PT1M", Some(60_000)),
            ("P1DT2H", Some(93_600_000)),
            ("PT0S", Some(0)),
            ("PT1.5S", Some(1_500)),
            ("PT0.0009S", Some(0)),
            ("P14D", Some(14 * DAY_MS)),
            ("P1Y", Some(365 * DAY_MS)),
            ("P1M", Some(30 * DAY_MS)),
            ("P2W", Some(14 * DAY_MS)),
            (UNLIMITED, None),
            ("P10675199DT2H48M5.477539S", None),
            ("P99999999999999999999999D", None),
        ] {
            assert_eq!(parse(written), Some(read), "{written}");
        }
    }

    #[test]
    fn refuses_invalid_durations() {
        for text in [
            "", "P", "PT", "1M", "-PT1M", "PT1", "P1S", "PT1D", "PTM", "PT1.S", "PT1.5M", "PT1M1H",
            "PT1.1.1S", "1 minute", "PTüS",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn written_values_are_read_back(length_ms in 0..UNLIMITED_TICKS / TICKS_PER_MS) {
            prop_assert_eq!(parse(&text(length_ms)), Some(Some(length_ms)));
        }

        #[test]
        fn ticks_are_read_back(length: u64) {
            prop_assert_eq!(parse_ticks(&ticks_text(length)), Some(length));
        }

        #[test]
        fn nothing_makes_it_panic(text in "\\PC*") {
            let _ = parse(&text);
        }
    }
}
