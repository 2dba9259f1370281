//! The position of a character of a text in the file that contains the text, in quotes and with escapes.

use std::ops::Range;

/// The number of bytes before a character in the notation of a string, TOML's or JSON's; the position after the last
/// character is that of the closing quotes. `None` beyond that, and after a carriage return, which may or may not be in
/// the text.
pub(super) fn offset(notation: &str, character: usize) -> Option<usize> {
    let (quotes, is_escaped) = match notation {
        text if text.starts_with("\"\"\"") => ("\"\"\"", true),
        text if text.starts_with("'''") => ("'''", false),
        text if text.starts_with('"') => ("\"", true),
        text if text.starts_with('\'') => ("'", false),
        _ => return None,
    };
    let inner = notation.strip_prefix(quotes)?.strip_suffix(quotes)?;
    // The first line break of a multi-line string is not part of it.
    let skipped = usize::from(quotes.len() == 3 && inner.starts_with('\n'));
    let mut rest = inner.get(skipped..)?;
    let mut at = quotes.len() + skipped;
    for left in (0..=character).rev() {
        let folded = if is_escaped { folded_bytes(rest) } else { 0 };
        rest = rest.get(folded..)?;
        at += folded;
        if left == 0 {
            break;
        }
        let bytes = match rest.as_bytes() {
            [b'\\', escape, ..] if is_escaped => escaped_bytes(*escape, rest)?,
            [b'\r', ..] | [] => return None,
            _ => rest.chars().next()?.len_utf8(),
        };
        rest = rest.get(bytes..)?;
        at += bytes;
    }
    Some(at)
}

/// A backslash at the end of a line removes all space up to the next text.
fn folded_bytes(rest: &str) -> usize {
    match rest.strip_prefix('\\') {
        Some(after) if after.starts_with(char::is_whitespace) => rest.len() - after.trim_start().len(),
        _ => 0,
    }
}

/// The length in bytes of an escape that represents one character.
fn escaped_bytes(escape: u8, rest: &str) -> Option<usize> {
    match escape {
        b'u' => {
            // JSON represents characters beyond the first 65 536 by two of these.
            let is_high = |unit: &str| u16::from_str_radix(unit, 16).is_ok_and(|unit| unit >> 10 == 0x36);
            Some(if is_high(rest.get(2..6)?) { 12 } else { 6 })
        }
        b'U' => Some(10),
        b'x' => Some(4),
        _ => Some(2),
    }
}

/// [`offset`] in the whole file; `span` is the position of the string.
pub(super) fn place(file: &str, span: &Range<usize>, character: usize) -> Option<Range<usize>> {
    let at = span.start + offset(file.get(span.clone())?, character)?;
    Some(at..span.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notation_that_keeps_its_characters_has_their_places() {
        for (notation, character, expected) in [
            ("\"abc\"", 0, Some(1)),
            ("\"abc\"", 2, Some(3)),
            ("\"abc\"", 3, Some(4)),
            ("\"abc\"", 4, None),
            ("\"ä\\\"\\u0041\\U00000041z\"", 4, Some(1 + 2 + 2 + 6 + 10)),
            ("\"\\ud83d\\ude00z\"", 1, Some(13)),
            ("'a\\b'", 2, Some(3)),
            ("'''\na\nb'''", 2, Some(6)),
            ("'''a'''", 1, Some(4)),
            ("\"\"\"\na\\tb\"\"\"", 2, Some(7)),
            ("\"\"\"a\\\n  b\"\"\"", 1, Some(8)),
            ("\"\"\"a\\ \r\n  b\"\"\"", 2, Some(11)),
            ("\"\"\"a\r\nb\"\"\"", 2, None),
            ("5", 0, None),
            ("\"", 0, None),
        ] {
            assert_eq!(offset(notation, character), expected, "{notation} {character}");
        }
    }
}
