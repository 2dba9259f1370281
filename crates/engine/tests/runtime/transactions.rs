//! Work on several entities takes effect completely or not at all.

use std::sync::Arc;

use peeklock_engine::runtime::{Output, Response, Transaction};
use peeklock_engine::{
    Command, DeadLetter, EntityStatus, LockToken, NewMessage, QueueOptions, QueuePath, ReceiveMode, Refusal,
    SequenceNumber, Settlement, SubQueue, Timestamp,
};
use peeklock_storage::{Error, Pressure, Space};

use crate::broker::{Broker, Client, QUEUE, START, peek, quiet, send, token};
use crate::forwarding::{client_of, contents, restarted, stored};

const TAG: u64 = 4_711;
const OTHER: &str = "other";

async fn broker() -> Broker {
    let broker = Broker::start(0).await;
    broker.namespace.declare(OTHER, QueueOptions::default()).await.unwrap();
    broker
}

/// Commits, and returns the outcome.
async fn committed(transaction: Transaction, client: &mut Client) -> Result<(), Refusal> {
    transaction.commit(client.mailbox.clone(), TAG);
    outcome(client).await
}

async fn outcome(client: &mut Client) -> Result<(), Refusal> {
    loop {
        if let Output::Response { tag: TAG, response: Response::Done(outcome) } = client.next().await {
            return outcome;
        }
    }
}

/// Sends a message and locks it.
async fn locked(client: &mut Client, content: &str) -> LockToken {
    client.sent(content).await;
    let receiver = client.open(901, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let token = token(&client.delivery().await);
    client.submit(Command::CloseReceiver { receiver });
    token
}

fn settle(client: &Client, token: LockToken, settlement: Settlement) -> Command {
    Command::Settle { queue: client.queue, tokens: [token].into_iter().collect(), settlement }
}

async fn provisional(client: &mut Client, command: &Command) -> Result<Vec<SequenceNumber>, Refusal> {
    client.submit(Command::Provisional(Box::new(command.clone())));
    match client.response().await.1 {
        Response::Provisional(answer) => answer.map(|numbers| numbers.to_vec()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn sends_and_settlements_in_two_queues_are_invisible_before_and_complete_after_the_commit() {
    let broker = broker().await;
    let (mut orders, other) = (broker.client(), client_of(&broker, OTHER));
    let token = locked(&mut orders, "in").await;
    let mut transaction = broker.namespace.begin_transaction();
    for command in [settle(&orders, token, Settlement::Complete), send("kept")] {
        assert_eq!(provisional(&mut orders, &command).await, Ok(Vec::new()));
        transaction.add(&orders.handle, command);
    }
    transaction.add(&other.handle, send("out"));
    assert_eq!((transaction.len(), transaction.content_bytes()), (3, 7));
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, ["in"]);
    assert_eq!(contents(&broker, OTHER, SubQueue::Main).await, [""; 0]);
    assert_eq!(committed(transaction, &mut orders).await, Ok(()));
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, ["kept"]);
    assert_eq!(contents(&broker, OTHER, SubQueue::Main).await, ["out"]);
    assert_eq!((stored(&broker, Space::Head), stored(&broker, Space::Body)), (2, 2));
}

#[tokio::test]
async fn a_dropped_transaction_has_no_effect_and_its_lock_continues() {
    let broker = broker().await;
    let mut orders = broker.client();
    let token = locked(&mut orders, "in").await;
    let mut transaction = broker.namespace.begin_transaction();
    transaction.add(&orders.handle, settle(&orders, token, Settlement::Complete));
    transaction.add(&orders.handle, send("out"));
    drop(transaction);
    quiet().await;
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, ["in"]);
    let tag = orders.settle(token, Settlement::Complete);
    assert_eq!(orders.response().await, (tag, Response::Settled(Vec::new())));
}

#[tokio::test]
async fn a_waiting_receiver_gets_a_message_of_a_transaction_once_it_is_durable() {
    let broker = broker().await;
    let (mut orders, mut other) = (broker.client(), client_of(&broker, OTHER));
    other.open(902, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let mut transaction = broker.namespace.begin_transaction();
    transaction.add(&other.handle, send("out"));
    transaction.add(&orders.handle, send("too"));
    broker.store.hold();
    transaction.commit(orders.mailbox.clone(), TAG);
    other.nothing().await;
    orders.nothing().await;
    assert!(broker.store.release_one());
    assert_eq!(outcome(&mut orders).await, Ok(()));
    assert_eq!(&other.delivery().await.message.content[..], b"out");
}

/// S-15: a lock lost before the commit fails the whole transaction.
#[tokio::test]
async fn a_lock_that_was_lost_fails_the_whole_transaction() {
    let broker = broker().await;
    let mut orders = broker.client();
    let token = locked(&mut orders, "in").await;
    let mut transaction = broker.namespace.begin_transaction();
    let complete = settle(&orders, token, Settlement::Complete);
    assert!(provisional(&mut orders, &complete).await.is_ok());
    transaction.add(&client_of(&broker, OTHER).handle, send("out"));
    transaction.add(&orders.handle, complete);
    broker.clock.advance(60_000);
    assert_eq!(committed(transaction, &mut orders).await, Err(Refusal::MessageLockLost));
    assert_eq!(contents(&broker, OTHER, SubQueue::Main).await, [""; 0]);
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, ["in"]);
}

#[tokio::test]
async fn a_lock_can_be_settled_once_in_a_transaction_and_another_settlement_wins() {
    let broker = broker().await;
    let mut orders = broker.client();
    let token = locked(&mut orders, "in").await;
    let twice = |broker: &Broker, orders: &Client, count: usize| {
        let mut transaction = broker.namespace.begin_transaction();
        transaction.add(&orders.handle, send("out"));
        for _ in 0..count {
            transaction.add(&orders.handle, settle(orders, token, Settlement::Complete));
        }
        transaction
    };
    assert_eq!(committed(twice(&broker, &orders, 2), &mut orders).await, Err(Refusal::MessageLockLost));
    let staged = twice(&broker, &orders, 1);
    orders.completed(token).await;
    assert_eq!(committed(staged, &mut orders).await, Err(Refusal::MessageLockLost));
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, [""; 0]);
}

#[tokio::test]
async fn every_settlement_takes_effect_at_the_commit() {
    let broker = broker().await;
    let mut orders = broker.client();
    let why = Arc::new(DeadLetter { reason: Some("bad".into()), description: None });
    let mut transaction = broker.namespace.begin_transaction();
    for (content, settlement) in [
        ("completed", Settlement::Complete),
        ("deferred", Settlement::Defer { modify: Vec::new() }),
        ("dead", Settlement::DeadLetter { why, modify: Vec::new() }),
        ("abandoned", Settlement::Abandon { modify: Vec::new() }),
    ] {
        let token = locked(&mut orders, content).await;
        let command = settle(&orders, token, settlement);
        assert!(provisional(&mut orders, &command).await.is_ok());
        transaction.add(&orders.handle, command);
    }
    assert_eq!(committed(transaction, &mut orders).await, Ok(()));
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, ["deferred", "abandoned"]);
    assert_eq!(contents(&broker, QUEUE, SubQueue::DeadLetter).await, ["dead"]);
    let broker = restarted(broker, 2).await;
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, ["deferred", "abandoned"]);
    assert_eq!(contents(&broker, QUEUE, SubQueue::DeadLetter).await, ["dead"]);
}

#[tokio::test]
async fn a_deferral_at_the_last_allowed_delivery_dead_letters_at_the_commit() {
    let broker = broker().await;
    let options = QueueOptions { max_delivery_count: 1, ..QueueOptions::default() };
    broker.namespace.declare(QUEUE, options).await.unwrap();
    let mut orders = broker.client();
    let token = locked(&mut orders, "in").await;
    let mut transaction = broker.namespace.begin_transaction();
    let command = settle(&orders, token, Settlement::Defer { modify: Vec::new() });
    assert!(provisional(&mut orders, &command).await.is_ok());
    transaction.add(&orders.handle, command);
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, ["in"]);
    assert_eq!(committed(transaction, &mut orders).await, Ok(()));
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, [""; 0]);
    assert_eq!(contents(&broker, QUEUE, SubQueue::DeadLetter).await, ["in"]);
}

fn scheduled(content: &'static str, at: Timestamp) -> NewMessage {
    NewMessage { content: content.into(), scheduled_enqueue_time: Some(at), ..NewMessage::default() }
}

/// Scheduling must return one number for each message, and a client can't know the broker's time.
#[tokio::test]
async fn a_message_scheduled_for_a_time_that_is_over_gets_a_number_and_is_there_after_the_commit() {
    let broker = broker().await;
    let mut orders = broker.client();
    let mut message = scheduled("late", Timestamp(START.0 - 1));
    let command = Command::Send { messages: [message.clone()].into_iter().collect() };
    let numbers = provisional(&mut orders, &command).await.unwrap();
    assert_eq!(numbers.len(), 1);
    message.reserved_number = Some(numbers[0]);
    let mut transaction = broker.namespace.begin_transaction();
    transaction.add(&orders.handle, Command::Send { messages: [message].into_iter().collect() });
    assert_eq!(committed(transaction, &mut orders).await, Ok(()));
    orders.open(902, ReceiveMode::PeekLock, SubQueue::Main, 1);
    assert_eq!(&orders.delivery().await.message.content[..], b"late");
}

/// The body of a scheduled message may have a lower number than bodies that are durable already. It can't be read from the
/// store before the commit is durable all the same.
#[tokio::test]
async fn a_message_with_a_number_below_that_of_a_durable_one_is_delivered_and_browsed_after_the_commit() {
    let broker = Broker::start(1 << 20).await;
    let mut orders = broker.client();
    let mut message = scheduled("late", Timestamp(START.0 - 1));
    let command = Command::Send { messages: [message.clone()].into_iter().collect() };
    message.reserved_number = provisional(&mut orders, &command).await.unwrap().first().copied();
    orders.sent("between").await;
    let mut transaction = broker.namespace.begin_transaction();
    transaction.add(&orders.handle, Command::Send { messages: [message].into_iter().collect() });
    orders.open(902, ReceiveMode::PeekLock, SubQueue::Main, 2);
    assert_eq!(&orders.delivery().await.message.content[..], b"between");
    broker.store.hold();
    transaction.commit(orders.mailbox.clone(), TAG);
    quiet().await;
    let browse = orders.submit(peek(QueuePath::main(orders.queue)));
    quiet().await;
    broker.store.release_all();
    let (mut delivered, mut browsed) = (None, None);
    for output in orders.all().await {
        match output {
            Output::Delivery(delivery) => delivered = Some(delivery.message.content),
            Output::Response { tag, response: Response::Received(Ok(messages)) } if tag == browse => {
                browsed = Some(messages.into_iter().map(|one| one.content).collect::<Vec<_>>());
            }
            Output::Response { tag: TAG, response } => assert_eq!(response, Response::Done(Ok(()))),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(broker.namespace.counts(QUEUE).map(|counts| counts.quarantined), Some(0));
    assert_eq!(delivered.as_deref(), Some(&b"late"[..]));
    assert_eq!(browsed, Some(vec!["between".into(), "late".into()]));
}

#[tokio::test]
async fn a_scheduled_message_gets_its_number_before_the_commit_and_keeps_it() {
    let broker = broker().await;
    let mut orders = broker.client();
    let mut messages = vec![scheduled("a", START.plus_ms(60_000)), scheduled("b", START.plus_ms(60_000))];
    let command = Command::Send { messages: messages.iter().cloned().collect() };
    let numbers = provisional(&mut orders, &command).await.unwrap();
    assert_eq!(numbers, [SequenceNumber(1), SequenceNumber(2)]);
    assert_eq!(orders.sent("between").await, SequenceNumber(3));
    for (message, number) in messages.iter_mut().zip(&numbers) {
        message.reserved_number = Some(*number);
    }
    let mut transaction = broker.namespace.begin_transaction();
    transaction.add(&orders.handle, Command::Send { messages: messages.into_iter().collect() });
    assert_eq!(committed(transaction, &mut orders).await, Ok(()));

    // One is cancelled by its number, after a transaction that would cancel it was rolled back.
    let cancel = Command::CancelScheduled { numbers: vec![numbers[0]] };
    assert!(provisional(&mut orders, &cancel).await.is_ok());
    let mut rolled_back = broker.namespace.begin_transaction();
    rolled_back.add(&orders.handle, cancel.clone());
    drop(rolled_back);
    let mut cancelled = broker.namespace.begin_transaction();
    cancelled.add(&orders.handle, cancel);
    assert_eq!(committed(cancelled, &mut orders).await, Ok(()));
    let broker = restarted(broker, 2).await;
    let mut orders = broker.client();
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, ["b", "between"]);
    assert_eq!(orders.sent("last").await, SequenceNumber(4));
    broker.clock.advance(60_000);
    quiet().await;
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, ["between", "last", "b"]);
}

#[tokio::test]
async fn a_refusal_by_one_entity_fails_the_whole_transaction() {
    let broker = broker().await;
    let mut orders = broker.client();
    let disabled = QueueOptions { status: EntityStatus::SendDisabled, ..QueueOptions::default() };
    broker.namespace.declare("closed", disabled).await.unwrap();
    let sessions = QueueOptions { requires_session: true, ..QueueOptions::default() };
    broker.namespace.declare("sessions", sessions).await.unwrap();
    for (queue, refusal) in [("closed", Refusal::EntityDisabled), ("sessions", Refusal::SessionIdMissing)] {
        let mut client = client_of(&broker, queue);
        assert_eq!(provisional(&mut client, &send("out")).await, Err(refusal.clone()));
        let mut transaction = broker.namespace.begin_transaction();
        transaction.add(&orders.handle, send("out"));
        transaction.add(&client.handle, send("out"));
        assert_eq!(committed(transaction, &mut orders).await, Err(refusal));
    }
    let deleted = client_of(&broker, OTHER);
    broker.namespace.delete(OTHER).await.unwrap();
    let mut transaction = broker.namespace.begin_transaction();
    transaction.add(&orders.handle, send("out"));
    transaction.add(&deleted.handle, send("out"));
    assert_eq!(committed(transaction, &mut orders).await, Err(Refusal::EntityDeleted));
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, [""; 0]);
}

#[tokio::test]
async fn messages_of_one_transaction_have_to_fit_together() {
    let broker = broker().await;
    let small = QueueOptions { max_size_bytes: 1 << 20, ..QueueOptions::default() };
    broker.namespace.declare("small", small).await.unwrap();
    let mut client = client_of(&broker, "small");
    let content = "x".repeat(100_000);
    let filled = |count: usize| {
        let mut transaction = broker.namespace.begin_transaction();
        (0..count).for_each(|_| transaction.add(&client.handle, send(&content)));
        transaction
    };
    let (too_many, fitting) = (filled(11), filled(10));
    let limit_bytes = 1 << 20;
    assert_eq!(committed(too_many, &mut client).await, Err(Refusal::EntityFull { limit_bytes }));
    assert_eq!(committed(fitting, &mut client).await, Ok(()));
}

#[tokio::test]
async fn a_refused_batch_leaves_all_entities_as_they_were() {
    let broker = broker().await;
    let mut orders = broker.client();
    let other = client_of(&broker, OTHER);
    let token = locked(&mut orders, "in").await;
    let mut transaction = broker.namespace.begin_transaction();
    transaction.add(&orders.handle, settle(&orders, token, Settlement::Complete));
    transaction.add(&other.handle, send("out"));
    broker.store.fail_next(Error::Full { reason: "no room".to_owned() });
    assert_eq!(committed(transaction, &mut orders).await, Err(Refusal::StorageFull));
    quiet().await;
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, ["in"]);
    assert_eq!(contents(&broker, OTHER, SubQueue::Main).await, [""; 0]);
    let mut again = broker.namespace.begin_transaction();
    let token = locked(&mut orders, "later").await;
    again.add(&orders.handle, settle(&orders, token, Settlement::Complete));
    again.add(&other.handle, send("out"));
    assert_eq!(committed(again, &mut orders).await, Ok(()));
    assert_eq!(contents(&broker, OTHER, SubQueue::Main).await, ["out"]);
}

#[tokio::test]
async fn a_full_store_takes_settlements_but_no_messages() {
    let broker = broker().await;
    let mut orders = broker.client();
    let token = locked(&mut orders, "in").await;
    broker.store.set_pressure(Pressure::Full);
    let mut transaction = broker.namespace.begin_transaction();
    transaction.add(&orders.handle, send("out"));
    assert_eq!(committed(transaction, &mut orders).await, Err(Refusal::StorageFull));
    let mut transaction = broker.namespace.begin_transaction();
    transaction.add(&orders.handle, settle(&orders, token, Settlement::Complete));
    assert_eq!(committed(transaction, &mut orders).await, Ok(()));
}

/// Semantics §14.2: messages that the target refuses are moved to the transfer dead-letter queue of the entity they were sent
/// via.
#[tokio::test]
async fn an_undeliverable_message_is_kept_by_the_entity_it_passed() {
    let broker = broker().await;
    let mut orders = broker.client();
    let other = client_of(&broker, OTHER);
    let transfer = |content: &'static str| [NewMessage { content: content.into(), ..NewMessage::default() }];
    let mut transaction = broker.namespace.begin_transaction();
    transaction.add_transfer(&orders.handle, &other.handle, transfer("arrives").into_iter().collect());
    assert_eq!(committed(transaction, &mut orders).await, Ok(()));
    let disabled = QueueOptions { status: EntityStatus::SendDisabled, ..QueueOptions::default() };
    broker.namespace.declare(OTHER, disabled).await.unwrap();
    let mut transaction = broker.namespace.begin_transaction();
    transaction.add(&orders.handle, send("too"));
    transaction.add_transfer(&orders.handle, &other.handle, transfer("stays").into_iter().collect());
    assert_eq!(committed(transaction, &mut orders).await, Ok(()));
    let broker = restarted(broker, 2).await;
    assert_eq!(contents(&broker, OTHER, SubQueue::Main).await, ["arrives"]);
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, ["too"]);
    assert_eq!(contents(&broker, QUEUE, SubQueue::TransferDeadLetter).await, ["stays"]);
}

#[tokio::test]
async fn only_operations_allowed_in_a_transaction_are_carried_out() {
    let broker = broker().await;
    let mut orders = broker.client();
    let mut transaction = broker.namespace.begin_transaction();
    transaction.add(&orders.handle, send("out"));
    transaction.add(&orders.handle, Command::EndEntity);
    assert!(matches!(committed(transaction, &mut orders).await, Err(Refusal::NotAllowed(_))));
    assert!(matches!(provisional(&mut orders, &Command::EndEntity).await, Err(Refusal::NotAllowed(_))));
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, [""; 0]);
}
