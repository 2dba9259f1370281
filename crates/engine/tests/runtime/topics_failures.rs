//! Topics when the store refuses or delays batches.

use bytes::Bytes;
use peeklock_engine::runtime::Response;
use peeklock_engine::{
    Command, NewMessage, QueueId, QueueOptions, ReceiveMode, Refusal, Settlement, SubQueue,
    SubscriptionOptions, TopicOptions,
};
use peeklock_storage::{Error, Limits, MemoryStore, ShardId, Space, Store};

use crate::broker::{Broker, START, TestClock, quiet, token};
use crate::slow_reads::SlowReads;
use crate::topics::{TOPIC, active, broker, client, partitions, plain, restarted, with_subscriptions};

const IDLE_MS: u64 = 300_000;

fn full() -> Error {
    Error::Full { reason: "a test wants it so".to_owned() }
}

#[tokio::test]
async fn after_a_refused_batch_the_topic_and_every_subscription_are_read_back() {
    let broker = broker(&["a", "b", "gone"]).await;
    let mut sender = client(&broker, None);
    sender.sent("one").await;
    broker.store.hold();
    broker.store.fail_next(full());
    let lost = sender.send("lost");
    let queue = broker.namespace.subscription(TOPIC, "gone").unwrap().queue;
    let deleted = sender.submit(Command::DeleteSubscription { queue });
    let options = SubscriptionOptions::default();
    let created = sender.submit(Command::DeclareSubscription {
        intent: peeklock_engine::Intent::Declare,
        queue: QueueId(77),
        name: "new".into(),
        options,
        rules: Vec::new(),
    });
    sender.nothing().await;
    assert!(broker.namespace.subscription(TOPIC, "gone").is_none(), "before the deletion is durable");
    broker.store.release_all();
    let refusals = [sender.response().await, sender.response().await, sender.response().await];
    assert_eq!(refusals[0], (lost, Response::Sent(Err(Refusal::StorageFull))));
    assert_eq!(refusals[1], (deleted, Response::Done(Err(Refusal::StorageFull))));
    assert_eq!(refusals[2], (created, Response::Done(Err(Refusal::StorageFull))));
    sender.nothing().await;
    assert_eq!(broker.namespace.subscription_names(TOPIC).unwrap(), ["a", "b", "gone"]);
    for name in ["a", "b", "gone"] {
        let mut reader = client(&broker, Some(name));
        assert_eq!(reader.browsed(SubQueue::Main).await, ["one"], "{name}");
        reader.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
        let delivery = reader.delivery().await;
        reader.completed(token(&delivery)).await;
        let close = Command::CloseReceiver { receiver: delivery.receiver };
        reader.submit(close);
    }
    assert!(partitions(&broker, Space::Body).is_empty(), "the store accepts batches of each again");
    assert_eq!(sender.sent("again").await.0, 2);
    assert_eq!((active(&broker, "a"), active(&broker, "gone")), (1, 1));
}

#[tokio::test]
async fn a_refused_batch_of_one_subscription_holds_up_those_of_the_others() {
    let broker = broker(&["a", "b"]).await;
    client(&broker, None).sent("shared").await;
    let mut readers = [client(&broker, Some("a")), client(&broker, Some("b"))];
    let mut tokens = Vec::new();
    for (number, reader) in (1..).zip(&mut readers) {
        reader.open(number, ReceiveMode::PeekLock, SubQueue::Main, 1);
        tokens.push(token(&reader.delivery().await));
    }
    broker.store.hold();
    broker.store.fail_next(full());
    for (reader, token) in readers.iter_mut().zip(tokens) {
        reader.settle(token, Settlement::Complete);
        quiet().await;
    }
    assert_eq!(
        broker.store.held(),
        2,
        "the second one deletes the content that the first one's message needs"
    );
    broker.store.release_all();
    quiet().await;
    for name in ["a", "b"] {
        assert_eq!(client(&broker, Some(name)).browsed(SubQueue::Main).await, ["shared"], "{name}");
    }
}

/// Its batch and the topic's are under way together; both are refused, because one builds on the other.
#[tokio::test]
async fn a_subscription_whose_deletion_is_refused_goes_with_its_topic() {
    for is_idle in [false, true] {
        let broker = Broker::start(1 << 20).await;
        let auto_delete_on_idle_ms = is_idle.then_some(IDLE_MS);
        let topic = TopicOptions { auto_delete_on_idle_ms, ..TopicOptions::default() };
        broker.namespace.declare(TOPIC, topic).await.unwrap();
        broker.namespace.declare_subscriptions(TOPIC, vec![plain("a"), plain("b")]).await.unwrap();
        let mut sender = client(&broker, None);
        sender.sent("x").await;
        broker.store.hold();
        broker.store.fail_next(full());
        let queue = broker.namespace.subscription(TOPIC, "a").unwrap().queue;
        sender.submit(Command::DeleteSubscription { queue });
        quiet().await;
        let namespace = broker.namespace.clone();
        let deletion = tokio::spawn(async move {
            if !is_idle {
                let _ = namespace.delete(TOPIC).await;
            }
        });
        broker.clock.advance(IDLE_MS);
        quiet().await;
        broker.store.release_all();
        deletion.await.unwrap();
        quiet().await;
        // A change of any entity deletes what is left over.
        broker.namespace.declare("other", QueueOptions::default()).await.unwrap();
        assert!(broker.namespace.entity(TOPIC).is_none());
        for space in Space::ALL {
            let left = partitions(&broker, space);
            assert!(!left.contains(&queue.0), "idle {is_idle}: {space:?} of {left:?}");
        }
    }
}

#[tokio::test]
async fn a_content_on_its_way_from_the_disk_outlives_its_last_other_copy() {
    let store = MemoryStore::new();
    let (slow, lease) = SlowReads::over(store.acquire(ShardId(0)).await.unwrap());
    let clock = TestClock::new(START);
    let broker = Broker::over(store, lease, clock, 0, 1).await;
    with_subscriptions(&broker, &["fast", "slow", "gone"]).await;
    client(&broker, None).sent("x").await;
    let mut fast = client(&broker, Some("fast"));
    fast.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    slow.release().await;
    let delivery = fast.delivery().await;
    let mut late = client(&broker, Some("slow"));
    late.open(2, ReceiveMode::ReceiveAndDelete, SubQueue::Main, 1);
    late.nothing().await;
    assert_eq!(slow.held(), 1);
    fast.completed(token(&delivery)).await;
    broker.namespace.delete_subscription(TOPIC, "gone").await.unwrap();
    assert_eq!(partitions(&broker, Space::Body).len(), 1, "it is still being read");
    slow.release().await;
    let delivery = late.delivery().await;
    assert_eq!(delivery.message.content, "x");
    late.completed(token(&delivery)).await;
    assert!(partitions(&broker, Space::Body).is_empty());
    assert!(partitions(&broker, Space::Head).is_empty());
}

#[tokio::test]
async fn a_subscription_deleted_while_a_content_is_read_leaves_nothing_even_after_a_crash() {
    let store = MemoryStore::new();
    let (slow, lease) = SlowReads::over(store.acquire(ShardId(0)).await.unwrap());
    let clock = TestClock::new(START);
    let broker = Broker::over(store, lease, clock, 0, 1).await;
    with_subscriptions(&broker, &["gone"]).await;
    client(&broker, None).sent("x").await;
    let mut late = client(&broker, Some("gone"));
    late.open(1, ReceiveMode::ReceiveAndDelete, SubQueue::Main, 1);
    late.nothing().await;
    assert_eq!(slow.held(), 1);
    assert!(broker.namespace.delete_subscription(TOPIC, "gone").await.unwrap());
    assert!(partitions(&broker, Space::Body).is_empty());
    broker.store.crash();
    let broker = restarted(broker, 2).await;
    assert!(partitions(&broker, Space::Head).is_empty());
}

#[tokio::test]
async fn a_send_with_too_many_copies_is_refused() {
    let broker = broker(&["a", "b", "c", "d"]).await;
    broker.store.set_limits(Limits { value_bytes_max: 1_000, batch_bytes_max: 4_000 });
    let broker = restarted(broker, 2).await;
    let mut sender = client(&broker, None);
    let message = NewMessage { content: Bytes::from_static(b"x"), ..NewMessage::default() };
    let batch = |count| Command::Send { messages: std::iter::repeat_n(message.clone(), count).collect() };
    sender.submit(batch(4));
    let (_, response) = sender.response().await;
    assert!(matches!(response, Response::Sent(Err(Refusal::MessageTooLarge { limit_bytes: 4_000, .. }))));
    sender.submit(batch(3));
    assert!(matches!(sender.response().await.1, Response::Sent(Ok(numbers)) if numbers.len() == 3));
    assert_eq!(active(&broker, "d"), 3);
}
