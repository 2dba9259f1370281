//! Selects the messages of a request: a condition in the SQL of rules.

use peeklock_admin::Error;
use peeklock_engine::{Arrival, Received, SqlFilter, Subject};
use peeklock_message::rule_properties::read_rule_properties;
use uuid::Uuid;

/// Longest condition: enough for any reason and description of dead letters, with their quotation marks doubled.
const EXPRESSION_BYTES_MAX: usize = 256 << 10;

/// A parsed condition.
#[derive(Debug, Clone)]
pub(crate) struct Condition(SqlFilter);

impl Condition {
    /// Parses a condition.
    ///
    /// # Errors
    /// 400 with the position of the error.
    pub(crate) fn read(expression: &str) -> Result<Self, Error> {
        if expression.len() > EXPRESSION_BYTES_MAX {
            return Err(Error::bad_request(format!(
                "The condition is {} bytes long; it may have {EXPRESSION_BYTES_MAX}.",
                expression.len()
            )));
        }
        SqlFilter::new(expression, Vec::new())
            .map(Self)
            .map_err(|error| Error::bad_request(format!("The SQL of the condition can't be read: {error}.")))
    }

    /// Whether a message matches, with the properties that a receiver gets. `None` if the condition can't be evaluated
    /// for it.
    pub(crate) fn matches(&self, received: &Received) -> Option<bool> {
        let view = &received.view;
        let rule_properties = read_rule_properties(&received.content, view)?;
        let arrival = Arrival {
            sequence_number: view.shown_number().0,
            enqueued_sequence_number: view.shown_number().0,
            enqueued_at_ms: view.enqueued_at.0,
            time_to_live_ms: view.time_to_live_ms,
            size_bytes: u64::from(view.content_bytes),
            ..Arrival::default()
        };
        let subject = Subject { rule_properties: &rule_properties, arrival };
        self.0.matches(&subject, &mut || Uuid::new_v4().as_u128()).ok()
    }
}
