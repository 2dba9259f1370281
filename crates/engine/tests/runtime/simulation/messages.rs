//! Sending, receiving and settling, common to all places.

use std::sync::Arc;

use bytes::Bytes;
use peeklock_engine::{
    Command, CreditLimit, Delivery, KeyPartition, NewMessage, PartitionKey, QueueId, QueuePath, ReceiveMode,
    Received, ReceiverId, ReceiverOptions, Refusal, SequenceNumber, Settlement, SubQueue, Timestamp,
};
use smallvec::SmallVec;

use super::clock::LOCK_MS;
use super::rules::{identity, rule_properties};
use super::sessions::session_id;
use super::steps::{How, Place};
use super::world::{Asked, LockedMessage, Reader, Taken, World};

/// How long messages are postponed, in milliseconds.
const POSTPONED_MS: u64 = 20_000;

/// Whether receivers with a selector accept a message.
fn is_selected(content: &[u8]) -> bool {
    content.iter().map(|byte| u32::from(*byte)).sum::<u32>().is_multiple_of(2)
}

/// Whether the refusal means that nothing was done.
fn is_certain(refusal: &Refusal) -> bool {
    *refusal != Refusal::Unavailable
}

impl World {
    pub(super) fn send(&mut self, to: Place, flavours: &[usize], delay_ms: Option<u64>) {
        let Some(address) = self.find(to) else { return };
        let due = delay_ms.map(|delay_ms| self.now().plus_ms(delay_ms));
        let mut messages = SmallVec::new();
        let mut contents = Vec::new();
        // Some messages have a partition key, the same one for all of a batch.
        let first = flavours.first().filter(|flavour| flavour.is_multiple_of(2));
        let partition_key = first.map(|flavour| PartitionKey::of(&session_id(*flavour, false)));
        for (position, flavour) in flavours.iter().enumerate() {
            let session = (to == Place::Sessions).then(|| session_id(*flavour, false));
            let content = self.new_content(&session.as_ref().map_or(String::new(), |id| format!("@{id}")));
            messages.push(NewMessage {
                content: Bytes::copy_from_slice(content.as_bytes()),
                scheduled_enqueue_time: due,
                session_id: session.map(|_| session_id(*flavour, position % 2 == 1).into()),
                rule_properties: rule_properties(*flavour).filter(|_| to == Place::Topic).map(Arc::new),
                partition_key,
                ..NewMessage::default()
            });
            if to == Place::Topic {
                let tag = self.last_tag() + 1;
                self.topic.sending(&content, *flavour, due, tag);
            } else {
                self.auditor(address.queue).sending(&content);
            }
            contents.push(content);
        }
        let asked = match to {
            Place::Topic => Asked::Publish { contents },
            _ => Asked::Send { queue: address.queue, contents, at: self.now(), scheduled: due.is_some() },
        };
        self.submit(&address, Command::Send { messages }, Some(asked));
    }

    /// The partition of a message, which never changes: `unless_known` if it is not known yet.
    pub(super) fn partition(
        &mut self,
        queue: QueueId,
        number: SequenceNumber,
        unless_known: KeyPartition,
    ) -> KeyPartition {
        *self.partitions.entry((queue, number)).or_insert(unless_known)
    }

    pub(super) fn sent(
        &mut self,
        queue: QueueId,
        contents: &[String],
        (at, scheduled): (Timestamp, bool),
        result: Result<SmallVec<[SequenceNumber; 1]>, Refusal>,
    ) {
        assert!(self.updates.may_answer(queue, &result), "{result:?} in spite of the status");
        match result {
            Ok(numbers) => {
                assert_eq!(numbers.len(), contents.len());
                self.temporary.used(queue, at);
                for (content, shown) in contents.iter().zip(numbers) {
                    let (partition, number) = shown.split();
                    let partition = partition.expect("a partition that there is");
                    assert_eq!(self.partition(queue, number, partition), partition);
                    self.auditor(queue).accepted(content, Some(number));
                    // It gets another number when it becomes due.
                    if !scheduled {
                        self.sessions.accepted(number, content);
                    }
                }
            }
            Err(Refusal::StorageFull | Refusal::StorageFailing | Refusal::EntityDisabled) => {
                contents.iter().for_each(|content| self.auditor(queue).refused(content));
            }
            Err(Refusal::EntityDeleted) if self.temporary.knows(queue) => {}
            Err(Refusal::Unavailable) if self.in_doubt || self.reads_fail => {}
            Err(refusal) => panic!("a message was refused: {refusal}"),
        }
    }

    /// Deletes the oldest unlocked messages. The simulation doesn't know which these are: any message sent so far may be
    /// deleted.
    pub(super) fn delete(&mut self, from: Place, count_max: u32) {
        let Some(address) = self.find(from) else { return };
        let (sent, enqueued_until) = (self.sent, self.now());
        self.auditor(address.queue).deleting(sent);
        let source = QueuePath::main(address.queue);
        let delete = Command::DeleteMessages { source, count_max, enqueued_until, receiver: None };
        self.submit(&address, delete, Some(Asked::Delete { queue: address.queue }));
    }

    /// A joint step that was requested later may have been executed before the deletion.
    pub(super) fn deleted(&mut self, queue: QueueId) {
        let sent = self.sent;
        self.auditor(queue).deleting(sent);
    }

    pub(super) fn receive(&mut self, from: Place, sub_queue: SubQueue, mode: ReceiveMode, credit: u64) {
        let Some(address) = self.find(from) else { return };
        // In some places no message is received destructively, so that every loss is detected.
        let strict = matches!(from, Place::Queue(0) | Place::Subscription(0));
        let mode = if strict { ReceiveMode::PeekLock } else { mode };
        let receiver = self.broker.namespace.next_receiver_id(&address.partition);
        let options = ReceiverOptions { source: QueuePath { queue: address.queue, sub_queue }, mode };
        let selects = receiver.0.is_multiple_of(3);
        let reader = Reader { address: address.clone(), sub_queue, mode, credit, selects };
        self.receivers.insert(receiver, reader);
        let open = Command::OpenReceiver { receiver, options, session: None };
        self.submit(&address, open, Some(Asked::Other));
        if selects {
            self.submit(&address, Command::Select { receiver }, None);
        }
        let limit = CreditLimit { messages: credit, bytes: u64::MAX };
        self.submit(&address, Command::Credit { receiver, limit, drain: false }, None);
    }

    /// A receiver with a selector gets messages to examine.
    pub(super) fn examine(&mut self, receiver: ReceiverId, messages: &[Received]) {
        let Some(reader) = self.receivers.get(&receiver) else { return };
        assert!(reader.selects && messages.iter().all(|message| message.lock.is_none()));
        let matching = messages.iter().filter(|message| is_selected(&message.content));
        let matching = matching.map(|message| message.view.sequence_number).collect();
        let (address, sent) = (reader.address.clone(), self.sent);
        // The messages behind them may be delivered first to receivers without a selector.
        self.auditor(address.queue).order_unknown(sent);
        self.submit(&address, Command::Examined { receiver, matching }, None);
    }

    pub(super) fn close_receivers(&mut self) {
        for (receiver, reader) in std::mem::take(&mut self.receivers) {
            self.submit(&reader.address, Command::CloseReceiver { receiver }, None);
            self.sessions.closed(receiver);
            self.closed(&reader);
        }
    }

    /// Messages that the receiver could still have received return to the queue.
    pub(super) fn closed(&mut self, reader: &Reader) {
        let sent = self.sent;
        self.auditor(reader.address.queue).order_unknown(sent);
    }

    pub(super) fn delivered(&mut self, delivery: &Delivery) {
        let Some(reader) = self.receivers.get_mut(&delivery.receiver) else { return };
        reader.credit = reader.credit.checked_sub(1).expect("no more deliveries than credit");
        let (address, sub_queue, mode) = (reader.address.clone(), reader.sub_queue, reader.mode);
        let selects = reader.selects;
        assert!(!selects || is_selected(&delivery.message.content), "a message that was not selected");
        let Received { view, lock, .. } = &delivery.message;
        assert_eq!((view.queue, view.sub_queue), (address.queue, sub_queue));
        let known = *self.partitions.entry((view.queue, view.sequence_number)).or_insert(view.partition);
        assert_eq!(known, view.partition, "{view:?} is of another partition than before");
        self.time.enqueued(view);
        let now = self.now();
        assert!(lock.is_none_or(|lock| lock.locked_until <= now.plus_ms(LOCK_MS)), "{lock:?} at {now:?}");
        let session = self.sessions.holds(delivery.receiver).then_some(delivery.receiver);
        let ordered = sub_queue == SubQueue::Main && session.is_none() && !selects;
        let auditor = self.auditors.get_mut(&address.queue).expect("messages were sent to it");
        let content = identity(&delivery.message);
        let late = lock.is_some_and(|lock| lock.locked_until <= now);
        auditor.delivered(&content, view.sequence_number, ordered, late);
        if selects {
            auditor.selected(&content);
        }
        if let Some(receiver) = session {
            self.sessions.delivered(receiver, view.sequence_number, &content, auditor);
        }
        if let Some(lock) = lock {
            let (token, number) = (lock.token, view.sequence_number);
            self.locks.push(LockedMessage { address, sub_queue, content, number, token, session });
            // Most destructively received messages are completed at once, some later or never.
            if mode == ReceiveMode::ReceiveAndDelete && !number.0.is_multiple_of(4) {
                self.settle(self.locks.len() - 1, How::Complete);
            }
        }
    }

    pub(super) fn settlement(&self, how: How) -> Settlement {
        let (until, modify) = (self.now().plus_ms(POSTPONED_MS), Vec::new());
        match how {
            How::Complete => Settlement::Complete,
            How::Abandon => Settlement::Abandon { modify },
            How::Postpone => Settlement::Postpone { modify, until },
            How::Defer => Settlement::Defer { modify },
            How::DeadLetter => Settlement::DeadLetter { why: Arc::default(), modify },
            How::Release => Settlement::Release,
        }
    }

    pub(super) fn settle(&mut self, which: usize, how: How) {
        if self.locks.is_empty() {
            return;
        }
        let held = self.locks.swap_remove(which % self.locks.len());
        let settlement = self.settlement(how);
        let auditor = self.auditor(held.address.queue);
        match how {
            How::Complete => auditor.leaving(&held.content),
            How::Defer | How::DeadLetter => auditor.moving(&held.content),
            How::Abandon | How::Postpone | How::Release => {}
        }
        let address = held.address.clone();
        let tokens = [held.token].into_iter().collect();
        let must_fail = held.session.is_some_and(|receiver| !self.sessions.holds(receiver));
        let asked = Asked::Settle { held, how, must_fail };
        self.submit(&address, Command::Settle { queue: address.queue, tokens, settlement }, Some(asked));
    }

    pub(super) fn settled(&mut self, held: LockedMessage, how: How, refusal: Option<&Refusal>) {
        let LockedMessage { address, sub_queue, content, number, session, .. } = held;
        let auditor = self.auditor(address.queue);
        match (how, refusal) {
            (_, Some(refusal)) if !is_certain(refusal) => {}
            (How::Complete, None) => auditor.left_for_good(&content),
            (How::Complete, Some(_)) => auditor.did_not_leave(&content),
            (How::Defer | How::DeadLetter, Some(_)) => auditor.did_not_move(&content),
            (How::DeadLetter, None) => auditor.moved(&content),
            (How::Defer, None) => {
                auditor.moved(&content);
                if auditor.is_acted_on(&content) {
                    return;
                }
                self.deferred.push(Taken { address, sub_queue, content, number, session });
            }
            (How::Abandon | How::Postpone | How::Release, _) => {}
        }
    }

    /// Receives a deferred message by its number.
    pub(super) fn take_deferred(&mut self, which: usize, mode: ReceiveMode) {
        if self.deferred.is_empty() {
            return;
        }
        let taken = self.deferred.swap_remove(which % self.deferred.len());
        let address = taken.address.clone();
        let strict = [Place::Queue(0), Place::Subscription(0)]
            .into_iter()
            .any(|place| self.find(place).is_some_and(|strict| strict.queue == address.queue));
        let mode = if strict { ReceiveMode::PeekLock } else { mode };
        if mode == ReceiveMode::ReceiveAndDelete {
            self.auditor(address.queue).leaving(&taken.content);
        }
        let source = QueuePath { queue: address.queue, sub_queue: taken.sub_queue };
        let shown = self.partition(address.queue, taken.number, KeyPartition::default()).shown(taken.number);
        let (numbers, receiver) = (vec![shown], taken.session);
        let command = Command::ReceiveDeferred { numbers, source, mode, receiver, bytes_max: usize::MAX };
        self.submit(&address, command, Some(Asked::Take { taken, mode }));
    }

    pub(super) fn taken(&mut self, taken: Taken, mode: ReceiveMode, result: Result<Vec<Received>, Refusal>) {
        let Taken { address, sub_queue, content, number, session } = taken;
        let may_have_ended = sub_queue == SubQueue::Main && self.may_end_deferred(address.queue);
        let auditor = self.auditor(address.queue);
        let takes = mode == ReceiveMode::ReceiveAndDelete;
        match result {
            Ok(messages) => {
                assert_eq!(messages.len(), 1);
                assert_eq!(identity(&messages[0]), content, "another message");
                if takes {
                    auditor.left_for_good(&content);
                }
                if let Some(lock) = messages[0].lock {
                    self.locks.push(LockedMessage {
                        address,
                        sub_queue,
                        content,
                        number,
                        token: lock.token,
                        session,
                    });
                }
            }
            Err(Refusal::DeferredNotFound(_)) if !may_have_ended => {
                panic!("{content} was deferred and is not found")
            }
            // It may have been deleted although its response then could not be sent.
            Err(Refusal::StorageFull | Refusal::StorageFailing | Refusal::Unavailable) => {}
            Err(_) if takes => auditor.did_not_leave(&content),
            Err(_) => {}
        }
    }
}
