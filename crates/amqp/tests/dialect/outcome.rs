//! Answers of the broker, as predicted and as received.

use super::message::{Seen, Token};

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Accepted or done, without a result.
    Done,
    /// This, or rolled back if later work of this transaction failed before the answer was given.
    In(usize, Box<Outcome>),
    /// 204: nothing was found.
    Nothing,
    /// Refused with this condition.
    Refused(&'static str),
    Numbers(Vec<u64>),
    Until(Vec<u64>),
    State(Option<Vec<u8>>),
    /// Ids in lower case.
    Sessions(Vec<String>),
    Messages(Vec<Seen>),
    Deleted(u32),
    Rules(Vec<String>),
    /// A receiver's session in lower case, and the end of its lock.
    Attached(Option<(String, u64)>),
}

impl Outcome {
    /// The answer to work in a transaction, which is this one unless the transaction fails first.
    pub(crate) fn within(self, transaction: Option<usize>) -> Self {
        match transaction {
            Some(transaction) if !matches!(self, Self::Refused(_)) => Self::In(transaction, Box::new(self)),
            _ => self,
        }
    }
}

/// A refusal by its condition.
pub(crate) type Refused = &'static str;

pub(crate) const ARGUMENT: Refused = "com.microsoft:argument-error";
pub(crate) const BUSY: Refused = "com.microsoft:session-cannot-be-locked";
pub(crate) const DISABLED: Refused = "com.microsoft:entity-disabled";
pub(crate) const EXISTS: Refused = "com.microsoft:entity-already-exists";
pub(crate) const FULL: Refused = "amqp:resource-limit-exceeded";
pub(crate) const LOCK_LOST: Refused = "com.microsoft:message-lock-lost";
pub(crate) const NOT_ALLOWED: Refused = "amqp:not-allowed";
pub(crate) const NOT_FOUND: Refused = "amqp:not-found";
pub(crate) const NO_MESSAGE: Refused = "com.microsoft:message-not-found";
pub(crate) const NO_SESSION: Refused = "com.microsoft:timeout";
pub(crate) const SESSION_LOST: Refused = "com.microsoft:session-lock-lost";
pub(crate) const ROLLED_BACK: Refused = "amqp:transaction:rollback";
pub(crate) const TIMED_OUT: Refused = "amqp:transaction:timeout";
pub(crate) const UNKNOWN_OPERATION: Refused = "amqp:not-implemented";

impl From<Result<Outcome, Refused>> for Outcome {
    fn from(result: Result<Self, Refused>) -> Self {
        result.unwrap_or_else(Self::Refused)
    }
}

/// An answer as received, with what can't be predicted.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) outcome: Outcome,
    /// The tokens of received messages, or of the session.
    pub(crate) tokens: Vec<Token>,
}
