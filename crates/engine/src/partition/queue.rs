//! What receivers take messages from: a queue entity, or one subscription of a topic.

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

/// A queue or subscription: its messages, who reads them, what is due. Messages and `next_number` are durable, all else
/// is volatile or follows from them.
#[derive(Debug)]
pub(super) struct Queue {
    /// Its id.
    pub(super) id: QueueId,
    /// How it treats its messages.
    pub(super) policy: Arc<Policy>,
    /// The number of the next message.
    pub(super) next_number: SequenceNumber,
    /// Messages by the sub-queue in which they rest.
    pub(super) messages: PerSubQueue<Messages>,
    /// Messages out of delivery because what is stored of them is damaged; without facts where these are what is
    /// damaged.
    pub(super) quarantined: BTreeMap<SequenceNumber, Option<Record>>,
    /// Scheduled messages by the instant at which they become available; those of a topic are its own.
    pub(super) activations: BTreeSet<(Timestamp, SequenceNumber)>,
    /// Messages held back, by the time until which.
    pub(super) held_back: BTreeSet<(Timestamp, SequenceNumber)>,
    /// Its sessions, if it requires them: who gets what of the main queue.
    pub(super) sessions: Option<Box<Sessions>>,
    /// Receivers open.
    pub(super) receivers: Receivers,
    /// Who forwards, or still has messages in hand.
    pub(super) forwarders: PerSubQueue<Option<ReceiverId>>,
    /// When it was last used; kept only if it is deleted when idle, zero until the first use is noted.
    pub(super) used_at: Timestamp,
    /// The last use that is stored.
    pub(super) used_at_stored: Timestamp,
    /// Whether it was in use when it was last looked after.
    pub(super) was_in_use: bool,
    /// Of a topic: how many of its subscriptions were.
    pub(super) subscriptions_in_use: usize,
    /// Whether something happened to it since it was last looked after.
    pub(super) touched: bool,
    /// Whether it changed since the partition was asked for what did.
    pub(super) changed: bool,
    /// The deadline under which it is listed.
    pub(super) listed_deadline: Option<Timestamp>,
}

impl Queue {
    /// An empty one.
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

    /// The earliest instant at which something is due here by itself; locks and activations are the partition's.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        let held_back = self.held_back.first().map(|(until, _)| *until);
        self.inner_deadline().into_iter().chain(self.idle_deadline()).chain(held_back).min()
    }

    /// When the next message expires, or something is due with a session; expiry counts only while there is an active
    /// listener (S-3).
    fn inner_deadline(&self) -> Option<Timestamp> {
        if let Some(sessions) = &self.sessions {
            return sessions.next_deadline();
        }
        if !self.receivers.is_active(SubQueue::Main) {
            return None;
        }
        self.messages.get(SubQueue::Main).soonest_expiry()
    }

    /// Messages of a receiver's sub-queue are shown to its owner.
    pub(super) fn show(&mut self, receiver: ReceiverId, numbers: &[SequenceNumber]) {
        if let Some(open) = self.receivers.get(receiver) {
            let messages = self.messages.get(open.options.source.sub_queue);
            self.receivers.selections.show(receiver, numbers, messages);
        }
    }

    /// Whether nothing is left that this receiver could get with more credit.
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

    /// A message that is held back no longer by `now`.
    pub(super) fn first_to_free(&self, now: Timestamp) -> Option<(SequenceNumber, &Record)> {
        let (_, number) = *self.held_back.first().filter(|(until, _)| *until <= now)?;
        self.messages.each().into_iter().find_map(|messages| Some((number, messages.get(number)?)))
    }

    /// Every message of every sub-queue, and those in quarantine.
    pub(super) fn all_messages(&self) -> impl Iterator<Item = (SequenceNumber, &Record)> {
        let quarantined =
            self.quarantined.iter().filter_map(|(number, record)| Some((*number, record.as_ref()?)));
        self.messages.each().into_iter().flat_map(Messages::all).chain(quarantined)
    }

    /// Current counts; sizes are the partition's.
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

    /// What clients do with it now.
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
