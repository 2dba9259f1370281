//! JMS selectors: conditions on the messages that a receiver gets (Jakarta Messaging 3.1, 3.8.1).
//!
//! A selector has a grammar of its own and is compiled to a program like an SQL condition. Its names are those of JMS
//! and case-sensitive, unlike SQL's: the program refers to them by number, and the caller provides the values by exact
//! name.

mod checks;
mod message;
#[cfg(test)]
mod tests;
mod token;

use std::sync::Arc;

use lalrpop_util::{ParseError, lalrpop_mod};
use logos::Logos;

use self::token::Token;
use super::builder::{Place, Problem};
use super::compile;
use super::error::SqlError;
use super::evaluate::{condition, evaluate};
use super::like::STEPS_MAX;
use super::message::Message;
use super::program::{Named, Program, Step};
use crate::names::Name;
use crate::{Arrival, PropertyValue, RuleProperties};

lalrpop_mod!(
    #[allow(warnings, reason = "made from grammar.lalrpop, not written by hand")]
    grammar,
    "/sql/selector/grammar.rs"
);

/// The longest selector, in bytes.
pub const SELECTOR_BYTES_MAX: usize = 16 * 1024;

/// The fields of a message, by their JMS names, that selectors can use in addition to application properties.
const HEADERS: [&str; 10] = [
    "JMSDeliveryMode",
    "JMSPriority",
    "JMSMessageID",
    "JMSTimestamp",
    "JMSCorrelationID",
    "JMSType",
    "JMSXGroupID",
    "JMSXGroupSeq",
    "JMSXUserID",
    "JMSXDeliveryCount",
];

/// Those that identify messages.
const MESSAGE_ID_NAMES: [&str; 2] = ["JMSMessageID", "JMSCorrelationID"];

/// A condition on the properties of one message.
#[derive(Debug, Clone)]
pub struct Selector {
    text: Box<str>,
    program: Arc<Program>,
    /// The names used, each once; the index is the number in the program.
    names: Box<[Box<str>]>,
}

impl Selector {
    /// Parses a selector.
    ///
    /// # Errors
    /// [`SqlError`] with the position and what was expected there.
    pub fn new(text: &str) -> Result<Self, SqlError> {
        if text.len() > SELECTOR_BYTES_MAX {
            let message = format!("a selector is no longer than {SELECTOR_BYTES_MAX} bytes");
            return Err(SqlError { position: 0, message });
        }
        let place = Place { parameters: &[] };
        let tree = grammar::SelectorParser::new().parse(&place, tokens(text));
        let tree = tree.map_err(|error| explain(text, error))?;
        let mut program = compile::compile(&tree, &[]);
        let names = number_names(&mut program);
        Ok(Self { text: text.into(), program: Arc::new(program), names })
    }

    /// Number of steps of its program.
    pub(crate) fn steps(&self) -> usize {
        self.program.steps.len()
    }

    /// The original text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The names used, each once.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// Whether a message matches; `value_of` returns its value for an exact name. A message for which the evaluation
    /// fails, by a division by zero for example, does not match.
    pub fn matches(&self, value_of: impl FnMut(&str) -> Option<PropertyValue>) -> bool {
        self.matches_within(value_of, &mut { STEPS_MAX })
    }

    /// Like [`Self::matches`], with a limit for the steps of LIKE; a selector that needs more does not match.
    fn matches_within(
        &self,
        mut value_of: impl FnMut(&str) -> Option<PropertyValue>,
        like_steps_left: &mut usize,
    ) -> bool {
        let named = self.names().enumerate();
        let user = named.filter_map(|(place, name)| Some((place_name(place), value_of(name)?))).collect();
        let rule_properties = RuleProperties { user, ..RuleProperties::default() };
        let message =
            Message { rule_properties: &rule_properties, arrival: Arrival::default(), changes: None };
        // Selectors have no function that generates values.
        let value = evaluate(&self.program, &message, &mut || 0, like_steps_left);
        value.and_then(|value| condition(&value)).is_ok_and(|truth| truth == Some(true))
    }
}

impl PartialEq for Selector {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// Replaces the names in a program by numbers; returns the names by number.
fn number_names(program: &mut Program) -> Box<[Box<str>]> {
    let mut names: Vec<Box<str>> = Vec::new();
    for step in &mut program.steps {
        let (Step::Property(named)
        | Step::CompareProperty { property: named, .. }
        | Step::IsNull { property: named, .. }) = step
        else {
            continue;
        };
        let Named::User(name) = named else { continue };
        let written = name.written();
        let place = names.iter().position(|known| **known == *written).unwrap_or_else(|| {
            names.push(written.into());
            names.len() - 1
        });
        *named = Named::User(Name::new(&place_name(place)));
    }
    names.into()
}

fn place_name(place: usize) -> Box<str> {
    place.to_string().into()
}

/// The tokens of a text with their byte ranges.
fn tokens(text: &str) -> impl Iterator<Item = Result<(usize, Token<'_>, usize), Problem>> {
    Token::lexer(text).spanned().map(|(token, bytes)| match token {
        Ok(token) => Ok((bytes.start, token, bytes.end)),
        Err(refused) => Err(Problem::new(bytes.start, refused.message())),
    })
}

fn explain(text: &str, error: ParseError<usize, Token<'_>, Problem>) -> SqlError {
    let problem = match error {
        ParseError::User { error } => error,
        ParseError::UnrecognizedToken { token: (at, ..), .. }
        | ParseError::ExtraToken { token: (at, ..) }
        | ParseError::InvalidToken { location: at } => Problem::new(at, "this is not expected here"),
        ParseError::UnrecognizedEof { location, .. } => Problem::new(location, "the selector is incomplete"),
    };
    let before = text.get(..problem.at).unwrap_or(text);
    SqlError { position: before.chars().count(), message: problem.message }
}
