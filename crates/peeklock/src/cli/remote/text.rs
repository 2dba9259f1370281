//! Times, durations and numbers in human-readable notation.

use std::time::Duration;

use jiff::Timestamp;

use crate::config::parse_duration_ms;

/// Parses `30s`, `5m`, `1 hour` or `PT1M`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration_ms(text, &(0..=u64::MAX)).map(Duration::from_millis)
}

/// Parses a duration of at least a millisecond, the unit of a message's time to live.
///
/// # Errors
/// A message with the valid form.
pub(super) fn time_to_live(text: &str) -> Result<Duration, String> {
    let length = duration(text)?;
    if length.is_zero() {
        let advice = "write a longer one, or leave it out for the default of the queue or topic";
        return Err(format!("a message can't live for less than a millisecond; {advice}"));
    }
    Ok(length)
}

/// Parses a time such as `2026-01-31T12:00:00Z`, or the word `now`; milliseconds since 1970.
pub(super) fn instant_ms(text: &str) -> Result<i64, String> {
    if text.eq_ignore_ascii_case("now") {
        return Ok(Timestamp::now().as_millisecond());
    }
    let instant: Timestamp = text.parse().map_err(|_| {
        format!("\"{text}\" is not a point in time; write date, time and zone, such as 2026-01-31T12:00:00Z")
    })?;
    Ok(instant.as_millisecond())
}

/// A time in UTC with milliseconds.
pub(super) fn shown_instant(at_ms: i64) -> String {
    Timestamp::from_millisecond(at_ms)
        .map_or_else(|_| at_ms.to_string(), |at| at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

/// A number of bytes.
pub(super) fn shown_bytes(bytes: u64) -> String {
    match bytes {
        0..=9_999 => format!("{bytes} B"),
        10_000..=9_999_999 => format!("{} KiB", bytes >> 10),
        10_000_000..=9_999_999_999 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

/// `1 message`, `2 messages`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// One line without terminal control characters, cut after this many characters.
pub(super) fn one_line(text: &str, characters_max: usize) -> String {
    let mut shown: String = text
        .chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .take(characters_max)
        .collect();
    if text.chars().nth(characters_max).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_instants_are_read_as_people_write_them() {
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("PT1.5S"), Ok(Duration::from_millis(1_500)));
        assert!(duration("soon").is_err());
        assert_eq!(time_to_live("1ms"), Ok(Duration::from_millis(1)));
        for nothing in ["0s", "PT0S", "0.5ms", "100us"] {
            assert!(time_to_live(nothing).unwrap_err().contains("leave it out"), "{nothing}");
        }
        assert_eq!(instant_ms("1970-01-01T00:00:01Z"), Ok(1_000));
        assert!(instant_ms("tomorrow").is_err());
        assert_eq!(shown_instant(1_500), "1970-01-01T00:00:01.500Z");
    }

    #[test]
    fn text_of_messages_does_not_reach_the_terminal_as_commands() {
        assert_eq!(one_line("a\u{1b}[2Jb\nc", 40), "a [2Jb c");
        assert_eq!(one_line("abcdef", 3), "abc…");
    }
}
