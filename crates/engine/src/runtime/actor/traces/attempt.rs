//! A command about traced messages, from its start to the partition's decision.

use super::{Done, Names, Traces};
use crate::runtime::spans::{Disposition, Operation, Trace};
use crate::{Command, Effect, LockToken, QueueId, Refusal, Reply, RequestId, SequenceNumber, Settlement};

/// A command with at least one traced message.
#[derive(Debug)]
pub(in crate::runtime::actor) struct Attempt {
    operation: Operation,
    queue: QueueId,
    started_ns: u64,
    /// In the order of the command.
    messages: Vec<Message>,
}

#[derive(Debug)]
struct Message {
    position: usize,
    /// The lock token of a settlement.
    lock: Option<LockToken>,
    trace: Box<dyn Trace>,
}

impl Traces {
    /// Starts an attempt for a command that is about to be carried out or refused.
    pub(in crate::runtime::actor) fn begin(&mut self, command: &Command) -> Option<Attempt> {
        let tracing = self.0.as_mut()?;
        let (operation, queue, messages): (_, _, Vec<Message>) = match command {
            Command::Send { .. } | Command::SendEach { .. } => {
                let messages = command.sent_messages();
                let traced = messages.iter().enumerate().filter_map(|(position, message)| {
                    Some(Message { position, lock: None, trace: tracing.spans.trace(&message.content)? })
                });
                (Operation::Publish, QueueId(0), traced.collect())
            }
            Command::Settle { queue, tokens, settlement } => {
                let mut traced = Vec::new();
                for (position, token) in tokens.iter().enumerate() {
                    let Some(held) = tracing.locks.get_mut(token).filter(|held| held.queue == *queue) else {
                        continue;
                    };
                    let lock = Some(*token);
                    traced.extend(held.trace.take().map(|trace| Message { position, lock, trace }));
                }
                (Operation::Settle(disposition(settlement)), *queue, traced)
            }
            _ => return None,
        };
        let started_ns = (!messages.is_empty()).then(|| tracing.spans.now_ns())?;
        Some(Attempt { operation, queue, started_ns, messages })
    }

    /// Ends an attempt whose command was refused before it reached the partition.
    pub(in crate::runtime::actor) fn refused(
        &mut self,
        attempt: Option<Attempt>,
        refusal: &Refusal,
        names: Names<'_>,
    ) {
        self.end(attempt, |_| Err(refusal), names);
    }

    /// Ends an attempt whose command was carried out with these effects.
    pub(in crate::runtime::actor) fn decided(
        &mut self,
        attempt: Option<Attempt>,
        request: Option<RequestId>,
        effects: &[Effect],
        names: Names<'_>,
    ) {
        if attempt.is_none() {
            return;
        }
        let reply = effects.iter().find_map(|effect| match effect {
            Effect::Reply { request: of, reply } if Some(*of) == request => Some(reply),
            _ => None,
        });
        let outcome = |position: usize| match reply {
            Some(Reply::Sent(Ok(numbers))) => Ok(numbers.get(position).copied()),
            Some(Reply::Sent(Err(refusal))) => Err(refusal),
            Some(Reply::SentEach(results)) => match results.get(position) {
                Some(result) => result.as_ref().map(|number| Some(*number)),
                None => Ok(None),
            },
            Some(Reply::Settled(failures)) => {
                let failure = failures.iter().find(|failure| failure.index == position);
                failure.map_or(Ok(None), |failure| Err(&failure.refusal))
            }
            _ => Ok(None),
        };
        self.end(attempt, outcome, names);
    }

    fn end<'r>(
        &mut self,
        attempt: Option<Attempt>,
        outcome: impl Fn(usize) -> Result<Option<SequenceNumber>, &'r Refusal>,
        names: Names<'_>,
    ) {
        let (Some(tracing), Some(attempt)) = (&mut self.0, attempt) else { return };
        let Attempt { operation, queue, started_ns, messages } = attempt;
        for Message { position, lock, trace } in messages {
            let done = |sequence_number| Done { operation, queue, started_ns, sequence_number, trace };
            match outcome(position) {
                Ok(number) => tracing.wait(done(number)),
                Err(refusal) => {
                    let done = done(None);
                    tracing.record(&done, Some(refusal), names);
                    // The lock may still hold and be settled again.
                    let held = lock.and_then(|token| tracing.locks.get_mut(&token));
                    if let Some(held) = held {
                        held.trace = Some(done.trace);
                    }
                }
            }
        }
    }
}

const fn disposition(settlement: &Settlement) -> Disposition {
    match settlement {
        Settlement::Complete => Disposition::Complete,
        Settlement::Abandon { .. } | Settlement::Postpone { .. } => Disposition::Abandon,
        Settlement::Defer { .. } => Disposition::Defer,
        Settlement::DeadLetter { .. } => Disposition::DeadLetter,
        Settlement::Release => Disposition::Release,
    }
}
