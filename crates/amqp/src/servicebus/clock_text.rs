//! Times as text in error descriptions.

use jiff::SignedDuration;
use jiff::civil::DateTime;
use peeklock_engine::Timestamp;

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// `2026-11-20T22:10:05Z`; times after the year 9999 are written as its last second.
pub(crate) fn iso_8601(at: Timestamp) -> String {
    let seconds = i64::try_from(at.0 / 1000).unwrap_or(i64::MAX);
    let instant = EPOCH.saturating_add(SignedDuration::from_secs(seconds));
    instant.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_known_instants() {
        assert_eq!(iso_8601(Timestamp(0)), "1970-01-01T00:00:00Z");
        assert_eq!(iso_8601(Timestamp(951_782_400_000)), "2000-02-29T00:00:00Z");
        assert_eq!(iso_8601(Timestamp(1_709_164_799_999)), "2024-02-28T23:59:59Z");
        assert_eq!(iso_8601(Timestamp(253_402_300_799_000)), "9999-12-31T23:59:59Z");
        assert_eq!(iso_8601(Timestamp::NEVER), "9999-12-31T23:59:59Z");
    }
}
