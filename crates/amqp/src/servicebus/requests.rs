//! Requests to `$cbs` and `$management`, and their responses.
//!
//! A response is sent on the link of the same AMQP session that reads from the same node: Python's requests to `$cbs`
//! have no reply-to, JS's target has no address, Java's reply address is the same on every connection.

use std::sync::Arc;

use bytes::Bytes;
use peeklock_engine::{Command, Refusal, Right};
use rand::RngExt;

use super::authorization::{Need, Verified};
use super::early::EarlyRequest;
use super::entities::Entity;
use super::envelope::{self, Answer, Dialect, Request};
use super::errors::Fault;
use super::management::{self, Arguments, Change, Context, Operation};
use super::receiving::number_tag;
use super::sending::Transfer;
use super::transactions::{self, ManagementTarget, Part, Sender};
use super::{ConnectionHandler, Pending, ReplyTo, ResponseLink, cbs};
use crate::endpoint::{Connection, IncomingId};
use crate::wire::Value;
use crate::wire::performative::DeliveryState;

/// The property with the name of a link that the request is about: the request is a use of that link.
const ASSOCIATED_LINK: &str = "associated-link-name";

/// Responses that may wait for a peer to read them, per link.
const RESPONSES_WAITING_MAX: u64 = 1024;

/// Bytes that may wait for a peer to read before further requests are refused; including the size of expected answers,
/// before further requests wait.
const WAITING_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Requests with smaller answers, and those of transactions, are carried out regardless of pending output.
const LARGE_ANSWER_BYTES_MIN: usize = 16 * 1024;

/// With less room than this, no request with a large answer is carried out, in bytes.
const ROOM_BYTES_MIN: usize = 64 * 1024;

/// A management request with a large answer, outside transactions, that waits until there is room for it.
pub(super) struct Parked {
    request: transactions::Request,
    /// The right that it needs, also when it is carried out.
    right: Right,
}

/// A valid request.
struct Understood {
    prepared: management::Prepared,
    right: Right,
    /// The transaction it belongs to.
    txn_id: Option<Bytes>,
    /// The destination of messages sent by way of the requested entity.
    sender: Option<Arc<Sender>>,
}

impl ConnectionHandler {
    pub(super) fn cbs_request(
        &mut self,
        session: u16,
        transfer: &Transfer,
        connection: &mut Connection,
    ) -> Result<(), Fault> {
        let request = Request::decode(&transfer.payload)?;
        let reply_to = reply_to(session, "$cbs", Dialect::Cbs, &request);
        self.check_waiting(&reply_to, connection)?;
        accept(transfer.delivery, connection);
        let result = cbs::verify(&request, &self.authorization);
        let missing = result.as_ref().ok().and_then(|verified| self.missing_entity(&request, verified));
        self.handle_token(reply_to, result, missing, connection);
        Ok(())
    }

    /// The answer to a valid token for a queue or topic that does not exist. Whether a subscription exists is checked
    /// when a link is attached, as in Service Bus (azure-sdk-for-net 6943).
    fn missing_entity(&self, request: &Request, verified: &Verified) -> Option<Fault> {
        if self.entities.entity(verified.entity_name()?).is_some() {
            return None;
        }
        let uri = self.uri(request.property("name").unwrap_or_default());
        Some(Fault::EntityNotFound { uri })
    }

    pub(super) fn management_request(
        &mut self,
        session: u16,
        target: &ManagementTarget,
        transfer: &Transfer,
        connection: &mut Connection,
    ) -> Result<(), Fault> {
        let request = Request::decode(&transfer.payload)?;
        let reply_to = reply_to(session, &target.entity.node, Dialect::Management, &request);
        if self.response_link(&reply_to).is_none() {
            let (target, transfer) = (target.clone(), transfer.clone());
            return self.keep_early(EarlyRequest { reply_to, target, transfer });
        }
        self.check_waiting(&reply_to, connection)?;
        accept(transfer.delivery, connection);
        if let Some(name) = request.property(ASSOCIATED_LINK) {
            for link in connection.links_named(name) {
                self.idle.used(link, self.now);
            }
        }
        // Earlier settlements of the peer come first.
        self.submit_completions();
        match self.prepare(request, target, transfer.txn_id()) {
            Ok(Understood { prepared, right, txn_id, sender }) => {
                let (entity, reply_to) = (Arc::clone(&target.entity), Box::new(reply_to));
                let bytes = transfer.payload.len();
                self.request_started(bytes);
                let is_large = prepared.answer_bytes >= LARGE_ANSWER_BYTES_MIN;
                let request = transactions::Request { entity, sender, reply_to, prepared, bytes };
                match txn_id {
                    Some(txn_id) => self.request_in_transaction(&txn_id, request, connection),
                    None if is_large => {
                        self.parked.push_back(Parked { request, right });
                        self.carry_out_parked(connection);
                    }
                    None => self.carry_out(request),
                }
            }
            Err(fault) => self.respond(&reply_to, &Err(fault), connection),
        }
        Ok(())
    }

    /// Carries out requests with large answers as long as there is room for these; the rest wait until answers have been
    /// sent.
    pub(super) fn carry_out_parked(&mut self, connection: &mut Connection) {
        while let Some(first) = self.parked.front() {
            let answer_bytes = first.request.prepared.answer_bytes;
            let outgoing = connection.pending_bytes() + self.unanswered.answer_bytes;
            let limit = self.room_bytes.min(WAITING_BYTES_MAX);
            // One answer may always be outstanding, whatever its size.
            if outgoing > 0 && outgoing.saturating_add(answer_bytes) > limit {
                return;
            }
            let Some(Parked { request, right }) = self.parked.pop_front() else { return };
            if self.response_link(&request.reply_to).is_none() {
                // A message received and deleted would be lost with the answer.
                tracing::debug!(node = %request.reply_to.node, "a request was dropped: its link for responses has ended");
                self.request_finished(request.bytes);
                continue;
            }
            // No event of this connection would ever trigger another attempt.
            let is_hopeless = outgoing == 0 && self.room_bytes < ROOM_BYTES_MIN;
            let has_room = if is_hopeless { Err(Refusal::MemoryShort.into()) } else { Ok(()) };
            match has_room.and_then(|()| self.permit_parked(&request, right)) {
                Ok(()) => self.carry_out(request),
                Err(fault) => {
                    self.request_finished(request.bytes);
                    self.respond(&request.reply_to, &Err(fault), connection);
                }
            }
        }
    }

    /// Checks the right of a request again, because it may have ended while the request waited.
    fn permit_parked(&self, request: &transactions::Request, right: Right) -> Result<(), Fault> {
        let entity = request.sender.as_ref().map_or(&request.entity, |sender| &sender.entity);
        self.authorization.permit(&entity.resource, Need::Right(right), &entity.uri)
    }

    fn carry_out(&mut self, request: transactions::Request) {
        let transactions::Request { entity, sender, reply_to, prepared, bytes } = request;
        let sends = prepared.sends();
        let management::Prepared { command, finish, answer_bytes } = prepared;
        self.unanswered.answer_bytes += answer_bytes;
        let entity = sender.map_or(entity, |sender| Arc::clone(&sender.entity));
        let partition = entity.partition.clone();
        let pending = Pending::Management { reply_to, entity, sends, finish, bytes, answer_bytes };
        self.ask(&partition, command, pending);
    }

    /// Validates a request.
    fn prepare(
        &mut self,
        request: Request,
        target: &ManagementTarget,
        txn_id: Option<&Bytes>,
    ) -> Result<Understood, Fault> {
        let operation = request.property("operation").ok_or_else(|| {
            Fault::Argument("A request needs the application property 'operation'.".to_owned())
        })?;
        let operation = Operation::parse(operation)?;
        let destination = target.destination.as_deref().filter(|_| operation.sends());
        let sender = destination.map(|sender| Arc::new(self.with_present_destination(sender)));
        let entity = sender.as_ref().map_or(&target.entity, |sender| &sender.entity);
        let right = operation.right();
        let mut change = Change::asked(operation, entity, &self.authorization, self.peer.address);
        let prepared = self.prepare_operation(operation, request.body, entity, change.as_mut());
        let prepared = match change {
            Some(change) => change.follow(prepared),
            None => prepared,
        };
        let Some(txn_id) = txn_id else {
            return Ok(Understood { prepared: prepared?, right, txn_id: None, sender });
        };
        let part = prepared.and_then(|prepared| match Part::of(&prepared.command)? {
            Part::Inside => Ok((prepared, Some(txn_id.clone()))),
            Part::Outside => Ok((prepared, None)),
        });
        if let Err(fault) = &part
            && operation.is_transactional()
        {
            self.fail_transaction(txn_id, fault);
        }
        let (prepared, txn_id) = part?;
        Ok(Understood { prepared, right, txn_id, sender })
    }

    fn prepare_operation(
        &mut self,
        operation: Operation,
        body: Value,
        entity: &Arc<Entity>,
        change: Option<&mut Change>,
    ) -> Result<management::Prepared, Fault> {
        let arguments = Arguments::new(body);
        if let (Some(change), Ok(arguments)) = (change, &arguments) {
            change.set_rule(arguments);
        }
        self.authorization.permit(&entity.resource, Need::Right(operation.right()), &entity.uri)?;
        let schedules = operation == Operation::Schedule;
        if !operation.finishes() && !schedules {
            self.check_rates(entity, 1)?;
        }
        let arguments = arguments?;
        let (random, sessions) = (&mut self.random, &self.sessions);
        let (tier, room_bytes) = (self.config.tier, self.room_bytes);
        let mut context = Context { entity, sessions, tier, room_bytes, next_id: &mut || random.random() };
        let prepared = management::prepare(operation, &arguments, &mut context)?;
        if let Command::Send { messages } = &prepared.command {
            self.check_rates(entity, messages.len())?;
        }
        Ok(prepared)
    }

    /// Limits the responses that wait for a peer that does not read.
    fn check_waiting(&self, reply_to: &ReplyTo, connection: &Connection) -> Result<(), Fault> {
        let waiting = self.response_link(reply_to).map_or(0, |index| {
            self.response_links
                .get(index)
                .map_or(0, |link| link.sent.saturating_sub(connection.transmitted(link.link).0))
        });
        if waiting >= RESPONSES_WAITING_MAX || connection.pending_bytes() >= WAITING_BYTES_MAX {
            return Err(Fault::TooMuchWaiting);
        }
        Ok(())
    }

    pub(super) fn respond(
        &mut self,
        reply_to: &ReplyTo,
        result: &Result<Answer, Fault>,
        connection: &mut Connection,
    ) {
        let Some(index) = self.response_link(reply_to) else {
            tracing::debug!(node = %reply_to.node, "no link to respond on");
            return;
        };
        let tracker = self.tracker();
        let payload = envelope::encode(reply_to.dialect, reply_to.correlation_id.clone(), result, tracker);
        self.responses += 1;
        let tag = number_tag(self.responses);
        if let Some(link) = self.response_links.get_mut(index) {
            link.sent += 1;
            self.idle.used(link.link, self.now);
            connection.send(link.link, envelope::outgoing(payload, tag));
        }
    }

    /// The link for a response: same node, same session if there is one, then the requested address or name, then the
    /// latest.
    pub(super) fn response_link(&self, reply_to: &ReplyTo) -> Option<usize> {
        let rank = |link: &ResponseLink| {
            let wanted = reply_to.reply_to.as_deref();
            let named = wanted.is_some() && (link.target.as_deref() == wanted || Some(&*link.name) == wanted);
            (link.session == reply_to.session, named)
        };
        self.response_links
            .iter()
            .enumerate()
            .filter(|(_, link)| link.node == reply_to.node && rank(link) != (false, false))
            .max_by_key(|(_, link)| rank(link))
            .map(|(index, _)| index)
    }
}

fn reply_to(session: u16, node: &str, dialect: Dialect, request: &Request) -> ReplyTo {
    let correlation_id = request.message_id.clone();
    ReplyTo { session, node: node.into(), dialect, reply_to: request.reply_to.clone(), correlation_id }
}

/// Settles a request at once; its outcome is the response. Otherwise JS's ring of unsettled deliveries fills up.
fn accept(delivery: Option<IncomingId>, connection: &mut Connection) {
    if let Some(delivery) = delivery {
        connection.settle_incoming(delivery, DeliveryState::Accepted);
    }
}
