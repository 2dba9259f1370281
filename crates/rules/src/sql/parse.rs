//! Text → tree.

use lalrpop_util::{ParseError, lalrpop_mod};
use logos::Logos;

use super::builder::{Place, Problem};
use super::error::SqlError;
use super::expected::expected;
use super::parameters;
use super::token::{Refused, Token};
use super::tree::{Expression, Statement};
use crate::PropertyValue;

lalrpop_mod!(
    #[allow(warnings, reason = "made from grammar.lalrpop, not written by hand")]
    grammar,
    "/sql/grammar.rs"
);

/// Parses a condition. `parameters` are the values of `@name`.
///
/// # Errors
/// [`SqlError`] with the position and what was expected there.
pub fn filter(text: &str, parameters: &[(Box<str>, PropertyValue)]) -> Result<Expression, SqlError> {
    parameters::check(parameters)?;
    if text.trim().is_empty() {
        return Err(SqlError { position: 0, message: "the condition is empty".to_owned() });
    }
    let place = Place { parameters };
    grammar::FilterParser::new().parse(&place, tokens(text)).map_err(|error| explain(text, error))
}

/// Parses one or more statements. `parameters` are the values of `@name`.
///
/// # Errors
/// [`SqlError`] with the position and what was expected there.
pub fn action(text: &str, parameters: &[(Box<str>, PropertyValue)]) -> Result<Vec<Statement>, SqlError> {
    parameters::check(parameters)?;
    let place = Place { parameters };
    grammar::ActionParser::new().parse(&place, tokens(text)).map_err(|error| explain(text, error))
}

/// The tokens of a text with their byte ranges.
fn tokens(text: &str) -> impl Iterator<Item = Result<(usize, Token<'_>, usize), Problem>> {
    Token::lexer(text).spanned().map(|(token, bytes)| match token {
        Ok(token) => Ok((bytes.start, token, bytes.end)),
        Err(refused) => {
            let slice = text.get(bytes.clone()).unwrap_or_default();
            Err(Problem::new(bytes.start, refused.message(slice)))
        }
    })
}

fn explain(text: &str, error: ParseError<usize, Token<'_>, Problem>) -> SqlError {
    let problem = match error {
        ParseError::User { error } => error,
        ParseError::UnrecognizedToken { token: (at, Token::LowestInteger, _), .. } => {
            Problem::new(at, Refused::Integer.message(""))
        }
        ParseError::UnrecognizedToken { token: (start, token, end), expected: terminals } => {
            Problem::new(start, unexpected(text.get(start..end).unwrap_or_default(), &token, &terminals))
        }
        ParseError::UnrecognizedEof { location, expected: terminals } => {
            Problem::new(location, format!("the text ends where {} was expected", expected(&terminals)))
        }
        // The lexer produces neither; the generated parser treats the end like any other token.
        ParseError::InvalidToken { location } | ParseError::ExtraToken { token: (location, _, _) } => {
            Problem::new(location, "this is not expected here")
        }
    };
    let before = text.get(..problem.at).unwrap_or(text);
    SqlError { position: before.chars().count(), message: problem.message }
}

/// The error message for an unexpected token.
fn unexpected(slice: &str, token: &Token<'_>, terminals: &[String]) -> String {
    let could_be = |terminal: &str| terminals.iter().any(|known| known.trim_matches('"') == terminal);
    if token.is_conditional() && could_be("SET") {
        return "SET needs a value, and this makes it a condition".to_owned();
    }
    if token.is_comparison() && could_be("OR") {
        return "comparisons do not chain: one of them needs parentheses".to_owned();
    }
    let is_name = could_be("delimited") && !could_be("text") || matches!(token, Token::Set | Token::Remove);
    let hint = if token.is_keyword() && is_name {
        format!("; as a name it is written [{slice}]")
    } else {
        String::new()
    };
    format!("found {} where {} was expected{hint}", found(slice, token), expected(terminals))
}

/// Most characters of a token that an error repeats.
const FOUND_MAX: usize = 32;

/// A token as it was written; a long one is truncated.
fn found(slice: &str, token: &Token<'_>) -> String {
    let mut shown: String = slice.chars().take(FOUND_MAX).map(visible).collect();
    if slice.chars().nth(FOUND_MAX).is_some() {
        shown.push('…');
    }
    match token {
        Token::Text(_) => format!("the text {shown}"),
        Token::Delimited(_) => format!("the name {shown}"),
        _ if token.is_keyword() => format!("the reserved word '{shown}'"),
        _ => format!("'{shown}'"),
    }
}

/// Control characters such as line breaks would garble an error message.
fn visible(character: char) -> char {
    if character.is_control() { ' ' } else { character }
}
