//! What caused the events that are counted.

use crate::{Command, Effect, QueueId, Reply, Settlement};

/// What caused the events that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::runtime::actor) enum Cause {
    /// A command that sends so many messages.
    Send(u64),
    /// A command that gives back so many messages of a queue as failed.
    Abandon(QueueId, u64),
    /// A joint step: everything is what it was asked for, no timer fires.
    Joint,
    /// Any other command, or a timer.
    Other,
}

impl Cause {
    pub(in crate::runtime::actor) fn of(command: &Command) -> Self {
        match command {
            Command::Send { messages } => Self::Send(messages.len() as u64),
            Command::Settle {
                queue,
                tokens,
                settlement: Settlement::Abandon { .. } | Settlement::Postpone { .. },
            } => Self::Abandon(*queue, tokens.len() as u64),
            _ => Self::Other,
        }
    }
}

/// How many tokens of a settlement failed.
pub(super) fn failures(effects: &[Effect]) -> u64 {
    let failed = effects.iter().map(|effect| match effect {
        Effect::Reply { reply: Reply::Settled(failures), .. } => failures.len() as u64,
        _ => 0,
    });
    failed.sum()
}
