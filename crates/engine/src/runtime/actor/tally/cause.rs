//! The cause of counted events.

use crate::{Command, Effect, QueueId, Reply, Settlement};

/// The cause of counted events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::runtime::actor) enum Cause {
    /// A command that sends messages.
    Send,
    /// A command that abandons this number of messages of a queue.
    Abandon(QueueId, u64),
    /// A joint step: all its events were requested; no timer fires.
    Joint,
    /// Any other command, or a timer.
    Other,
}

impl Cause {
    pub(in crate::runtime::actor) fn of(command: &Command) -> Self {
        match command {
            Command::Send { .. } | Command::SendEach { .. } => Self::Send,
            Command::Settle {
                queue,
                tokens,
                settlement: Settlement::Abandon { .. } | Settlement::Postpone { .. },
            } => Self::Abandon(*queue, tokens.len() as u64),
            _ => Self::Other,
        }
    }
}

/// Number of messages whose sending succeeded, duplicates included.
pub(super) fn sent(effects: &[Effect]) -> u64 {
    let sent = effects.iter().map(|effect| match effect {
        Effect::Reply { reply: Reply::Sent(Ok(numbers)), .. } => numbers.len() as u64,
        Effect::Reply { reply: Reply::SentEach(results), .. } => {
            results.iter().filter(|result| result.is_ok()).count() as u64
        }
        _ => 0,
    });
    sent.sum()
}

/// Number of tokens that a settlement failed for.
pub(super) fn failures(effects: &[Effect]) -> u64 {
    let failed = effects.iter().map(|effect| match effect {
        Effect::Reply { reply: Reply::Settled(failures), .. } => failures.len() as u64,
        _ => 0,
    });
    failed.sum()
}
