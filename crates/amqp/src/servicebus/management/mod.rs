//! The operations of `<entity>/$management`, one file each. An operation turns a request's arguments into a command
//! and the engine's answer into a response.

mod arguments;
mod cancel_scheduled;
mod peek;
mod receive_by_sequence_number;
mod renew_lock;
mod schedule;
mod update_disposition;

use peeklock_engine::runtime::Response;
use peeklock_engine::{Command, Refusal};

use super::authorization::{Right, excerpt};
use super::delivery::Encoder;
use super::entities::Entity;
use super::envelope::Answer;
use super::errors::Fault;

pub(crate) use arguments::Arguments;

/// Sequence numbers, lock tokens or messages named in one request.
const ITEMS_MAX: usize = 10_000;

/// Turns the engine's answer into the response.
pub(crate) type Finish = fn(Response, &mut Encoder) -> Result<Answer, Fault>;

/// A request ready to be carried out.
pub(crate) struct Prepared {
    /// What the engine does.
    pub(crate) command: Command,
    /// What its answer means.
    pub(crate) finish: Finish,
}

/// Operations of queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// `com.microsoft:peek-message`
    Peek,
    /// `com.microsoft:renew-lock`
    RenewLock,
    /// `com.microsoft:receive-by-sequence-number`
    ReceiveBySequenceNumber,
    /// `com.microsoft:update-disposition`
    UpdateDisposition,
    /// `com.microsoft:schedule-message`
    Schedule,
    /// `com.microsoft:cancel-scheduled-message`
    CancelScheduled,
}

impl Operation {
    /// Reads an operation's name.
    ///
    /// # Errors
    /// [`Fault::NotAllowed`] for operations on sessions and rules, which a queue without sessions does not have;
    /// [`Fault::NotImplemented`] for any other: an unknown operation never succeeds.
    pub(crate) fn parse(name: &str) -> Result<Self, Fault> {
        match name.strip_prefix("com.microsoft:").unwrap_or(name) {
            "peek-message" => Ok(Self::Peek),
            "renew-lock" => Ok(Self::RenewLock),
            "receive-by-sequence-number" => Ok(Self::ReceiveBySequenceNumber),
            "update-disposition" => Ok(Self::UpdateDisposition),
            "schedule-message" => Ok(Self::Schedule),
            "cancel-scheduled-message" => Ok(Self::CancelScheduled),
            "renew-session-lock" | "get-session-state" | "set-session-state" | "get-message-sessions" => {
                Err(Fault::NotAllowed("This operation needs an entity that requires sessions."))
            }
            "add-rule" | "remove-rule" | "enumerate-rules" => {
                Err(Fault::NotAllowed("Rules belong to subscriptions; this entity is a queue."))
            }
            _ => Err(Fault::NotImplemented(format!("The operation '{}' is not supported.", excerpt(name)))),
        }
    }

    /// What a token must grant.
    pub(crate) fn right(self) -> Right {
        match self {
            Self::Schedule | Self::CancelScheduled => Right::Send,
            Self::Peek | Self::RenewLock | Self::ReceiveBySequenceNumber | Self::UpdateDisposition => {
                Right::Listen
            }
        }
    }
}

/// Turns a request into a command.
///
/// # Errors
/// Missing, ill-typed or senseless arguments.
pub(crate) fn prepare(
    operation: Operation,
    arguments: &Arguments,
    entity: &Entity,
    next_id: &mut dyn FnMut() -> u128,
) -> Result<Prepared, Fault> {
    // N and J leave blank ids out; a named session on an entity without sessions is a mistake.
    if arguments.text("session-id")?.is_some() {
        return Err(Fault::Refused(Refusal::SessionNotSupported));
    }
    match operation {
        Operation::Peek => peek::prepare(arguments, entity),
        Operation::RenewLock => renew_lock::prepare(arguments, entity),
        Operation::ReceiveBySequenceNumber => receive_by_sequence_number::prepare(arguments, entity),
        Operation::UpdateDisposition => update_disposition::prepare(arguments, entity),
        Operation::Schedule => schedule::prepare(arguments, entity, next_id),
        Operation::CancelScheduled => cancel_scheduled::prepare(arguments),
    }
}

/// The answer of an operation that has nothing to say: an empty map, P calls `.get` on it.
fn done(response: Response) -> Result<Answer, Fault> {
    match response {
        Response::Done(Ok(())) => Ok(Answer::ok(Vec::new())),
        Response::Done(Err(refusal)) => Err(refusal.into()),
        other => Err(super::errors::unexpected(other)),
    }
}

#[cfg(test)]
mod tests;
