//! Operations that are possible alone but not together: the transaction is refused without any visible effect.

use peeklock_engine::runtime::{Output, Response, Transaction};
use peeklock_engine::{
    Command, EntityStatus, LockToken, NewMessage, Property, QueueOptions, QueuePath, ReceiveMode,
    ReceiverOptions, Refusal, SessionRequest, Settlement, SubQueue,
};
use peeklock_storage::{Error, Limits};

use crate::broker::{Broker, Client, QUEUE, START, quiet, send, token};
use crate::forwarding::{client_of, contents};

const TAG: u64 = 4_711;
const OTHER: &str = "other";
const SMALL: &str = "small";
const LIMIT_BYTES: u64 = 1 << 20;
const WATCHING: u64 = 903;

async fn broker() -> Broker {
    let broker = Broker::start(0).await;
    broker.namespace.declare(OTHER, QueueOptions::default()).await.unwrap();
    broker
}

async fn declare_small(broker: &Broker, requires_session: bool) -> Client {
    let options = QueueOptions { max_size_bytes: LIMIT_BYTES, requires_session, ..QueueOptions::default() };
    broker.namespace.declare(SMALL, options).await.unwrap();
    client_of(broker, SMALL)
}

fn large() -> String {
    "x".repeat(100_000)
}

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

fn settle(client: &Client, token: peeklock_engine::LockToken, settlement: Settlement) -> Command {
    Command::Settle { queue: client.queue, tokens: [token].into_iter().collect(), settlement }
}

/// Sends a message and locks it.
async fn locked(client: &mut Client, content: &str) -> peeklock_engine::LockToken {
    client.sent(content).await;
    let receiver = client.open(901, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let token = token(&client.delivery().await);
    client.submit(Command::CloseReceiver { receiver });
    token
}

/// Checks that the receiver [`WATCHING`] is still open: reloading the state would close it.
async fn assert_goes_on(client: &mut Client) {
    client.send("goes on");
    let outputs = client.all().await;
    let receiver = client.receiver(WATCHING);
    let is_delivered = |output: &Output| matches!(output, Output::Delivery(one) if one.receiver == receiver);
    assert!(outputs.iter().any(is_delivered), "{outputs:?}");
}

#[tokio::test]
async fn a_transaction_over_several_entities_is_one_batch() {
    let broker = broker().await;
    let mut orders = broker.client();
    let (other, token) = (client_of(&broker, OTHER), locked(&mut orders, "in").await);
    let mut transaction = broker.namespace.begin_transaction();
    transaction.add(&other.handle, send("out"));
    transaction.add(&orders.handle, settle(&orders, token, Settlement::Complete));
    transaction.add(&orders.handle, send("too"));
    broker.store.hold();
    transaction.commit(orders.mailbox.clone(), TAG);
    quiet().await;
    assert_eq!(broker.store.held(), 1);
    assert!(broker.store.release_one());
    assert_eq!(outcome(&mut orders).await, Ok(()));
    assert_eq!(contents(&broker, OTHER, SubQueue::Main).await, ["out"]);
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, ["too"]);
}

/// If a participant's earlier batch is refused, so is the joint batch, which builds on it even if it writes nothing of that
/// participant.
#[tokio::test]
async fn a_joint_batch_is_refused_with_the_earlier_ones_of_each_participant() {
    let broker = broker().await;
    let mut orders = broker.client();
    let (other, token) = (client_of(&broker, OTHER), locked(&mut orders, "in").await);
    let mut transaction = broker.namespace.begin_transaction();
    transaction.add(&orders.handle, settle(&orders, token, Settlement::Release));
    transaction.add(&other.handle, send("out"));
    broker.store.hold();
    orders.send("earlier");
    quiet().await;
    transaction.commit(orders.mailbox.clone(), TAG);
    quiet().await;
    assert_eq!(broker.store.held(), 2);
    broker.store.fail_next(Error::Full { reason: "no room".to_owned() });
    broker.store.release_all();
    assert_eq!(outcome(&mut orders).await, Err(Refusal::StorageFull));
    quiet().await;
    assert_eq!(contents(&broker, OTHER, SubQueue::Main).await, [""; 0]);
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, ["in"]);
}

#[tokio::test]
async fn messages_that_do_not_fit_together_are_refused_and_nothing_is_read_back() {
    let broker = broker().await;
    let mut small = declare_small(&broker, false).await;
    small.open(WATCHING, ReceiveMode::PeekLock, SubQueue::Main, 100);
    let mut transaction = broker.namespace.begin_transaction();
    (0..11).for_each(|_| transaction.add(&small.handle, send(&large())));
    assert_eq!(
        committed(transaction, &mut small).await,
        Err(Refusal::EntityFull { limit_bytes: LIMIT_BYTES })
    );
    assert_goes_on(&mut small).await;
}

#[tokio::test]
async fn a_session_keeps_its_lock_when_its_state_and_messages_do_not_fit_together() {
    let broker = broker().await;
    let mut small = declare_small(&broker, true).await;
    let receiver = small.receiver(WATCHING);
    let source = QueuePath { queue: small.queue, sub_queue: SubQueue::Main };
    let options = ReceiverOptions { source, mode: ReceiveMode::PeekLock };
    let session =
        Some(SessionRequest { id: Some("s".into()), wait_until: START, ..SessionRequest::default() });
    small.submit(Command::OpenReceiver { receiver, options, session });
    assert!(matches!(small.response().await.1, Response::Opened(Ok(Some(_)))));
    let state = Some(large().repeat(2).into());
    let message =
        || NewMessage { content: large().into(), session_id: Some("s".into()), ..NewMessage::default() };
    let mut transaction = broker.namespace.begin_transaction();
    transaction.add(&small.handle, Command::SetSessionState { receiver, state });
    for _ in 0..9 {
        transaction.add(&small.handle, Command::Send { messages: [message()].into_iter().collect() });
    }
    assert_eq!(
        committed(transaction, &mut small).await,
        Err(Refusal::EntityFull { limit_bytes: LIMIT_BYTES })
    );
    small.submit(Command::RenewSessionLock { receiver });
    assert!(matches!(small.response().await.1, Response::SessionRenewed(Ok(_))));
}

#[tokio::test]
async fn undeliverable_messages_leave_no_room_for_the_rest_and_nothing_is_read_back() {
    let broker = broker().await;
    let mut small = declare_small(&broker, false).await;
    let disabled = QueueOptions { status: EntityStatus::SendDisabled, ..QueueOptions::default() };
    broker.namespace.declare(OTHER, disabled).await.unwrap();
    small.open(WATCHING, ReceiveMode::PeekLock, SubQueue::Main, 100);
    let other = client_of(&broker, OTHER);
    let mut transaction = broker.namespace.begin_transaction();
    for _ in 0..6 {
        let message = NewMessage { content: large().into(), ..NewMessage::default() };
        transaction.add_transfer(&small.handle, &other.handle, [message].into_iter().collect());
        transaction.add(&small.handle, send(&large()));
    }
    assert_eq!(
        committed(transaction, &mut small).await,
        Err(Refusal::EntityFull { limit_bytes: LIMIT_BYTES })
    );
    assert_goes_on(&mut small).await;
    assert_eq!(contents(&broker, SMALL, SubQueue::TransferDeadLetter).await, [""; 0]);
}

#[tokio::test]
async fn a_transaction_without_its_lock_is_refused_and_nothing_is_read_back() {
    let broker = broker().await;
    let mut orders = broker.client();
    let (token, other) = (locked(&mut orders, "in").await, client_of(&broker, OTHER));
    let twice = |count| {
        let mut transaction = broker.namespace.begin_transaction();
        transaction.add(&other.handle, send("out"));
        (0..count)
            .for_each(|_| transaction.add(&orders.handle, settle(&orders, token, Settlement::Complete)));
        transaction
    };
    let (twice, late) = (twice(2), twice(1));
    orders.open(WATCHING, ReceiveMode::PeekLock, SubQueue::Main, 100);
    assert_eq!(committed(twice, &mut orders).await, Err(Refusal::MessageLockLost));
    assert_goes_on(&mut orders).await;
    orders.settle(token, Settlement::Complete);
    quiet().await;
    assert_eq!(committed(late, &mut orders).await, Err(Refusal::MessageLockLost));
    assert_goes_on(&mut orders).await;
    assert_eq!(contents(&broker, OTHER, SubQueue::Main).await, [""; 0]);
}

/// Requests that reach an entity while a joint step has its state wait until it is finished.
#[tokio::test]
async fn an_entity_handles_nothing_while_a_joint_step_has_its_state() {
    for turns in 0..8 {
        let broker = broker().await;
        let (mut orders, other) = (broker.client(), client_of(&broker, OTHER));
        orders.sent("first").await;
        let mut transaction = broker.namespace.begin_transaction();
        transaction.add(&orders.handle, send("joint"));
        transaction.add(&other.handle, send("out"));
        transaction.commit(orders.mailbox.clone(), TAG);
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        orders.send("beside");
        quiet().await;
        let mut found = contents(&broker, QUEUE, SubQueue::Main).await;
        found.sort_unstable();
        assert_eq!(found, ["beside", "first", "joint"], "after {turns} turns");
    }
}

/// Settlements that are small themselves may rewrite large records: more than one batch of the store may hold.
#[tokio::test]
async fn settlements_of_messages_with_large_properties_that_do_not_fit_in_one_batch() {
    const COUNT: u64 = 60;
    let broker = Broker::start(0).await;
    broker.store.set_limits(Limits { value_bytes_max: 1 << 20, batch_bytes_max: 3 << 20 });
    broker.namespace.declare(OTHER, QueueOptions::default()).await.unwrap();
    let mut client = client_of(&broker, OTHER);
    let modify = vec![Property { name: "p".into(), value: vec![7; 60_000].into() }];
    for _ in 0..COUNT {
        client.sent("x").await;
    }
    let first = all_tokens(&mut client, 1, COUNT).await;
    for token in first {
        client.settle(token, Settlement::Abandon { modify: modify.clone() });
        client.response().await;
    }
    let tokens = all_tokens(&mut client, 2, COUNT).await;
    let defer = |tokens: &[LockToken]| {
        let mut transaction = broker.namespace.begin_transaction();
        for token in tokens {
            transaction
                .add(&client.handle, settle(&client, *token, Settlement::Defer { modify: Vec::new() }));
        }
        transaction
    };
    let (all, half) = (defer(&tokens), defer(&tokens[..COUNT as usize / 2]));
    let refused = committed(all, &mut client).await;
    assert!(matches!(&refused, Err(Refusal::InvalidArgument(text)) if text.contains("limit")), "{refused:?}");
    assert_eq!(committed(half, &mut client).await, Ok(()), "the locks stay");
    assert_eq!(broker.namespace.counts(OTHER).unwrap().deferred, COUNT / 2);
    client.nothing().await;
}

/// Receives this number of messages with a new receiver.
async fn all_tokens(client: &mut Client, receiver: u64, count: u64) -> Vec<LockToken> {
    client.open(receiver, ReceiveMode::PeekLock, SubQueue::Main, count);
    let mut tokens = Vec::new();
    for _ in 0..count {
        tokens.push(token(&client.delivery().await));
    }
    tokens
}
