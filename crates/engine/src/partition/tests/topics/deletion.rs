use std::collections::BTreeSet;

use peeklock_storage::{PartitionId, Space};

use super::super::rig::{dead_letter, defer, message};
use super::rig::{Rig, TOPIC, options, rule, with_sessions};
use crate::{
    Command, CreditLimit, Effect, Filter, Intent, MessageAction, NewMessage, QueueId, QueuePath, ReceiveMode,
    ReceiverId, ReceiverOptions, Refusal, Reply, RequestId, SequenceNumber, SessionRequest, Settlement,
    SubQueue, SubscriptionOptions,
};

#[test]
fn a_subscription_is_deleted_with_all_its_messages() {
    let mut rig = Rig::plain();
    let [gone, other] = ["gone", "other"].map(|name| rig.subscribe(name));
    for content in ["shared", "dead", "deferred", "locked"] {
        rig.send(message(content));
    }
    for _ in 0..3 {
        rig.complete_one(other);
    }
    for settlement in [dead_letter("bad"), defer()] {
        let (_, token) = rig.take_one(gone).unwrap();
        rig.settle(gone, token, settlement).unwrap();
    }
    let (_, lost) = rig.take_one(gone).unwrap();
    let (_, kept) = rig.take_one(other).unwrap();
    assert_eq!(rig.bodies(), 4);
    rig.done(Command::DeleteSubscription { queue: gone }).unwrap();
    assert_eq!(
        (rig.bodies(), rig.partition.counts().size_bytes),
        (1, 6),
        "the message that the other has not read"
    );
    assert!(rig.store.0.keys().all(|key| key.partition != PartitionId(gone.0)));
    assert_eq!(rig.settle(gone, lost, Settlement::Complete), Err(Refusal::MessageLockLost));
    rig.settle(other, kept, Settlement::Complete).unwrap();
    assert_eq!(rig.bodies(), 0);
    assert_eq!(rig.partition.next_deadline(), None, "no lock is left behind");
    rig.restart();
    assert_eq!(rig.partition.subscription_count(), 1);
}

/// The others may hold a million locks.
#[test]
fn the_deletion_of_a_subscription_without_locks_visits_no_locks_of_others() {
    let mut rig = Rig::plain();
    let [gone, other] = ["gone", "other"].map(|name| rig.subscribe(name));
    rig.send(message("x"));
    rig.take_one(other).unwrap();
    assert_eq!(rig.partition.deleting_visits(gone), 1);
    rig.done(Command::DeleteSubscription { queue: gone }).unwrap();
    assert_eq!((rig.partition.state.locks.scans, rig.partition.state.locks.len()), (0, 1));
    let (deferring, kept) = (rig.subscribe("deferring"), rig.subscribe("kept"));
    rig.send(message("y"));
    rig.take_one(deferring).unwrap();
    rig.take_one(kept).unwrap();
    rig.done(Command::DeleteSubscription { queue: deferring }).unwrap();
    assert_eq!((rig.partition.state.locks.scans, rig.partition.state.locks.len()), (1, 2));
}

#[test]
fn a_subscription_declared_at_the_instant_of_its_end_is_a_new_one() {
    let mut rig = Rig::plain();
    let idle = SubscriptionOptions { auto_delete_on_idle_ms: Some(1000), ..options() };
    let queue = rig.try_subscribe("a", idle, vec![rule("all", Filter::True)]).unwrap();
    rig.send(message("x"));
    rig.now = rig.now.plus_ms(1000);
    let (name, rules) = ("a".into(), vec![rule("all", Filter::True)]);
    rig.done(Command::DeclareSubscription {
        intent: Intent::Declare,
        queue,
        name,
        options: options(),
        rules,
    })
    .unwrap();
    rig.restart();
    assert_eq!(rig.peek(queue, SubQueue::Main), []);
    rig.send(message("y"));
    assert_eq!(rig.complete_one(queue).sequence_number.0, 1);
}

#[test]
fn attached_links_are_notified() {
    let mut rig = Rig::plain();
    let [gone, other] = ["gone", "other"].map(|name| rig.subscribe(name));
    let mut open = |queue| rig.open(queue, SubQueue::Main, ReceiveMode::PeekLock);
    let (receiver, stays) = (open(gone), open(other));
    let watcher = ReceiverId(50);
    rig.handle(None, Command::Watch { watcher, queue: gone, sends: false });
    rig.handle(None, Command::Watch { watcher: ReceiverId(51), queue: TOPIC, sends: false });
    rig.send(message("x"));
    let (reply, effects) = rig.ask_all(Command::DeleteSubscription { queue: gone });
    assert_eq!(reply, Reply::Done(Ok(())));
    let told: BTreeSet<ReceiverId> = effects
        .iter()
        .map(|effect| match effect {
            Effect::ReceiverClosed { receiver, refusal: Refusal::EntityDeleted } => *receiver,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, BTreeSet::from([receiver, watcher]));
    let limit = CreditLimit { messages: 5, bytes: u64::MAX };
    assert!(rig.handle(None, Command::Credit { receiver, limit, drain: true }).is_empty(), "it is closed");
    assert_eq!(rig.credit(stays, 5, false).len(), 1);
}

#[test]
fn deleted_entities_refuse_commands() {
    let mut rig = Rig::plain();
    let queue = rig.subscribe("gone");
    rig.done(Command::DeleteSubscription { queue }).unwrap();
    assert_eq!(rig.done(Command::DeleteSubscription { queue }), Err(Refusal::EntityDeleted));
    assert_eq!(rig.done(Command::DeleteSubscription { queue: TOPIC }), Err(Refusal::EntityDeleted));
    assert_eq!(rig.try_peek(queue, SubQueue::Main), Err(Refusal::EntityDeleted));
    let watcher = ReceiverId(1);
    let told = rig.handle(None, Command::Watch { watcher, queue, sends: false });
    assert_eq!(told, [Effect::ReceiverClosed { receiver: watcher, refusal: Refusal::EntityDeleted }]);
    let again = rig.subscribe("gone");
    assert_ne!(again, queue, "the name is free, the number is not");
    rig.send(message("x"));
    assert_eq!(rig.take_one(again).unwrap().0.sequence_number.0, 1);
}

#[test]
fn a_message_that_came_and_went_within_a_turn_is_not_written() {
    use crate::partition::{Outputs, persist};
    let mut rig = Rig::plain();
    let stays = rig.subscribe("stays");
    let queue = QueueId(99);
    let mut outputs = Outputs::default();
    let mut random = <rand::rngs::StdRng as rand::SeedableRng>::seed_from_u64(1);
    let mut act = |command| rig.partition.handle(rig.now, &mut random, None, command, &mut outputs);
    let options = super::rig::options();
    act(Command::DeclareSubscription {
        intent: Intent::Declare,
        queue,
        name: "short".into(),
        options,
        rules: vec![crate::Rule::default_rule()],
    });
    act(Command::Send { messages: smallvec::smallvec![message("x")] });
    act(Command::DeleteSubscription { queue });
    let mut batch = peeklock_storage::Batch::new();
    persist(PartitionId(TOPIC.0), &outputs.events, &mut batch);
    let mut puts: Vec<_> = batch
        .operations()
        .iter()
        .filter_map(|operation| match operation {
            peeklock_storage::Operation::Put { key, .. } => Some((key.partition.0, key.space, key.number)),
            _ => None,
        })
        .collect();
    puts.sort_unstable();
    let expected = [
        (TOPIC.0, Space::Meta, 16),
        (TOPIC.0, Space::Body, 1),
        (stays.0, Space::Meta, 16),
        (stays.0, Space::Head, 1),
    ];
    assert_eq!(puts, expected);
}

#[test]
fn a_message_of_a_subscription_that_was_created_again_within_the_turn_is_stored() {
    use crate::partition::{Outputs, persist};
    let mut rig = Rig::plain();
    let queue = rig.subscribe("again");
    for _ in 0..20 {
        rig.send(message("old"));
    }
    let mut outputs = Outputs::default();
    let mut random = <rand::rngs::StdRng as rand::SeedableRng>::seed_from_u64(1);
    let mut act = |command| rig.partition.handle(rig.now, &mut random, None, command, &mut outputs);
    let (source, numbers) = (QueuePath::main(queue), (1..=20).map(SequenceNumber).collect());
    act(Command::ActOnMessages { source, numbers, action: MessageAction::Delete });
    act(Command::DeleteSubscription { queue });
    act(Command::DeclareSubscription {
        intent: Intent::Declare,
        options: SubscriptionOptions::default(),
        queue,
        name: "again".into(),
        rules: vec![crate::Rule::default_rule()],
    });
    act(Command::Send { messages: smallvec::smallvec![message("new")] });
    let mut batch = peeklock_storage::Batch::new();
    persist(PartitionId(TOPIC.0), &outputs.events, &mut batch);
    rig.store.write(batch);
    rig.restart();
    assert!(rig.partition.has_message(queue, SequenceNumber(1)), "the deletion of the old ones spares it");
    assert_eq!(rig.peek(queue, SubQueue::Main).len(), 1);
}

#[test]
fn long_runs_of_contents_go_as_ranges() {
    use crate::partition::{Outputs, persist};
    let mut rig = Rig::plain();
    let [gone, other] = ["gone", "other"].map(|name| rig.subscribe(name));
    for _ in 0..100 {
        rig.send(message("x"));
    }
    for _ in 0..50 {
        rig.complete_one(other);
    }
    rig.send(message("y"));
    let mut outputs = Outputs::default();
    let mut random = <rand::rngs::StdRng as rand::SeedableRng>::seed_from_u64(1);
    let delete = Command::DeleteSubscription { queue: gone };
    rig.partition.handle(rig.now, &mut random, None, delete, &mut outputs);
    let mut batch = peeklock_storage::Batch::new();
    persist(PartitionId(TOPIC.0), &outputs.events, &mut batch);
    let bodies: Vec<_> = batch
        .operations()
        .iter()
        .filter(|operation| match operation {
            peeklock_storage::Operation::Put { key, .. } | peeklock_storage::Operation::Delete { key } => {
                key.space == Space::Body
            }
            peeklock_storage::Operation::DeleteRange { space, partition, .. } => {
                *space == Space::Body && partition.0 == TOPIC.0
            }
        })
        .collect();
    let run = peeklock_storage::Operation::DeleteRange {
        space: Space::Body,
        partition: PartitionId(TOPIC.0),
        numbers: 1..=50,
    };
    assert_eq!(bodies, [&run]);
    rig.store.write(batch);
    super::rig::check_invariants(&rig.partition, &rig.store);
}

#[test]
fn sessions_are_deleted_with_their_subscription_and_waiting_receivers_are_notified() {
    let mut rig = Rig::plain();
    let queue = rig.try_subscribe("sessions", with_sessions(), Vec::new()).unwrap();
    rig.send(NewMessage { session_id: Some("s".into()), ..message("x") });
    let holder = rig.open(queue, SubQueue::Main, ReceiveMode::PeekLock);
    assert_eq!(rig.credit(holder, 1, false).len(), 1);
    let state = Some(bytes::Bytes::from_static(b"state"));
    rig.done(Command::SetSessionState { receiver: holder, state }).unwrap();
    assert_eq!(rig.partition.counts().size_bytes, 6);
    let (waiter, request) = (ReceiverId(77), RequestId(5));
    let options = ReceiverOptions { source: QueuePath::main(queue), mode: ReceiveMode::PeekLock };
    let session =
        Some(SessionRequest { id: None, wait_until: rig.now.plus_ms(1_000), ..SessionRequest::default() });
    rig.handle(Some(request), Command::OpenReceiver { receiver: waiter, options, session });
    let (_, effects) = rig.ask_all(Command::DeleteSubscription { queue });
    let reply = Reply::Opened(Err(Refusal::EntityDeleted));
    assert!(effects.contains(&Effect::Reply { request, reply }), "{effects:?}");
    let refusal = Refusal::EntityDeleted;
    assert!(effects.contains(&Effect::ReceiverClosed { receiver: holder, refusal }));
    assert_eq!(rig.partition.counts().size_bytes, 0);
    assert_eq!(rig.partition.next_deadline(), None, "no lock and no wait is left behind");
    assert_eq!(rig.partition.state.locks.len(), 0);
}

#[test]
fn s32_an_idle_subscription_is_deleted_and_its_topic_stays() {
    let mut rig = Rig::plain();
    let idle = SubscriptionOptions { auto_delete_on_idle_ms: Some(300_000), ..options() };
    let queue = rig.try_subscribe("idle", idle, Vec::new()).unwrap();
    let other = rig.subscribe("other");
    rig.advance(200_000);
    rig.done(Command::AddRule { queue, rule: rule("more", Filter::False) }).unwrap();
    rig.advance(200_000);
    rig.peek(queue, SubQueue::Main);
    rig.send(message("no use of the subscription"));
    rig.restart();
    let watcher = ReceiverId(1);
    rig.handle(None, Command::Watch { watcher, queue, sends: false });
    rig.advance(239_999);
    assert_eq!(rig.partition.subscription_count(), 2);
    let told = rig.advance(60_001);
    assert_eq!(told, [Effect::ReceiverClosed { receiver: watcher, refusal: Refusal::EntityDeleted }]);
    assert!(rig.partition.subscription(queue).is_none());
    assert_eq!(rig.waiting(other), [1]);
}
