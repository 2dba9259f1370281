//! How operations of a transaction count toward its limits, and their memory until the commit.

use peeklock_engine::{Command, NewMessage, Property, Settlement};

use super::table::Work;

/// Estimated memory of an operation and its waiting state, without message bodies, in bytes.
const WORK_BYTES: usize = 256;

/// Estimated memory of a message without its body, in bytes.
const MESSAGE_BYTES: usize = 256;

/// Estimated memory of a lock token or sequence number, with the data kept for a rollback, in bytes.
const NUMBER_BYTES: usize = 32;

/// How an operation counts toward the limits of a transaction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Weight {
    /// Messages sent.
    pub(super) sent: usize,
    /// Messages settled or cancelled, states of sessions.
    pub(super) others: usize,
}

impl Weight {
    /// The counts of a command.
    pub(super) fn of(command: &Command) -> Self {
        match command {
            Command::Send { messages } => Self { sent: messages.len(), others: 0 },
            Command::Settle { tokens, .. } => Self { sent: 0, others: tokens.len() },
            Command::CancelScheduled { numbers } => Self { sent: 0, others: numbers.len() },
            _ => Self { sent: 0, others: 1 },
        }
    }
}

/// Memory of an operation, in bytes.
pub(super) fn bytes_of(work: &Work) -> usize {
    let contents = match work {
        Work::Transfer { messages, .. } => messages_bytes(messages),
        Work::Command(_, command) => match command {
            Command::Send { messages } => messages_bytes(messages),
            Command::Settle { tokens, settlement, .. } => {
                tokens.len().saturating_mul(NUMBER_BYTES).saturating_add(settlement_bytes(settlement))
            }
            Command::CancelScheduled { numbers } => numbers.len().saturating_mul(NUMBER_BYTES),
            Command::SetSessionState { state, .. } => state.as_ref().map_or(0, bytes::Bytes::len),
            _ => 0,
        },
    };
    contents.saturating_add(WORK_BYTES)
}

fn messages_bytes(messages: &[NewMessage]) -> usize {
    let sizes = messages.iter().map(|message| message.content.len().saturating_add(MESSAGE_BYTES));
    sizes.fold(0, usize::saturating_add)
}

fn settlement_bytes(settlement: &Settlement) -> usize {
    match settlement {
        Settlement::Complete | Settlement::Release => 0,
        Settlement::Abandon { modify }
        | Settlement::Postpone { modify, .. }
        | Settlement::Defer { modify } => properties_bytes(modify),
        Settlement::DeadLetter { why, modify } => {
            let texts = [&why.reason, &why.description].into_iter().flatten();
            texts.map(|text| text.len()).fold(properties_bytes(modify), usize::saturating_add)
        }
    }
}

fn properties_bytes(properties: &[Property]) -> usize {
    let sizes = properties.iter().map(|property| property.name.len() + property.value.len());
    sizes.fold(0, usize::saturating_add)
}
