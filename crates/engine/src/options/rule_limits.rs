//! How much topics may have of subscriptions and rules.

/// Limits of subscriptions and rules (semantics §12.9). They are kept when something is declared, added or replaced, never
/// when it is read back: what is over a limit that was lowered stays, and may go down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleLimits {
    /// Subscriptions of a topic; default 2 000.
    pub subscriptions_per_topic: usize,
    /// SQL filters of all subscriptions of a topic; default 2 000. True and false filters, which Service Bus calls special
    /// SQL filters (semantics §12.4), and conditions such as `1=1` are not counted: they evaluate nothing, and counted they
    /// would leave a topic with 2 000 subscriptions and their default rules no room for a single condition (inferred).
    pub sql_filters_per_topic: usize,
    /// Correlation filters of all subscriptions of a topic; default 100 000.
    pub correlation_filters_per_topic: usize,
    /// Characters of the text of a filter, and of that of an action; default 1 024.
    pub sql_expression_characters: usize,
    /// Statements of an action; default 32.
    pub action_statements: usize,
}

impl Default for RuleLimits {
    fn default() -> Self {
        Self {
            subscriptions_per_topic: 2_000,
            sql_filters_per_topic: 2_000,
            correlation_filters_per_topic: 100_000,
            sql_expression_characters: 1_024,
            action_statements: 32,
        }
    }
}
