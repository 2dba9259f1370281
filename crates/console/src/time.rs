//! Times in answers: RFC 3339 in UTC with milliseconds.

use jiff::Timestamp as Instant;
use peeklock_admin::Error;
use peeklock_engine::Timestamp;
use serde_json::Value as Json;

/// `2026-11-23T13:00:00.000Z`; times beyond the range are written as the last one.
pub(crate) fn text(at: Timestamp) -> String {
    let instant = i64::try_from(at.0).ok().and_then(|ms| Instant::from_millisecond(ms).ok());
    format!("{:.3}", instant.unwrap_or(Instant::MAX))
}

/// The time; null for one that never comes.
pub(crate) fn json(at: Timestamp) -> Json {
    if at == Timestamp::NEVER { Json::Null } else { Json::from(text(at)) }
}

/// Parses a time with its zone.
///
/// # Errors
/// 400 with the expected format; `name` is the parameter.
pub(crate) fn read(name: &str, text: &str) -> Result<Timestamp, Error> {
    let at = text.trim().parse::<Instant>().ok().and_then(|at| u64::try_from(at.as_millisecond()).ok());
    at.map(Timestamp).ok_or_else(|| {
        Error::bad_request(format!(
            "'{name}' must be an instant with its zone, such as 2026-11-23T13:00:00Z."
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_written_with_milliseconds_and_read_back() {
        assert_eq!(text(Timestamp(1_795_284_000_120)), "2026-11-21T18:00:00.120Z");
        assert_eq!(read("at", "2026-11-21T18:00:00.120Z").unwrap(), Timestamp(1_795_284_000_120));
        assert_eq!(read("at", "2026-11-21T19:00:00.12+01:00").unwrap(), Timestamp(1_795_284_000_120));
        assert_eq!(json(Timestamp::NEVER), Json::Null);
        for text in ["", "soon", "5", "2026-11-21", "1969-01-01T00:00:00Z"] {
            assert!(read("at", text).unwrap_err().text.contains("'at' must be an instant"), "{text}");
        }
    }
}
