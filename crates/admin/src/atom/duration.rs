//! Durations as XML has them. `jiff` reads these as well, but no duration as long as Service Bus's maximum.

use std::fmt::Write;

const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// The longest duration Service Bus knows; it means "no limit".
pub(super) const UNLIMITED: &str = "P10675199DT2H48M5.4775807S";

/// From here on a duration is the maximum: Python rounds it when it gives it back.
const UNLIMITED_MS: u64 = 10_675_199 * DAY_MS;

/// Designators before and after the `T` with their lengths; years and months as .NET counts them.
const DATE: [(char, u64); 4] = [('Y', 365 * DAY_MS), ('M', 30 * DAY_MS), ('W', 7 * DAY_MS), ('D', DAY_MS)];
const TIME: [(char, u64); 3] = [('H', HOUR_MS), ('M', MINUTE_MS), ('S', SECOND_MS)];

/// Milliseconds, without fractions of one; `Some(None)` for the maximum and more, `None` for what is no duration.
pub(super) fn parse(text: &str) -> Option<Option<u64>> {
    let text = text.trim().to_ascii_uppercase();
    let text = text.strip_prefix('P')?;
    let (date, time) = match text.split_once('T') {
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None if text.is_empty() => return None,
        None => (text, ""),
    };
    let total_ms = part(date, &DATE)?.saturating_add(part(time, &TIME)?);
    Some((total_ms < UNLIMITED_MS).then_some(total_ms))
}

/// One half of a duration: numbers with designators in their order.
fn part(mut text: &str, designators: &[(char, u64)]) -> Option<u64> {
    let mut total_ms: u64 = 0;
    let mut designators = designators.iter();
    while !text.is_empty() {
        let end = text.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let (number, rest) = text.split_at(end);
        let mut rest = rest.chars();
        let found = rest.next()?;
        let (_, length_ms) = designators.find(|(designator, _)| *designator == found)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_fractional = number.contains('.');
        if whole.is_empty()
            || is_fractional && (found != 'S' || fraction.is_empty() || fraction.contains('.'))
        {
            return None;
        }
        let thousandths: u64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
        // More digits than fit are more than the maximum.
        let whole: u64 = whole.parse().unwrap_or(u64::MAX);
        total_ms = total_ms.saturating_add(whole.saturating_mul(*length_ms)).saturating_add(thousandths);
        text = rest.as_str();
    }
    Some(total_ms)
}

/// A duration as .NET writes it: `P1DT2H`, `PT0.5S`.
pub(super) fn text(length_ms: u64) -> String {
    let mut text = String::from("P");
    let (days, rest_ms) = (length_ms / DAY_MS, length_ms % DAY_MS);
    if days > 0 {
        let _ = write!(text, "{days}D");
    }
    if rest_ms == 0 && days > 0 {
        return text;
    }
    text.push('T');
    for (count, designator) in [(rest_ms / HOUR_MS, 'H'), (rest_ms % HOUR_MS / MINUTE_MS, 'M')] {
        if count > 0 {
            let _ = write!(text, "{count}{designator}");
        }
    }
    let (seconds, thousandths) = (rest_ms % MINUTE_MS / SECOND_MS, rest_ms % SECOND_MS);
    if thousandths > 0 {
        let fraction = format!("{thousandths:03}");
        let _ = write!(text, "{seconds}.{}S", fraction.trim_end_matches('0'));
    } else if seconds > 0 || length_ms == 0 {
        let _ = write!(text, "{seconds}S");
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_the_sdks_write() {
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
    fn refuses_what_is_no_duration() {
        for text in [
            "", "P", "PT", "1M", "-PT1M", "PT1", "P1S", "PT1D", "PTM", "PT1.S", "PT1.5M", "PT1M1H",
            "PT1.1.1S", "1 minute", "PTüS",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(length_ms in 0..UNLIMITED_MS) {
            prop_assert_eq!(parse(&text(length_ms)), Some(Some(length_ms)));
        }

        #[test]
        fn nothing_makes_it_panic(text in "\\PC*") {
            let _ = parse(&text);
        }
    }
}
