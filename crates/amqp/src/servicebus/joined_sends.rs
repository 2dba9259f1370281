//! Messages that arrive in one turn for one queue are sent by one command, each on its own: a command has costs that do
//! not depend on the number of its messages. The first is an ordinary `Send`, so a client that waits for each answer
//! pays nothing.

use peeklock_engine::runtime::{Response, TaggedCommand};
use peeklock_engine::{Command, NewMessage};
use smallvec::SmallVec;

use super::ConnectionHandler;
use super::entities::{Entity, Kind};
use super::errors::Fault;
use super::pending::Pending;
use crate::endpoint::{Connection, IncomingId};
use crate::wire::performative::DeliveryState;

/// Maximum number of messages in one command.
const MESSAGES_MAX: usize = 64;
/// Larger messages, in bytes, are sent singly: together, the messages of a command are far below the store's limits.
const MESSAGE_BYTES_MAX: usize = 4096;

impl ConnectionHandler {
    /// Sends the messages of a delivery, by the last command for its queue if that can take them.
    pub(super) fn send_joined(
        &mut self,
        entity: &Entity,
        messages: SmallVec<[NewMessage; 1]>,
        delivery: IncomingId,
        bytes: usize,
    ) {
        // The copies of a topic's messages count towards the limits of a command.
        if entity.kind == Kind::Queue
            && is_small(&messages)
            && let Some((joined, deliveries)) = self.last_sends(entity)
        {
            joined.extend(messages);
            deliveries.push(delivery);
            return;
        }
        let pending = Pending::Send { delivery: Some(delivery), bytes };
        self.ask(&entity.partition, Command::Send { messages }, pending);
    }

    /// The messages of the last command for a queue and their deliveries, if it sends messages each on its own and has room
    /// for another one.
    fn last_sends(&mut self, entity: &Entity) -> Option<(&mut Vec<NewMessage>, &mut Vec<IncomingId>)> {
        let TaggedCommand { tag: Some(tag), command } = self.outbox.last_command(&entity.partition)? else {
            return None;
        };
        let pending = self.pending.get_mut(usize::try_from(*tag).ok()?)?;
        if let (Command::Send { messages }, Pending::Send { delivery: Some(delivery), .. }) =
            (&mut *command, &*pending)
            && is_small(messages)
        {
            let messages = std::mem::take(messages).into_vec();
            *pending = Pending::SendEach { deliveries: vec![*delivery] };
            *command = Command::SendEach { messages };
        }
        match (command, pending) {
            (Command::SendEach { messages }, Pending::SendEach { deliveries })
                if messages.len() < MESSAGES_MAX =>
            {
                Some((messages, deliveries))
            }
            _ => None,
        }
    }

    /// Answers deliveries whose messages were sent each on its own.
    pub(super) fn sent_each(
        &mut self,
        deliveries: Vec<IncomingId>,
        response: Response,
        connection: &mut Connection,
    ) {
        let Response::SentEach(results) = response else {
            return deliveries
                .into_iter()
                .for_each(|delivery| self.reject(Some(delivery), &Fault::Internal, connection));
        };
        for (delivery, result) in deliveries.into_iter().zip(results) {
            match result {
                Ok(_) => connection.settle_incoming(delivery, DeliveryState::Accepted),
                Err(refusal) => self.reject(Some(delivery), &Fault::Refused(refusal), connection),
            }
        }
    }
}

/// Whether these are one message that may be joined with others.
fn is_small(messages: &[NewMessage]) -> bool {
    matches!(messages, [message] if message.content.len() <= MESSAGE_BYTES_MAX)
}
