//! Instants as text in error descriptions.

use peeklock_engine::Timestamp;

/// `2026-11-20T22:10:05Z`; years beyond 9999 are written as they are.
pub(crate) fn iso_8601(at: Timestamp) -> String {
    let seconds = at.0 / 1000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil_from_days(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// The Gregorian date `days` after 1970-01-01, counted in years that begin in March so that leap days come last.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
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
        let _ = iso_8601(Timestamp::NEVER);
    }
}
