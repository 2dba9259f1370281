//! The tokens of the language.

use logos::{Lexer, Logos};

/// A token. Letters are those of Unicode, as in .NET (semantics §13.1).
#[derive(Debug, Clone, PartialEq, Logos)]
#[logos(error = Refused)]
#[logos(skip r"\s+")]
pub(super) enum Token<'source> {
    #[token("AND", ignore(case))]
    And,
    #[token("OR", ignore(case))]
    Or,
    #[token("NOT", ignore(case))]
    Not,
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
    #[token("EXISTS", ignore(case))]
    Exists,
    #[token("TRUE", ignore(case))]
    True,
    #[token("FALSE", ignore(case))]
    False,
    #[token("SET", ignore(case))]
    Set,
    #[token("REMOVE", ignore(case))]
    Remove,
    #[token("=")]
    Equal,
    #[token("<>")]
    #[token("!=")]
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
    #[token("%")]
    Percent,
    #[token("(")]
    Open,
    #[token(")")]
    Close,
    #[token(",")]
    Comma,
    #[token(";")]
    Semicolon,
    #[token(".")]
    Dot,
    #[regex(r"\p{L}[_\p{L}\p{Nd}]*")]
    Word(&'source str),
    /// A name between delimiters, without them. In each pair of patterns, the one without the closing delimiter matches
    /// more only if that is missing.
    #[regex(r"\[([^\]]|\]\])*\]", |lexer| name(lexer, "]"))]
    #[regex(r"\[([^\]]|\]\])*", |_| Err(Refused::OpenName))]
    #[regex(r#""([^"]|"")*""#, |lexer| name(lexer, "\""))]
    #[regex(r#""([^"]|"")*"#, |_| Err(Refused::OpenQuotedName))]
    Delimited(Box<str>),
    #[regex(r"'([^']|'')*'", |lexer| inner(lexer, "'"))]
    #[regex(r"'([^']|'')*", |_| Err(Refused::OpenText))]
    Text(Box<str>),
    /// A parameter's name without its @.
    #[regex(r"@[_\p{L}\p{Nd}]+", |lexer| lexer.slice().trim_start_matches('@'))]
    Parameter(&'source str),
    #[regex(r"[0-9]+", |lexer| lexer.slice().parse().map_err(|_| Refused::Integer))]
    Integer(i64),
    /// 2⁶³, which is valid only after a minus.
    #[regex(r"0*9223372036854775808", priority = 100)]
    LowestInteger,
    #[regex(r"([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", double)]
    #[regex(r"[0-9]+[eE][+-]?[0-9]+", double)]
    Double(f64),
}

impl Token<'_> {
    /// Whether it is a reserved word.
    pub(super) fn is_keyword(&self) -> bool {
        matches!(
            self,
            Self::And
                | Self::Or
                | Self::Not
                | Self::In
                | Self::Like
                | Self::Escape
                | Self::Is
                | Self::Null
                | Self::Exists
                | Self::True
                | Self::False
                | Self::Set
                | Self::Remove
        )
    }

    /// Whether it turns the preceding operand into a condition.
    pub(super) fn is_conditional(&self) -> bool {
        self.is_comparison() || matches!(self, Self::And | Self::Or)
    }

    /// Whether it is a comparison operator or keyword.
    pub(super) fn is_comparison(&self) -> bool {
        matches!(
            self,
            Self::Equal
                | Self::NotEqual
                | Self::Greater
                | Self::GreaterOrEqual
                | Self::Less
                | Self::LessOrEqual
                | Self::In
                | Self::Like
                | Self::Is
        )
    }
}

/// The reason why a token is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) enum Refused {
    #[default]
    Character,
    OpenText,
    OpenName,
    OpenQuotedName,
    EmptyName,
    Integer,
    Double,
}

impl Refused {
    /// The reason as a phrase; `slice` is the rejected text.
    pub(super) fn message(self, slice: &str) -> String {
        let first = slice.chars().next().unwrap_or_default();
        match self {
            Self::Character => strange(first),
            Self::OpenText => "the text that starts here has no closing quote".to_owned(),
            Self::OpenName => "the name that starts here has no closing ]".to_owned(),
            Self::OpenQuotedName => "the name that starts here has no closing double quote".to_owned(),
            Self::EmptyName => "a name needs at least one character".to_owned(),
            Self::Integer => "this integer does not fit into 64 bits".to_owned(),
            Self::Double => "this number is too large".to_owned(),
        }
    }
}

fn strange(character: char) -> String {
    match character {
        '_' => "a name starts with a letter; another one is written in brackets, as in [_name]".to_owned(),
        '@' => "a parameter needs a name behind its @".to_owned(),
        '‘' | '’' | '“' | '”' => {
            format!("{character} is not a quote here: strings are written in single quotes, 'text'")
        }
        _ => format!("'{}' has no meaning here", character.escape_debug()),
    }
}

/// The text between two delimiters of one byte; inside, the closing one is doubled.
fn inner<'source>(lexer: &Lexer<'source, Token<'source>>, closing: &str) -> Box<str> {
    let slice = lexer.slice();
    let inner = slice.get(1..slice.len().saturating_sub(1)).unwrap_or_default();
    inner.replace(&closing.repeat(2), closing).into()
}

fn name<'source>(lexer: &Lexer<'source, Token<'source>>, closing: &str) -> Result<Box<str>, Refused> {
    Some(inner(lexer, closing)).filter(|name| !name.is_empty()).ok_or(Refused::EmptyName)
}

fn double<'source>(lexer: &Lexer<'source, Token<'source>>) -> Result<f64, Refused> {
    lexer.slice().parse().ok().filter(|number: &f64| number.is_finite()).ok_or(Refused::Double)
}

/// Whether a name needs no delimiters.
pub(super) fn is_bare(name: &str) -> bool {
    let mut tokens = Token::lexer(name);
    matches!(tokens.next(), Some(Ok(Token::Word(word))) if word.len() == name.len())
}
