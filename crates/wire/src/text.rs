//! Text from a peer in a form that is safe in a log, an audit line or an error.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Longest text of a peer in a log line, in characters.
pub const PEER_TEXT_CHARACTERS_MAX: usize = 256;

/// A peer's text with control characters escaped, so that it stays within its line, and cut after
/// [`PEER_TEXT_CHARACTERS_MAX`] characters.
#[must_use]
pub fn loggable(text: &str) -> Cow<'_, str> {
    loggable_within(text, PEER_TEXT_CHARACTERS_MAX)
}

/// [`loggable`] with another maximum length. The omitted rest is counted at the end, in bytes.
#[must_use]
pub fn loggable_within(text: &str, characters_max: usize) -> Cow<'_, str> {
    let end = text.char_indices().nth(characters_max).map_or(text.len(), |(end, _)| end);
    let (kept, left_out) = text.split_at_checked(end).unwrap_or((text, ""));
    if left_out.is_empty() && !kept.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(kept.len() + 16);
    for character in kept.chars() {
        if is_unprintable(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    if !left_out.is_empty() {
        // Writing to memory can't fail.
        let _ = write!(shown, "… ({} more bytes)", left_out.len());
    }
    Cow::Owned(shown)
}

/// Characters that end a line, control a terminal or change the text direction.
fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_printable_text_is_unchanged() {
        for text in ["", "queue/a b", "Zürich ✓", "\"quoted\" \\n"] {
            assert!(matches!(loggable(text), Cow::Borrowed(shown) if shown == text));
        }
    }

    #[test]
    fn lines_terminals_and_directions_are_left_alone() {
        assert_eq!(loggable("a\nb\r\u{1b}[2J\0\u{7f}\u{9b}"), "a\\nb\\r\\u{1b}[2J\\u{0}\\u{7f}\\u{9b}");
        assert_eq!(loggable("\u{2028}\u{202e}x\u{2066}"), "\\u{2028}\\u{202e}x\\u{2066}");
    }

    #[test]
    fn long_texts_are_cut_between_characters_and_counted() {
        assert_eq!(loggable_within("äöü", 3), "äöü");
        assert_eq!(loggable_within("äöü", 2), "äö… (2 more bytes)");
        assert_eq!(loggable_within("ä\nü", 1), "ä… (3 more bytes)");
        let shown = loggable(&"x".repeat(1 << 20)).into_owned();
        assert!(shown.len() < 300 && shown.ends_with("… (1048320 more bytes)"), "{shown}");
    }
}
