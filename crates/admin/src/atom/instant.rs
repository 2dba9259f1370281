//! Times in XML.

use jiff::civil::DateTime;
use peeklock_engine::Timestamp;

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
const NANOSECONDS_PER_MS: i128 = 1_000_000;

/// The service's value for a time that never occurred.
pub(super) const NEVER: &str = "0001-01-01T00:00:00Z";

/// The first millisecond of the year 1.
const FIRST_MS: i64 = -62_135_596_800_000;
/// The last millisecond of the year 9999: .NET's `DateTime.MaxValue`.
const LAST_MS: i64 = 253_402_300_799_999;

/// A time in UTC: `2026-11-20T18:00:00.5Z`.
pub(super) fn text(at: Timestamp) -> String {
    i64::try_from(at.0).map_or_else(|_| text_ms(i64::MAX), text_ms)
}

/// [`text`] in whole seconds, rounded down: `2026-11-20T18:00:00Z`.
pub(super) fn seconds_text(at: Timestamp) -> String {
    text(Timestamp(at.0 / 1_000 * 1_000))
}

/// [`text`] from milliseconds since 1970; times beyond the year 9999 are written as its end.
pub(super) fn text_ms(at_ms: i64) -> String {
    let civil = EPOCH.checked_add(jiff::SignedDuration::from_millis(at_ms.clamp(FIRST_MS, LAST_MS)));
    format!("{}Z", civil.unwrap_or(EPOCH))
}

/// Whether a time is in the years supported by every SDK, 1 to 9999.
pub(super) fn is_shown(at_ms: i64) -> bool {
    (FIRST_MS..=LAST_MS).contains(&at_ms)
}

/// Milliseconds since 1970, rounded down; UTC without a zone, as Python writes it.
pub(crate) fn parse_ms(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Some(at.as_nanosecond().div_euclid(NANOSECONDS_PER_MS)).and_then(|ms| ms.try_into().ok());
    }
    // Wider than a `Timestamp`, which must stay within the year 9999 in every zone.
    let civil: DateTime = text.strip_suffix(['Z', 'z']).unwrap_or(text).parse().ok()?;
    let since = civil.duration_since(EPOCH);
    i64::try_from(since.as_nanos().div_euclid(NANOSECONDS_PER_MS)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_utc() {
        assert_eq!(text(Timestamp(0)), "1970-01-01T00:00:00Z");
        assert_eq!(text(Timestamp(1_500)), "1970-01-01T00:00:01.5Z");
        assert_eq!(seconds_text(Timestamp(1_999)), "1970-01-01T00:00:01Z");
        assert_eq!(text(Timestamp::NEVER), "9999-12-31T23:59:59.999Z");
        assert_eq!(parse_ms("1970-01-01T00:00:01.5Z"), Some(1_500));
        assert_eq!(parse_ms("1970-01-01T00:00:01"), Some(1_000));
        assert_eq!(parse_ms("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(parse_ms("1970-01-01T00:00:00+0000"), Some(0));
        assert_eq!(parse_ms("soon"), None);
        for max in ["9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.9999999"] {
            assert_eq!(parse_ms(max), Some(LAST_MS));
        }
        assert_eq!(parse_ms("1969-12-31T23:59:59.9999999Z"), Some(-1));
        for at_ms in [FIRST_MS, LAST_MS] {
            assert!(is_shown(at_ms));
            assert_eq!(parse_ms(&text_ms(at_ms)), Some(at_ms));
        }
        assert_eq!(parse_ms(NEVER), Some(FIRST_MS));
        assert!(!is_shown(FIRST_MS - 1) && !is_shown(LAST_MS + 1));
    }
}
