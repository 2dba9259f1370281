//! LIKE: `%` matches any run of characters, `_` one character, and a character after the escape matches literally.
//!
//! The whole text must match, case-sensitively (inferred). Matching processes the pieces of the pattern between two `%`
//! in order, each at its first occurrence, without allocation. Patterns that are constant in the rule are prepared, so
//! that the time is roughly proportional to the length of the text; patterns computed from messages are limited to a
//! number of steps.

use memchr::memmem::Finder;

use super::gaps::Gaps;
use super::value::Fault;

/// Longest pattern computed from a message.
const COMPUTED_PATTERN_BYTES_MAX: usize = 4096;

/// Most steps of LIKE during the evaluation of one expression. Text and computed pattern are both chosen by the sender,
/// and the product of their lengths would block the topic for seconds.
pub(crate) const STEPS_MAX: usize = 1 << 20;

/// Bytes of a text that are searched for a constant pattern in the time of one step.
const BYTES_PER_STEP: usize = 16;
/// The same for a block of a pattern with wildcards.
const BYTES_PER_STEP_WITH_GAPS: usize = 4;

/// An element of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    /// This character.
    Exactly(char),
    /// Any character.
    One,
    /// Any run of characters.
    Run,
}

/// A pattern that is constant in the rule.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    /// The parts between runs; one more than there are runs.
    pieces: Box<[Piece]>,
}

/// A part of a pattern without runs.
#[derive(Debug, Clone)]
enum Piece {
    /// A literal text with a prepared search.
    Text(Box<Finder<'static>>),
    /// A text with single-character wildcards.
    Gaps(Gaps),
}

impl Pattern {
    /// Prepares a pattern.
    ///
    /// # Errors
    /// The escape is not one character, or is the last character.
    pub(super) fn new(pattern: &str, escape: Option<&str>) -> Result<Self, Fault> {
        let mut pieces = vec![Vec::new()];
        for token in Tokens::new(pattern, escape)? {
            match (token?, pieces.last_mut()) {
                (Token::Exactly(character), Some(piece)) => piece.push(Some(character)),
                (Token::One, Some(piece)) => piece.push(None),
                (Token::Run, _) | (_, None) => pieces.push(Vec::new()),
            }
        }
        Ok(Self { pieces: pieces.into_iter().map(Piece::new).collect() })
    }

    /// Whether a text matches; deducts an upper bound of the steps from those left.
    ///
    /// # Errors
    /// Too few steps are left.
    pub(super) fn matches_within(&self, text: &str, steps_left: &mut usize) -> Result<bool, Fault> {
        let per_step = |piece: &Piece| match piece {
            Piece::Text(_) => text.len() / BYTES_PER_STEP,
            Piece::Gaps(gaps) => text.len() * gaps.blocks() / BYTES_PER_STEP_WITH_GAPS,
        };
        // The pieces share the text, so the slowest is an upper bound.
        let steps = self.pieces.iter().map(per_step).max().unwrap_or(0) + self.pieces.len();
        *steps_left = steps_left.checked_sub(steps).ok_or_else(too_many_steps)?;
        Ok(self.matches(text))
    }

    /// Whether a text matches.
    pub(super) fn matches(&self, text: &str) -> bool {
        let Some((first, rest)) = self.pieces.split_first() else { return text.is_empty() };
        let Some(after_first) = first.strip_from_start(text) else { return false };
        let Some((last, middle)) = rest.split_last() else { return after_first.is_empty() };
        let left = middle.iter().try_fold(after_first, |text, piece| piece.skip_to_end(text));
        left.is_some_and(|text| last.is_end_of(text))
    }
}

impl Piece {
    fn new(characters: Vec<Option<char>>) -> Self {
        let text: Option<String> = characters.iter().copied().collect();
        text.map_or_else(
            || Self::Gaps(Gaps::new(characters)),
            |text| Self::Text(Box::new(Finder::new(&text).into_owned())),
        )
    }

    /// The rest after this piece if the text starts with it.
    fn strip_from_start<'a>(&self, text: &'a str) -> Option<&'a str> {
        match self {
            Self::Text(piece) => {
                text.as_bytes().starts_with(piece.needle()).then(|| behind(text, piece, 0))?
            }
            Self::Gaps(piece) => piece.strip_from_start(text),
        }
    }

    /// The rest after the first occurrence of this piece in the text.
    fn skip_to_end<'a>(&self, text: &'a str) -> Option<&'a str> {
        match self {
            Self::Text(piece) => piece.find(text.as_bytes()).and_then(|at| behind(text, piece, at)),
            Self::Gaps(piece) => piece.skip_to_end(text),
        }
    }

    fn is_end_of(&self, text: &str) -> bool {
        match self {
            Self::Text(piece) => piece.needle().is_empty() || text.as_bytes().ends_with(piece.needle()),
            Self::Gaps(piece) => piece.is_end_of(text),
        }
    }
}

/// The rest after a piece that starts at this byte.
fn behind<'a>(text: &'a str, piece: &Finder<'_>, at: usize) -> Option<&'a str> {
    text.get(at + piece.needle().len()..)
}

/// Whether a text matches a computed pattern; deducts the steps from those left.
///
/// # Errors
/// The escape is not one character or is the last character, the pattern is too long, or no steps are left.
pub(super) fn like(
    text: &str,
    pattern: &str,
    escape: Option<&str>,
    steps_left: &mut usize,
) -> Result<bool, Fault> {
    if pattern.len() > COMPUTED_PATTERN_BYTES_MAX {
        let length = pattern.len();
        return Err(Fault(format!(
            "The computed pattern of LIKE is {length} bytes long; it may have {COMPUTED_PATTERN_BYTES_MAX}."
        )));
    }
    let mut pattern = Tokens::new(pattern, escape)?;
    pattern.clone().try_for_each(|token| token.map(drop))?;
    let mut text = text.chars();
    // Where to resume after a mismatch, with the last run extended by one character.
    let mut retry = None;
    loop {
        *steps_left = steps_left.checked_sub(1).ok_or_else(too_many_steps)?;
        let token = pattern.next().transpose()?;
        let found = match token {
            Some(Token::Run) => {
                retry = Some((text.clone(), pattern.clone()));
                continue;
            }
            Some(Token::One) => text.next().is_some(),
            Some(Token::Exactly(wanted)) => text.next() == Some(wanted),
            None if text.as_str().is_empty() => return Ok(true),
            None => false,
        };
        if !found {
            let Some((from, after_run)) = &mut retry else { return Ok(false) };
            if from.next().is_none() {
                return Ok(false);
            }
            (text, pattern) = (from.clone(), after_run.clone());
        }
    }
}

fn too_many_steps() -> Fault {
    Fault(
        "Comparing with the patterns of LIKE takes too many steps; use fewer or shorter patterns.".to_owned(),
    )
}

/// Iterator over the elements of a pattern.
#[derive(Debug, Clone)]
struct Tokens<'a> {
    pattern: std::str::Chars<'a>,
    escape: Option<char>,
}

impl<'a> Tokens<'a> {
    fn new(pattern: &'a str, escape: Option<&str>) -> Result<Self, Fault> {
        let escape = escape.map(one_character).transpose()?;
        Ok(Self { pattern: pattern.chars(), escape })
    }
}

fn one_character(text: &str) -> Result<char, Fault> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(escape), None) => Ok(escape),
        _ => Err(Fault("The ESCAPE of LIKE must be a string of one character.".to_owned())),
    }
}

impl Iterator for Tokens<'_> {
    type Item = Result<Token, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let character = self.pattern.next()?;
        if self.escape == Some(character) {
            let escaped = self.pattern.next().map(Token::Exactly);
            return Some(escaped.ok_or_else(|| Fault("The pattern of LIKE ends in its ESCAPE.".to_owned())));
        }
        Some(Ok(match character {
            '%' => Token::Run,
            '_' => Token::One,
            character => Token::Exactly(character),
        }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn both(text: &str, pattern: &str, escape: Option<&str>) -> bool {
        let computed = like(text, pattern, escape, &mut STEPS_MAX.clone()).expect("a pattern");
        assert_eq!(
            Pattern::new(pattern, escape).expect("a pattern").matches(text),
            computed,
            "{text} {pattern}"
        );
        computed
    }

    /// The simplest implementation, which is slow.
    fn naive(text: &[char], pattern: &[char]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, _) => text.is_empty(),
            (Some(('%', rest)), None) => naive(text, rest),
            (Some(('%', rest)), Some((_, behind))) => naive(text, rest) || naive(behind, pattern),
            (Some(('_', rest)), Some((_, behind))) => naive(behind, rest),
            (Some((wanted, rest)), Some((found, behind))) => wanted == found && naive(behind, rest),
            (Some(_), None) => false,
        }
    }

    #[test]
    fn escapes_make_characters_themselves() {
        assert!(both("ABC%", r"ABC\%", Some(r"\")) && !both("ABCD", r"ABC\%", Some(r"\")));
        assert!(both("a_b", "a!_b", Some("!")) && !both("axb", "a!_b", Some("!")));
        assert!(both("a!b", "a!!b", Some("!")) && both("axb", "a!xb", Some("!")));
        assert!(both("%", "%%", Some("%")) && !both("x", "%%", Some("%")));
        assert!(both("aü%", "_üü%", Some("ü")));
    }

    #[test]
    fn bad_escapes_are_faults() {
        for (pattern, escape) in [("a!", "!"), ("a", ""), ("a", "ab"), ("a!!!", "!")] {
            assert!(like("a", pattern, Some(escape), &mut 9).is_err(), "{pattern} {escape}");
            assert!(Pattern::new(pattern, Some(escape)).is_err(), "{pattern} {escape}");
        }
        assert!(
            like("", &"%".repeat(COMPUTED_PATTERN_BYTES_MAX + 1), None, &mut usize::MAX.clone()).is_err()
        );
    }

    #[test]
    fn hard_patterns_take_no_longer_than_a_product() {
        let text = "a".repeat(4000);
        let pattern = format!("{}b", "%a_".repeat(1000));
        assert!(!both(&text, &pattern, None));
        assert!(both(&text, &"%a_".repeat(1000), None));
    }

    #[test]
    fn computed_patterns_take_so_many_steps_together() {
        let (text, pattern) = ("a".repeat(2000), format!("%{}b", "a".repeat(1000)));
        let mut steps_left = STEPS_MAX;
        assert_eq!(like(&text, "%aa%a", None, &mut steps_left), Ok(true));
        assert!((STEPS_MAX - 8000..STEPS_MAX).contains(&steps_left));
        let failed =
            like(&text, &pattern, None, &mut steps_left).expect_err("a thousand times a thousand steps");
        assert!(failed.0.contains("too many steps"), "{}", failed.0);
        assert!(like(&text, "a%", None, &mut steps_left).is_err(), "none are left for another");
    }

    #[test]
    fn gaps_are_found_as_fast_as_texts() {
        let text = "a".repeat(1 << 20);
        let wanted = format!("%{}_b%", "a".repeat(990));
        assert!(!Pattern::new(&wanted, None).expect("a pattern").matches(&text));
        let found = format!("{text}cb{text}");
        assert!(Pattern::new(&wanted, None).expect("a pattern").matches(&found));
    }

    proptest! {
        #[test]
        fn both_ways_are_as_the_naive_one(text in "[abä]{0,8}", pattern in "[abä%_]{0,6}") {
            let (characters, places): (Vec<char>, Vec<char>) = (text.chars().collect(), pattern.chars().collect());
            prop_assert_eq!(both(&text, &pattern, None), naive(&characters, &places));
        }
    }
}
