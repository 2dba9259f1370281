//! Bodies that have to be read back from the store.

use std::sync::Arc;

use peeklock_engine::runtime::{Output, Response};
use peeklock_engine::{
    Command, CreditLimit, Forwarding, QueueOptions, QueuePath, ReceiveMode, Refusal, SequenceNumber,
    Settlement, SubQueue,
};
use peeklock_storage::{MemoryStore, ShardId, Space, Store};

use crate::broker::{Broker, QUEUE, START, TestClock, token};
use crate::slow_reads::SlowReads;

async fn cold_broker() -> (Broker, Arc<SlowReads>) {
    let store = MemoryStore::new();
    let (slow, lease) = SlowReads::over(store.acquire(ShardId(0)).await.unwrap());
    let clock = TestClock::new(START);
    let broker = Broker::over(store, lease, clock, 0, 1).await;
    (broker, slow)
}

#[tokio::test]
async fn a_cold_read_delays_deliveries_in_order_but_no_acknowledgement() {
    let (broker, slow) = cold_broker().await;
    let mut client = broker.client();
    client.sent("one").await;
    client.sent("two").await;
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    client.nothing().await;
    assert_eq!(slow.held(), 1, "one read for all deliveries of a turn");
    assert_eq!(client.sent("three").await.0, 3, "answered while the read is under way");
    client.nothing().await;
    slow.release().await;
    for expected in ["one", "two", "three"] {
        assert_eq!(client.delivery().await.message.content, expected);
    }
}

#[tokio::test]
async fn messages_that_a_selector_examines_are_read_back() {
    let (broker, slow) = cold_broker().await;
    let mut client = broker.client();
    for content in ["one", "two", "three"] {
        client.sent(content).await;
    }
    let receiver = client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 0);
    client.tell(Command::Select { receiver });
    client.credit(receiver, 10, true);
    client.nothing().await;
    slow.release().await;
    let Output::Examine { receiver: asked, messages } = client.next().await else { panic!("a question") };
    let contents: Vec<_> = messages.iter().map(|message| &*message.content).collect();
    assert_eq!((asked, contents), (receiver, vec![&b"one"[..], b"two", b"three"]));
    client.tell(Command::Examined { receiver, matching: vec![messages[1].view.sequence_number] });
    slow.release().await;
    assert_eq!(client.delivery().await.message.content, "two");
    assert!(matches!(client.next().await, Output::Drained { .. }));
}

#[tokio::test]
async fn a_deferred_message_that_is_deleted_by_being_received_is_handed_out_once_it_is_gone() {
    let (broker, slow) = cold_broker().await;
    let mut client = broker.client();
    client.sent("one").await;
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    slow.release().await;
    let delivery = client.delivery().await;
    client.settle(token(&delivery), Settlement::Defer { modify: Vec::new() });
    client.response().await;
    client.submit(Command::ReceiveDeferred {
        numbers: vec![SequenceNumber(1)],
        source: QueuePath::main(client.queue),
        mode: ReceiveMode::ReceiveAndDelete,
        receiver: None,
        bytes_max: usize::MAX,
    });
    client.nothing().await;
    assert_eq!(bodies(&broker), 1);
    broker.store.hold();
    slow.release().await;
    client.nothing().await;
    assert_eq!(broker.store.held(), 1, "handed out only once it is gone from the disk");
    broker.store.release_all();
    let (_, response) = client.response().await;
    let Response::Received(Ok(messages)) = response else { panic!("{response:?}") };
    assert_eq!((&*messages[0].content, messages[0].lock), (&b"one"[..], None));
    assert!(broker.store.snapshot().keys().all(|key| key.space == Space::Meta));
}

#[tokio::test]
async fn a_deferred_message_is_read_before_it_is_deleted() {
    let (broker, slow) = cold_broker().await;
    let mut client = broker.client();
    client.sent("one").await;
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    slow.release().await;
    let delivery = client.delivery().await;
    client.settle(token(&delivery), Settlement::Defer { modify: Vec::new() });
    client.response().await;
    let numbers = vec![SequenceNumber(1)];
    let mode = ReceiveMode::ReceiveAndDelete;
    client.submit(Command::ReceiveDeferred {
        numbers,
        source: QueuePath::main(client.queue),
        mode,
        receiver: None,
        bytes_max: usize::MAX,
    });
    client.nothing().await;
    slow.release().await;
    let (_, response) = client.response().await;
    let Response::Received(Ok(messages)) = response else { panic!("{response:?}") };
    assert_eq!(messages[0].content, "one");
    assert!(broker.store.snapshot().keys().all(|key| key.space == Space::Meta));
}

/// The damage that the namespace reports: entity, number, file, offset.
fn damage(broker: &Broker) -> Vec<(String, Option<u64>, String, Option<u64>)> {
    let one = |damage: peeklock_engine::runtime::Damage| {
        let (unit, offset) = damage.place.map(|place| (place.unit, place.offset)).unzip();
        (damage.entity, damage.sequence_number, unit.unwrap_or_default(), offset)
    };
    broker.namespace.damage().into_iter().map(one).collect()
}

fn bodies(broker: &Broker) -> usize {
    broker.store.snapshot().keys().filter(|key| key.space == Space::Body).count()
}

#[tokio::test]
async fn a_damaged_content_is_quarantined_and_its_receiver_goes_on_with_the_next() {
    let (broker, slow) = cold_broker().await;
    let mut client = broker.client();
    for content in ["one", "two", "three", "four"] {
        client.sent(content).await;
    }
    slow.damaged.lock().unwrap().insert(2);
    // Credit for exactly the three remaining messages: one that was never delivered must not use up credit.
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 3);
    slow.release().await;
    for (content, number) in [("one", 1), ("three", 3)] {
        let delivery = client.delivery().await;
        assert_eq!(delivery.message.content, content);
        assert_eq!(delivery.message.view.sequence_number, SequenceNumber(number));
    }
    slow.release().await;
    assert_eq!(client.delivery().await.message.content, "four");
    let counts = broker.namespace.counts(QUEUE).unwrap();
    assert_eq!((counts.active, counts.dead_letter, counts.quarantined), (3, 0, 1));
    assert_eq!(damage(&broker), [(QUEUE.to_owned(), Some(2), "log".to_owned(), Some(7))]);
    assert_eq!(broker.namespace.damage_count(), 1);
    assert_eq!(bodies(&broker), 4, "nothing is deleted");
}

#[tokio::test]
async fn a_quarantined_message_answers_an_error_of_its_own_when_asked_for_by_number() {
    let (broker, slow) = cold_broker().await;
    let mut client = broker.client();
    for content in ["one", "two", "three"] {
        client.sent(content).await;
    }
    slow.damaged.lock().unwrap().insert(2);
    let source = QueuePath::main(client.queue);
    let peek_at = |from: u64, count_max| Command::Peek {
        from: SequenceNumber(from),
        count_max,
        bytes_max: 1 << 20,
        source,
        session: None,
    };
    // Once when the damage is found, once when it is known already.
    for _ in 0..2 {
        client.submit(peek_at(2, 1));
        slow.release().await;
        assert_eq!(client.response().await.1, Response::Received(Err(Refusal::MessageDamaged(2))));
    }
    client.submit(peek_at(1, 10));
    slow.release().await;
    let (_, Response::Received(Ok(shown))) = client.response().await else { panic!("browsing continues") };
    assert_eq!(shown.iter().map(|message| message.view.sequence_number.0).collect::<Vec<_>>(), [1, 3]);
    client.submit(Command::ReceiveDeferred {
        numbers: vec![SequenceNumber(2)],
        source,
        mode: ReceiveMode::PeekLock,
        receiver: None,
        bytes_max: usize::MAX,
    });
    assert_eq!(client.response().await.1, Response::Received(Err(Refusal::MessageDamaged(2))));
    assert_eq!(damage(&broker).len(), 1);
}

#[tokio::test]
async fn a_damaged_message_that_was_to_be_received_and_deleted_stays_in_the_store() {
    let (broker, slow) = cold_broker().await;
    let mut client = broker.client();
    client.sent("one").await;
    client.sent("two").await;
    slow.damaged.lock().unwrap().insert(1);
    client.open(1, ReceiveMode::ReceiveAndDelete, SubQueue::Main, 1);
    slow.release().await;
    slow.release().await;
    let delivery = client.delivery().await;
    assert_eq!(delivery.message.content, "two");
    client.completed(token(&delivery)).await;
    assert_eq!(bodies(&broker), 1);
    assert_eq!(broker.namespace.counts(QUEUE).unwrap().quarantined, 1);
}

#[tokio::test]
async fn of_several_deferred_messages_received_and_deleted_only_the_damaged_one_stays() {
    let (broker, slow) = cold_broker().await;
    let mut client = broker.client();
    client.sent("one").await;
    client.sent("two").await;
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 2);
    slow.release().await;
    for _ in 0..2 {
        let delivery = client.delivery().await;
        client.settle(token(&delivery), Settlement::Defer { modify: Vec::new() });
    }
    client.all().await;
    slow.damaged.lock().unwrap().insert(2);
    let numbers = vec![SequenceNumber(1), SequenceNumber(2)];
    let mode = ReceiveMode::ReceiveAndDelete;
    let source = QueuePath::main(client.queue);
    client.submit(Command::ReceiveDeferred { numbers, source, mode, receiver: None, bytes_max: usize::MAX });
    slow.release().await;
    let (_, Response::Received(Ok(received))) = client.response().await else { panic!("one is readable") };
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].content, "one");
    assert_eq!(bodies(&broker), 1);
}

#[tokio::test]
async fn a_drain_ends_although_its_only_message_is_damaged() {
    let (broker, slow) = cold_broker().await;
    let mut client = broker.client();
    client.sent("one").await;
    slow.damaged.lock().unwrap().insert(1);
    let receiver = client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let limit = CreditLimit { messages: 1, bytes: u64::MAX };
    client.submit(Command::Credit { receiver, limit, drain: true });
    slow.release().await;
    assert!(matches!(client.next().await, Output::Drained { .. }));
    client.sent("two").await;
    client.nothing().await;
    // Credit that the drain used up stays used up; new credit is counted from actual deliveries.
    client.submit(Command::Credit { receiver, limit, drain: false });
    slow.release().await;
    assert_eq!(client.delivery().await.message.content, "two");
}

#[tokio::test]
async fn deliveries_whose_receiver_left_meanwhile_are_given_back_untouched() {
    let (broker, slow) = cold_broker().await;
    let mut client = broker.client();
    client.sent("one").await;
    let receiver = client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    client.nothing().await;
    client.submit(Command::CloseReceiver { receiver });
    client.open(2, ReceiveMode::PeekLock, SubQueue::Main, 10);
    slow.release().await;
    let delivery = client.delivery().await;
    assert_eq!((delivery.receiver, delivery.message.view.delivery_count), (client.receiver(2), 0));
}

#[tokio::test]
async fn a_client_that_vanished_loses_its_messages_to_others_at_once() {
    let broker = Broker::start(1 << 20).await;
    let mut gone = broker.client();
    gone.sent("one").await;
    gone.outputs.close();
    gone.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    let mut client = broker.client();
    client.open(2, ReceiveMode::PeekLock, SubQueue::Main, 10);
    assert_eq!(client.delivery().await.message.view.delivery_count, 0);
}

/// The source counts them against the forwarder's credit, which must not run out.
#[tokio::test]
async fn contents_that_can_not_be_read_do_not_stop_forwarding() {
    let (broker, slow) = cold_broker().await;
    broker.namespace.declare("target", QueueOptions::default()).await.unwrap();
    let options = QueueOptions { max_message_size_bytes: 4 << 20, ..QueueOptions::default() };
    broker.namespace.declare(QUEUE, options.clone()).await.unwrap();
    let mut client = broker.client();
    let large = "x".repeat(3 << 20);
    for number in 1..=3 {
        slow.damaged.lock().unwrap().insert(number);
        client.sent(&large).await;
    }
    client.sent("four").await;
    let forwarding = Forwarding { forward_to: Some("target".into()), ..Forwarding::default() };
    broker.namespace.declare(QUEUE, QueueOptions { forwarding, ..options }).await.unwrap();
    slow.release().await;
    assert_eq!(broker.namespace.counts("target").unwrap().active, 1);
    let counts = broker.namespace.counts(QUEUE).unwrap();
    assert_eq!((counts.active, counts.dead_letter, counts.quarantined), (0, 0, 3));
}
