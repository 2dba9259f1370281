//! A history of everything a broker stores, once for each of its batches with that batch refused by the store, or with a crash in
//! its place: clients repeat what was not answered, and the outcome is that of the history without a fault, also after a restart.

mod world;

use std::collections::BTreeMap;

use peeklock_engine::runtime::{Namespace, Response, StartError};
use peeklock_engine::{
    Command, EntityOptions, Filter, MessageKey, NewMessage, QueueId, QueueOptions, QueuePath, ReceiveMode,
    Rule, SequenceNumber, Settlement, SubQueue, SubscriptionOptions, Timestamp, TopicOptions,
};
use peeklock_storage::Error;

use crate::broker::{Broker, START};
use crate::forwarding::{dead_letters_to, forwarding, restarted, to};
use crate::topics::plain;

use self::world::{ATTEMPTS, Fault, Refusing};

/// Longer than all pauses until the message is scheduled.
const DELAY_MS: u64 = 40_000;

const QUEUES: [&str; 8] = ["first", "second", "sink", "unique", "works", "dead", "sessions", "orders"];
const SUBSCRIPTIONS: [&str; 2] = ["news/a", "news/b"];

fn purge(queue: QueueId) -> Command {
    let (source, enqueued_until) = (QueuePath::main(queue), Timestamp::NEVER);
    Command::DeleteMessages { source, count_max: 100, enqueued_until, receiver: None }
}

fn take_deferred(queue: QueueId, number: SequenceNumber) -> Command {
    Command::ReceiveDeferred {
        numbers: vec![number],
        source: QueuePath::main(queue),
        mode: ReceiveMode::ReceiveAndDelete,
        receiver: None,
        bytes_max: usize::MAX,
    }
}

fn message(content: &'static str) -> NewMessage {
    NewMessage { content: content.into(), ..NewMessage::default() }
}

async fn declare(world: &mut Refusing) {
    let default = QueueOptions::default;
    world.change("news", |namespace| declared(namespace, "news", TopicOptions::default())).await;
    for (name, options) in [
        ("sink", default()),
        ("dead", default()),
        ("second", forwarding(to("news"))),
        ("first", forwarding(to("second"))),
        ("unique", QueueOptions { requires_duplicate_detection: true, ..default() }),
        ("works", QueueOptions { max_delivery_count: 1, ..forwarding(dead_letters_to("dead")) }),
        ("sessions", QueueOptions { requires_session: true, ..default() }),
    ] {
        world.change(name, |namespace| declared(namespace, name, options.clone())).await;
    }
    let passes = SubscriptionOptions { forwarding: to("sink"), ..SubscriptionOptions::default() };
    let passes = ("b".to_owned(), passes, plain("b").2);
    for one in [plain("a"), passes, plain("gone")] {
        world
            .change("a subscription", |namespace| {
                let one = one.clone();
                async move { namespace.declare_subscriptions("news", vec![one]).await }
            })
            .await;
    }
}

async fn declared(
    namespace: Namespace,
    name: &'static str,
    options: impl Into<EntityOptions>,
) -> Result<(), StartError> {
    namespace.declare(name, options).await.map(|_| ())
}

async fn use_everything(world: &mut Refusing) {
    for content in ["one", "two", "three"] {
        world.send("first", message(content)).await;
    }
    world.settle_down().await;
    let due = Timestamp(START.0 + DELAY_MS);
    world.send("news", NewMessage { scheduled_enqueue_time: Some(due), ..message("later") }).await;
    for content in ["original", "duplicate"] {
        let message_key = Some(MessageKey::of("id"));
        world.send("unique", NewMessage { message_key, ..message(content) }).await;
    }
    let (abandon, defer) =
        (Settlement::Abandon { modify: Vec::new() }, Settlement::Defer { modify: Vec::new() });
    for settlement in [&abandon, &defer] {
        world.send("works", message("hard")).await;
        world.receive("works", SubQueue::Main, None, settlement).await;
    }
    world.settle_down().await;
    world.send("orders", message("deferred")).await;
    world.send("orders", message("bad")).await;
    world.receive("orders", SubQueue::Main, None, &defer).await;
    let why = Settlement::DeadLetter { why: std::sync::Arc::default(), modify: Vec::new() };
    world.receive("orders", SubQueue::Main, None, &why).await;
    world.receive("sink", SubQueue::Main, None, &Settlement::Complete).await;
    for id in ["s", "t"] {
        world.send("sessions", NewMessage { session_id: Some(id.into()), ..message("in a session") }).await;
    }
    world.set_state("sessions", "s", 100 << 10).await;
    world.receive("sessions", SubQueue::Main, Some("s"), &Settlement::Complete).await;
    world
        .change("news/gone", |namespace| async move { namespace.delete_subscription("news", "gone").await })
        .await;
    world.send("dead", message("purged")).await;
    for content in ["moved", "moved too"] {
        world.send("orders", message(content)).await;
        world.transfer("orders", "news", content).await;
    }
    let rule = || Rule { name: "none".into(), filter: Filter::False, ..Rule::default_rule() };
    let queue = world.client("news/a").queue;
    let added = world.carry_out("news", |_| Command::AddRule { queue, rule: rule() }).await;
    assert!(matches!(added, Response::Done(_)), "{added:?}");
    let purged = world.carry_out("dead", purge).await;
    assert!(matches!(purged, Response::Deleted(Ok(_))), "{purged:?}");
    let number = world.browsed_number("orders").await;
    let taken = world.carry_out("orders", |queue| take_deferred(queue, number)).await;
    let is_taken = matches!(&taken, Response::Received(Ok(taken)) if taken.len() == 1);
    assert!(is_taken, "{taken:?}");
    let options = QueueOptions { max_delivery_count: 3, ..QueueOptions::default() };
    world.change("orders", |namespace| declared(namespace, "orders", options.clone())).await;
    world.settle_down().await;
}

async fn delete_everything(world: &mut Refusing) {
    for name in QUEUES.into_iter().chain(["news"]) {
        for attempt in 0..ATTEMPTS {
            let namespace = world.broker.namespace.clone();
            let deleted = tokio::spawn(async move { namespace.delete(name).await });
            world.pump().await;
            match deleted.await.unwrap() {
                Ok(()) => break,
                Err(error) => assert!(attempt + 1 < ATTEMPTS, "{name}: {error:?}"),
            }
        }
    }
    // The next change of an entity deletes what may be left over.
    world.change("last", |namespace| declared(namespace, "last", QueueOptions::default())).await;
}

/// The contents after the history, and its number of batches.
async fn history(refused: usize, fault: &Fault) -> (BTreeMap<(String, SubQueue), Vec<Vec<u8>>>, usize) {
    let broker = Broker::start(0).await;
    broker.store.hold();
    let mut world = Refusing { broker, fault: fault.clone(), refused, batches: 0, receivers: 0 };
    declare(&mut world).await;
    use_everything(&mut world).await;
    let names: Vec<&str> = QUEUES.into_iter().chain(SUBSCRIPTIONS).collect();
    let contents = world.contents(&names).await;
    world.broker.store.release_all();
    world.broker = restarted(world.broker, 2).await;
    assert_eq!(world.contents(&names).await, contents, "{refused}: after a restart");
    world.broker.store.hold();
    delete_everything(&mut world).await;
    let left = world.broker.store.snapshot();
    let left: Vec<_> = left.keys().filter(|key| key.partition.0 > 0).collect();
    assert!(left.is_empty(), "{refused}: {left:?}");
    assert!(world.broker.namespace.names() == ["last"], "{refused}");
    (contents, world.batches)
}

/// Compares the outcomes of the history with the fault at each of its batches.
async fn check(fault: Fault) {
    let (expected, batches) = history(usize::MAX, &fault).await;
    assert!(batches > 50, "{batches}");
    for refused in 0..batches {
        let (found, _) = history(refused, &fault).await;
        assert_eq!(found, expected, "batch {refused} of {batches}: {fault:?}");
    }
}

#[tokio::test]
async fn a_store_without_room_for_any_one_batch_changes_no_outcome() {
    check(Fault::Refusal(Error::Full { reason: "a test wants it so".to_owned() })).await;
}

#[tokio::test]
async fn a_store_that_is_unavailable_for_any_one_batch_changes_no_outcome() {
    check(Fault::Refusal(Error::Unavailable { reason: "a test wants it so".to_owned() })).await;
}

#[tokio::test]
async fn a_crash_instead_of_any_one_batch_changes_no_outcome() {
    check(Fault::Crash).await;
}
