//! Operations in a transaction: messages sent, settlements, requests to management nodes. Their answers: `answers`.

use std::sync::Arc;

use bytes::Bytes;
use peeklock_engine::runtime::Response;
use peeklock_engine::{Command, NewMessage, ReceiveMode, SequenceNumber};
use smallvec::SmallVec;

use super::answers::{Answer, Operation};
use super::peer_settled::PeerSettledLocks;
use super::table::Work;
use super::weight::Weight;
use super::{Sender, Staged, TxnId};
use crate::endpoint::{Connection, OutgoingId};
use crate::servicebus::entities::Entity;
use crate::servicebus::management;
use crate::servicebus::pending::Pending;
use crate::servicebus::receiving::Disposition;
use crate::servicebus::sending::Transfer;
use crate::servicebus::settlement::{self, RequestedSettlement};
use crate::servicebus::{ConnectionHandler, Fault, Link, ReplyTo, lock_token};
use crate::wire::performative::{DeliveryState, Error};

/// Smallest content that is not copied when it becomes part of a transaction, in bytes: it is not much smaller than the
/// buffer in which it arrived.
const SHARED_BYTES_MIN: usize = 32 * 1024;

/// An operation that the engine is checking provisionally.
pub(in crate::servicebus) struct Asked {
    id: TxnId,
    entity: Arc<Entity>,
    /// The sender, if messages are sent by way of another entity.
    sender: Option<Arc<Sender>>,
    command: Command,
    /// Size of its messages, in bytes.
    bytes: usize,
    answer: Answer,
}

/// A management request that may be part of a transaction.
pub(in crate::servicebus) struct Request {
    pub(in crate::servicebus) entity: Arc<Entity>,
    /// The sender of scheduled messages, if they are sent by way of the entity.
    pub(in crate::servicebus) sender: Option<Arc<Sender>>,
    pub(in crate::servicebus) reply_to: Box<ReplyTo>,
    pub(in crate::servicebus) prepared: management::Prepared,
    pub(in crate::servicebus) bytes: usize,
}

/// Whether a management operation is part of a transaction.
pub(in crate::servicebus) enum Part {
    /// Carried out by the commit.
    Inside,
    /// Carried out at once, whatever the outcome of the transaction.
    Outside,
}

impl Part {
    /// # Errors
    /// [`Fault::NotAllowed`] for operations that can't be undone.
    pub(in crate::servicebus) fn of(command: &Command) -> Result<Self, Fault> {
        match command {
            Command::Send { .. }
            | Command::Settle { .. }
            | Command::CancelScheduled { .. }
            | Command::SetSessionState { .. } => Ok(Self::Inside),
            Command::ReceiveDeferred { mode: ReceiveMode::ReceiveAndDelete, .. } => {
                Err(Fault::NotAllowed("Messages can't be received and deleted in a transaction."))
            }
            _ => Ok(Self::Outside),
        }
    }
}

impl Asked {
    /// Takes the locks of deliveries that the peer has settled.
    pub(super) fn take_peer_settled(&mut self) -> Option<PeerSettledLocks> {
        match &mut self.answer {
            Answer::PeerSettledLocks(locks) => Some(locks.take()),
            _ => None,
        }
    }
}

impl ConnectionHandler {
    /// Adds the messages of a transfer to a transaction, or refuses them.
    pub(in crate::servicebus) fn send_in_transaction(
        &mut self,
        txn_id: &Bytes,
        sender: &Sender,
        transfer: &Transfer,
        messages: Result<SmallVec<[NewMessage; 1]>, Fault>,
        connection: &mut Connection,
    ) {
        let delivery = transfer.delivery;
        let sent = messages.as_ref().map_or(1, |messages| messages.len());
        let id = match self.enlist(txn_id, sender.root(), Weight { sent, others: 0 }) {
            Ok(id) => id,
            Err(fault) => return self.answer_transfer(txn_id, delivery, Err(fault), connection),
        };
        let messages = match messages {
            Ok(messages) => messages,
            Err(fault) => {
                self.transactions.table.fail(id, &fault);
                return self.answer_transfer(txn_id, delivery, Err(fault), connection);
            }
        };
        if sender.via.is_some() {
            // Messages that the destination refuses go to the transfer dead-letter queue, so no provisional check is
            // needed.
            let added = self.add(id, sender, messages);
            return self.answer_transfer(txn_id, delivery, added, connection);
        }
        let bytes = transfer.payload.len();
        if delivery.is_none() {
            self.request_started(bytes);
        }
        let (entity, command) = (Arc::clone(&sender.entity), Command::Send { messages });
        self.ask_provisionally(Asked {
            id,
            entity,
            sender: None,
            command,
            bytes,
            answer: Answer::Transfer(delivery),
        });
    }

    /// Handles outcomes for deliveries in a transaction.
    pub(in crate::servicebus) fn settle_in_transaction(
        &mut self,
        disposition: Disposition,
        txn_id: &Bytes,
        outcome: Option<DeliveryState>,
        connection: &mut Connection,
    ) {
        let Disposition { link, first, tags, settled } = disposition;
        let Some(Link::Receiver(receiver)) = self.links.get(&link) else { return };
        let Some(receiver) = self.receivers.get(receiver) else { return };
        let (entity, count) = (Arc::clone(&receiver.entity), tags.len());
        let first = OutgoingId { link, delivery_id: first };
        let tokens: SmallVec<_> = tags.into_iter().map(lock_token::from_tag).collect();
        if outcome.is_none() {
            // Settled without an outcome: the peer has not decided about the messages.
            if settled {
                self.release(&entity, tokens);
            }
            return;
        }
        let enlisted = self.enlist(txn_id, &entity.root, Weight { sent: 0, others: count });
        let requested = enlisted.and_then(|id| match settlement::read(outcome, false) {
            Ok(requested) => Ok((id, requested)),
            Err(fault) => {
                self.transactions.table.fail(id, &fault);
                Err(fault)
            }
        });
        let peer_settled =
            settled.then(|| PeerSettledLocks { entity: Arc::clone(&entity), tokens: tokens.clone() });
        match requested {
            Ok((id, RequestedSettlement::Apply { settlement, reply })) => {
                let command = Command::Settle { queue: entity.queue, tokens, settlement };
                let answer = match peer_settled {
                    Some(locks) => Answer::PeerSettledLocks(locks),
                    None => {
                        let staged = Staged { first, count, reply };
                        self.transactions.table.stage(id, staged.clone());
                        Answer::Disposition(staged)
                    }
                };
                self.ask_provisionally(Asked { id, entity, sender: None, command, bytes: 0, answer });
            }
            Ok((_, RequestedSettlement::Wait)) => {}
            Err(fault) if settled => {
                tracing::debug!(%fault, "settled disposition of a transaction refused");
                self.abandon_peer_settled(peer_settled.into_iter().collect());
            }
            Err(fault) => {
                self.refuse_disposition(txn_id, first.onwards().take(count), &fault, connection);
            }
        }
    }

    /// Handles a management request in a transaction.
    pub(in crate::servicebus) fn request_in_transaction(
        &mut self,
        txn_id: &Bytes,
        request: Request,
        connection: &mut Connection,
    ) {
        let Request { entity, sender, reply_to, prepared, bytes } = request;
        let management::Prepared { command, finish, answer_bytes } = prepared;
        let root = sender.as_ref().map_or(&entity.root, |sender| sender.root());
        match self.enlist(txn_id, root, Weight::of(&command)) {
            Ok(id) => {
                self.unanswered.answer_bytes += answer_bytes;
                let answer = Answer::Request { reply_to, finish, answer_bytes };
                self.ask_provisionally(Asked { id, entity, sender, command, bytes, answer });
            }
            Err(fault) => {
                self.request_finished(bytes);
                self.respond(&reply_to, &Err(fault), connection);
            }
        }
    }

    /// Handles a request that failed before it reached the engine: if it is part of a transaction, that can't be
    /// committed. One that was complete only after the discharge is no part of it.
    pub(in crate::servicebus) fn fail_transaction(&mut self, txn_id: &Bytes, fault: &Fault) {
        let table = &mut self.transactions.table;
        if let Some(id) = TxnId::try_from(&txn_id[..]).ok().filter(|id| table.takes_operations(*id)) {
            table.fail(id, fault);
        }
    }

    /// Handles a delivery of a transaction that the endpoint refused: Java treats every answer to it as success.
    pub(in crate::servicebus) fn transfer_refused(&mut self, txn_id: &Bytes, error: Error) {
        let reason = error.description.unwrap_or(error.condition);
        self.fail_transaction(txn_id, &Fault::Argument(reason.to_string()));
    }

    fn enlist(&mut self, txn_id: &Bytes, root: &Arc<str>, weight: Weight) -> Result<TxnId, Fault> {
        self.transactions.table.enlist(txn_id, root, weight, &self.config.transactions, self.now)
    }

    fn ask_provisionally(&mut self, asked: Asked) {
        let destination = asked.sender.as_ref().map_or(&asked.entity, |sender| &sender.entity);
        self.transactions.table.ask(asked.id, &destination.root);
        let partition = destination.partition.clone();
        let command = Command::Provisional(Box::new(asked.command.clone()));
        self.ask(&partition, command, Pending::Provisional(Box::new(asked)));
    }

    /// Handles the engine's answer to a provisional command.
    pub(in crate::servicebus) fn provisional(
        &mut self,
        asked: Asked,
        response: Response,
        connection: &mut Connection,
    ) {
        let Asked { id, entity, sender, command, bytes, answer } = asked;
        self.transactions.table.answered(id);
        let operation = Operation::of(&command);
        let result = match response {
            Response::Settled(failures) => match answer {
                Answer::Disposition(staged) => {
                    self.refuse_settlements(id, &staged, failures, &entity, connection);
                    return self.conclude(id, connection);
                }
                ref answer => Err(self.settlement_refused(failures, answer, &entity)),
            },
            Response::Provisional(Ok(numbers)) => {
                let command = with_own_contents(numbered(command, &numbers));
                let (entity, sender) = (&entity, sender.as_deref());
                let is_one = self.check_partition(id, (entity, sender), &command, &numbers);
                is_one.and_then(|()| self.add_command(id, entity, sender, command)).map(|()| numbers)
            }
            Response::Provisional(Err(refusal)) => Err(entity.fault(refusal)),
            _ => Err(Fault::Internal),
        };
        if let Err(fault) = &result {
            self.transactions.table.fail(id, fault);
        }
        self.answer_operation(id, (operation, bytes), answer, result, connection);
        self.conclude(id, connection);
    }

    fn add_command(
        &mut self,
        id: TxnId,
        entity: &Entity,
        sender: Option<&Sender>,
        command: Command,
    ) -> Result<(), Fault> {
        match (command, sender) {
            (Command::Send { messages }, Some(sender)) => self.add(id, sender, messages),
            (command, sender) => {
                let entity = sender.map_or(entity, |sender| &*sender.entity);
                let work = Work::Command(entity.partition.clone(), command);
                let entities = &self.entities;
                let begin = || entities.begin_transaction();
                self.transactions.table.add(id, work, &entity.root, begin)
            }
        }
    }

    /// Adds messages sent by way of another entity.
    fn add(&mut self, id: TxnId, sender: &Sender, messages: SmallVec<[NewMessage; 1]>) -> Result<(), Fault> {
        let Some(via) = &sender.via else { return Err(Fault::Internal) };
        let work = Work::Transfer { via: via.root.place.clone(), target: sender.entity.place(), messages };
        let entities = &self.entities;
        self.transactions.table.add(id, work, &sender.entity.root, || entities.begin_transaction())
    }
}

/// The command with the sequence numbers promised for its scheduled messages.
fn numbered(mut command: Command, numbers: &[SequenceNumber]) -> Command {
    if let Command::Send { messages } = &mut command {
        let mut numbers = numbers.iter();
        for message in messages.iter_mut().filter(|message| message.scheduled_enqueue_time.is_some()) {
            message.reserved_number = numbers.next().copied();
        }
    }
    command
}

/// The command with copies of small contents: it is kept until the commit, and each content is a slice of the buffer in
/// which it arrived, which is not counted with it.
fn with_own_contents(mut command: Command) -> Command {
    let own = |content: &mut Bytes| {
        if content.len() < SHARED_BYTES_MIN {
            *content = Bytes::copy_from_slice(content);
        }
    };
    match &mut command {
        Command::Send { messages } => messages.iter_mut().for_each(|message| own(&mut message.content)),
        Command::SetSessionState { state: Some(state), .. } => own(state),
        _ => {}
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_keeps_nothing_of_the_buffers_in_which_its_small_messages_arrived() {
        let buffer = Bytes::from(vec![7; 2 * SHARED_BYTES_MIN]);
        let message = |bytes| NewMessage { content: buffer.slice(..bytes), ..NewMessage::default() };
        let send =
            |bytes| with_own_contents(Command::Send { messages: SmallVec::from_iter([message(bytes)]) });
        let kept = send(10);
        assert!(buffer.is_unique());
        assert_eq!(kept, Command::Send { messages: SmallVec::from_iter([message(10)]) });
        let large = send(SHARED_BYTES_MIN);
        assert!(!buffer.is_unique(), "not copied: {large:?}");
    }
}
