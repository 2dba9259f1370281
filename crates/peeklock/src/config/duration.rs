//! Durations in a configuration: ISO 8601 or human-readable.

use std::ops::RangeInclusive;

use jiff::{SignedDuration, Span, SpanRelativeTo};

/// The longest duration of Service Bus; it means "no limit".
pub(crate) const UNLIMITED_ISO: &str = "P10675199DT2H48M5.4775807S";

/// A duration that may be unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duration {
    /// A number of milliseconds.
    Milliseconds(u64),
    /// The maximum of Service Bus, or the word `unlimited`.
    Unlimited,
}

/// Parses `PT1M`, `P1DT2H`, `1 minute`, `1h 30m`, `30s`, `unlimited`. A day is 24 hours; months and years have no fixed
/// length and are refused. Fractions of a millisecond are cut off.
///
/// # Errors
/// A message for the end of a sentence about the value.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text.eq_ignore_ascii_case(UNLIMITED_ISO) || text.eq_ignore_ascii_case("unlimited") {
        return Ok(Duration::Unlimited);
    }
    let span: Span = text.parse().map_err(|_| {
        format!("\"{text}\" is not a duration; write ISO 8601 such as \"PT1M\", or \"1 minute\", or \"30s\"")
    })?;
    if span.get_years() != 0 || span.get_months() != 0 {
        return Err(format!(
            "\"{text}\" has years or months, whose length varies; write days, such as \"30 days\" or \"P30D\""
        ));
    }
    let length = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|_| format!("\"{text}\" is too long; write \"unlimited\" for no limit"))?;
    let milliseconds = u64::try_from(length.as_millis())
        .map_err(|_| format!("\"{text}\" is negative; durations are positive"))?;
    Ok(Duration::Milliseconds(milliseconds))
}

/// [`parse`] with a range in milliseconds.
///
/// # Errors
/// A message for the end of a sentence about the value.
pub(crate) fn parse_in(text: &str, range_ms: &RangeInclusive<u64>) -> Result<u64, String> {
    match parse(text)? {
        Duration::Milliseconds(value) if range_ms.contains(&value) => Ok(value),
        _ => Err(format!(
            "\"{text}\" is outside the range from {} to {}",
            iso(*range_ms.start()),
            iso(*range_ms.end())
        )),
    }
}

/// [`parse`] for a duration that may be unlimited, which is `None`. `too_short` describes a duration shorter than
/// `least_ms`.
///
/// # Errors
/// A message for the end of a sentence about the value.
pub(crate) fn parse_open(
    text: &str,
    least_ms: u64,
    too_short: impl FnOnce() -> String,
) -> Result<Option<u64>, String> {
    match parse(text)? {
        Duration::Unlimited => Ok(None),
        Duration::Milliseconds(value) if value < least_ms => Err(too_short()),
        Duration::Milliseconds(value) => Ok(Some(value)),
    }
}

/// The message for a duration below the minimum.
pub(crate) fn too_short(text: &str, least_ms: u64) -> String {
    format!("\"{text}\" is too short; write at least \"{}\", or \"unlimited\"", iso(least_ms))
}

/// A number of milliseconds as ISO 8601.
pub(crate) fn iso(milliseconds: u64) -> String {
    SignedDuration::from_millis(i64::try_from(milliseconds).unwrap_or(i64::MAX)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_iso_and_human_durations() {
        for (text, milliseconds) in [
            ("PT1M", 60_000),
            ("pt1m", 60_000),
            ("1 minute", 60_000),
            ("30s", 30_000),
            ("1h 30m", 5_400_000),
            ("P1DT1H", 90_000_000),
            ("P2W", 1_209_600_000),
            ("14 days", 1_209_600_000),
            ("PT0.5S", 500),
            ("500ms", 500),
            (" 5 seconds ", 5_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::Milliseconds(milliseconds)), "{text}");
        }
    }

    #[test]
    fn the_maximum_of_service_bus_is_unlimited() {
        assert_eq!(parse(UNLIMITED_ISO), Ok(Duration::Unlimited));
        assert_eq!(parse("Unlimited"), Ok(Duration::Unlimited));
    }

    #[test]
    fn refuses_durations_without_a_fixed_length_and_nonsense() {
        for (text, message) in [
            ("P1M", "years or months"),
            ("1 year", "years or months"),
            ("-PT1M", "negative"),
            ("1 minute ago", "negative"),
            ("60", "not a duration"),
            ("", "not a duration"),
            ("soon", "not a duration"),
            ("99999999999 days", "not a duration"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn names_both_ends_of_a_range() {
        let error = parse_in("10 minutes", &(5_000..=300_000)).unwrap_err();
        assert_eq!(error, "\"10 minutes\" is outside the range from PT5S to PT5M");
        assert!(parse_in("unlimited", &(5_000..=300_000)).is_err());
        assert_eq!(parse_in("PT5M", &(5_000..=300_000)), Ok(300_000));
    }
}
