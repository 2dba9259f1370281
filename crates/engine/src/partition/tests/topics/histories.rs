//! Random histories of a topic with few names, labels and small times, so that limits coincide often. The rig checks the
//! invariants after every command; a small model checks the copies.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::super::rig::deliveries;
use super::rig::{Rig, label, labelled, options, rule, with_sessions};
use crate::{
    Command, Filter, LockToken, NewMessage, QueueId, QueuePath, ReceiveMode, ReceiverId, Reply,
    SequenceNumber, Settlement, SubQueue, SubscriptionOptions, TopicOptions,
};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const LABELS: [&str; 3] = ["x", "y", "z"];

#[derive(Debug, Clone)]
enum Move {
    Send(Vec<Draft>),
    Cancel(usize),
    Declare { name: usize, sessions: bool, life_ms: Option<u64>, wanted: Option<usize> },
    Delete(usize),
    AddRule { queue: usize, name: usize, wanted: Option<usize> },
    RemoveRule { queue: usize, name: usize },
    Take { queue: usize, sub_queue: SubQueue, mode: ReceiveMode },
    Listen(usize, ReceiveMode),
    SetState(usize, Option<usize>),
    Close(usize),
    Settle(usize, Settlement),
    ReceiveDeferred { queue: usize, number: u64, mode: ReceiveMode },
    Wait(u64),
    Restart,
}

#[derive(Debug, Clone)]
struct Draft {
    label: usize,
    life_ms: Option<u64>,
    delay_ms: Option<u64>,
    session: bool,
}

fn wanted() -> impl Strategy<Value = Option<usize>> {
    prop_oneof![1 => Just(None), 3 => (0..LABELS.len()).prop_map(Some)]
}

fn draft() -> impl Strategy<Value = Draft> {
    let life_ms = prop_oneof![2 => Just(None), 1 => (0..30u64).prop_map(Some)];
    let delay_ms = prop_oneof![3 => Just(None), 1 => (0..20u64).prop_map(Some)];
    (0..LABELS.len(), life_ms, delay_ms, any::<bool>())
        .prop_map(|(label, life_ms, delay_ms, session)| Draft { label, life_ms, delay_ms, session })
}

fn one_move() -> impl Strategy<Value = Move> {
    let sub_queue = || prop_oneof![3 => Just(SubQueue::Main), 1 => Just(SubQueue::DeadLetter)];
    let mode = || prop_oneof![3 => Just(ReceiveMode::PeekLock), 1 => Just(ReceiveMode::ReceiveAndDelete)];
    let settlement = prop_oneof![
        3 => Just(Settlement::Complete),
        1 => Just(super::super::rig::abandon()),
        1 => Just(super::super::rig::defer()),
        1 => Just(super::super::rig::dead_letter("r")),
        1 => Just(Settlement::Release),
    ];
    let life_ms = prop_oneof![2 => Just(None), 1 => (1..20u64).prop_map(Some)];
    let (queue, name) = (|| 0..6usize, || 0..NAMES.len());
    prop_oneof![
        12 => prop::collection::vec(draft(), 1..4).prop_map(Move::Send),
        1 => (0..4usize).prop_map(Move::Cancel),
        6 => (name(), any::<bool>(), life_ms, wanted()).prop_map(|(name, sessions, life_ms, wanted)| {
            Move::Declare { name, sessions, life_ms, wanted }
        }),
        1 => queue().prop_map(Move::Delete),
        3 => (queue(), name(), wanted()).prop_map(|(queue, name, wanted)| Move::AddRule { queue, name, wanted }),
        2 => (queue(), name()).prop_map(|(queue, name)| Move::RemoveRule { queue, name }),
        12 => (queue(), sub_queue(), mode()).prop_map(|(queue, sub_queue, mode)| {
            Move::Take { queue, sub_queue, mode }
        }),
        4 => (queue(), mode()).prop_map(|(queue, mode)| Move::Listen(queue, mode)),
        3 => (queue(), prop_oneof![1 => Just(None), 2 => (0..5usize).prop_map(Some)])
            .prop_map(|(receiver, state)| Move::SetState(receiver, state)),
        1 => queue().prop_map(Move::Close),
        10 => (0..4usize, settlement).prop_map(|(pick, settlement)| Move::Settle(pick, settlement)),
        4 => (queue(), 1..6u64, mode()).prop_map(|(queue, number, mode)| {
            Move::ReceiveDeferred { queue, number, mode }
        }),
        6 => (0..25u64).prop_map(Move::Wait),
        2 => Just(Move::Restart),
    ]
}

fn filter(wanted: Option<usize>) -> Filter {
    wanted.map_or(Filter::True, |wanted| label(LABELS[wanted]))
}

/// The state of a history.
struct Player {
    rig: Rig,
    queues: Vec<QueueId>,
    tokens: Vec<(QueueId, LockToken)>,
    receivers: Vec<ReceiverId>,
    scheduled: Vec<u64>,
    /// The label that each rule of each subscription requires, by name of the rule.
    rules: BTreeMap<QueueId, BTreeMap<String, Option<usize>>>,
}

impl Player {
    fn new(options: TopicOptions) -> Self {
        let mut rig = Rig::new(options);
        rig.now = crate::Timestamp(1_000);
        Self {
            rig,
            queues: Vec::new(),
            tokens: Vec::new(),
            receivers: Vec::new(),
            scheduled: Vec::new(),
            rules: BTreeMap::new(),
        }
    }

    fn queue(&self, pick: usize) -> Option<QueueId> {
        self.queues.get(pick % self.queues.len().max(1)).copied()
    }

    fn play(&mut self, step: Move) -> Option<()> {
        match step {
            Move::Send(drafts) => self.send(&drafts),
            Move::Cancel(pick) => {
                let numbers = vec![SequenceNumber(*self.scheduled.get(pick)?)];
                let _ = self.rig.done(Command::CancelScheduled { numbers });
            }
            Move::Declare { name, sessions, life_ms, wanted } => {
                self.declare(name, sessions, life_ms, wanted);
            }
            Move::Delete(pick) => {
                let queue = self.queue(pick)?;
                self.rig.done(Command::DeleteSubscription { queue }).unwrap();
                self.queues.retain(|known| *known != queue);
                self.rules.remove(&queue);
            }
            Move::AddRule { queue, name, wanted } => {
                let (queue, name) = (self.queue(queue)?, NAMES[name].to_owned());
                let added = self.rig.done(Command::AddRule { queue, rule: rule(&name, filter(wanted)) });
                let rules = self.rules.get_mut(&queue)?;
                assert_eq!(added.is_ok(), !rules.contains_key(&name));
                rules.entry(name).or_insert(wanted);
            }
            Move::RemoveRule { queue, name } => {
                let queue = self.queue(queue)?;
                let removed = self.rig.done(Command::RemoveRule { queue, name: NAMES[name].into() });
                assert_eq!(removed.is_ok(), self.rules.get_mut(&queue)?.remove(NAMES[name]).is_some());
            }
            Move::Take { queue, sub_queue, mode } => {
                let queue = self.queue(queue)?;
                let (_, lock) = self.rig.take(queue, sub_queue, mode)?;
                self.tokens.push((queue, lock?.token));
            }
            Move::Listen(pick, mode) => {
                let queue = self.queue(pick)?;
                let receiver = self.rig.try_open(queue, SubQueue::Main, mode).ok()?;
                let effects = self.rig.credit(receiver, 3, false);
                let locks = deliveries(effects).into_iter().filter_map(|(_, _, lock)| lock);
                self.tokens.extend(locks.map(|lock| (queue, lock.token)));
                self.receivers.push(receiver);
            }
            Move::SetState(pick, state) => {
                let receiver = *self.receivers.iter().rev().nth(pick)?;
                let state = state.map(|bytes| Bytes::from(vec![7; bytes]));
                self.rig.ask(Command::SetSessionState { receiver, state });
            }
            Move::Close(pick) => {
                let receiver = *self.receivers.get(pick)?;
                self.rig.handle(None, Command::CloseReceiver { receiver });
            }
            Move::Settle(pick, settlement) => {
                let (queue, token) = *self.tokens.iter().rev().nth(pick)?;
                let _ = self.rig.settle(queue, token, settlement);
            }
            Move::ReceiveDeferred { queue, number, mode } => {
                let queue = self.queue(queue)?;
                let (source, numbers) = (QueuePath::main(queue), vec![SequenceNumber(number)]);
                let (receiver, bytes_max) = (None, usize::MAX);
                let command = Command::ReceiveDeferred { numbers, source, mode, receiver, bytes_max };
                if let Reply::Received(Ok(received)) = self.rig.ask(command) {
                    let locks = received.into_iter().filter_map(|(_, lock)| lock);
                    self.tokens.extend(locks.map(|lock| (queue, lock.token)));
                }
            }
            Move::Wait(ms) => drop(self.rig.advance(ms)),
            Move::Restart => {
                self.rig.restart();
                self.receivers.clear();
            }
        }
        Some(())
    }

    fn declare(&mut self, name: usize, sessions: bool, life_ms: Option<u64>, wanted: Option<usize>) {
        let options = SubscriptionOptions {
            lock_duration_ms: 15,
            max_delivery_count: 2,
            default_message_time_to_live_ms: life_ms,
            dead_lettering_on_message_expiration: name.is_multiple_of(2),
            ..if sessions { with_sessions() } else { options() }
        };
        let rules = vec![rule(NAMES[name], filter(wanted))];
        let known = self.rig.partition.subscriptions().find(|known| &*known.name == NAMES[name]);
        if let Some(queue) = known.map(|known| known.queue) {
            let name = NAMES[name].into();
            let _ = self.rig.done(Command::DeclareSubscription {
                intent: crate::Intent::Declare,
                queue,
                name,
                options,
                rules,
            });
        } else {
            let queue = self.rig.try_subscribe(NAMES[name], options, rules).unwrap();
            self.queues.push(queue);
            self.rules.insert(queue, BTreeMap::from([(NAMES[name].to_owned(), wanted)]));
        }
    }

    /// Sends, and compares each subscription's new messages with its rules.
    fn send(&mut self, drafts: &[Draft]) {
        // Due messages are published first and are not part of the check.
        self.rig.handle(None, Command::Tick);
        let message = |draft: &Draft| NewMessage {
            time_to_live_ms: draft.life_ms,
            scheduled_enqueue_time: draft.delay_ms.map(|delay_ms| self.rig.now.plus_ms(delay_ms)),
            session_id: draft.session.then(|| "s".into()),
            ..labelled("abc", LABELS[draft.label])
        };
        let messages: Vec<NewMessage> = drafts.iter().map(message).collect();
        let next = |rig: &Rig, queue| rig.partition.state.queue(queue).unwrap().next_number.0;
        let before: Vec<u64> = self.queues.iter().map(|queue| next(&self.rig, *queue)).collect();
        let Ok(numbers) = self.rig.try_send(messages) else { return };
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
        let is_later = |draft: &Draft| draft.delay_ms.is_some_and(|delay_ms| delay_ms > 0);
        for (queue, before) in self.queues.iter().zip(before) {
            let wants = |draft: &&Draft| {
                let mut rules = self.rules[queue].values();
                !is_later(draft) && rules.any(|wanted| wanted.is_none_or(|wanted| wanted == draft.label))
            };
            let expected = drafts.iter().filter(wants).count() as u64;
            assert_eq!(next(&self.rig, *queue) - before, expected);
        }
        let later = drafts.iter().zip(numbers).filter(|(draft, _)| is_later(draft));
        self.scheduled.extend(later.map(|(_, number)| number));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_store_and_the_topic_agree_after_any_history(
        life_ms in prop_oneof![1 => Just(None), 1 => (5..25u64).prop_map(Some)],
        moves in prop::collection::vec(one_move(), 0..80),
    ) {
        let options = TopicOptions {
            default_message_time_to_live_ms: life_ms,
            max_size_bytes: 60,
            ..TopicOptions::default()
        };
        let mut player = Player::new(options);
        for step in moves {
            player.play(step);
        }
        for queue in std::mem::take(&mut player.queues) {
            player.rig.done(Command::DeleteSubscription { queue }).unwrap();
        }
        player.rig.advance(1_000);
        prop_assert_eq!(player.rig.partition.counts(), crate::partition::Counts::default());
        prop_assert_eq!(player.rig.bodies(), 0);
    }
}
