//! Why a rule could not be asked.

/// What went wrong when a filter or an action met a message. Depending on the subscription the message is dead-lettered
/// with it, or the rule does not match (semantics §12.5).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// The name that Service Bus gives such failures: the reason of dead-lettering (semantics §9).
    pub kind: &'static str,
    /// What happened, as a sentence: the description of dead-lettering.
    pub text: String,
}

impl Failure {
    /// What a filter's failure is called.
    pub const FILTER: &'static str = "FilterException";
    /// What an action's failure is called.
    pub const ACTION: &'static str = "RuleActionException";
}
