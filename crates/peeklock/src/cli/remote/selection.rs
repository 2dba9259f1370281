//! Selects the messages of a queue for a command.

use clap::Args;
use peeklock_client::{ClientError, Message};
use peeklock_engine::Filter;

use super::text::instant_ms;

/// Conditions; a message must meet all of them.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Selection {
    /// Only messages that match this condition, in the SQL of rules: `sys.Label = 'order' AND amount > 5`; of dead letters also
    /// `DeadLetterReason = 'Bad'`.
    #[arg(long = "where", value_name = "SQL", value_parser = filter)]
    filter: Option<Filter>,

    /// Only the message with this sequence number; may be repeated or comma-separated.
    #[arg(long = "seq", value_name = "NUMBER", value_delimiter = ',')]
    numbers: Vec<i64>,

    /// Only messages that were enqueued before this time.
    #[arg(long, value_name = "TIME", value_parser = instant_ms)]
    pub(super) before: Option<i64>,
}

impl Selection {
    /// Whether the selection is all messages enqueued before a time.
    pub(super) fn is_all(&self) -> bool {
        self.filter.is_none() && self.numbers.is_empty()
    }

    /// Whether a message is selected.
    ///
    /// # Errors
    /// Invalid properties.
    pub(super) fn matches(&self, message: &Message) -> Result<bool, ClientError> {
        if !self.numbers.is_empty() && !self.numbers.contains(&message.sequence_number()) {
            return Ok(false);
        }
        if self.before.is_some_and(|before| message.enqueued_at_ms().unwrap_or(0) >= before) {
            return Ok(false);
        }
        self.filter.as_ref().map_or(Ok(true), |filter| message.matches(filter))
    }
}

fn filter(text: &str) -> Result<Filter, String> {
    Filter::sql(text, Vec::new()).map_err(|error| format!("not the SQL of rules: {error}"))
}
