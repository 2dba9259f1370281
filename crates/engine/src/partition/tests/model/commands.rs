//! The model's reaction to each command.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use super::message::Message;
use super::queue::{Taken, check};
use super::{ENTITY, Model, Rule};
use crate::{
    AcceptedSession, Command, DeadLetter, Effect, EntityOptions, LockToken, MessageState, NewMessage,
    QueueId, QueueOptions, QueuePath, ReceiverId, ReceiverOptions, Refusal, Reply, SequenceNumber,
    SessionRequest, SettleFailure, Settlement, SubQueue, Timestamp,
};

const HEADER_BYTES_MAX: u64 = 65_536;

impl Model {
    pub(super) fn carry_out(&mut self, command: Command) -> Option<Reply> {
        Some(match command {
            Command::Send { messages } => Reply::Sent(self.send(messages)),
            Command::SendEach { messages } => {
                let send = |message| self.send(SmallVec::from_iter([message])).map(|numbers| numbers[0]);
                Reply::SentEach(messages.into_iter().map(send).collect())
            }
            Command::KeepUndelivered { messages, why } => Reply::Sent(self.keep_undelivered(&messages, &why)),
            Command::CancelScheduled { numbers } => Reply::Done(self.cancel(&numbers)),
            Command::OpenReceiver { receiver, options, session } => {
                Reply::Opened(self.open(receiver, options, session).transpose()?)
            }
            Command::Watch { watcher, queue, .. } => {
                self.watch(watcher, queue);
                return None;
            }
            Command::Credit { receiver, limit, drain } => {
                let (queue, turn) = self.at(receiver).ok()?;
                queue.set_credit(turn, receiver, limit, drain);
                return None;
            }
            Command::Select { receiver } => {
                self.at(receiver).ok()?.0.select(receiver);
                return None;
            }
            Command::Examined { receiver, matching } => {
                self.at(receiver).ok()?.0.examined(receiver, &matching);
                return None;
            }
            Command::CloseReceiver { receiver } => {
                self.watchers.remove(&receiver.0);
                let (queue, turn) = self.at(receiver).ok()?;
                queue.close(turn, receiver);
                return None;
            }
            Command::Settle { queue, tokens, settlement } => {
                Reply::Settled(self.settle(queue, &tokens, &settlement))
            }
            Command::RenewLocks { queue, tokens } => Reply::Renewed(self.renew(queue, &tokens)),
            Command::ReceiveDeferred { numbers, source, mode, receiver, .. } => {
                Reply::Received(self.receive_deferred(&numbers, ReceiverOptions { source, mode }, receiver))
            }
            Command::Peek { from, count_max, bytes_max, source: QueuePath { queue, sub_queue }, session } => {
                let at_most = (count_max, bytes_max);
                Reply::Received(
                    self.browsable(queue)
                        .map(|(queue, turn)| queue.peek(turn, from, at_most, sub_queue, session.as_deref())),
                )
            }
            other => return self.carry_out_rarer(other),
        })
    }

    /// Commands for sessions and subscriptions.
    fn carry_out_rarer(&mut self, command: Command) -> Option<Reply> {
        let page = |skip: u32, top: u32| (skip as usize, top as usize);
        Some(match command {
            Command::DeleteMessages { source, count_max, enqueued_until, receiver } => {
                Reply::Deleted(self.delete_messages(source, count_max, enqueued_until, receiver))
            }
            Command::ActOnMessages { source: QueuePath { queue, sub_queue }, numbers, action } => {
                Reply::Done(check(&numbers).and_then(|()| {
                    let (queue, turn) = self.browsable(queue)?;
                    queue.act(turn, sub_queue, &numbers, &action)
                }))
            }
            Command::RenewSessionLock { receiver } => Reply::SessionRenewed(
                self.at(receiver).and_then(|(queue, turn)| queue.renew_session(turn, receiver)),
            ),
            Command::GetSessionState { receiver } => {
                Reply::SessionState(self.at(receiver).and_then(|(queue, _)| queue.state_of(receiver)))
            }
            Command::SetSessionState { receiver, state } => Reply::Done(self.set_state(receiver, state)),
            Command::ListSessions { queue, updated_since, skip, top } => {
                let (skip, top) = page(skip, top);
                let listed = match self.queues.get(&queue.0) {
                    None => Err(Refusal::EntityDeleted),
                    Some(queue) if !queue.options.requires_session => Err(Refusal::NotAllowed("")),
                    Some(known) => self
                        .check_receive_allowed(queue)
                        .map(|()| known.list_sessions(&self.turn, updated_since)),
                };
                Reply::Sessions(listed.map(|all| all.into_iter().skip(skip).take(top).collect()))
            }
            Command::DeclareSubscription { intent, queue, name, options, rules } => {
                Reply::Done(self.declare(intent, queue, &name, options, rules))
            }
            Command::DeleteSubscription { queue } => Reply::Done(self.delete(queue)),
            Command::AddRule { queue, rule } => Reply::Done(self.add_rule(queue, rule)),
            Command::ReplaceRule { queue, rule } => Reply::Done(self.replace_rule(queue, rule)),
            Command::RemoveRule { queue, name } => Reply::Done(self.remove_rule(queue, name)),
            Command::ListRules { queue, skip, top } => {
                let (skip, top) = page(skip, top);
                let listed = self.list_rules(queue);
                Reply::Rules(listed.map(|all| all.into_iter().skip(skip).take(top).collect()))
            }
            Command::ChangeOptions { options } => {
                self.change_options(EntityOptions::clone(&options));
                Reply::Done(Ok(()))
            }
            Command::EndEntity => {
                self.end_all(crate::End::Asked);
                Reply::Done(Ok(()))
            }
            _ => return None,
        })
    }

    fn send(
        &mut self,
        messages: SmallVec<[NewMessage; 1]>,
    ) -> Result<SmallVec<[SequenceNumber; 1]>, Refusal> {
        let sent = self.check_sizes(&messages)?;
        self.in_turn = self.turn_now();
        let max_size_bytes = self.options.max_size_bytes();
        if self.size_bytes() + sent > max_size_bytes {
            if self.turn.breaks(Rule::WhatIsRefusedIsNotRemembered) {
                messages.iter().for_each(|one| self.remember(one, SequenceNumber(0)));
            }
            return Err(Refusal::EntityFull { limit_bytes: max_size_bytes });
        }
        let before = self.remembered.clone();
        let send = |one: &NewMessage| {
            let now = std::mem::take(&mut self.remembered);
            self.remembered =
                if self.turn.breaks(Rule::ABatchCanRepeatItself) { before.clone() } else { now.clone() };
            let original = self.original_of(one);
            self.remembered = now;
            self.partition_of(one).shown(self.send_one(one, original))
        };
        Ok(messages.iter().map(send).collect())
    }

    /// They are kept even if the entity is full or does not allow sending, or their size or session is refused.
    fn keep_undelivered(
        &mut self,
        messages: &[NewMessage],
        why: &Arc<DeadLetter>,
    ) -> Result<SmallVec<[SequenceNumber; 1]>, Refusal> {
        self.in_turn = self.turn_now();
        let keep = |new: &NewMessage| {
            let (now, partition) = (self.turn.now, self.partition_of(new));
            let entity = self.queues.get_mut(&ENTITY).unwrap();
            let mut message = Message::new(new, SequenceNumber(entity.next_number));
            message.view.partition = partition;
            message.view.sub_queue = SubQueue::TransferDeadLetter;
            message.view.dead_letter = Some(Arc::clone(why));
            message.live(now, entity.effective(&self.turn, new.time_to_live_ms));
            partition.shown(entity.add(message))
        };
        let kept: SmallVec<_> = messages.iter().map(keep).collect();
        if !kept.is_empty() {
            self.topic_number_stored = self.queues[&ENTITY].next_number;
        }
        Ok(kept)
    }

    /// Checks each message's own sizes; returns the size of all of them, in bytes.
    pub(super) fn check_sizes(&self, messages: &[NewMessage]) -> Result<u64, Refusal> {
        if messages.is_empty() {
            return Err(Refusal::InvalidArgument(String::new()));
        }
        self.check_send_allowed()?;
        self.check_keys(messages)?;
        let entity = &self.queues[&ENTITY];
        let QueueOptions { max_message_size_bytes, requires_session, .. } = entity.options;
        let empty_is_one = self.turn.keeps(Rule::TheEmptyIdIsASession);
        for message in messages {
            let id = message.session_id.as_deref().filter(|id| empty_is_one || !id.is_empty());
            if requires_session && id.is_none() && self.turn.keeps(Rule::MessagesNeedASession) {
                return Err(Refusal::SessionIdMissing);
            }
            let size_bytes = message.content.len() as u64;
            if size_bytes > max_message_size_bytes {
                return Err(Refusal::MessageTooLarge { size_bytes, limit_bytes: max_message_size_bytes });
            }
            let size_bytes = u64::from(message.header_bytes);
            if size_bytes > HEADER_BYTES_MAX && self.turn.keeps(Rule::ALargeHeaderIsRefused) {
                return Err(Refusal::HeaderTooLarge { size_bytes, limit_bytes: HEADER_BYTES_MAX });
            }
        }
        let counts = |one: &&NewMessage| {
            self.original_of(one).is_none() || self.turn.breaks(Rule::DuplicatesTakeNoRoom)
        };
        Ok(messages.iter().filter(counts).map(|one| one.content.len() as u64).sum())
    }

    pub(super) fn store(&mut self, new: &NewMessage) -> SequenceNumber {
        let (now, partition) = (self.turn.now, self.partition_of(new));
        let entity = self.queues.get_mut(&ENTITY).unwrap();
        let mut message = Message::new(new, SequenceNumber(entity.next_number));
        message.view.partition = partition;
        message.scheduled_for = new.scheduled_enqueue_time.map(|at| at.0).filter(|at| *at > now);
        if self.is_topic() && message.scheduled_for.is_none() {
            return self.publish(message, now);
        }
        if message.scheduled_for.is_some() {
            message.view.state = MessageState::Scheduled;
        }
        let entity = self.queues.get_mut(&ENTITY).unwrap();
        message.live(now, entity.effective(&self.turn, new.time_to_live_ms));
        let number = entity.add(message);
        self.topic_number_stored = entity.next_number;
        number
    }

    /// No answer if the receiver must wait for a session.
    fn open(
        &mut self,
        receiver: ReceiverId,
        options: ReceiverOptions,
        requested: Option<SessionRequest>,
    ) -> Result<Option<Option<AcceptedSession>>, Refusal> {
        if self.home(receiver).is_some() {
            return Err(Refusal::InvalidArgument(String::new()));
        }
        let (queue, turn) = self.readable(options.source)?;
        queue.check_requested(turn, options.source.sub_queue, requested.as_ref())?;
        match requested {
            Some(requested) => {
                queue.accept(turn, receiver, options, &requested).transpose().map(|got| got.map(Some))
            }
            None => {
                queue.open(receiver, options);
                Ok(Some(None))
            }
        }
    }

    fn cancel(&mut self, numbers: &[SequenceNumber]) -> Result<(), Refusal> {
        self.check_cancels(numbers)?;
        self.queues.get_mut(&ENTITY).unwrap().cancel(&self.turn, numbers)
    }

    /// All watchers are senders here.
    fn watch(&mut self, watcher: ReceiverId, queue: QueueId) {
        let refusal = match (self.queues.contains_key(&queue.0), self.check_send_allowed()) {
            (false, _) => Refusal::EntityDeleted,
            (true, Err(refusal)) => refusal,
            (true, Ok(())) => {
                self.watchers.insert(watcher.0, queue.0);
                return;
            }
        };
        self.turn.effects.push(Effect::ReceiverClosed { receiver: watcher, refusal });
    }

    fn settle(&mut self, id: QueueId, tokens: &[LockToken], settlement: &Settlement) -> Vec<SettleFailure> {
        let mut failures = Vec::new();
        for (index, token) in tokens.iter().enumerate() {
            let before = self.messages();
            let settled =
                self.check_settles(id, settlement).and_then(|()| match self.queues.get_mut(&id.0) {
                    Some(queue) => queue.settle(&self.turn, *token, settlement),
                    None => Err(Refusal::MessageLockLost),
                });
            if self.turn.breaks(Rule::CopiesArePrivate) {
                let gone = before.iter().find(|(view, _)| {
                    view.queue == id && !self.queues[&id.0].messages.contains_key(&view.sequence_number.0)
                });
                if let Some((gone, _)) = gone {
                    self.queues.values_mut().for_each(|queue| {
                        queue.messages.retain(|_, message| message.view.body != gone.body);
                    });
                }
            }
            if let Err(refusal) = settled {
                failures.push(SettleFailure { index, refusal });
            }
        }
        failures
    }

    fn renew(&mut self, id: QueueId, tokens: &[LockToken]) -> Result<Vec<Timestamp>, Refusal> {
        if tokens.is_empty() {
            return Err(Refusal::InvalidArgument(String::new()));
        }
        self.check_receive_allowed(id)?;
        let queue = self.queues.get_mut(&id.0).ok_or(Refusal::MessageLockLost)?;
        queue.renew(&self.turn, tokens)
    }

    fn receive_deferred(
        &mut self,
        numbers: &[SequenceNumber],
        options: ReceiverOptions,
        receiver: Option<ReceiverId>,
    ) -> Result<Vec<Taken>, Refusal> {
        check(numbers)?;
        let (queue, turn) = self.readable(options.source)?;
        queue.receive_deferred(turn, numbers, options, receiver)
    }

    fn delete_messages(
        &mut self,
        source: QueuePath,
        count_max: u32,
        until: Timestamp,
        receiver: Option<ReceiverId>,
    ) -> Result<u32, Refusal> {
        if count_max == 0 {
            return Err(Refusal::InvalidArgument(String::new()));
        }
        let (queue, turn) = self.readable(source)?;
        queue.delete_messages(turn, source.sub_queue, (count_max, until), receiver)
    }

    /// A state may be as large as a message, and counts toward the size like one; a state that shrinks always fits.
    fn set_state(&mut self, receiver: ReceiverId, state: Option<Bytes>) -> Result<(), Refusal> {
        let total_bytes = self.size_bytes();
        let (message_bytes, limit_bytes) =
            (self.options.max_message_size_bytes(), self.options.max_size_bytes());
        let (queue, turn) = self.at(receiver)?;
        let before_bytes = queue.state_of(receiver)?.map_or(0, |bytes| bytes.len() as u64);
        let size_bytes = state.as_ref().map_or(0, |bytes| bytes.len() as u64);
        if size_bytes > message_bytes {
            return Err(Refusal::MessageTooLarge { size_bytes, limit_bytes: message_bytes });
        }
        if size_bytes > before_bytes && total_bytes - before_bytes + size_bytes > limit_bytes {
            return Err(Refusal::EntityFull { limit_bytes });
        }
        let id = queue.held_by(receiver).ok_or(Refusal::SessionLockLost)?;
        queue.set_state(turn, &id, state);
        Ok(())
    }
}
