//! Transfer dead letters of a topic: messages that were sent by way of it and refused by their destination.

use smallvec::smallvec;

use super::super::rig::{deliveries, message};
use super::rig::{LOCK_MS, Rig, TOPIC};
use crate::partition::Outputs;
use crate::{
    Command, DeadLetter, Effect, EntityStatus, LockToken, MessageAction, MessageState, NewMessage, QueuePath,
    ReceiveMode, Refusal, Reply, SequenceNumber, Settlement, SubQueue, Timestamp, TopicOptions,
};

const KEPT: SubQueue = SubQueue::TransferDeadLetter;
const SOURCE: QueuePath = QueuePath { queue: TOPIC, sub_queue: KEPT };

fn why() -> DeadLetter {
    DeadLetter { reason: Some("refused".into()), description: Some("It is full.".into()) }
}

fn undelivered(messages: impl IntoIterator<Item = NewMessage>) -> Command {
    Command::KeepUndelivered { messages: messages.into_iter().collect(), why: why().into() }
}

impl Rig {
    fn keep(&mut self, content: &'static str) -> u64 {
        match self.ask(undelivered([message(content)])) {
            Reply::Sent(Ok(numbers)) => numbers[0].0,
            other => panic!("{other:?}"),
        }
    }

    fn kept(&mut self) -> Vec<u64> {
        self.peek(TOPIC, KEPT).iter().map(|view| view.sequence_number.0).collect()
    }

    fn take_kept(&mut self) -> Option<(u64, LockToken)> {
        let (view, lock) = self.take(TOPIC, KEPT, ReceiveMode::PeekLock)?;
        Some((view.sequence_number.0, lock.unwrap().token))
    }
}

#[test]
fn they_are_kept_whatever_the_status_and_size_and_received_once() {
    let options =
        TopicOptions { max_size_bytes: 4, status: EntityStatus::SendDisabled, ..Default::default() };
    let mut rig = Rig::new(options);
    let queue = rig.subscribe("s");
    assert_eq!((rig.keep("first"), rig.keep("second")), (1, 2));
    let counts = rig.partition.counts();
    assert_eq!((counts.transfer_dead_letter, counts.active, counts.size_bytes), (2, 0, 11));
    assert_eq!(rig.counts(queue), (0, 0), "no subscription gets a copy");
    let views = rig.peek(TOPIC, KEPT);
    assert_eq!(views[0].dead_letter.as_deref(), Some(&why()));
    assert_eq!((views[0].state, views[0].delivery_count), (MessageState::Active, 0));
    let (number, token) = rig.take_kept().unwrap();
    rig.settle(TOPIC, token, Settlement::Complete).unwrap();
    assert_eq!((number, rig.kept(), rig.bodies()), (1, vec![2], 1));
    assert!(rig.take(TOPIC, KEPT, ReceiveMode::ReceiveAndDelete).is_some());
    assert_eq!((rig.bodies(), rig.partition.counts().size_bytes), (0, 0));
}

#[test]
fn they_survive_a_restart_beside_scheduled_messages_and_copies() {
    let mut rig = Rig::plain();
    let queue = rig.subscribe("s");
    let later = NewMessage { scheduled_enqueue_time: Some(rig.now.plus_ms(1_000)), ..message("later") };
    rig.send(message("now"));
    rig.send(later);
    rig.keep("kept");
    rig.restart();
    assert_eq!((rig.kept(), rig.peek(TOPIC, SubQueue::Main).len()), (vec![3], 1));
    assert_eq!(rig.peek(TOPIC, KEPT)[0].dead_letter.as_deref(), Some(&why()));
    rig.advance(1_000);
    assert_eq!((rig.waiting(queue), rig.kept()), (vec![1, 2], vec![3]));
    let (_, token) = rig.take_kept().unwrap();
    rig.settle(TOPIC, token, Settlement::Complete).unwrap();
    assert_eq!(rig.bodies(), 2);
}

#[test]
fn they_are_settled_like_the_dead_letters_of_a_queue() {
    let mut rig = Rig::plain();
    let number = rig.keep("kept");
    let dead_letter = Settlement::DeadLetter { why: why().into(), modify: Vec::new() };
    let abandon = || Settlement::Abandon { modify: Vec::new() };
    for _ in 0..20 {
        let (_, token) = rig.take_kept().unwrap();
        assert_eq!(rig.settle(TOPIC, token, dead_letter.clone()), Err(Refusal::AlreadyDeadLettered));
        rig.settle(TOPIC, token, abandon()).unwrap();
    }
    assert_eq!(rig.peek(TOPIC, KEPT)[0].delivery_count, 0, "there is no maximum");
    let (_, token) = rig.take_kept().unwrap();
    rig.advance(LOCK_MS / 2);
    let Reply::Renewed(Ok(until)) = rig.ask(Command::RenewLocks { queue: TOPIC, tokens: vec![token] }) else {
        panic!()
    };
    assert_eq!(until, [rig.now.plus_ms(LOCK_MS)]);
    rig.settle(TOPIC, token, Settlement::Defer { modify: Vec::new() }).unwrap();
    assert_eq!(rig.take_kept(), None);
    rig.restart();
    let deferred = |sub_queue| Command::ReceiveDeferred {
        numbers: vec![SequenceNumber(number)],
        source: QueuePath { queue: TOPIC, sub_queue },
        mode: ReceiveMode::PeekLock,
        receiver: None,
        bytes_max: usize::MAX,
    };
    assert!(matches!(rig.ask(deferred(SubQueue::Main)), Reply::Received(Err(Refusal::NotAllowed(_)))));
    let Reply::Received(Ok(received)) = rig.ask(deferred(KEPT)) else { panic!() };
    let token = received[0].1.unwrap().token;
    rig.advance(LOCK_MS);
    assert_eq!(rig.settle(TOPIC, token, Settlement::Complete), Err(Refusal::MessageLockLost));
    let undefer = Command::ActOnMessages {
        source: SOURCE,
        numbers: vec![SequenceNumber(number)],
        action: MessageAction::Undefer,
    };
    rig.done(undefer).unwrap();
    let (_, token) = rig.take_kept().unwrap();
    let postponed = Settlement::Postpone { until: rig.now.plus_ms(500), modify: Vec::new() };
    rig.settle(TOPIC, token, postponed).unwrap();
    assert_eq!(rig.take_kept(), None);
    rig.advance(500);
    assert!(rig.take_kept().is_some());
}

#[test]
fn nothing_else_of_a_topic_is_received_or_deleted_in_bulk() {
    let mut rig = Rig::plain();
    rig.send(NewMessage { scheduled_enqueue_time: Some(rig.now.plus_ms(1_000)), ..message("later") });
    rig.keep("kept");
    let delete = |sub_queue| Command::DeleteMessages {
        source: QueuePath { queue: TOPIC, sub_queue },
        count_max: 10,
        enqueued_until: Timestamp::NEVER,
        receiver: None,
    };
    for sub_queue in [SubQueue::Main, SubQueue::DeadLetter] {
        let opened = rig.try_open(TOPIC, sub_queue, ReceiveMode::PeekLock);
        assert!(matches!(opened, Err(Refusal::NotAllowed(_))));
        assert!(matches!(rig.ask(delete(sub_queue)), Reply::Deleted(Err(Refusal::NotAllowed(_)))));
    }
    assert_eq!(rig.ask(delete(KEPT)), Reply::Deleted(Ok(1)));
    assert_eq!((rig.kept(), rig.peek(TOPIC, SubQueue::Main).len(), rig.bodies()), (vec![], 1, 1));
}

#[test]
fn they_never_expire() {
    let options = TopicOptions { default_message_time_to_live_ms: Some(10), ..TopicOptions::default() };
    let mut rig = Rig::new(options);
    rig.keep("kept");
    let receiver = rig.open(TOPIC, KEPT, ReceiveMode::PeekLock);
    rig.advance(1_000_000);
    assert_eq!(deliveries(rig.credit(receiver, 1, false)).len(), 1);
}

#[test]
fn a_listening_receiver_gets_them_until_the_topic_ends_or_is_disabled() {
    let mut rig = Rig::plain();
    let receiver = rig.open(TOPIC, KEPT, ReceiveMode::PeekLock);
    rig.credit(receiver, 5, false);
    let effects = rig.handle(None, undelivered([message("a"), message("b")]));
    assert_eq!(deliveries(effects).len(), 2);
    let closed = |refusal| Effect::ReceiverClosed { receiver, refusal };
    let disabled = TopicOptions { status: EntityStatus::Disabled, ..TopicOptions::default() };
    assert_eq!(rig.change_options(disabled), [closed(Refusal::EntityDisabled)]);
    assert_eq!(rig.try_open(TOPIC, KEPT, ReceiveMode::PeekLock), Err(Refusal::EntityDisabled));
    rig.change_options(TopicOptions::default());
    let receiver = rig.open(TOPIC, KEPT, ReceiveMode::PeekLock);
    rig.checks = false;
    let effects = rig.handle(None, Command::EndEntity);
    let refusal = Refusal::EntityDeleted;
    assert!(effects.contains(&Effect::ReceiverClosed { receiver, refusal }), "{effects:?}");
}

/// The usual transaction: a message of a subscription is completed, and another is sent to a queue that refuses it.
#[test]
fn they_are_kept_together_with_a_settlement_of_a_subscription() {
    let mut rig = Rig::plain();
    let queue = rig.subscribe("s");
    rig.send(message("old"));
    let (_, token) = rig.take_one(queue).unwrap();
    let unit = [
        undelivered([message("new")]),
        Command::Settle { queue, tokens: smallvec![token], settlement: Settlement::Complete },
    ];
    let mut outputs = Outputs::default();
    let mut random = <rand::rngs::StdRng as rand::SeedableRng>::seed_from_u64(1);
    let named = unit.iter().enumerate();
    assert_eq!(rig.partition.prepare(rig.now, &mut random, named, &mut outputs), Ok(()));
    for command in unit {
        let mut left = usize::MAX;
        rig.partition.carry_out(rig.now, &mut random, command, &mut left, &mut outputs).unwrap();
    }
    let counts = rig.partition.counts();
    assert_eq!((counts.transfer_dead_letter, counts.size_bytes, rig.counts(queue)), (1, 3, (0, 0)));
}
