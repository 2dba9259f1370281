//! The tokens of the selector language.

use logos::{Lexer, Logos};

/// A token. Names are Java identifiers, numbers have Java's syntax.
#[derive(Debug, Clone, PartialEq, Logos)]
#[logos(error = Refused)]
#[logos(skip r"\s+")]
pub(in crate::sql) enum Token<'source> {
    #[token("AND", ignore(case))]
    And,
    #[token("OR", ignore(case))]
    Or,
    #[token("NOT", ignore(case))]
    Not,
    #[token("BETWEEN", ignore(case))]
    Between,
    #[token("IN", ignore(case))]
    In,
    #[token("LIKE", ignore(case))]
    Like,
    #[token("ESCAPE", ignore(case))]
    Escape,
    #[token("IS", ignore(case))]
    Is,
    #[token("NULL", ignore(case))]
    Null,
    #[token("TRUE", ignore(case))]
    True,
    #[token("FALSE", ignore(case))]
    False,
    #[token("=")]
    Equal,
    #[token("<>")]
    NotEqual,
    #[token(">")]
    Greater,
    #[token(">=")]
    GreaterOrEqual,
    #[token("<")]
    Less,
    #[token("<=")]
    LessOrEqual,
    #[token("+")]
    Plus,
    #[token("-")]
    Minus,
    #[token("*")]
    Star,
    #[token("/")]
    Slash,
    #[token("(")]
    Open,
    #[token(")")]
    Close,
    #[token(",")]
    Comma,
    #[regex(r"[_$\p{L}][_$\p{L}\p{Nd}]*")]
    Word(&'source str),
    #[regex(r"'([^']|'')*'", text)]
    #[regex(r"'([^']|'')*", |_| Err(Refused::OpenText))]
    Text(Box<str>),
    #[regex(r"[0-9]+[lL]?", integer)]
    #[regex(r"0[xX][0-9a-fA-F]+[lL]?", integer)]
    Integer(i64),
    #[regex(r"([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?", double)]
    #[regex(r"[0-9]+[eE][+-]?[0-9]+[dDfF]?", double)]
    #[regex(r"[0-9]+[dDfF]", double)]
    Double(f64),
}

/// The reason why a token is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(in crate::sql) enum Refused {
    #[default]
    Character,
    OpenText,
    Integer,
    Double,
}

impl Refused {
    /// The reason as a phrase.
    pub(super) const fn message(self) -> &'static str {
        match self {
            Self::Character => "this character has no meaning in a selector",
            Self::OpenText => "the text that starts here has no closing quote",
            Self::Integer => "this is not an integer of 64 bits",
            Self::Double => "this number is too large",
        }
    }
}

fn text<'source>(lexer: &Lexer<'source, Token<'source>>) -> Box<str> {
    let slice = lexer.slice();
    let inner = slice.get(1..slice.len().saturating_sub(1)).unwrap_or_default();
    inner.replace("''", "'").into()
}

/// Decimal, hexadecimal with prefix `0x`, octal with prefix `0`.
fn integer<'source>(lexer: &Lexer<'source, Token<'source>>) -> Result<i64, Refused> {
    let digits = lexer.slice().trim_end_matches(['l', 'L']);
    let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let parsed = match (hexadecimal, digits.strip_prefix('0')) {
        (Some(digits), _) => i64::from_str_radix(digits, 16),
        (None, Some(digits)) if !digits.is_empty() => i64::from_str_radix(digits, 8),
        _ => digits.parse(),
    };
    parsed.map_err(|_| Refused::Integer)
}

fn double<'source>(lexer: &Lexer<'source, Token<'source>>) -> Result<f64, Refused> {
    let digits = lexer.slice().trim_end_matches(['d', 'D', 'f', 'F']);
    digits.parse().ok().filter(|number: &f64| number.is_finite()).ok_or(Refused::Double)
}
