//! Messages forwarded to another entity: each exactly once, in order, with its forwarding information.

use peeklock_engine::runtime::{Clock, Output, Response};
use peeklock_engine::{
    Command, Delivery, EntityOptions, Forwarding, NewMessage, QueueOptions, ReceiveMode, Refusal,
    SequenceNumber, Settlement, SubQueue,
};
use peeklock_storage::{Error, Pressure, ShardId, Space, Store};

use crate::broker::{Broker, Client, QUEUE, quiet, token};

const LATER_MS: u64 = 60_000;

pub(crate) fn to(target: &str) -> Forwarding {
    Forwarding { forward_to: Some(target.into()), ..Forwarding::default() }
}

pub(crate) fn dead_letters_to(target: &str) -> Forwarding {
    Forwarding { forward_dead_lettered_messages_to: Some(target.into()), ..Forwarding::default() }
}

pub(crate) fn forwarding(forwarding: Forwarding) -> QueueOptions {
    QueueOptions { forwarding, ..QueueOptions::default() }
}

pub(crate) fn client_of(broker: &Broker, queue: &str) -> Client {
    let entity = broker.namespace.entity(queue).unwrap();
    let mut client = broker.client();
    (client.handle, client.queue) = (entity.partition, entity.queue);
    client
}

pub(crate) async fn contents(broker: &Broker, queue: &str, sub_queue: SubQueue) -> Vec<String> {
    let browsed = client_of(broker, queue).browsed(sub_queue).await;
    browsed.into_iter().map(|content| String::from_utf8(content.to_vec()).unwrap()).collect()
}

pub(crate) async fn deliveries(client: &mut Client, sub_queue: SubQueue) -> Vec<Delivery> {
    client.open(977, ReceiveMode::PeekLock, sub_queue, 100);
    let outputs = client.all().await.into_iter();
    outputs.filter_map(|output| if let Output::Delivery(one) = output { Some(*one) } else { None }).collect()
}

pub(crate) async fn restarted(broker: Broker, seed: u64) -> Broker {
    let shard = broker.store.acquire(ShardId(0)).await.unwrap();
    let broker = Broker::over_existing(broker.store, shard, broker.clock, seed).await;
    quiet().await;
    broker
}

/// Number of stored records except the catalogue's: forwarded messages must not leave any.
pub(crate) fn stored(broker: &Broker, space: Space) -> usize {
    broker.store.snapshot().keys().filter(|key| key.partition.0 > 0 && key.space == space).count()
}

#[tokio::test]
async fn messages_go_on_in_order_and_remember_where_they_came_from() {
    let broker = Broker::start(0).await;
    broker.namespace.declare("target", QueueOptions::default()).await.unwrap();
    let mut target = client_of(&broker, "target");
    target.sent("first").await;
    let mut source = broker.client();
    source.sent("one").await;
    source.sent("two").await;
    broker.namespace.declare(QUEUE, forwarding(to("TARGET"))).await.unwrap();
    source.sent("three").await;
    quiet().await;
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, [""; 0]);
    assert_eq!(broker.namespace.counts(QUEUE).unwrap(), Default::default());
    let got = deliveries(&mut target, SubQueue::Main).await;
    let texts: Vec<_> = got.iter().map(|one| one.message.content.clone()).collect();
    assert_eq!(texts, ["first", "one", "two", "three"]);
    for (number, one) in (1..).zip(&got) {
        let view = &one.message.view;
        assert_eq!((view.sequence_number, view.delivery_count), (SequenceNumber(number), 0));
    }
    let way = got[3].message.view.forwarded.clone().unwrap();
    assert_eq!((way.enqueued_sequence_number, way.hops), (SequenceNumber(3), 1));
    assert_eq!((stored(&broker, Space::Head), stored(&broker, Space::Body)), (4, 4));
}

#[tokio::test]
async fn a_backlog_is_forwarded_after_a_restart_and_forwarded_messages_do_not_return() {
    let broker = Broker::start(0).await;
    broker.namespace.declare("target", QueueOptions::default()).await.unwrap();
    let mut source = broker.client();
    for number in 0..600 {
        source.send(&number.to_string());
    }
    source.all().await;
    broker.store.hold();
    let declared = tokio::spawn({
        let namespace = broker.namespace.clone();
        async move { namespace.declare(QUEUE, forwarding(to("target"))).await }
    });
    quiet().await;
    assert!(broker.store.release_one());
    quiet().await;
    declared.await.unwrap().unwrap();
    quiet().await;
    assert!(broker.store.release_one(), "the first batch went on");
    quiet().await;
    broker.store.crash();
    let broker = restarted(broker, 2).await;
    for _ in 0..16 {
        quiet().await;
    }
    let expected: Vec<String> = (0..600).map(|number| number.to_string()).collect();
    assert_eq!(contents(&broker, "target", SubQueue::Main).await, expected);
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, [""; 0]);
    assert_eq!((stored(&broker, Space::Head), stored(&broker, Space::Body)), (600, 600));
}

/// Semantics §14.1, S-33.
#[tokio::test]
async fn a_source_has_no_receivers_but_for_its_dead_letters() {
    let broker = Broker::start(0).await;
    broker.namespace.declare("target", QueueOptions::default()).await.unwrap();
    let mut source = broker.client();
    let early = source.open(91, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let dead = source.open(92, ReceiveMode::PeekLock, SubQueue::DeadLetter, 1);
    source.nothing().await;
    broker.namespace.declare(QUEUE, forwarding(to("target"))).await.unwrap();
    let closed = source.all().await;
    assert!(
        matches!(&closed[..], [Output::ReceiverClosed { receiver, refusal: Refusal::NotAllowed(_) }] if *receiver == early),
        "{closed:?}"
    );
    source.open(93, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let refused = source.all().await;
    assert!(matches!(&refused[..], [Output::ReceiverClosed { .. }]) || refused.is_empty(), "{refused:?}");
    source.sent("one").await;
    assert_eq!(contents(&broker, "target", SubQueue::Main).await, ["one"]);
    broker.namespace.declare(QUEUE, forwarding(dead_letters_to("target"))).await.unwrap();
    let closed = source.all().await;
    assert!(
        matches!(&closed[..], [Output::ReceiverClosed { receiver, .. }] if *receiver == dead),
        "{closed:?}"
    );
    source.open(94, ReceiveMode::PeekLock, SubQueue::Main, 1);
    source.sent("two").await;
    assert_eq!(source.delivery().await.message.content, "two");
}

#[tokio::test]
async fn dead_letters_go_on_with_their_reason_and_name_where_they_died() {
    let broker = Broker::start(0).await;
    broker.namespace.declare("target", QueueOptions::default()).await.unwrap();
    broker.namespace.declare(QUEUE, forwarding(dead_letters_to("target"))).await.unwrap();
    let mut source = broker.client();
    source.sent("one").await;
    source.open(91, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let delivery = source.delivery().await;
    let why = peeklock_engine::DeadLetter { reason: Some("bad".into()), description: None };
    source.settle(token(&delivery), Settlement::DeadLetter { why: why.clone().into(), modify: Vec::new() });
    quiet().await;
    let got = deliveries(&mut client_of(&broker, "target"), SubQueue::Main).await;
    let view = &got[0].message.view;
    assert_eq!(view.dead_letter.as_deref(), Some(&why));
    assert_eq!(view.forwarded.as_ref().unwrap().dead_letter_source.as_deref(), Some(QUEUE));
    assert_eq!((stored(&broker, Space::Head), stored(&broker, Space::Body)), (1, 1));
}

#[tokio::test]
async fn a_fifth_hop_dead_letters() {
    let broker = Broker::start(0).await;
    broker.namespace.declare("f", QueueOptions::default()).await.unwrap();
    for pair in ["f", "e", "d", "c", "b"].windows(2) {
        broker.namespace.declare(pair[1], forwarding(to(pair[0]))).await.unwrap();
    }
    broker.namespace.declare(QUEUE, forwarding(to("b"))).await.unwrap();
    broker.client().sent("one").await;
    quiet().await;
    let got = deliveries(&mut client_of(&broker, "e"), SubQueue::DeadLetter).await;
    let reason = got[0].message.view.dead_letter.clone().unwrap().reason.clone();
    assert_eq!(reason.as_deref(), Some("MaxTransferHopCountExceeded"));
    let way = got[0].message.view.forwarded.clone().unwrap();
    assert_eq!((way.hops, way.enqueued_sequence_number), (4, SequenceNumber(1)));
    assert_eq!(contents(&broker, "f", SubQueue::Main).await, [""; 0]);
}

#[tokio::test]
async fn a_queue_that_names_itself_loops_until_the_hop_limit() {
    let broker = Broker::start(0).await;
    broker.namespace.declare(QUEUE, forwarding(to(QUEUE))).await.unwrap();
    broker.client().sent("one").await;
    quiet().await;
    assert_eq!(contents(&broker, QUEUE, SubQueue::DeadLetter).await, ["one"]);
    assert_eq!((stored(&broker, Space::Head), stored(&broker, Space::Body)), (1, 1));
}

#[tokio::test]
async fn a_target_that_can_not_take_them_sends_messages_to_the_dead_letters() {
    let broker = Broker::start(0).await;
    let small = QueueOptions { max_size_bytes: 3, ..QueueOptions::default() };
    let sessions = QueueOptions { requires_session: true, ..QueueOptions::default() };
    let tiny = QueueOptions { max_message_size_bytes: 3, ..QueueOptions::default() };
    let nobody = QueueOptions::default();
    for (name, options) in [("nobody", nobody), ("small", small), ("sessions", sessions), ("tiny", tiny)] {
        broker.namespace.declare(name, options).await.unwrap();
    }
    for (target, expected) in [
        ("nobody", "MessagingEntityNotFoundException"),
        ("small", "QuotaExceededException"),
        ("sessions", "Session id is null."),
        ("tiny", "MessageSizeExceededException"),
    ] {
        let source = format!("to-{target}");
        broker.namespace.declare(&source, forwarding(to(target))).await.unwrap();
        if target == "nobody" {
            broker.namespace.delete(target).await.unwrap();
        }
        let mut client = client_of(&broker, &source);
        client.sent("content").await;
        quiet().await;
        let got = deliveries(&mut client, SubQueue::DeadLetter).await;
        let why = got[0].message.view.dead_letter.clone().unwrap();
        assert_eq!(why.reason.as_deref(), Some(expected));
        assert_eq!(contents(&broker, &source, SubQueue::Main).await, [""; 0]);
    }
}

#[tokio::test]
async fn dead_letters_wait_for_a_target_that_is_not_there() {
    let broker = Broker::start(0).await;
    broker.namespace.declare("late", QueueOptions::default()).await.unwrap();
    broker.namespace.declare(QUEUE, forwarding(dead_letters_to("late"))).await.unwrap();
    broker.namespace.delete("late").await.unwrap();
    let mut source = broker.client();
    for content in ["one", "two"] {
        source.sent(content).await;
        source.open(91, ReceiveMode::PeekLock, SubQueue::Main, 10);
        let delivery = source.delivery().await;
        let why = peeklock_engine::DeadLetter::default();
        source.settle(token(&delivery), Settlement::DeadLetter { why: why.into(), modify: Vec::new() });
        source.all().await;
        source.submit(Command::CloseReceiver { receiver: peeklock_engine::ReceiverId(91) });
        source.nothing().await;
    }
    assert_eq!(contents(&broker, QUEUE, SubQueue::DeadLetter).await, ["one", "two"]);
    broker.namespace.declare("late", QueueOptions::default()).await.unwrap();
    broker.clock.advance(LATER_MS);
    quiet().await;
    assert_eq!(contents(&broker, "late", SubQueue::Main).await, ["one", "two"]);
}

#[tokio::test]
async fn a_full_disk_delays_and_loses_nothing() {
    let broker = Broker::start(0).await;
    broker.namespace.declare("target", QueueOptions::default()).await.unwrap();
    let mut source = broker.client();
    for content in ["one", "two", "three"] {
        source.sent(content).await;
    }
    broker.store.set_pressure(Pressure::Full);
    broker.namespace.declare(QUEUE, forwarding(to("target"))).await.unwrap();
    quiet().await;
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, ["one", "two", "three"]);
    broker.store.set_pressure(Pressure::Normal);
    broker.store.hold();
    broker.clock.advance(LATER_MS);
    quiet().await;
    // The joint batch is refused: both entities reload their stored state.
    broker.store.fail_next(Error::Full { reason: "a test wants it so".to_owned() });
    broker.store.release_all();
    quiet().await;
    for _ in 0..10 {
        broker.clock.advance(LATER_MS);
        quiet().await;
    }
    assert_eq!(contents(&broker, "target", SubQueue::Main).await, ["one", "two", "three"]);
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, [""; 0]);
    assert_eq!(broker.client().sent("four").await, SequenceNumber(4));
    quiet().await;
    assert_eq!((stored(&broker, Space::Head), stored(&broker, Space::Body)), (4, 4));
}

#[tokio::test]
async fn the_remaining_time_to_live_is_kept_and_capped() {
    let broker = Broker::start(0).await;
    let capped = QueueOptions { default_message_time_to_live_ms: Some(5_000), ..QueueOptions::default() };
    broker.namespace.declare("target", capped).await.unwrap();
    let mut source = broker.client();
    for life_ms in [10_000, 6_000] {
        let message =
            NewMessage { content: "x".into(), time_to_live_ms: Some(life_ms), ..Default::default() };
        source.submit(Command::Send { messages: [message].into_iter().collect() });
        assert!(matches!(source.response().await.1, Response::Sent(Ok(_))));
    }
    broker.clock.advance(3_000);
    broker.namespace.declare(QUEUE, forwarding(to("target"))).await.unwrap();
    quiet().await;
    let now = broker.clock.now();
    let got = deliveries(&mut client_of(&broker, "target"), SubQueue::Main).await;
    let ends: Vec<_> = got.iter().map(|one| one.message.view.expires_at).collect();
    assert_eq!(ends, [now.plus_ms(5_000), now.plus_ms(3_000)]);
}

#[tokio::test]
async fn sessions_of_the_source_do_not_hold_up_its_order() {
    let broker = Broker::start(0).await;
    let sessions = QueueOptions { requires_session: true, ..QueueOptions::default() };
    broker.namespace.declare("target", sessions.clone()).await.unwrap();
    let source = QueueOptions { forwarding: to("target"), ..sessions };
    broker.namespace.declare("source", source).await.unwrap();
    let mut client = client_of(&broker, "source");
    for (session, content) in [("a", "1"), ("b", "2"), ("a", "3")] {
        let message =
            NewMessage { content: content.into(), session_id: Some(session.into()), ..Default::default() };
        client.submit(Command::Send { messages: [message].into_iter().collect() });
    }
    client.all().await;
    assert_eq!(contents(&broker, "target", SubQueue::Main).await, ["1", "2", "3"]);
    assert_eq!(contents(&broker, "source", SubQueue::Main).await, [""; 0]);
}

#[tokio::test]
async fn a_new_target_gets_the_next_messages() {
    let broker = Broker::start(0).await;
    for name in ["one", "two"] {
        broker.namespace.declare(name, QueueOptions::default()).await.unwrap();
    }
    let mut source = broker.client();
    for target in ["one", "two"] {
        broker.namespace.declare(QUEUE, forwarding(to(target))).await.unwrap();
        quiet().await;
        source.sent(target).await;
        quiet().await;
    }
    broker.namespace.declare(QUEUE, QueueOptions::default()).await.unwrap();
    quiet().await;
    source.sent("stays").await;
    quiet().await;
    for (queue, expected) in [("one", "one"), ("two", "two"), (QUEUE, "stays")] {
        assert_eq!(contents(&broker, queue, SubQueue::Main).await, [expected]);
    }
}

/// S-33: a forwarding entity is never idle, whatever its options say. An entity that forwards only its dead letters can be
/// created with an idle time, and an update may change it (azure-sdk-for-js 14539, azure-sdk-for-net 18517).
#[tokio::test]
async fn s_33_a_source_is_never_idle() {
    let broker = Broker::start(0).await;
    broker.namespace.declare("target", QueueOptions::default()).await.unwrap();
    let idle = QueueOptions { auto_delete_on_idle_ms: Some(300_000), ..forwarding(to("target")) };
    let graves = QueueOptions { forwarding: dead_letters_to("target"), ..idle.clone() };
    let sources = [
        ("forwards", &idle, false),
        ("forwards-and-updated", &idle, true),
        ("graves", &graves, false),
        ("graves-and-updated", &graves, true),
    ];
    for (name, options, is_updated) in sources {
        let created = broker.namespace.create(name, options.clone()).await.unwrap();
        assert_eq!(idle_ms(&created), None, "{name}");
        if is_updated {
            let updated = broker.namespace.update(name, options.clone()).await.unwrap();
            assert_eq!(idle_ms(&updated), Some(300_000), "{name}");
        }
    }
    quiet().await;
    for _ in 0..10 {
        broker.clock.advance(200_000);
        quiet().await;
    }
    for (name, ..) in sources {
        let is_there = broker.namespace.options(name).is_some();
        assert_eq!(is_there, name != "graves-and-updated", "{name}");
    }
}

fn idle_ms(description: &peeklock_engine::runtime::EntityDescription) -> Option<u64> {
    match &*description.options {
        EntityOptions::Queue(queue) => queue.auto_delete_on_idle_ms,
        EntityOptions::Topic(topic) => topic.auto_delete_on_idle_ms,
    }
}

/// Dead letters that a target refuses permanently wait, locked, for the next target.
#[tokio::test]
async fn dead_letters_that_one_target_never_takes_go_to_the_next() {
    let broker = Broker::start(0).await;
    let sessions = QueueOptions { requires_session: true, ..QueueOptions::default() };
    broker.namespace.declare("sessions", sessions).await.unwrap();
    broker.namespace.declare("plain", QueueOptions::default()).await.unwrap();
    let options = QueueOptions { max_delivery_count: 1, ..forwarding(dead_letters_to("sessions")) };
    broker.namespace.declare(QUEUE, options.clone()).await.unwrap();
    let mut source = broker.client();
    source.sent("one").await;
    source.open(91, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let delivery = source.delivery().await;
    source.settle(token(&delivery), Settlement::Abandon { modify: Vec::new() });
    quiet().await;
    assert_eq!(contents(&broker, QUEUE, SubQueue::DeadLetter).await, ["one"]);
    let options = QueueOptions { forwarding: dead_letters_to("plain"), ..options };
    broker.namespace.declare(QUEUE, options).await.unwrap();
    quiet().await;
    assert_eq!(contents(&broker, "plain", SubQueue::Main).await, ["one"]);
}
