//! The operations of `<entity>/$management`, one file each. An operation turns a request's arguments into a command
//! and the engine's answer into a response.

mod add_rule;
mod arguments;
mod audit;
mod batch_delete;
mod cancel_scheduled;
mod enumerate_rules;
mod get_message_sessions;
mod get_session_state;
mod operation;
mod peek;
mod receive_by_sequence_number;
mod remove_rule;
mod renew_lock;
mod renew_session_lock;
mod rule_description;
mod schedule;
mod set_session_state;
mod update_disposition;

use std::collections::HashMap;
use std::sync::Arc;

use peeklock_engine::runtime::Response;
use peeklock_engine::{Command, QueueId, ReceiverId, Refusal, Tier, session_key};

use super::delivery::Encoder;
use super::entities::Entity;
use super::envelope::Answer;
use super::errors::Fault;

pub(crate) use arguments::{Arguments, integer};
pub(crate) use audit::Change;
pub(crate) use operation::Operation;

/// Maximum number of sequence numbers, lock tokens or messages in one request.
const ITEMS_MAX: usize = 10_000;

/// Turns the engine's answer into the response. Most closures capture nothing, so their box does not allocate.
pub(crate) type Finish = Box<dyn Fn(Response, &mut Encoder) -> Result<Answer, Fault> + Send>;

/// A request ready to be carried out.
pub(crate) struct Prepared {
    /// The command for the engine.
    pub(crate) command: Command,
    /// Turns its answer into the response.
    pub(crate) finish: Finish,
    /// Maximum size of the answer, in bytes.
    pub(crate) answer_bytes: usize,
}

/// Maximum size of most answers, in bytes.
const ANSWER_BYTES: usize = 1024;

impl Prepared {
    fn new(
        command: Command,
        finish: impl Fn(Response, &mut Encoder) -> Result<Answer, Fault> + Send + 'static,
    ) -> Self {
        Self { command, finish: Box::new(finish), answer_bytes: ANSWER_BYTES }
    }

    /// Whether it concerns messages being sent to an entity.
    pub(crate) fn sends(&self) -> bool {
        matches!(self.command, Command::Send { .. } | Command::CancelScheduled { .. })
    }

    /// Sets the maximum size of the answer.
    fn answering(self, answer_bytes: usize) -> Self {
        Self { answer_bytes, ..self }
    }
}

/// Inputs of an operation beside its arguments.
pub(crate) struct Context<'a> {
    /// The entity of the requested management node.
    pub(crate) entity: &'a Entity,
    /// The receivers of the connection that hold sessions, by the keys of the session ids.
    pub(crate) sessions: &'a HashMap<(QueueId, Arc<str>), ReceiverId>,
    /// The tier of the namespace.
    pub(crate) tier: Tier,
    /// Bytes that answers may still take on this connection.
    pub(crate) room_bytes: usize,
    /// Generates ids for messages without one.
    pub(crate) next_id: &'a mut dyn FnMut() -> u128,
}

impl Context<'_> {
    /// The receiver of this connection that holds the session named in a request.
    ///
    /// # Errors
    /// [`Refusal::SessionLockLost`] when there is none, [`Fault::Argument`] without a session id.
    fn holder(&self, arguments: &Arguments) -> Result<ReceiverId, Fault> {
        let id = arguments.text("session-id")?.ok_or_else(|| arguments::wrong("session-id", "a string"))?;
        let holder = self.sessions.get(&(self.entity.queue, session_key(id).into()));
        holder.copied().ok_or(Fault::Refused(Refusal::SessionLockLost))
    }

    /// [`Self::holder`] for operations that need not name a session.
    fn holder_if_named(&self, arguments: &Arguments) -> Result<Option<ReceiverId>, Fault> {
        match arguments.text("session-id")? {
            Some(_) => self.holder(arguments).map(Some),
            None => Ok(None),
        }
    }
}

/// Turns a request into a command.
///
/// # Errors
/// Operations that do not apply to this entity; missing, ill-typed or invalid arguments.
pub(crate) fn prepare(
    operation: Operation,
    arguments: &Arguments,
    context: &mut Context<'_>,
) -> Result<Prepared, Fault> {
    let entity = context.entity;
    operation.check(entity)?;
    // N omits blank ids; a session id on an entity without sessions is an error. Only Java repeats the session id of a
    // message wherever it is stored: in a queue without sessions or among dead letters.
    let repeats = matches!(operation, Operation::UpdateDisposition | Operation::RenewLock);
    if arguments.text("session-id")?.is_some() && !entity.has_sessions() && !repeats {
        return Err(Fault::Refused(Refusal::SessionNotSupported));
    }
    match operation {
        Operation::Peek => peek::prepare(arguments, context),
        Operation::RenewLock => renew_lock::prepare(arguments, entity),
        Operation::ReceiveBySequenceNumber => receive_by_sequence_number::prepare(arguments, context),
        Operation::UpdateDisposition => update_disposition::prepare(arguments, context),
        Operation::BatchDelete => batch_delete::prepare(arguments, context),
        Operation::Schedule => schedule::prepare(arguments, context),
        Operation::CancelScheduled => cancel_scheduled::prepare(arguments),
        Operation::RenewSessionLock => renew_session_lock::prepare(arguments, context),
        Operation::GetSessionState => get_session_state::prepare(arguments, context),
        Operation::SetSessionState => set_session_state::prepare(arguments, context),
        Operation::GetMessageSessions => get_message_sessions::prepare(arguments, entity),
        Operation::AddRule => add_rule::prepare(arguments, entity),
        Operation::RemoveRule => remove_rule::prepare(arguments, entity),
        Operation::EnumerateRules => enumerate_rules::prepare(arguments, entity),
    }
}

/// The answer of an operation without a result: an empty map, since P calls `.get` on it.
fn done(response: Response, _encoder: &mut Encoder) -> Result<Answer, Fault> {
    match response {
        Response::Done(Ok(())) => Ok(Answer::ok(Vec::new())),
        Response::Done(Err(refusal)) => Err(refusal.into()),
        _ => Err(Fault::Internal),
    }
}

#[cfg(test)]
mod tests;
