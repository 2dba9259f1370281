//! A partition with a clock, a seed and an ordered map as store. After every command it checks the invariants: counts equal a
//! recount, and the stored data restores to the live state without its volatile part.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use peeklock_storage::{Batch, Entry, Operation, PartitionId, Space};
use rand::SeedableRng;
use rand::rngs::StdRng;
use smallvec::smallvec;

use crate::layout::HeadSubject;
use crate::partition::duplicates::Remembered;
use crate::partition::queue::Queue;
use crate::partition::{Counts, Outputs, Partition, Record, persist, sessions};
use crate::{
    Command, CreditLimit, Effect, EntityOptions, Event, Lock, LockToken, MessageState, MessageView,
    NewMessage, QueueId, QueueOptions, QueuePath, ReceiveMode, ReceiverId, ReceiverOptions, Refusal, Reply,
    RequestId, SequenceNumber, Settlement, SubQueue, Timestamp,
};

pub(super) const ID: PartitionId = PartitionId(7);
pub(super) const QUEUE: QueueId = QueueId(ID.0);
pub(super) const LOCK_MS: u64 = 60_000;

/// The contents of a store for one partition.
#[derive(Debug, Clone, Default)]
pub(super) struct Store(pub(super) BTreeMap<(Space, u64), Bytes>);

impl Store {
    pub(super) fn write(&mut self, batch: Batch) {
        for operation in batch.into_operations() {
            match operation {
                Operation::Put { key, value } => {
                    assert_eq!(key.partition, ID);
                    self.0.insert((key.space, key.number), value);
                }
                Operation::Delete { key } => {
                    let removed = self.0.remove(&(key.space, key.number));
                    assert!(removed.is_some(), "{key:?} was deleted but not there");
                }
                Operation::DeleteRange { space, partition, numbers } => {
                    assert_eq!(partition, ID);
                    let kind = |number| std::mem::discriminant(&HeadSubject::of(number));
                    let is_of_one_kind = kind(*numbers.start()) == kind(*numbers.end());
                    assert!(space == Space::Body || (space == Space::Head && is_of_one_kind), "{numbers:?}");
                    self.0.retain(|(of, number), _| *of != space || !numbers.contains(number));
                }
            }
        }
    }

    pub(super) fn entries(&self, space: Space) -> Vec<Entry> {
        let range = self.0.range((space, 0)..=(space, u64::MAX));
        range.map(|((_, number), value)| Entry { number: *number, value: value.clone() }).collect()
    }

    pub(super) fn restore(&self, options: EntityOptions) -> Partition {
        Partition::restore(QUEUE, options, self.entries(Space::Meta), self.entries(Space::Head)).unwrap()
    }
}

/// The durable part of a partition's state.
#[derive(Debug, PartialEq)]
pub(super) struct Durable {
    next_number: SequenceNumber,
    messages: Vec<(SequenceNumber, Record)>,
    counts: Counts,
    session_states: Vec<(String, u64, Bytes, Timestamp)>,
    remembered: Option<Vec<Remembered>>,
}

impl Durable {
    pub(super) fn of(partition: &Partition) -> Self {
        let mut messages = Vec::new();
        for sub_queue in SubQueue::ALL {
            let all = partition.state.entity.messages.get(sub_queue).range(SequenceNumber(0));
            messages.extend(all.map(|(number, record)| (number, record.clone())));
        }
        let entity = &partition.state.entity;
        let session_states = sessions::tests::states(entity);
        let remembered = partition.state.duplicates.as_ref().map(|duplicates| duplicates.all());
        let (next_number, counts) = (entity.next_number, partition.counts());
        Self { next_number, messages, counts, session_states, remembered }
    }

    fn recount(&self) -> Counts {
        let mut counts = Counts::default();
        counts.size_bytes += self.session_states.iter().map(|(.., state, _)| state.len() as u64).sum::<u64>();
        for (_, record) in &self.messages {
            counts.size_bytes += u64::from(record.content_bytes());
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

/// Panics unless the client activity of a queue equals a recount of its messages and receivers.
pub(super) fn check_activity(queue: &Queue) {
    let main = queue.messages.get(SubQueue::Main);
    let is_locked = |(number, record): &(SequenceNumber, &Record)| {
        main.is_locked(*number) && record.state() != MessageState::Deferred
    };
    let clients =
        queue.receivers.after(None).filter(|(_, receiver)| receiver.options.mode != ReceiveMode::Forward);
    let activity = queue.activity();
    assert_eq!(activity.locked, main.all().filter(is_locked).count() as u64);
    assert_eq!(activity.credit, clients.map(|(_, receiver)| receiver.credit()).sum::<u64>());
    assert!(activity.locked + queue.counts().deferred <= queue.counts().active);
}

/// Panics unless the store matches the partition's state, including bodies.
pub(super) fn check_invariants(partition: &Partition, store: &Store) {
    sessions::tests::check(&partition.state, &partition.state.entity);
    check_activity(&partition.state.entity);
    let live = Durable::of(partition);
    assert_eq!(live.counts, live.recount());
    assert_eq!(Durable::of(&store.restore(EntityOptions::clone(&partition.state.options))), live);
    let bodies: Vec<u64> = store.entries(Space::Body).iter().map(|entry| entry.number).collect();
    let mut referred: Vec<u64> =
        live.messages.iter().map(|(number, record)| record.body(*number).0).collect();
    referred.sort_unstable();
    assert_eq!(bodies, referred, "every content is referred to, and every reference leads to one");
}

pub(super) struct Rig {
    pub(super) partition: Partition,
    pub(super) now: Timestamp,
    pub(super) store: Store,
    /// Of the last command.
    pub(super) events: Vec<Event>,
    /// Of the last request for a session that can be taken over.
    pub(super) effects: Vec<Effect>,
    pub(super) random: StdRng,
    pub(super) next_receiver: u64,
}

/// A sub-queue of the rig's queue.
pub(super) const fn path(sub_queue: SubQueue) -> QueuePath {
    QueuePath { queue: QUEUE, sub_queue }
}

pub(super) fn options() -> QueueOptions {
    QueueOptions { lock_duration_ms: LOCK_MS, ..QueueOptions::default() }
}

pub(super) fn message(content: &'static str) -> NewMessage {
    NewMessage { content: Bytes::from_static(content.as_bytes()), ..NewMessage::default() }
}

pub(super) fn with_ttl(content: &'static str, time_to_live_ms: u64) -> NewMessage {
    NewMessage { time_to_live_ms: Some(time_to_live_ms), ..message(content) }
}

pub(super) fn abandon() -> Settlement {
    Settlement::Abandon { modify: Vec::new() }
}

pub(super) fn defer() -> Settlement {
    Settlement::Defer { modify: Vec::new() }
}

pub(super) fn dead_letter(reason: &str) -> Settlement {
    let why = crate::DeadLetter { reason: Some(reason.into()), description: None };
    Settlement::DeadLetter { why: why.into(), modify: Vec::new() }
}

impl Rig {
    pub(super) fn new(options: QueueOptions) -> Self {
        Self {
            partition: Partition::new(QUEUE, options),
            now: Timestamp(1_000_000),
            store: Store::default(),
            events: Vec::new(),
            effects: Vec::new(),
            random: StdRng::seed_from_u64(1),
            next_receiver: 1,
        }
    }

    pub(super) fn handle(&mut self, request: Option<RequestId>, command: Command) -> Vec<Effect> {
        let mut outputs = Outputs::default();
        self.partition.handle(self.now, &mut self.random, request, command, &mut outputs);
        let mut batch = Batch::new();
        persist(ID, &outputs.events, &mut batch);
        self.store.write(batch);
        check_invariants(&self.partition, &self.store);
        self.events = outputs.events;
        outputs.effects
    }

    /// Handles a command and returns its reply; other effects are dropped.
    pub(super) fn ask(&mut self, command: Command) -> Reply {
        let request = RequestId(99);
        let effects = self.handle(Some(request), command);
        let mut replies = effects.into_iter().filter_map(|effect| match effect {
            Effect::Reply { request: of, reply } if of == request => Some(reply),
            _ => None,
        });
        let reply = replies.next().expect("a reply");
        assert_eq!(replies.next(), None, "one reply only");
        reply
    }

    pub(super) fn advance(&mut self, ms: u64) -> Vec<Effect> {
        self.now = self.now.plus_ms(ms);
        self.handle(None, Command::Tick)
    }

    pub(super) fn change_options(&mut self, options: QueueOptions) -> Vec<Effect> {
        self.handle(None, Command::ChangeOptions { options: Arc::new(options.into()) })
    }

    pub(super) fn restart(&mut self) {
        self.partition = self.store.restore(EntityOptions::clone(&self.partition.state.options));
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

    pub(super) fn open(&mut self, sub_queue: SubQueue, mode: ReceiveMode) -> ReceiverId {
        self.try_attach(sub_queue, mode).unwrap()
    }

    pub(super) fn try_attach(
        &mut self,
        sub_queue: SubQueue,
        mode: ReceiveMode,
    ) -> Result<ReceiverId, Refusal> {
        let receiver = ReceiverId(self.next_receiver);
        self.next_receiver += 1;
        let options = ReceiverOptions { source: path(sub_queue), mode };
        match self.ask(Command::OpenReceiver { receiver, options, session: None }) {
            Reply::Opened(opened) => opened.map(|session| assert_eq!(session, None)).map(|()| receiver),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn credit(&mut self, receiver: ReceiverId, messages: u64, drain: bool) -> Vec<Effect> {
        let limit = CreditLimit { messages, bytes: u64::MAX };
        self.handle(None, Command::Credit { receiver, limit, drain })
    }

    /// Opens a receiver, receives up to `count` messages and closes it; nothing if the queue does not allow receiving.
    /// Messages received in receive-and-delete mode are removed at once.
    pub(super) fn take(
        &mut self,
        sub_queue: SubQueue,
        mode: ReceiveMode,
        count: u64,
    ) -> Vec<(MessageView, Option<Lock>)> {
        let receiver = match self.try_attach(sub_queue, mode) {
            Err(Refusal::EntityDisabled) => return Vec::new(),
            opened => opened.unwrap(),
        };
        let effects = self.credit(receiver, count, true);
        assert_eq!(effects.last(), Some(&Effect::Drained { receiver }));
        let taken = deliveries(effects).into_iter().map(|(_, view, lock)| (view, lock)).collect();
        let taken = if mode == ReceiveMode::ReceiveAndDelete { self.leave(taken) } else { taken };
        self.handle(None, Command::CloseReceiver { receiver });
        taken
    }

    /// Completes messages received in receive-and-delete mode.
    fn leave(&mut self, taken: Vec<(MessageView, Option<Lock>)>) -> Vec<(MessageView, Option<Lock>)> {
        for (_, lock) in &taken {
            self.settle(lock.unwrap().token, Settlement::Complete).unwrap();
        }
        taken.into_iter().map(|(view, _)| (view, None)).collect()
    }

    /// Receives one message of the main queue in peek-lock mode.
    pub(super) fn take_one(&mut self) -> Option<(MessageView, LockToken)> {
        self.take_one_from(SubQueue::Main)
    }

    pub(super) fn take_one_from(&mut self, sub_queue: SubQueue) -> Option<(MessageView, LockToken)> {
        let taken = self.take(sub_queue, ReceiveMode::PeekLock, 1).pop();
        taken.map(|(view, lock)| (view, lock.unwrap().token))
    }

    pub(super) fn settle(&mut self, token: LockToken, settlement: Settlement) -> Result<(), Refusal> {
        match self.ask(Command::Settle { queue: QUEUE, tokens: smallvec![token], settlement }) {
            Reply::Settled(failures) => failures.into_iter().next().map_or(Ok(()), |one| Err(one.refusal)),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn receive_deferred(
        &mut self,
        numbers: &[u64],
        mode: ReceiveMode,
    ) -> Result<Vec<(MessageView, Option<Lock>)>, Refusal> {
        let numbers = numbers.iter().copied().map(SequenceNumber).collect();
        match self.ask(Command::ReceiveDeferred {
            numbers,
            source: path(SubQueue::Main),
            mode,
            receiver: None,
            bytes_max: usize::MAX,
        }) {
            Reply::Received(Ok(taken)) if mode == ReceiveMode::ReceiveAndDelete => Ok(self.leave(taken)),
            Reply::Received(received) => received,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn peek(&mut self, sub_queue: SubQueue) -> Vec<MessageView> {
        let (from, count_max, bytes_max) = (SequenceNumber(0), 1000, usize::MAX);
        match self.ask(Command::Peek { from, count_max, bytes_max, source: path(sub_queue), session: None }) {
            Reply::Received(Ok(shown)) => shown.into_iter().map(|(view, _)| view).collect(),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn counts(&self) -> (u64, u64, u64) {
        let counts = self.partition.counts();
        (counts.active, counts.dead_letter, counts.scheduled)
    }
}

pub(super) fn deliveries(effects: Vec<Effect>) -> Vec<(ReceiverId, MessageView, Option<Lock>)> {
    let delivered = effects.into_iter().filter_map(|effect| match effect {
        Effect::Deliver { receiver, view, lock, .. } => Some((receiver, view, lock)),
        _ => None,
    });
    delivered.collect()
}

pub(super) fn numbers(effects: Vec<Effect>) -> Vec<u64> {
    deliveries(effects).iter().map(|(_, view, _)| view.sequence_number.0).collect()
}
