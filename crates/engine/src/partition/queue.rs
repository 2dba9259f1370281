//! The source of messages for receivers: a queue entity, or one subscription of a topic.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::messages::Messages;
use super::per_sub_queue::PerSubQueue;
use super::policy::Policy;
use super::receivers::Receivers;
use super::record::Record;
use super::sessions::Sessions;
use super::{Activity, Counts};
use crate::{QueueId, ReceiverId, SequenceNumber, SubQueue, Timestamp};

/// A queue or subscription: its messages, its receivers, its timers. Messages and `next_number` are durable, everything else
/// is volatile or derived from them.
#[derive(Debug)]
pub(super) struct Queue {
    /// Its id.
    pub(super) id: QueueId,
    /// The rules for its messages.
    pub(super) policy: Arc<Policy>,
    /// The number of the next message.
    pub(super) next_number: SequenceNumber,
    /// Messages by sub-queue.
    pub(super) messages: PerSubQueue<Messages>,
    /// Messages out of delivery because their stored data is damaged; without a record if the record itself is damaged.
    pub(super) quarantined: BTreeMap<SequenceNumber, Option<Record>>,
    /// Scheduled messages by the time at which they become available; for a topic, its own.
    pub(super) activations: BTreeSet<(Timestamp, SequenceNumber)>,
    /// Messages held back, by the time at which they become available.
    pub(super) held_back: BTreeSet<(Timestamp, SequenceNumber)>,
    /// Its sessions, if it requires them: the index of the main queue by session.
    pub(super) sessions: Option<Box<Sessions>>,
    /// Open receivers.
    pub(super) receivers: Receivers,
    /// The forwarder of each sub-queue; it stays here until it has released its messages.
    pub(super) forwarders: PerSubQueue<Option<ReceiverId>>,
    /// Time of the last use; kept only with AutoDeleteOnIdle, zero until the first use is recorded.
    pub(super) used_at: Timestamp,
    /// The stored time of the last use.
    pub(super) used_at_stored: Timestamp,
    /// Whether it was in use when it was last processed.
    pub(super) was_in_use: bool,
    /// For a topic: the number of its subscriptions that were in use.
    pub(super) subscriptions_in_use: usize,
    /// Whether it changed since it was last processed.
    pub(super) touched: bool,
    /// Whether it changed since the last `take_changed` of the partition.
    pub(super) changed: bool,
    /// Its deadline in the partition's index of deadlines.
    pub(super) listed_deadline: Option<Timestamp>,
}

impl Queue {
    /// An empty queue.
    pub(super) fn new(id: QueueId, policy: Policy) -> Self {
        Self {
            id,
            sessions: policy.requires_session.then(Box::default),
            policy: Arc::new(policy),
            next_number: SequenceNumber(1),
            messages: PerSubQueue::default(),
            quarantined: BTreeMap::new(),
            activations: BTreeSet::new(),
            held_back: BTreeSet::new(),
            receivers: Receivers::default(),
            forwarders: PerSubQueue::default(),
            used_at: Timestamp::default(),
            used_at_stored: Timestamp::default(),
            was_in_use: false,
            subscriptions_in_use: 0,
            touched: false,
            changed: false,
            listed_deadline: None,
        }
    }

    /// The earliest due time of this queue; locks and activations belong to the partition.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        let held_back = self.held_back.first().map(|(until, _)| *until);
        self.inner_deadline().into_iter().chain(self.idle_deadline()).chain(held_back).min()
    }

    /// The time at which the next message expires or a session timer is due. Without sessions, expiry counts only while there
    /// is an active listener (S-3).
    fn inner_deadline(&self) -> Option<Timestamp> {
        if let Some(sessions) = &self.sessions {
            return sessions.next_deadline();
        }
        if !self.receivers.is_active(SubQueue::Main) {
            return None;
        }
        self.messages.get(SubQueue::Main).soonest_expiry()
    }

    /// Records that messages are sent to a receiver's owner for examination.
    pub(super) fn show(&mut self, receiver: ReceiverId, numbers: &[SequenceNumber]) {
        if let Some(open) = self.receivers.get(receiver) {
            let messages = self.messages.get(open.options.source.sub_queue);
            self.receivers.selections.show(receiver, numbers, messages);
        }
    }

    /// Whether the receiver could get no more messages even with more credit.
    pub(super) fn is_dry(&self, receiver: ReceiverId, sub_queue: SubQueue) -> bool {
        let messages = self.messages.get(sub_queue);
        if let Some(selection) = self.receivers.selections.get(receiver) {
            return selection.is_dry(messages);
        }
        match &self.sessions {
            Some(sessions) if sub_queue == SubQueue::Main => sessions.is_dry(receiver),
            _ => !messages.has_available(),
        }
    }

    /// A message whose hold-back time has passed by `now`.
    pub(super) fn first_to_free(&self, now: Timestamp) -> Option<(SequenceNumber, &Record)> {
        let (_, number) = *self.held_back.first().filter(|(until, _)| *until <= now)?;
        self.messages.each().into_iter().find_map(|messages| Some((number, messages.get(number)?)))
    }

    /// All messages of all sub-queues, and quarantined ones.
    pub(super) fn all_messages(&self) -> impl Iterator<Item = (SequenceNumber, &Record)> {
        let quarantined =
            self.quarantined.iter().filter_map(|(number, record)| Some((*number, record.as_ref()?)));
        self.messages.each().into_iter().flat_map(Messages::all).chain(quarantined)
    }

    /// Number of messages in all sub-queues, with quarantined ones.
    pub(super) fn message_count(&self) -> usize {
        let stored: u64 = self.messages.each().into_iter().map(Messages::len).sum();
        usize::try_from(stored).unwrap_or(usize::MAX).saturating_add(self.quarantined.len())
    }

    /// Present counts; sizes belong to the partition.
    pub(super) fn counts(&self) -> Counts {
        let scheduled = self.activations.len() as u64;
        Counts {
            active: self.messages.get(SubQueue::Main).len() - scheduled,
            deferred: self.messages.get(SubQueue::Main).deferred(),
            dead_letter: self.messages.get(SubQueue::DeadLetter).len(),
            scheduled,
            transfer_dead_letter: self.messages.get(SubQueue::TransferDeadLetter).len(),
            quarantined: self.quarantined.len() as u64,
            size_bytes: 0,
        }
    }

    /// Present client activity.
    pub(super) fn activity(&self) -> Activity {
        let sessions = self.sessions.as_ref().map(|sessions| sessions.counts());
        let (sessions_waiting, sessions_locked, sessions_with_state) = sessions.unwrap_or_default();
        Activity {
            locked: self.messages.get(SubQueue::Main).locked(),
            credit: self.receivers.credit(),
            sessions_waiting,
            sessions_locked,
            sessions_with_state,
        }
    }
}
