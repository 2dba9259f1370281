//! Failed evaluation of a rule.

/// The error of a filter or an action for a message. Depending on the subscription's options, the message is
/// dead-lettered with it, or the rule does not match (semantics §12.5).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// The name that Service Bus uses for such failures: the reason of dead-lettering (semantics §9).
    pub kind: &'static str,
    /// The error as a sentence: the description of dead-lettering.
    pub text: String,
}

impl Failure {
    /// The name of a filter's failure.
    pub const FILTER: &'static str = "FilterException";
    /// The name of an action's failure.
    pub const ACTION: &'static str = "RuleActionException";
}
