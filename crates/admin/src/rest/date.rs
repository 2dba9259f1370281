//! Times in HTTP's format: `Sun, 06 Nov 1994 08:49:37 GMT`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use httpdate::HttpDate;
use jiff::fmt::rfc2822::DateTimeParser;

use crate::atom::instant;

/// The last time that can be written, in milliseconds since 1970: the end of the year 9999.
const LAST_MS: u64 = 253_402_300_799_000;

/// For times with a numeric zone, `Sun, 06 Nov 1994 08:49:37 +0000`, as Microsoft's crate for Rust writes them.
const RFC_2822: DateTimeParser = DateTimeParser::new();

/// Writes a time in milliseconds since 1970; later times are written as the last one.
pub(super) fn text(at_ms: u64) -> String {
    HttpDate::from(UNIX_EPOCH + Duration::from_millis(at_ms.min(LAST_MS))).to_string()
}

/// Parses a time in the format of RFC 1123, ISO 8601 or RFC 2822, of the years 1 to 9999: milliseconds since 1970, 0 for
/// earlier times. .NET writes a time that was not set as `0001-01-01T00:00:00`. Without a zone it is UTC.
pub(super) fn read(text: &str) -> Option<u64> {
    let text = text.trim();
    let since_1970 = |at_ms: i64| u64::try_from(at_ms).unwrap_or(0);
    read_rfc_1123(text)
        .or_else(|| instant::parse_ms(text).map(since_1970))
        .or_else(|| RFC_2822.parse_timestamp(text).ok().map(|at| since_1970(at.as_millisecond())))
}

/// Parses a time in the format of RFC 1123 only.
pub(super) fn read_rfc_1123(text: &str) -> Option<u64> {
    let at: SystemTime = text.parse::<HttpDate>().ok()?.into();
    u64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_as_they_are_written() {
        assert_eq!(text(784_111_777_999), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(read(" Sun, 06 Nov 1994 08:49:37 GMT "), Some(784_111_777_000));
        assert_eq!(read("Sun, 06 Nov 1994 08:49:37 +0000"), Some(784_111_777_000));
        assert_eq!(read("Sun, 6 Nov 1994 09:49:37 +0100"), Some(784_111_777_000));
        assert_eq!(read("1994-11-06T08:49:37.5Z"), Some(784_111_777_500));
        assert_eq!(text(u64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(read("9999-12-31T23:59:59Z"), Some(LAST_MS));
        assert_eq!(read("1994-11-06T08:49:37"), Some(784_111_777_000));
        for past in ["0001-01-01T00:00:00", "0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z"] {
            assert_eq!(read(past), Some(0), "{past}");
        }
        for nonsense in ["", "soon", "1994-13-06T00:00:00Z", "Sun, 06 Nov 1994 08:49:37 +9900"] {
            assert_eq!(read(nonsense), None, "{nonsense}");
        }
        assert_eq!(read_rfc_1123("1994-11-06T08:49:37Z"), None);
    }
}
