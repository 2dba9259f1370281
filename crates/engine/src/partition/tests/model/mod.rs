//! An independent model of a queue or topic: the rules written down as plainly as possible, without regard to speed, storage
//! or the partition's code. Each rule can be broken on purpose, to verify that the comparison notices.
//!
//! - [`Model`] handles commands; `queue` is a queue or subscription, `ending` handles the end of locks and the removal of
//!   messages, `session` the sessions, `partitions` the client-visible numbers; `topic`, `publishing` and `idle` concern
//!   several queues, `duplicates` previously sent messages; `sql` has the meaning of the few conditions and actions in
//!   histories.
//! - `status` has the operations that a status forbids.
//! - `units` are commands that take effect as a whole or not at all.
//! - [`Rule`] lists the rules that can be broken.
//! - [`histories`] generates random histories of moves (`draft`), `combined` those with several features; [`comparison`]
//!   lets partition and model carry out one, converting each move to a command (`moves`); `stored` is the partition's
//!   store.

mod acting;
mod combined;
mod commands;
pub(super) mod comparison;
mod draft;
mod duplicates;
mod ending;
pub(super) mod histories;
mod idle;
mod message;
mod moves;
mod options;
mod partitions;
mod publishing;
mod queue;
mod rule;
mod selecting;
mod session;
mod sql;
mod status;
mod stored;
mod topic;
mod topic_moves;
mod turn;
mod units;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use self::duplicates::Remembered;
use self::queue::Queue;
use self::turn::Turn;
use crate::partition::Counts;
use crate::{
    Command, Effect, EntityOptions, KeyPartition, LockToken, MessageState, MessageView, QueueId,
    QueueOptions, QueuePath, ReceiverId, Refusal, RequestId, SequenceNumber, SubQueue, Subscription,
    Timestamp,
};

use super::rig::QUEUE;
pub(super) use rule::{Area, Rule};

/// The number of the queue or topic.
const ENTITY: u64 = QUEUE.0;

/// A message as clients see it, and its session.
pub(super) type Seen = (MessageView, Option<Arc<str>>);
/// The state of a session: queue, session id, state, time of the change.
pub(super) type SeenState = (QueueId, String, Bytes, Timestamp);

/// Tokens that the partition chose for new locks: of messages, by queue and number, and of sessions, by request.
type Tokens = (BTreeMap<(u64, SequenceNumber), LockToken>, BTreeMap<RequestId, LockToken>);

#[derive(Debug)]
pub(super) struct Model {
    pub(super) options: EntityOptions,
    /// Deleted because it was idle, or by request.
    pub(super) ended: bool,
    /// The queue or topic, and the topic's subscriptions.
    queues: BTreeMap<u64, Queue>,
    subscriptions: BTreeMap<u64, Subscription>,
    /// Links to be notified when their entity is deleted.
    watchers: BTreeMap<u64, u64>,
    /// A topic's next number after a restart.
    topic_number_stored: u64,
    remembered: Vec<Remembered>,
    /// The partition for messages without a key that are sent now.
    in_turn: KeyPartition,
    turn: Turn,
}

fn queue_options(options: &EntityOptions) -> QueueOptions {
    match options {
        EntityOptions::Queue(queue) => queue.clone(),
        EntityOptions::Topic(topic) => topic::as_queue_of_its_own(topic),
    }
}

impl Model {
    pub(super) fn new(options: EntityOptions, broken: Option<Rule>) -> Self {
        let entity = Queue::new(QUEUE, queue_options(&options));
        Self {
            queues: BTreeMap::from([(ENTITY, entity)]),
            options,
            ended: false,
            subscriptions: BTreeMap::new(),
            watchers: BTreeMap::new(),
            topic_number_stored: 1,
            remembered: Vec::new(),
            in_turn: KeyPartition::default(),
            turn: Turn::new(broken),
        }
    }

    /// New options take effect at once, also for remembered ids.
    fn change_options(&mut self, options: EntityOptions) {
        if self.turn.breaks(Rule::OptionsCanChange) {
            return;
        }
        let entity = self.queues.get_mut(&ENTITY).unwrap();
        entity.options = queue_options(&options);
        if self.turn.breaks(Rule::StoredMessagesKeepTheirTimes) {
            let policy = entity.clone();
            for message in entity.messages.values_mut() {
                let life = policy.effective(&self.turn, message.view.time_to_live_ms);
                message.live(message.view.enqueued_at.0, life);
            }
        }
        if self.turn.keeps(Rule::AnUpdateIsUse) {
            entity.used_at = 0;
        }
        self.options = options;
        self.forget();
        self.obey_status(QUEUE);
    }

    /// All messages as clients would see them.
    pub(super) fn messages(&self) -> Vec<Seen> {
        let all = self.queues.values().flat_map(|queue| queue.messages.values());
        all.map(|message| (message.view.clone(), message.session_id.clone())).collect()
    }

    /// Message counts of all queues.
    pub(super) fn counts(&self) -> Vec<(QueueId, Counts)> {
        let of = |queue: &Queue| {
            let count = |test: &dyn Fn(&MessageView) -> bool| {
                queue.messages.values().filter(|message| test(&message.view)).count() as u64
            };
            let is_scheduled = |view: &MessageView| view.state == MessageState::Scheduled;
            Counts {
                quarantined: 0,
                active: count(&|view| view.sub_queue == SubQueue::Main && !is_scheduled(view)),
                deferred: count(&|view| {
                    view.sub_queue == SubQueue::Main && view.state == MessageState::Deferred
                }),
                dead_letter: count(&|view| view.sub_queue == SubQueue::DeadLetter),
                scheduled: count(&is_scheduled),
                transfer_dead_letter: count(&|view| view.sub_queue == SubQueue::TransferDeadLetter),
                size_bytes: if queue.id == QUEUE { self.size_bytes() } else { 0 },
            }
        };
        self.queues.values().map(|queue| (queue.id, of(queue))).collect()
    }

    pub(super) fn session_states(&self) -> Vec<SeenState> {
        let all =
            self.queues.values().flat_map(|queue| queue.sessions.iter().map(move |one| (queue.id, one)));
        let with_state = all.filter_map(|(queue, (id, session))| {
            let (bytes, at) = session.state.clone()?;
            Some((queue, id.to_string(), bytes, Timestamp(at)))
        });
        with_state.collect()
    }

    /// The last uses that survive a restart.
    pub(super) fn stored_uses(&self) -> Vec<(QueueId, Timestamp)> {
        self.queues.values().map(|queue| (queue.id, Timestamp(queue.used_at_stored))).collect()
    }

    /// Total size of everything stored.
    pub(super) fn size_bytes(&self) -> u64 {
        let messages: Vec<_> = self.queues.values().flat_map(|queue| queue.messages.values()).collect();
        let states: u64 = self.queues.values().map(Queue::state_bytes).sum();
        let counts = self.turn.keeps(Rule::SessionStatesTakeRoom);
        topic::content_bytes(&self.turn, &messages) + if counts { states } else { 0 }
    }

    pub(super) fn restart(&mut self) {
        self.watchers.clear();
        if self.turn.breaks(Rule::IdsSurviveARestart) {
            self.remembered.clear();
        }
        for queue in self.queues.values_mut() {
            queue.restart(&self.turn);
        }
        if self.is_topic() {
            self.queues.get_mut(&ENTITY).unwrap().next_number = self.topic_number_stored;
        }
    }

    pub(super) const fn is_topic(&self) -> bool {
        matches!(self.options, EntityOptions::Topic(_))
    }

    /// The expected effects of a command.
    pub(super) fn handle(
        &mut self,
        now: u64,
        request: RequestId,
        command: Command,
        (tokens, session_tokens): Tokens,
    ) -> Vec<Effect> {
        (self.turn.now, self.turn.request, self.turn.tokens) = (now, request, tokens);
        self.turn.session_tokens = session_tokens;
        if !self.ended {
            self.let_time_pass();
        }
        if self.ended && self.turn.keeps(Rule::WhatEndedRefusesEverything) {
            if let Some(reply) = command.refused(Refusal::EntityDeleted) {
                self.turn.reply(reply);
            }
            return std::mem::take(&mut self.turn.effects);
        }
        let used = self.use_of(&command);
        if let Some(reply) = self.carry_out(command) {
            self.turn.reply(reply);
        }
        if self.ended && self.turn.keeps(Rule::WhatEndedRefusesEverything) {
            return std::mem::take(&mut self.turn.effects);
        }
        if let Some(used) = used {
            self.use_queue(used);
        }
        for queue in self.queues.values_mut() {
            queue.look_after(&mut self.turn);
        }
        self.use_new_entities();
        self.use_entities_in_use();
        std::mem::take(&mut self.turn.effects)
    }

    fn let_time_pass(&mut self) {
        self.forget();
        self.use_new_entities();
        if self.turn.keeps(Rule::LeavingIsUse) {
            self.use_entities_in_use();
        }
        for queue in self.queues.values_mut() {
            queue.free_held_back(&self.turn);
            queue.end_locks(&self.turn);
            queue.end_sessions(&mut self.turn);
        }
        if self.is_topic() {
            self.publish_due();
        } else {
            let queue = self.queues.get_mut(&ENTITY).unwrap();
            for number in queue.due(self.turn.now) {
                queue.activate(&self.turn, number);
            }
        }
        if self.turn.breaks(Rule::LeavingIsUse) {
            self.use_entities_in_use();
        }
        self.delete_idle_entities();
    }

    /// The queue of a receiver.
    fn home(&self, receiver: ReceiverId) -> Option<QueueId> {
        let home = self.queues.values().find(|queue| queue.receivers.contains_key(&receiver.0));
        home.map(|queue| queue.id)
    }

    /// The queue or subscription to read from, with the context of the command.
    fn readable(&mut self, source: QueuePath) -> Result<(&mut Queue, &mut Turn), Refusal> {
        let is_of_topic = self.is_topic() && source.queue.0 == ENTITY;
        let is_kept = source.sub_queue == SubQueue::TransferDeadLetter;
        if is_of_topic && !is_kept && self.turn.keeps(Rule::OnlyTransferDeadLettersOfATopicAreReceived) {
            return Err(Refusal::NotAllowed(""));
        }
        self.browsable(source.queue)
    }

    /// The same for browsing, which also allows the topic.
    fn browsable(&mut self, id: QueueId) -> Result<(&mut Queue, &mut Turn), Refusal> {
        if self.queues.contains_key(&id.0) {
            self.check_receive_allowed(id)?;
        }
        let queue = self.queues.get_mut(&id.0).ok_or(Refusal::EntityDeleted)?;
        Ok((queue, &mut self.turn))
    }

    /// The queue of a receiver, with the context of the command.
    fn at(&mut self, receiver: ReceiverId) -> Result<(&mut Queue, &mut Turn), Refusal> {
        let home = self.home(receiver).ok_or(Refusal::SessionLockLost)?;
        self.browsable(home)
    }
}
