//! A topic with a clock, a seed and an ordered map as store. After every command it checks the invariants: counts equal a
//! recount, the stored bodies are exactly the referenced ones, each counted once in the size, and the stored data restores to
//! the live state without its volatile part.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use peeklock_storage::{Batch, PartitionId, Space};
use rand::SeedableRng;
use rand::rngs::StdRng;
use smallvec::smallvec;

use super::super::rig::{check_activity, deliveries};
use super::store::Store;
use crate::partition::queue::Queue;
use crate::partition::state::State;
use crate::partition::{Counts, Outputs, Partition, Record, persist, sessions};
use crate::{
    Arrival, BodyRef, Command, CreditLimit, Effect, Event, Filter, Lock, LockToken, MessageState,
    MessageView, NewMessage, QueueId, QueuePath, ReceiveMode, ReceiverId, ReceiverOptions, Refusal, Reply,
    RequestId, Rule, RuleProperties, SequenceNumber, SessionRequest, Settlement, SubQueue, Subject,
    Subscription, SubscriptionOptions, Timestamp, TopicOptions,
};

/// Whether a filter that can't fail matches.
pub(super) fn does_match(filter: &Filter, rule_properties: &RuleProperties) -> bool {
    filter.matches(&Subject { rule_properties, arrival: Arrival::default() }, &mut || 0).unwrap()
}

pub(super) const TOPIC: QueueId = QueueId(7);
pub(super) const LOCK_MS: u64 = 60_000;

/// The durable part of a queue's state.
#[derive(Debug, PartialEq)]
struct Durable {
    subscription: Option<Arc<Subscription>>,
    next_number: SequenceNumber,
    messages: Vec<(SequenceNumber, Record)>,
    session_states: Vec<(String, u64, Bytes, Timestamp)>,
}

impl Durable {
    fn of(partition: &Partition, queue: &Queue) -> Self {
        Self {
            subscription: partition.subscription(queue.id).cloned(),
            next_number: queue.next_number,
            messages: queue.all_messages().map(|(number, record)| (number, record.clone())).collect(),
            session_states: sessions::tests::states(queue),
        }
    }

    fn recount(&self) -> Counts {
        let mut counts = Counts::default();
        for (_, record) in &self.messages {
            match (record.sub_queue(), record.state()) {
                (SubQueue::Main, MessageState::Scheduled) => counts.scheduled += 1,
                (SubQueue::Main, state) => {
                    counts.active += 1;
                    counts.deferred += u64::from(state == MessageState::Deferred);
                }
                (SubQueue::DeadLetter, _) => counts.dead_letter += 1,
                (SubQueue::TransferDeadLetter, _) => counts.transfer_dead_letter += 1,
            }
        }
        counts
    }
}

/// Panics unless the store matches the partition's state, including bodies.
pub(in crate::partition::tests) fn check_invariants(partition: &Partition, store: &Store) {
    let state = &partition.state;
    let restored = store.restore(topic_options(partition)).unwrap();
    assert_eq!(restored.counts(), partition.counts());
    let remembered = |state: &State| state.duplicates.as_ref().map(|duplicates| duplicates.all());
    assert_eq!(remembered(&restored.state), remembered(state));
    assert_eq!(restored.subscription_count(), partition.subscription_count());
    assert!(restored.state.entity.next_number <= state.entity.next_number, "only unmatched messages lack");
    let mut referred: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
    for queue in std::iter::once(&state.entity).chain(state.subscriptions.values()) {
        sessions::tests::check(state, queue);
        check_activity(queue);
        let durable = Durable::of(partition, queue);
        assert_eq!(durable.recount(), queue.counts());
        let mut read_back = Durable::of(&restored, restored.state.queue(queue.id).unwrap());
        if queue.id == TOPIC {
            read_back.next_number = durable.next_number;
        }
        assert_eq!(read_back, durable);
        for (number, record) in &durable.messages {
            let known = referred.entry(record.body(*number).0).or_insert((0, record.content_bytes()));
            known.0 += 1;
            assert_eq!(known.1, record.content_bytes());
        }
    }
    let bodies: Vec<(u64, usize)> =
        store.entries(TOPIC, Space::Body).iter().map(|entry| (entry.number, entry.value.len())).collect();
    let expected: Vec<(u64, usize)> =
        referred.iter().map(|(body, (_, bytes))| (*body, *bytes as usize)).collect();
    assert_eq!(bodies, expected, "every content is referred to, and every reference leads to one");
    let size_bytes: usize = bodies.iter().map(|(_, bytes)| bytes).sum();
    let state_bytes: u64 = state.subscriptions.values().map(sessions::tests::state_bytes).sum();
    assert_eq!(partition.counts().size_bytes, size_bytes as u64 + state_bytes);
    for topic in [&state.topic, &restored.state.topic] {
        let counts = &topic.as_ref().unwrap().bodies;
        assert_eq!(counts.len(), referred.len());
        assert!(referred.iter().all(|(body, (count, _))| counts.count(BodyRef(*body)) == *count));
    }
    for key in store.0.keys() {
        let queue = QueueId(key.partition.0);
        assert!(state.queue(queue).is_some(), "{key:?} has no owner");
        assert!(key.space != Space::Body || queue == TOPIC, "{key:?}: contents rest in the topic");
    }
}

fn topic_options(partition: &Partition) -> TopicOptions {
    match &*partition.state.options {
        crate::EntityOptions::Topic(options) => options.clone(),
        other => panic!("{other:?}"),
    }
}

pub(super) struct Rig {
    pub(super) partition: Partition,
    pub(super) now: Timestamp,
    pub(super) store: Store,
    /// Of the last command.
    pub(super) events: Vec<Event>,
    /// Whether to check the invariants; large tests do so themselves.
    pub(super) checks: bool,
    random: StdRng,
    next_receiver: u64,
    next_queue: u64,
}

pub(super) fn options() -> SubscriptionOptions {
    SubscriptionOptions { lock_duration_ms: LOCK_MS, ..SubscriptionOptions::default() }
}

pub(super) fn with_sessions() -> SubscriptionOptions {
    SubscriptionOptions { requires_session: true, ..options() }
}

pub(super) fn labelled(content: &'static str, label: &str) -> NewMessage {
    let rule_properties = RuleProperties { label: Some(label.into()), ..RuleProperties::default() };
    NewMessage {
        content: Bytes::from_static(content.as_bytes()),
        rule_properties: Some(Arc::new(rule_properties)),
        ..NewMessage::default()
    }
}

pub(super) fn rule(name: &str, filter: Filter) -> Rule {
    Rule { name: name.into(), filter, action: None, created_at: Timestamp::default() }
}

/// A filter for messages with this label.
pub(super) fn label(label: &str) -> Filter {
    let filter =
        crate::CorrelationFilter { label: Some(label.into()), ..crate::CorrelationFilter::default() };
    Filter::Correlation(Box::new(filter))
}

impl Rig {
    pub(super) fn new(options: TopicOptions) -> Self {
        Self {
            partition: Partition::new(TOPIC, options),
            now: Timestamp(1_000_000),
            store: Store::default(),
            events: Vec::new(),
            checks: true,
            random: StdRng::seed_from_u64(1),
            next_receiver: 1,
            next_queue: TOPIC.0 + 1,
        }
    }

    /// A topic with default options.
    pub(super) fn plain() -> Self {
        Self::new(TopicOptions::default())
    }

    pub(super) fn handle(&mut self, request: Option<RequestId>, command: Command) -> Vec<Effect> {
        let mut outputs = Outputs::default();
        self.partition.handle(self.now, &mut self.random, request, command, &mut outputs);
        let mut batch = Batch::new();
        persist(PartitionId(TOPIC.0), &outputs.events, &mut batch);
        if !batch.is_empty() {
            assert!(
                batch.partitions().any(|partition| partition.0 == TOPIC.0),
                "batches build on each other"
            );
        }
        self.store.write(batch);
        if self.checks {
            check_invariants(&self.partition, &self.store);
        }
        self.events = outputs.events;
        outputs.effects
    }

    /// Handles a command and returns its reply; other effects are dropped.
    pub(super) fn ask(&mut self, command: Command) -> Reply {
        self.ask_all(command).0
    }

    /// Handles a command and returns its reply and the other effects.
    pub(super) fn ask_all(&mut self, command: Command) -> (Reply, Vec<Effect>) {
        let request = RequestId(99);
        let (replies, others): (Vec<Effect>, Vec<Effect>) = self
            .handle(Some(request), command)
            .into_iter()
            .partition(|effect| matches!(effect, Effect::Reply { request: of, .. } if *of == request));
        match <[Effect; 1]>::try_from(replies) {
            Ok([Effect::Reply { reply, .. }]) => (reply, others),
            other => panic!("one reply only: {other:?}"),
        }
    }

    pub(super) fn advance(&mut self, ms: u64) -> Vec<Effect> {
        self.now = self.now.plus_ms(ms);
        self.handle(None, Command::Tick)
    }

    /// Changes the options of the topic.
    pub(super) fn change_options(&mut self, options: TopicOptions) -> Vec<Effect> {
        self.handle(None, Command::ChangeOptions { options: Arc::new(options.into()) })
    }

    pub(super) fn restart(&mut self) {
        self.partition = self.store.restore(topic_options(&self.partition)).unwrap();
    }

    pub(super) fn done(&mut self, command: Command) -> Result<(), Refusal> {
        match self.ask(command) {
            Reply::Done(done) => done,
            other => panic!("{other:?}"),
        }
    }

    /// Without `rules`, the default rule is used.
    pub(super) fn try_subscribe(
        &mut self,
        name: &str,
        options: SubscriptionOptions,
        rules: Vec<Rule>,
    ) -> Result<QueueId, Refusal> {
        let queue = QueueId(self.next_queue);
        self.next_queue += 1;
        let rules = if rules.is_empty() { vec![Rule::default_rule()] } else { rules };
        self.done(Command::DeclareSubscription {
            intent: crate::Intent::Declare,
            queue,
            name: name.into(),
            options,
            rules,
        })
        .map(|()| queue)
    }

    pub(super) fn subscribe(&mut self, name: &str) -> QueueId {
        self.try_subscribe(name, options(), Vec::new()).unwrap()
    }

    /// A subscription with one rule.
    pub(super) fn subscribe_to(&mut self, name: &str, filter: Filter) -> QueueId {
        self.try_subscribe(name, options(), vec![rule("r", filter)]).unwrap()
    }

    pub(super) fn try_send(&mut self, messages: Vec<NewMessage>) -> Result<Vec<u64>, Refusal> {
        match self.ask(Command::Send { messages: messages.into() }) {
            Reply::Sent(sent) => sent.map(|numbers| numbers.iter().map(|number| number.0).collect()),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn send(&mut self, message: NewMessage) -> u64 {
        self.try_send(vec![message]).unwrap()[0]
    }

    pub(super) fn open(&mut self, queue: QueueId, sub_queue: SubQueue, mode: ReceiveMode) -> ReceiverId {
        self.try_open(queue, sub_queue, mode).unwrap()
    }

    /// Opens a receiver; where sessions are required, with the session "s".
    pub(super) fn try_open(
        &mut self,
        queue: QueueId,
        sub_queue: SubQueue,
        mode: ReceiveMode,
    ) -> Result<ReceiverId, Refusal> {
        let receiver = ReceiverId(self.next_receiver);
        self.next_receiver += 1;
        let options = ReceiverOptions { source: QueuePath { queue, sub_queue }, mode };
        let has_sessions = self.partition.state.queue(queue).is_some_and(|queue| queue.sessions.is_some());
        let session = (has_sessions && sub_queue == SubQueue::Main).then(|| SessionRequest {
            id: Some("s".into()),
            wait_until: self.now,
            ..SessionRequest::default()
        });
        match self.ask(Command::OpenReceiver { receiver, options, session }) {
            Reply::Opened(opened) => opened.map(|_| receiver),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn credit(&mut self, receiver: ReceiverId, messages: u64, drain: bool) -> Vec<Effect> {
        let limit = CreditLimit { messages, bytes: u64::MAX };
        self.handle(None, Command::Credit { receiver, limit, drain })
    }

    /// Opens a receiver, receives one message and closes it.
    pub(super) fn take(
        &mut self,
        queue: QueueId,
        sub_queue: SubQueue,
        mode: ReceiveMode,
    ) -> Option<(MessageView, Option<Lock>)> {
        let receiver = self.try_open(queue, sub_queue, mode).ok()?;
        let effects = self.credit(receiver, 1, true);
        let mut taken = deliveries(effects).pop().map(|(_, view, lock)| (view, lock));
        if let (ReceiveMode::ReceiveAndDelete, Some((_, lock))) = (mode, &mut taken) {
            self.settle(queue, lock.take().unwrap().token, Settlement::Complete).unwrap();
        }
        self.handle(None, Command::CloseReceiver { receiver });
        taken
    }

    /// Receives one message in peek-lock mode.
    pub(super) fn take_one(&mut self, queue: QueueId) -> Option<(MessageView, LockToken)> {
        let (view, lock) = self.take(queue, SubQueue::Main, ReceiveMode::PeekLock)?;
        Some((view, lock.unwrap().token))
    }

    pub(super) fn settle(
        &mut self,
        queue: QueueId,
        token: LockToken,
        settlement: Settlement,
    ) -> Result<(), Refusal> {
        match self.ask(Command::Settle { queue, tokens: smallvec![token], settlement }) {
            Reply::Settled(failures) => failures.into_iter().next().map_or(Ok(()), |one| Err(one.refusal)),
            other => panic!("{other:?}"),
        }
    }

    /// Receives one message and completes it.
    pub(super) fn complete_one(&mut self, queue: QueueId) -> MessageView {
        let (view, token) = self.take_one(queue).unwrap();
        self.settle(queue, token, Settlement::Complete).unwrap();
        view
    }

    pub(super) fn try_peek(
        &mut self,
        queue: QueueId,
        sub_queue: SubQueue,
    ) -> Result<Vec<MessageView>, Refusal> {
        let (from, count_max, bytes_max) = (SequenceNumber(0), 1000, usize::MAX);
        let source = QueuePath { queue, sub_queue };
        match self.ask(Command::Peek { from, count_max, bytes_max, source, session: None }) {
            Reply::Received(shown) => Ok(shown?.into_iter().map(|(view, _)| view).collect()),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn peek(&mut self, queue: QueueId, sub_queue: SubQueue) -> Vec<MessageView> {
        self.try_peek(queue, sub_queue).unwrap()
    }

    /// The bodies of a subscription's messages, by the topic's number.
    pub(super) fn waiting(&mut self, queue: QueueId) -> Vec<u64> {
        self.peek(queue, SubQueue::Main).iter().map(|view| view.body.0).collect()
    }

    pub(super) fn rules(&mut self, queue: QueueId, skip: u32, top: u32) -> Result<Vec<String>, Refusal> {
        match self.ask(Command::ListRules { queue, skip, top }) {
            Reply::Rules(rules) => Ok(rules?.iter().map(|rule| rule.name.to_string()).collect()),
            other => panic!("{other:?}"),
        }
    }

    /// Number of stored bodies.
    pub(super) fn bodies(&self) -> usize {
        self.store.entries(TOPIC, Space::Body).len()
    }

    /// Active and dead-lettered messages of a subscription.
    pub(super) fn counts(&self, queue: QueueId) -> (u64, u64) {
        let counts = self.partition.subscription_counts(queue).unwrap();
        (counts.active, counts.dead_letter)
    }
}
