//! Durations in texts. The internal representation is ticks of 100 ns.

use super::instant::TICKS_PER_SECOND;
use super::scan::Scan;

/// Parses `[-][d.]hh:mm[:ss[.fffffff]]`, the format of .NET, or `PnDTnHnMn.nS` (ISO 8601). A bare number has no unit
/// and is rejected (.NET takes it as days; inferred that this surprises more than it helps).
pub(super) fn parse(text: &str) -> Option<i64> {
    let mut scan = Scan::new(text.trim());
    let is_negative = scan.take(b'-');
    let ticks = if scan.take(b'P') { iso(&mut scan)? } else { constant_form(&mut scan)? };
    let ticks = if is_negative { -ticks } else { ticks };
    i64::try_from(ticks).ok().filter(|_| scan.is_at_end())
}

fn constant_form(scan: &mut Scan<'_>) -> Option<i128> {
    let first = scan.number()?;
    let (days, hours) = if scan.take(b'.') { (first, scan.number()?) } else { (0, first) };
    scan.expect(b':')?;
    let minutes = scan.number()?;
    let (mut seconds, mut fraction) = (0, 0);
    if scan.take(b':') {
        seconds = scan.number()?;
        if scan.take(b'.') {
            fraction = scan.fraction_ticks()?;
        }
    }
    let is_clock_time = hours < 24 && minutes < 60 && seconds < 60;
    is_clock_time.then(|| total(days, hours, minutes, seconds) + i128::from(fraction))
}

fn iso(scan: &mut Scan<'_>) -> Option<i128> {
    let mut ticks = 0;
    let mut units: &[(u8, i64)] = &[(b'D', 86_400)];
    let mut is_time = false;
    let mut has_unit = false;
    while !scan.is_at_end() {
        if !is_time && scan.take(b'T') {
            is_time = true;
            has_unit = false;
            units = &[(b'H', 3600), (b'M', 60), (b'S', 1)];
            continue;
        }
        let amount = scan.number()?;
        let fraction = if is_time && scan.take(b'.') { Some(scan.fraction_ticks()?) } else { None };
        let place = units.iter().position(|(letter, _)| scan.take(*letter))?;
        let (letter, seconds) = *units.get(place)?;
        if fraction.is_some() && letter != b'S' {
            return None;
        }
        ticks += i128::from(amount) * i128::from(seconds) * i128::from(TICKS_PER_SECOND);
        ticks += i128::from(fraction.unwrap_or(0));
        units = units.get(place + 1..)?;
        has_unit = true;
    }
    has_unit.then_some(ticks)
}

fn total(days: i64, hours: i64, minutes: i64, seconds: i64) -> i128 {
    let [days, hours, minutes, seconds] = [days, hours, minutes, seconds].map(i128::from);
    (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * i128::from(TICKS_PER_SECOND)
}

/// Formats a duration in .NET's constant form ("c").
pub(super) fn text(ticks: i64) -> String {
    let sign = if ticks < 0 { "-" } else { "" };
    let ticks = ticks.unsigned_abs();
    let per_second = TICKS_PER_SECOND.unsigned_abs();
    let (all_seconds, fraction) = (ticks / per_second, ticks % per_second);
    let (days, hours) = (all_seconds / 86_400, all_seconds / 3600 % 24);
    let (minutes, seconds) = (all_seconds / 60 % 60, all_seconds % 60);
    let days = if days == 0 { String::new() } else { format!("{days}.") };
    let fraction = if fraction == 0 { String::new() } else { format!(".{fraction:07}") };
    format!("{sign}{days}{hours:02}:{minutes:02}:{seconds:02}{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = TICKS_PER_SECOND;

    #[test]
    fn lengths_are_read_in_both_forms() {
        let cases = [
            ("00:00:01", SECOND),
            ("00:01", 60 * SECOND),
            ("1.02:03:04.5", (86_400 + 2 * 3600 + 3 * 60 + 4) * SECOND + SECOND / 2),
            ("-00:00:00.0000001", -1),
            ("10675199.02:48:05.4775807", i64::MAX),
            ("-10675199.02:48:05.4775808", i64::MIN),
            ("PT1S", SECOND),
            ("PT1M30.25S", 90 * SECOND + SECOND / 4),
            ("P1DT1H", 25 * 3600 * SECOND),
            ("P10D", 864_000 * SECOND),
            ("-PT0.1S", -SECOND / 10),
            ("PT90M", 5400 * SECOND),
        ];
        for (text, ticks) in cases {
            assert_eq!(parse(text), Some(ticks), "{text}");
        }
    }

    #[test]
    fn invalid_time_spans_are_refused() {
        let bad = [
            "",
            "5",
            "1.5",
            "24:00:00",
            "00:60:00",
            "00:00:60",
            "00:00:",
            "00:00:00.",
            "P",
            "PT",
            "P1DT",
            "P1H",
            "PT1D",
            "P1Y",
            "PT1S1M",
            "PT1.5M",
            "10675199.02:48:05.4775808",
            "99999999999999999999.00:00:00",
            "00:00:00x",
            "--00:01",
        ];
        for text in bad {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn printed_values_are_parsed_again() {
        for ticks in [0, 1, -1, SECOND, 90_061 * SECOND, i64::MAX, i64::MIN] {
            assert_eq!(parse(&text(ticks)), Some(ticks));
        }
        assert_eq!(text(90_061 * SECOND), "1.01:01:01");
        assert_eq!(text(i64::MAX), "10675199.02:48:05.4775807");
    }
}
