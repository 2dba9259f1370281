//! What work of a transaction counts for, and what it takes in memory until the commit.

use peeklock_engine::{Command, NewMessage, Property, Settlement};

use super::table::Work;

/// A piece of work with what waits for its commit, its contents apart, in bytes, estimated.
const WORK_BYTES: usize = 256;

/// A message beside its content, in bytes, estimated.
const MESSAGE_BYTES: usize = 256;

/// A lock token or sequence number, with what is kept for a roll-back, in bytes, estimated.
const NUMBER_BYTES: usize = 32;

/// What a piece of work counts for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Weight {
    /// Messages sent.
    pub(super) sent: usize,
    /// Messages settled or cancelled, states of sessions.
    pub(super) others: usize,
}

impl Weight {
    /// What a command counts for.
    pub(super) fn of(command: &Command) -> Self {
        match command {
            Command::Send { messages } => Self { sent: messages.len(), others: 0 },
            Command::Settle { tokens, .. } => Self { sent: 0, others: tokens.len() },
            Command::CancelScheduled { numbers } => Self { sent: 0, others: numbers.len() },
            _ => Self { sent: 0, others: 1 },
        }
    }
}

/// Memory that work takes, in bytes.
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
