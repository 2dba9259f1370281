//! A lost shard stops only its host: waiting clients get a refusal that makes them retry.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use peeklock_engine::runtime::{Output, Response};
use peeklock_engine::{
    Command, QueueOptions, QueuePath, ReceiveMode, ReceiverId, ReceiverOptions, Refusal, SubQueue,
};
use peeklock_storage::{Batch, Commit, Error, MemoryStore, Place, Shard, ShardId, Store};
use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::broker::{Broker, Client, QUEUE, START, TestClock, quiet, refused, send, token};
use crate::forwarding::client_of;
use crate::wrapped::forward;

const OTHER: &str = "other";

fn reason() -> String {
    "a test wants it so".to_owned()
}

/// The ways in which a store loses a shard.
fn losses() -> [Error; 4] {
    [
        Error::Fenced { reason: reason() },
        Error::InDoubt { reason: reason() },
        Error::Stopped { reason: reason() },
        Error::Corrupt { place: Place { unit: "the log".to_owned(), offset: 7 }, reason: reason() },
    ]
}

/// Two queues: one with a receiver, a watcher and a locked message, both with a client.
async fn busy_broker() -> (Broker, Client, Client, [ReceiverId; 2]) {
    let broker = Broker::start(1 << 20).await;
    broker.namespace.declare(OTHER, QueueOptions::default()).await.unwrap();
    let (mut client, other) = (broker.client(), client_of(&broker, OTHER));
    client.sent("one").await;
    let receiver = client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    client.delivery().await;
    let watcher = client.receiver(2);
    client.submit(Command::Watch { watcher, queue: client.queue, sends: true });
    client.nothing().await;
    (broker, client, other, [receiver, watcher])
}

/// The closed receivers and the tags of responses, which must all be retryable refusals; no other output is allowed.
fn refusals(outputs: Vec<Output>) -> (Vec<ReceiverId>, Vec<u64>) {
    let (mut closed, mut answered) = (Vec::new(), Vec::new());
    for output in outputs {
        match output {
            Output::ReceiverClosed { receiver, refusal: Refusal::Unavailable } => closed.push(receiver),
            Output::Response { tag, response } => {
                assert!(
                    response == refused(Refusal::Unavailable)
                        || response == Response::Done(Err(Refusal::Unavailable)),
                    "{response:?}"
                );
                answered.push(tag);
            }
            other => panic!("unexpected: {other:?}"),
        }
    }
    closed.sort_unstable();
    (closed, answered)
}

#[tokio::test]
async fn a_lost_lease_closes_receivers_and_refuses_sends_that_wait_and_later_ones() {
    for loss in losses() {
        let (broker, mut client, mut other, receivers) = busy_broker().await;
        broker.store.hold();
        let waiting = [client.send("two"), client.send("three")];
        client.nothing().await;
        assert_eq!(broker.namespace.lost_shard(), None);
        broker.store.lose(loss.clone());
        let lost = broker.namespace.shard_lost().await;
        assert_eq!((lost.shard, lost.epoch.0), (ShardId(0), 1));
        // Also if an actor learns of the loss first, from the commit of its batch.
        assert_eq!(lost.reason, loss);
        assert_eq!(broker.namespace.lost_shard(), Some(lost));
        assert_eq!(refusals(client.all().await), (receivers.to_vec(), waiting.to_vec()));
        // An entity that wasn't using the store at that time stops as well.
        let late = other.send("late");
        assert_eq!(other.response().await, (late, refused(Refusal::Unavailable)));
        let mut attached = client_of(&broker, QUEUE);
        let late = attached.send("late");
        assert_eq!(attached.response().await, (late, refused(Refusal::Unavailable)));
        attached.open(3, ReceiveMode::PeekLock, SubQueue::Main, 1);
        let (closed, answered) = refusals(attached.all().await);
        assert!(answered.is_empty() && closed.iter().all(|closed| *closed == attached.receiver(3)));
    }
}

/// The process continues: administration responds, and an orderly shutdown is possible.
#[tokio::test]
async fn a_namespace_without_its_shard_still_answers_and_shuts_down() {
    let (broker, _client, _other, _) = busy_broker().await;
    broker.store.lose(Error::Fenced { reason: reason() });
    broker.namespace.shard_lost().await;
    quiet().await;
    assert_eq!(broker.namespace.names(), [QUEUE, OTHER]);
    let refused = broker.namespace.create("new", QueueOptions::default()).await.unwrap_err();
    assert!(matches!(
        refused,
        peeklock_engine::runtime::ChangeError::Store(Error::Unavailable { .. } | Error::Fenced { .. })
    ));
    assert!(broker.namespace.delete(OTHER).await.is_err());
    broker.namespace.catch_up().await;
    broker.namespace.shutdown().await;
}

/// A batch in doubt loses the shard even before the store reports the loss.
#[tokio::test]
async fn a_batch_in_doubt_ends_every_actor_of_the_host() {
    let (broker, mut client, mut other, receivers) = busy_broker().await;
    let watcher = other.receiver(7);
    other.submit(Command::Watch { watcher, queue: other.queue, sends: true });
    broker.store.fail_next(Error::InDoubt { reason: reason() });
    let tag = client.send("two");
    assert!(matches!(broker.namespace.shard_lost().await.reason, Error::InDoubt { .. }));
    assert_eq!(refusals(client.all().await), (receivers.to_vec(), vec![tag]));
    assert_eq!(refusals(other.all().await), (vec![watcher], vec![]));
}

#[tokio::test]
async fn transactions_that_wait_are_refused_when_the_shard_is_lost() {
    let (broker, _client, mut other, _) = busy_broker().await;
    broker.store.hold();
    let commit = |tag| {
        let mut transaction = broker.namespace.begin_transaction();
        for entity in [QUEUE, OTHER] {
            transaction.add(&client_of(&broker, entity).handle, send("joint"));
        }
        transaction.commit(other.mailbox.clone(), tag);
    };
    commit(1);
    quiet().await;
    commit(2);
    broker.store.lose(Error::InDoubt { reason: reason() });
    commit(3);
    quiet().await;
    commit(4);
    let (closed, mut answered) = refusals(other.all().await);
    answered.sort_unstable();
    assert_eq!((closed, answered), (vec![], vec![1, 2, 3, 4]));
}

/// Batches that were durable before the loss are accepted: a refused client would send again.
#[tokio::test]
async fn messages_that_are_durable_when_the_shard_is_lost_are_accepted() {
    let (broker, mut client, _other, receivers) = busy_broker().await;
    broker.store.hold();
    let durable = client.send("two");
    client.nothing().await;
    let waiting = client.send("three");
    client.nothing().await;
    broker.store.release_one();
    broker.store.lose(Error::Fenced { reason: reason() });
    let mut outputs = client.all().await;
    let first = outputs.remove(0);
    assert!(
        matches!(&first, Output::Response { tag, response: Response::Sent(Ok(_)) } if *tag == durable),
        "{first:?}"
    );
    assert_eq!(refusals(outputs), (receivers.to_vec(), vec![waiting]));
}

#[tokio::test]
async fn the_next_owner_goes_on_and_the_earlier_one_is_refused() {
    let (broker, mut client, _other, receivers) = busy_broker().await;
    let lease = broker.store.acquire(ShardId(0)).await.unwrap();
    let next = Broker::over_existing(broker.store.clone(), lease, TestClock::new(START), 2).await;
    assert!(matches!(broker.namespace.shard_lost().await.reason, Error::Fenced { .. }));
    let tag = client.send("two");
    assert_eq!(refusals(client.all().await), (receivers.to_vec(), vec![tag]));
    let mut client = next.client();
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let delivery = client.delivery().await;
    client.completed(token(&delivery)).await;
    assert_eq!(next.namespace.lost_shard(), None);
}

/// Receiver ids of an earlier owner are invalid: they can't open a receiver, and don't name one of the same number or its
/// session.
#[tokio::test]
async fn receiver_ids_of_an_earlier_epoch_are_refused() {
    let broker = Broker::start(1 << 20).await;
    let earlier = broker.client();
    let lease = broker.store.acquire(ShardId(0)).await.unwrap();
    let next = Broker::over_existing(broker.store.clone(), lease, TestClock::new(START), 2).await;
    let mut client = next.client();
    client.sent("one").await;
    let (old, new) = (earlier.receiver(1), client.receiver(1));
    assert_ne!(old, new);
    assert_eq!(client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 0), new);
    client.nothing().await;
    let options = ReceiverOptions { source: QueuePath::main(client.queue), mode: ReceiveMode::PeekLock };
    let tag = client.submit(Command::OpenReceiver { receiver: old, options, session: None });
    assert_eq!(client.response().await, (tag, Response::Opened(Err(Refusal::Unavailable))));
    client.submit(Command::Watch { watcher: old, queue: client.queue, sends: true });
    client.credit(old, 10, false);
    assert_eq!(refusals(client.all().await), (vec![old, old], vec![]));
    let tag = client.submit(Command::RenewSessionLock { receiver: old });
    assert_eq!(client.response().await, (tag, Response::SessionRenewed(Err(Refusal::SessionLockLost))));
    client.submit(Command::CloseReceiver { receiver: old });
    client.credit(new, 1, false);
    assert_eq!(client.delivery().await.receiver, new, "the receiver of the same number is untouched");
}

/// A shard that panics on request, as a defect of the engine would.
struct Panicking {
    shard: Arc<dyn Shard>,
    panics: AtomicBool,
}

impl Shard for Panicking {
    forward!(shard: resume, read, scan, partitions, limits, pressure);

    fn submit(&self, batch: Batch) -> Commit {
        assert!(!self.panics.load(Ordering::Relaxed), "as a test wants");
        self.shard.submit(batch)
    }
}

/// Two queues over a shard that panics on request.
async fn panicking_broker() -> (Broker, Arc<Panicking>) {
    let store = MemoryStore::new();
    let lease = store.acquire(ShardId(0)).await.unwrap();
    let panicking = Arc::new(Panicking { shard: Arc::clone(lease.shard()), panics: AtomicBool::new(false) });
    let lease = lease.over(Arc::clone(&panicking) as Arc<dyn Shard>);
    let broker = Broker::over(store, lease, TestClock::new(START), 1 << 20, 1).await;
    broker.namespace.declare(OTHER, QueueOptions::default()).await.unwrap();
    (broker, panicking)
}

#[tokio::test]
async fn an_actor_that_panics_ends_its_host_and_all_waits() {
    let (broker, panicking) = panicking_broker().await;
    let (mut client, mut other) = (broker.client(), client_of(&broker, OTHER));
    let receivers = [
        client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1),
        other.open(2, ReceiveMode::PeekLock, SubQueue::Main, 1),
    ];
    quiet().await;
    panicking.panics.store(true, Ordering::Relaxed);
    let tag = client.send("one");
    assert!(matches!(broker.namespace.shard_lost().await.reason, Error::Stopped { .. }));
    assert_eq!(refusals(client.all().await), (vec![receivers[0]], vec![tag]));
    assert_eq!(refusals(other.all().await), (vec![receivers[1]], vec![]));
}

/// Their outcome is unknown: the transactions of a round that panics may be on disk already.
#[tokio::test]
async fn transactions_are_answered_when_the_committer_panics_in_their_round() {
    let (broker, panicking) = panicking_broker().await;
    let mut other = client_of(&broker, OTHER);
    panicking.panics.store(true, Ordering::Relaxed);
    for tag in [1, 2] {
        let mut transaction = broker.namespace.begin_transaction();
        for entity in [QUEUE, OTHER] {
            transaction.add(&client_of(&broker, entity).handle, send("joint"));
        }
        transaction.commit(other.mailbox.clone(), tag);
    }
    assert!(matches!(broker.namespace.shard_lost().await.reason, Error::Stopped { .. }));
    let (closed, mut answered) = refusals(other.all().await);
    answered.sort_unstable();
    assert_eq!((closed, answered), (vec![], vec![1, 2]));
}

/// Errors logged by this thread.
#[derive(Clone, Default)]
struct Errors(Arc<Mutex<Vec<String>>>);

impl Subscriber for Errors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = String::new();
        event
            .record(&mut |field: &Field, value: &dyn std::fmt::Debug| line += &format!("{field}={value:?} "));
        self.0.lock().unwrap().push(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Whoever waits for the loss logs it; a line of the engine would be the same failure again.
#[tokio::test]
async fn a_loss_is_reported_with_its_reason_and_not_logged_as_well() {
    let errors = Errors::default();
    // With a single subscriber, `tracing` lets the thread that first logs at a place decide whether that place is ever logged.
    let _other = tracing::Dispatch::new(Errors::default());
    let _logging = tracing::subscriber::set_default(errors.clone());
    for loss in losses() {
        let (broker, mut client, ..) = busy_broker().await;
        let namespace = broker.namespace.clone();
        broker.store.hold();
        client.send("two");
        let deletion = tokio::spawn(async move { namespace.delete(OTHER).await });
        quiet().await;
        tracing::callsite::rebuild_interest_cache();
        broker.store.lose(loss.clone());
        assert_eq!(broker.namespace.shard_lost().await.reason, loss);
        quiet().await;
        assert!(deletion.await.unwrap().is_err());
        let logged = std::mem::take(&mut *errors.0.lock().unwrap());
        assert!(logged.is_empty(), "{loss}: {logged:#?}");
    }
}
