//! Times in texts. The internal representation is ticks of 100 ns since the year 1, as in .NET.

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, date};

use super::scan::Scan;

pub(super) const TICKS_PER_SECOND: i64 = 10_000_000;
pub(super) const TICKS_PER_MS: i64 = 10_000;
/// 1970-01-01.
pub(super) const UNIX_EPOCH_TICKS: i64 = 621_355_968_000_000_000;
/// The latest time of .NET, 9999-12-31T23:59:59.9999999.
pub(super) const LAST_TICKS: i64 = 3_155_378_975_999_999_999;
/// The same in milliseconds since 1970, the resolution of an AMQP timestamp.
pub(super) const LAST_MS: i64 = (LAST_TICKS - UNIX_EPOCH_TICKS) / TICKS_PER_MS;
const FIRST_DAY: Date = date(1, 1, 1);
const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// Converts milliseconds since 1970 to ticks; with a wider type, because a message may contain any timestamp.
pub(super) fn ticks_of_ms(at_ms: i64) -> i128 {
    i128::from(at_ms) * i128::from(TICKS_PER_MS) + i128::from(UNIX_EPOCH_TICKS)
}

/// Converts ticks to milliseconds since 1970, rounded down.
pub(super) fn ms_of_ticks(ticks: i64) -> i64 {
    (i128::from(ticks) - i128::from(UNIX_EPOCH_TICKS)).div_euclid(i128::from(TICKS_PER_MS)) as i64
}

/// Parses `2026-11-22[T10:15[:30[.1234567]][Z|±01:00]]` (ISO 8601; a space is accepted for the T). Without an offset it
/// is UTC.
pub(super) fn parse(text: &str) -> Option<i64> {
    let mut scan = Scan::new(text.trim());
    let year = scan.digits(4)?;
    scan.expect(b'-')?;
    let month = scan.digits(2)?;
    scan.expect(b'-')?;
    let day = scan.digits(2)?;
    let date = calendar_date(year, month, day)?;
    let mut ticks = date.duration_since(FIRST_DAY).as_secs() * TICKS_PER_SECOND;
    if scan.take(b'T') || scan.take(b't') || scan.take(b' ') {
        ticks += time_of_day(&mut scan)?;
        ticks -= offset(&mut scan)?;
    }
    (scan.is_at_end() && (0..=LAST_TICKS).contains(&ticks)).then_some(ticks)
}

fn calendar_date(year: i64, month: i64, day: i64) -> Option<Date> {
    let date =
        Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    (year > 0).then_some(date)
}

fn time_of_day(scan: &mut Scan<'_>) -> Option<i64> {
    let hours = scan.digits(2).filter(|hours| *hours < 24)?;
    scan.expect(b':')?;
    let minutes = scan.digits(2).filter(|minutes| *minutes < 60)?;
    let mut ticks = (hours * 60 + minutes) * 60 * TICKS_PER_SECOND;
    if scan.take(b':') {
        ticks += scan.digits(2).filter(|seconds| *seconds < 60)? * TICKS_PER_SECOND;
        if scan.take(b'.') {
            ticks += scan.fraction_ticks()?;
        }
    }
    Some(ticks)
}

fn offset(scan: &mut Scan<'_>) -> Option<i64> {
    if scan.is_at_end() || scan.take(b'Z') || scan.take(b'z') {
        return Some(0);
    }
    let sign = if scan.take(b'-') {
        -1
    } else {
        scan.expect(b'+')?;
        1
    };
    let hours = scan.digits(2).filter(|hours| *hours <= 14)?;
    scan.expect(b':')?;
    let minutes = scan.digits(2).filter(|minutes| *minutes < 60)?;
    Some(sign * (hours * 60 + minutes) * 60 * TICKS_PER_SECOND)
}

/// Formats a UTC time in .NET's round-trip form ("O"); `None` outside the range of .NET.
pub(super) fn text(ticks: i128) -> Option<String> {
    let ticks = i64::try_from(ticks).ok().filter(|ticks| (0..=LAST_TICKS).contains(ticks))?;
    let since_epoch = SignedDuration::from_millis(ms_of_ticks(ticks));
    let instant = EPOCH.checked_add(since_epoch).ok()?.strftime("%Y-%m-%dT%H:%M:%S");
    Some(format!("{instant}.{:07}Z", ticks % TICKS_PER_SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_in_the_forms_of_iso_8601() {
        let epoch = UNIX_EPOCH_TICKS;
        let cases = [
            ("1970-01-01", epoch),
            ("1970-01-01T00:00", epoch),
            ("1970-01-01 00:00:01", epoch + TICKS_PER_SECOND),
            ("1970-01-01T00:00:00.5Z", epoch + TICKS_PER_SECOND / 2),
            ("1970-01-01T01:00:00+01:00", epoch),
            ("1969-12-31T22:30:00-01:30", epoch),
            ("1970-01-01T00:00:00.00000019z", epoch + 1),
            ("0001-01-01", 0),
            ("9999-12-31T23:59:59.9999999Z", LAST_TICKS),
            ("2024-02-29", 638_447_616_000_000_000),
        ];
        for (text, ticks) in cases {
            assert_eq!(parse(text), Some(ticks), "{text}");
        }
    }

    #[test]
    fn invalid_instants_are_refused() {
        let bad = [
            "",
            "yesterday",
            "2023-02-29",
            "2026-13-01",
            "2026-1-1",
            "0000-01-01",
            "2026-11-22T",
            "2026-11-22T24:00",
            "2026-11-22T10",
            "2026-11-22T10:60",
            "2026-11-22T10:00:60",
            "2026-11-22T10:00:00.",
            "2026-11-22T10:00+1",
            "2026-11-22T10:00Zx",
            "0001-01-01T00:00+01:00",
            "2026-11-22Z",
            "２026-11-22",
        ];
        for text in bad {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn printed_values_are_parsed_again() {
        for ticks in [0, 1, UNIX_EPOCH_TICKS, 638_999_999_999_999_999, LAST_TICKS] {
            assert_eq!(parse(&text(ticks.into()).expect("in range")), Some(ticks));
        }
        assert_eq!(text(LAST_TICKS.into()).as_deref(), Some("9999-12-31T23:59:59.9999999Z"));
        assert_eq!(text(-1), None);
        assert_eq!(text(i128::from(LAST_TICKS) + 1), None);
    }

    #[test]
    fn milliseconds_and_ticks_are_the_same_instants() {
        assert_eq!(ticks_of_ms(0), UNIX_EPOCH_TICKS.into());
        assert_eq!(ms_of_ticks(UNIX_EPOCH_TICKS + 9_999), 0);
        assert_eq!(ms_of_ticks(UNIX_EPOCH_TICKS - 1), -1);
        assert_eq!(ms_of_ticks(i64::MIN), -984_472_800_485_478);
        assert_eq!(LAST_MS, 253_402_300_799_999);
    }
}
