//! Compares an answer with what was recorded, where `$(..)` stands for what can't be the same twice.
//!
//! | in a recording | stands for |
//! |---|---|
//! | `$(lock-token-00001)` | a lock token that the broker gives: as a delivery tag, or as a UUID |
//! | `$(transaction-0001)` | the id of a transaction |
//! | `$(id-1)` | a text that the broker makes up |
//! | `$(tag)` | the tag of a settled delivery: 16 bytes |
//! | `$(+60s)`, `$(ticks +60s)` | a moment, so far from the present; as .NET counts it |
//! | `$(moment)` | a moment of any time, also the year 1, which means never |
//! | `$(crossing)` | the error of a detach, or none: it crosses the client's own |
//! | `$(any)` | a tracking id, a date in an error, the path of an entity |
//!
//! The same name stands for the same throughout a conversation. In the client's frames lock tokens and transactions stand as
//! their names, which are 16 bytes long, and a moment as a time in the year 2200, so far from its beginning as from the present.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// How far a moment may be from where it was: what the slowest answer may take (`client::PATIENCE`).
const TOLERANCE_MS: i64 = 40_000;
/// 1 January 2200, which stands for the present in the client's frames.
const PRESENT_MS: i64 = 7_258_118_400_000;
/// How far from it a time still means one that is as far from the present.
const YEAR_MS: i64 = 366 * 24 * 3_600_000;
/// The constructor of a timestamp.
const TIMESTAMP: u8 = 0x83;
/// .NET's ticks, 100 ns each, from the year 1 to 1970.
const TICKS_TO_1970: i64 = 621_355_968_000_000_000;

/// What names stand for, and how far the daemon's time is ahead.
#[derive(Debug, Default)]
pub(super) struct Present {
    names: HashMap<String, String>,
    ahead: Duration,
}

impl Present {
    /// The daemon's time was moved.
    pub(super) fn travel(&mut self, by: Duration) {
        self.ahead += by;
    }

    /// The daemon has returned to the present.
    pub(super) fn come_back(&mut self) {
        self.ahead = Duration::ZERO;
    }

    fn now_ms(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + self.ahead;
        i64::try_from(now.as_millis()).unwrap()
    }

    /// Whether an answer is what was expected; binds names that are new.
    pub(super) fn is(&mut self, expected: &str, answer: &str) -> bool {
        let (mut expected, mut answer) = (expected, answer);
        while let Some((literal, rest)) = expected.split_once("$(") {
            let Some((name, after)) = rest.split_once(')') else { return false };
            let Some(found) = answer.strip_prefix(literal) else { return false };
            let (value, beyond) = found.split_at(length(name, found));
            if !self.stands_for(name, value) {
                return false;
            }
            (expected, answer) = (after, beyond);
        }
        expected == answer
    }

    /// The lines of an expected answer and of the one that came: where they are as many, those that differ.
    pub(super) fn difference(&mut self, expected: &str, answer: &str) -> (String, String) {
        let (lines, others): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), answer.lines().collect());
        if lines.len() != others.len() {
            return (expected.to_owned(), answer.to_owned());
        }
        let pairs = lines.into_iter().zip(others).filter(|(line, other)| !self.is(line, other));
        let (lines, others): (Vec<&str>, Vec<&str>) = pairs.unzip();
        (lines.join("\n"), others.join("\n"))
    }

    fn stands_for(&mut self, name: &str, value: &str) -> bool {
        if let Some(offset) = name.strip_prefix("ticks ") {
            let ticks = value.parse::<i64>().ok();
            return self.is_moment(offset, ticks.map(|ticks| (ticks - TICKS_TO_1970) / 10_000));
        }
        if name.starts_with(['+', '-']) {
            let moment = value.trim_end_matches('Z').to_owned() + "Z";
            return self.is_moment(name, moment.parse::<Timestamp>().ok().map(Timestamp::as_millisecond));
        }
        match name {
            "any" => return true,
            "crossing" => return value.is_empty() || value.starts_with(" error="),
            "tag" => return value.len() == "x''".len() + 32,
            "moment" => return value.parse::<Timestamp>().is_ok(),
            _ => {}
        }
        let Some(value) = canonical(name, value) else { return false };
        if self.names.iter().any(|(known, taken)| known != name && *taken == value) {
            return false;
        }
        *self.names.entry(name.to_owned()).or_insert_with(|| value.clone()) == value
    }

    fn is_moment(&self, offset: &str, moment_ms: Option<i64>) -> bool {
        let seconds = offset.trim_end_matches('s').parse::<i64>().ok();
        let distance =
            moment_ms.zip(seconds).map(|(moment, seconds)| moment - self.now_ms() - seconds * 1_000);
        distance.is_some_and(|distance| distance.abs() <= TOLERANCE_MS)
    }

    /// The bytes that a client would send now.
    pub(super) fn fill(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        for (name, value) in self.names.iter().filter(|(name, _)| name.len() == 16) {
            let id = octets(value);
            while let Some(place) = bytes.windows(16).position(|window| window == name.as_bytes()) {
                bytes[place..place + 16].copy_from_slice(&id);
            }
        }
        for place in 1..bytes.len().saturating_sub(7) {
            let moment = i64::from_be_bytes(bytes[place..place + 8].try_into().unwrap());
            if bytes[place - 1] == TIMESTAMP && (moment - PRESENT_MS).abs() < YEAR_MS {
                let now = self.now_ms() + moment - PRESENT_MS;
                bytes[place..place + 8].copy_from_slice(&now.to_be_bytes());
            }
        }
        bytes
    }
}

/// How much of a text a name stands for.
fn length(name: &str, text: &str) -> usize {
    let run = |is_part: fn(char) -> bool| text.find(|letter| !is_part(letter)).unwrap_or(text.len());
    if name == "crossing" {
        return text.len();
    }
    if name == "any" {
        return run(|letter| letter.is_ascii_alphanumeric() || "-_:./$".contains(letter));
    }
    if name == "moment" || name.starts_with(['+', '-']) {
        return run(|letter| letter.is_ascii_digit() || "-:.TZ".contains(letter));
    }
    if name.starts_with("ticks ") || name.starts_with("id-") {
        return run(|letter| letter.is_ascii_alphanumeric() || letter == '-');
    }
    // A quoted literal: x'..' or uuid'..'.
    text.match_indices('\'').nth(1).map_or(0, |(end, _)| end + 1)
}

/// The hexadecimal digits of an id; of a lock token those of the UUID, whose first three fields a delivery tag reverses.
fn canonical(name: &str, value: &str) -> Option<String> {
    if name.starts_with("id-") {
        return (!value.is_empty()).then(|| value.to_owned());
    }
    let (kind, digits) = value.strip_suffix('\'')?.split_once('\'')?;
    let digits = digits.replace('-', "");
    if digits.len() != 32 {
        return None;
    }
    if kind == "uuid" || name.starts_with("transaction") {
        return Some(digits);
    }
    let byte = |place: usize| &digits[place * 2..place * 2 + 2];
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    Some(order.map(byte).concat())
}

/// The bytes that hexadecimal digits stand for.
pub(super) fn octets(digits: &str) -> Vec<u8> {
    (0..digits.len())
        .step_by(2)
        .map(|place| u8::from_str_radix(&digits[place..place + 2], 16).unwrap())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_one_value() {
        let mut present = Present::default();
        assert!(present.is("a $(id-1) b", "a x1 b"));
        assert!(present.is("$(id-1)", "x1"));
        assert!(!present.is("$(id-1)", "x2"));
        assert!(!present.is("$(id-2)", "x1"), "the value of another name");
    }

    #[test]
    fn a_delivery_tag_is_the_lock_token_with_its_fields_reversed() {
        let mut present = Present::default();
        let (tag, token) =
            ("x'33221100554477668899aabbccddeeff'", "uuid'00112233-4455-6677-8899-aabbccddeeff'");
        assert!(present.is("tag=$(lock-token-00001) settled", &format!("tag={tag} settled")));
        assert!(present.is("[$(lock-token-00001)]", &format!("[{token}]")));
        let filled = present.fill(b"--lock-token-00001--".to_vec());
        assert_eq!(
            filled,
            [b"--".to_vec(), octets("00112233445566778899aabbccddeeff"), b"--".to_vec()].concat()
        );
    }

    #[test]
    fn a_moment_is_as_far_from_the_present_as_it_was() {
        let mut present = Present::default();
        let now = Timestamp::now();
        assert!(
            present.is("until $(+60s), then", &format!("until {:.3}, then", now + Duration::from_secs(61)))
        );
        assert!(!present.is("$(+60s)", &format!("{:.3}", now + Duration::from_secs(200))));
        present.travel(Duration::from_secs(140));
        assert!(present.is("$(+60s)", &format!("{:.3}", now + Duration::from_secs(200))));
        let moment = PRESENT_MS + 5_000;
        let bytes = [&[TIMESTAMP][..], &moment.to_be_bytes()].concat();
        let filled = i64::from_be_bytes(present.fill(bytes)[1..].try_into().unwrap());
        assert!((filled - now.as_millisecond() - 145_000).abs() < TOLERANCE_MS);
    }

    #[test]
    fn what_differs_beside_a_name_is_seen() {
        let mut present = Present::default();
        assert!(!present.is("tag=$(tag) settled=true", "tag=x'00' settled=true"));
        assert!(!present.is("a $(id-1) b", "a x1 c"));
        assert!(!present.is("a", "a b"));
        assert!(present.is("TrackingId:$(any), x", "TrackingId:0f-1_G0, x"));
    }
}
