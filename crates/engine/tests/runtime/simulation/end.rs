//! Final checks of the broker and the store.

use std::collections::{BTreeMap, BTreeSet};

use peeklock_engine::runtime::{Output, Response};
use peeklock_engine::{BodyRef, Command, QueueId, QueuePath, ReceiverId, Refusal, SequenceNumber, SubQueue};
use peeklock_storage::Space;

use super::rules::identity;
use super::steps::Place;
use super::topic::{SUBSCRIPTIONS, TOPIC};
use super::world::{Address, Asked, QUEUES, World};
use crate::auditor::Auditor;
use crate::broker::{peek, quiet};

/// Maximum number of reads of a partition that may have failed before the first of them is retried.
const READS_UNDER_WAY_MAX: u32 = 8;
/// The longest pause between attempts to read, in milliseconds.
const PAUSE_MS_MAX: u64 = 5_000;

impl World {
    /// Lets everything finish, restarts in good order and looks at what is left.
    pub(super) async fn end(mut self) {
        if self.reads_fail {
            // Retries postponed by a pause succeed now.
            self.broker.store.clear_faults();
            for _ in 0..READS_UNDER_WAY_MAX {
                self.broker.clock.advance(PAUSE_MS_MAX);
                self.observe().await;
                self.slow.release().await;
            }
        }
        self.broker.store.release_all();
        self.slow.release().await;
        self.observe().await;
        // Receivers that wait for a session would wait for ever.
        let sessions = self.find(Place::Sessions).expect("the queue stays");
        let there = self.receivers.iter().filter(|(_, reader)| reader.address.queue == sessions.queue);
        let waiting = there.map(|(receiver, _)| *receiver).filter(|receiver| !self.sessions.holds(*receiver));
        for receiver in waiting.collect::<Vec<ReceiverId>>() {
            self.submit(&sessions, Command::CloseReceiver { receiver }, None);
        }
        self.settle_down().await;
        assert!(self.asked.is_empty(), "{} questions got no answer", self.asked.len());
        if self.only_forwards() {
            // Before the restart, which would hide errors of the state in memory.
            self.end_forwarding().await;
            self.observe().await;
        }
        // Every deliverable message has been delivered: one that is missing now is lost.
        self.receivers.values_mut().for_each(|reader| reader.credit = 0);
        self.ending = true;
        self.broker.namespace.shutdown().await;
        self.listen();
        self.observe_forwarding().await;
        // Nothing is in progress that a crash could lose, and nothing is refused from here on.
        self.broker.store.crash(0);
        self.reboot().await;
        self.observe().await;
        self.broker.store.assert_disk_is_bounded();
        self.compare_states().await;
        self.compare_messages().await;
        self.compare_repaired().await;
        self.end_forwarding().await;
    }

    /// Undoes the damage to attributes, and checks that their messages are there again after a restart, with their bodies.
    async fn compare_repaired(&mut self) {
        if self.rotten.is_empty() {
            return;
        }
        self.broker.namespace.shutdown().await;
        self.listen();
        self.broker.store.repair_heads();
        self.is_repaired = true;
        self.time.repaired();
        self.auditors.values_mut().for_each(Auditor::repaired);
        self.broker.store.crash(0);
        self.reboot().await;
        self.observe().await;
        // Bodies that are not needed any more are removed by a timer.
        self.broker.clock.advance(1);
        self.observe().await;
        assert!(!self.may_keep_bodies());
        self.compare_messages().await;
    }

    /// Waits until nothing happens any more: what is received causes requests, for example by receivers with a selector, and
    /// these further deliveries and reads.
    async fn settle_down(&mut self) {
        loop {
            self.slow.release().await;
            self.observe().await;
            quiet().await;
            if self.slow.held() == 0 && self.listen() == 0 {
                return;
            }
        }
    }

    /// Checks that every session has the expected state.
    async fn compare_states(&mut self) {
        let address = self.find(Place::Sessions).expect("the queue stays");
        for session in self.sessions.with_states() {
            let receiver = self.accept(Some(session.clone()), 0, 0);
            let asked = Asked::State(super::sessions::StateAsked::Get { session });
            self.submit(&address, Command::GetSessionState { receiver }, Some(asked));
        }
        self.observe().await;
        assert!(self.asked.is_empty(), "{} questions got no answer", self.asked.len());
    }

    async fn compare_messages(&mut self) {
        let subscriptions = (0..SUBSCRIPTIONS.len()).map(Place::Subscription);
        let places = (0..QUEUES.len()).map(Place::Queue).chain(subscriptions);
        let places = places.chain([Place::Sessions, Place::Temporary]);
        let topic = self.find(Place::Topic).expect("the topic stays").queue;
        // Only the store knows about messages with unknown acceptance that wait on the topic.
        let (least, most) = self.topic.scheduled(self.now(), self.time.latest);
        let waiting = self.scheduled_on_topic(topic);
        assert!((least..=most).contains(&waiting), "{waiting} scheduled messages, not {least} to {most}");
        let mut heads = BTreeMap::from([(topic, waiting)]);
        let mut bodies = BTreeMap::from([(topic, BTreeSet::new())]);
        let mut damaged = BTreeMap::new();
        for place in places {
            let Some(address) = self.find(place) else { continue };
            let (queue, found) = (address.queue, self.browse(&address).await);
            let states = if place == Place::Sessions { self.sessions.states_set() } else { 0 };
            heads.insert(queue, found.len() + states);
            let is_subscription = matches!(place, Place::Subscription(_));
            let referred = bodies.entry(if is_subscription { topic } else { queue }).or_default();
            referred.extend(found.iter().map(|(_, body)| body.0));
            let left: Vec<_> = found.into_iter().map(|(message, _)| message).collect();
            self.auditor(queue).left(&left);
        }
        self.observe_damage();
        for (queue, count) in self.quarantined() {
            *heads.entry(queue).or_default() += count;
            damaged.insert(queue, count);
        }
        for queue in self.topic.queues() {
            assert!(heads.contains_key(&queue), "{queue:?} is lost");
        }
        let damaged = |queue| damaged.get(&queue).copied().unwrap_or(0);
        let bodies = bodies.into_iter().map(|(queue, bodies)| (queue, bodies.len() + damaged(queue)));
        let mut bodies: BTreeMap<QueueId, usize> = bodies.collect();
        *bodies.entry(topic).or_default() += heads[&topic];
        self.tolerate_kept_bodies(topic, &mut heads, &mut bodies);
        self.compare_stored(&heads, &bodies);
    }

    /// The bodies that readable messages need have been read. Others are kept while attributes can't be read that may refer
    /// to them.
    fn tolerate_kept_bodies(
        &self,
        topic: QueueId,
        heads: &mut BTreeMap<QueueId, usize>,
        bodies: &mut BTreeMap<QueueId, usize>,
    ) {
        for (space, needed) in [(Space::Head, heads), (Space::Body, bodies)] {
            let extra_max = match space {
                _ if self.may_keep_bodies() => usize::MAX,
                Space::Body => self.unnamed_bodies_max(),
                _ => 0,
            };
            let stored = self.stored(space, topic);
            let needed = needed.entry(topic).or_default();
            let extra = stored.checked_sub(*needed);
            assert!(
                extra.is_some_and(|extra| extra <= extra_max),
                "{space:?} of the topic: {stored}, not {needed}"
            );
            *needed = stored;
        }
    }

    /// Number of messages that wait on the topic. Beside them, the store has tombstones of bodies that are kept because
    /// damaged attributes may refer to them.
    fn scheduled_on_topic(&self, topic: QueueId) -> usize {
        let waiting = self.broker.namespace.counts(TOPIC).expect("the topic stays").scheduled;
        let (waiting, stored) = (usize::try_from(waiting).unwrap(), self.stored(Space::Head, topic));
        assert!(
            stored == waiting || stored > waiting && self.may_keep_bodies(),
            "{stored} heads of {waiting}"
        );
        waiting
    }

    /// Whether the topic may keep bodies that no readable message refers to.
    fn may_keep_bodies(&self) -> bool {
        let quarantined = self.quarantined();
        self.topic.queues().any(|queue| quarantined.get(&queue).is_some_and(|count| *count > 0))
    }

    fn stored(&self, space: Space, queue: QueueId) -> usize {
        let keys = self.broker.store.keys();
        keys.iter().filter(|key| key.space == space && key.partition.0 == queue.0).count()
    }

    /// Checks that the store contains only what the remaining messages need.
    fn compare_stored(&self, heads: &BTreeMap<QueueId, usize>, bodies: &BTreeMap<QueueId, usize>) {
        let mut stored: BTreeMap<(Space, QueueId), usize> = BTreeMap::new();
        for key in self.broker.store.keys().iter().filter(|key| key.partition.0 > 0) {
            let queue = QueueId(key.partition.0);
            if self.is_in_network(queue) {
                continue;
            }
            assert!(heads.contains_key(&queue), "{key:?} is left of a deleted entity");
            *stored.entry((key.space, queue)).or_default() += 1;
        }
        for (space, expected) in [(Space::Head, heads), (Space::Body, bodies)] {
            for (queue, count) in expected {
                let stored = stored.get(&(space, *queue)).copied().unwrap_or(0);
                assert_eq!(stored, *count, "{space:?} of {queue:?}");
            }
        }
    }

    /// All messages of a queue or subscription, with their bodies.
    pub(super) async fn browse(
        &mut self,
        address: &Address,
    ) -> Vec<((String, peeklock_engine::SequenceNumber), BodyRef)> {
        let mut found = Vec::new();
        for sub_queue in [SubQueue::Main, SubQueue::DeadLetter] {
            let source = QueuePath { queue: address.queue, sub_queue };
            self.submit(address, peek(source), Some(Asked::Other));
            self.slow.release().await;
            let messages = match self.outputs.try_recv() {
                Ok(Output::Response { response: Response::Received(Ok(messages)), .. }) => messages,
                // The response of a queue without any other message.
                Ok(Output::Response {
                    response: Response::Received(Err(Refusal::MessageDamaged(number))),
                    ..
                }) => {
                    assert!(self.auditor(address.queue).may_be_damaged(SequenceNumber(number)));
                    Vec::new()
                }
                other => panic!("can't browse: {other:?}"),
            };
            messages.iter().for_each(|message| self.time.enqueued(&message.view));
            found.extend(
                messages
                    .into_iter()
                    .map(|message| ((identity(&message), message.view.sequence_number), message.view.body)),
            );
        }
        found
    }
}
