//! A history of everything a broker stores, once for each of its batches with that batch refused by the store, or with a crash in
//! its place: clients repeat what was not answered, and the outcome is that of the history without a fault, also after a restart.

use std::collections::BTreeMap;

use peeklock_engine::runtime::{Namespace, Output, Response, StartError};
use peeklock_engine::{
    Command, CreditLimit, EntityOptions, MessageKey, NewMessage, QueueId, QueueOptions, QueuePath,
    ReceiveMode, ReceiverOptions, Refusal, SequenceNumber, SessionRequest, Settlement, SubQueue,
    SubscriptionOptions, Timestamp, TopicOptions,
};
use peeklock_storage::{Error, ShardId, Store};

use crate::broker::{Broker, Client, START, quiet, token};
use crate::forwarding::{dead_letters_to, forwarding, restarted, to};
use crate::topics::plain;

/// Attempts of a client; more than refusals.
const ATTEMPTS: usize = 4;
/// Longer than a forwarder's pause, shorter than a lock.
const PAUSE_MS: u64 = 6_000;
/// Longer than all pauses until the message is scheduled.
const DELAY_MS: u64 = 40_000;

/// What happens instead of a batch.
#[derive(Debug, Clone)]
enum Fault {
    /// The store refuses it.
    Refusal(Error),
    /// The process ends, and another one starts.
    Crash,
}

/// A broker for which one batch fails.
struct Refusing {
    broker: Broker,
    fault: Fault,
    /// The batch, counted from 0.
    refused: usize,
    batches: usize,
    receivers: u64,
}

fn is_transient(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::StorageFull | Refusal::StorageFailing | Refusal::Unavailable | Refusal::MessageLockLost
    )
}

fn is_refused(response: &Response) -> bool {
    match response {
        Response::Sent(Err(refusal)) | Response::Done(Err(refusal)) | Response::Received(Err(refusal)) => {
            is_transient(refusal)
        }
        Response::Opened(Err(refusal)) => is_transient(refusal),
        Response::Settled(failures) => failures.iter().any(|failure| is_transient(&failure.refusal)),
        _ => false,
    }
}

impl Refusing {
    /// Lets everything happen, with one batch refused.
    async fn pump(&mut self) {
        loop {
            quiet().await;
            if self.broker.store.held() == 0 {
                return;
            }
            let is_refused = self.batches == self.refused;
            self.batches += 1;
            match (is_refused, self.fault.clone()) {
                (true, Fault::Refusal(error)) => self.broker.store.fail_next(error),
                (true, Fault::Crash) => {
                    self.restart().await;
                    continue;
                }
                (false, _) => {}
            }
            self.broker.store.release_one();
        }
    }

    async fn restart(&mut self) {
        let Broker { store, clock, namespace } = &self.broker;
        store.crash();
        let (store, clock) = (store.clone(), clock.clone());
        namespace.shutdown().await;
        let lease = store.acquire(ShardId(0)).await.unwrap();
        self.broker = Broker::over_existing(store, lease, clock, 3).await;
        self.broker.store.hold();
    }

    /// Lets also happen what is tried again after a pause.
    async fn settle_down(&mut self) {
        for _ in 0..ATTEMPTS {
            self.pump().await;
            self.broker.clock.advance(PAUSE_MS);
        }
        self.pump().await;
    }

    fn client(&self, name: &str) -> Client {
        let mut client = self.broker.client();
        (client.handle, client.queue) = match name.split_once('/') {
            Some((topic, name)) => {
                let found = self.broker.namespace.subscription(topic, name).unwrap();
                (found.partition, found.queue)
            }
            None => {
                let found = self.broker.namespace.entity(name).unwrap();
                (found.partition, found.queue)
            }
        };
        client
    }

    /// Carries out a command at this entity, repeated while the store refuses it.
    async fn carry_out(&mut self, name: &str, command: impl Fn(QueueId) -> Command) -> Response {
        for _ in 0..ATTEMPTS {
            let mut client = self.client(name);
            client.submit(command(client.queue));
            self.pump().await;
            let response = client.response().await.1;
            if !is_refused(&response) {
                return response;
            }
        }
        panic!("{name}: always refused");
    }

    async fn send(&mut self, name: &str, message: NewMessage) {
        let messages = || Command::Send { messages: [message.clone()].into_iter().collect() };
        assert!(matches!(self.carry_out(name, |_| messages()).await, Response::Sent(Ok(_))), "{name}");
    }

    /// Receives a message and settles it, repeated while the store refuses that; returns its number.
    async fn receive(
        &mut self,
        name: &str,
        sub_queue: SubQueue,
        session: Option<&str>,
        settlement: &Settlement,
    ) -> SequenceNumber {
        for _ in 0..ATTEMPTS {
            let mut client = self.client(name);
            self.receivers += 1;
            let receiver = client.receiver(self.receivers);
            let source = QueuePath { queue: client.queue, sub_queue };
            let options = ReceiverOptions { source, mode: ReceiveMode::PeekLock };
            let session =
                session.map(|id| SessionRequest { id: Some(id.into()), ..SessionRequest::default() });
            client.tell(Command::OpenReceiver { receiver, options, session });
            let limit = CreditLimit { messages: 1, bytes: u64::MAX };
            client.tell(Command::Credit { receiver, limit, drain: false });
            self.pump().await;
            let found = client.all().await.into_iter().find_map(|output| match output {
                Output::Delivery(delivery) => Some(*delivery),
                _ => None,
            });
            let Some(delivery) = found else { continue };
            client.settle(token(&delivery), settlement.clone());
            self.pump().await;
            let settled = |output: &Output| matches!(output, Output::Response { response, .. } if !is_refused(response));
            let is_settled = client.all().await.iter().any(settled);
            client.tell(Command::CloseReceiver { receiver });
            self.pump().await;
            if is_settled {
                return delivery.message.view.sequence_number;
            }
        }
        panic!("{name}: nothing is received and settled");
    }

    /// Sets the state of a session.
    async fn set_state(&mut self, name: &str, session: &str, bytes: usize) {
        for _ in 0..ATTEMPTS {
            let mut client = self.client(name);
            self.receivers += 1;
            let receiver = client.receiver(self.receivers);
            let options =
                ReceiverOptions { source: QueuePath::main(client.queue), mode: ReceiveMode::PeekLock };
            let session = Some(SessionRequest { id: Some(session.into()), ..SessionRequest::default() });
            client.tell(Command::OpenReceiver { receiver, options, session });
            client.submit(Command::SetSessionState { receiver, state: Some(vec![7; bytes].into()) });
            self.pump().await;
            let outputs = client.all().await;
            client.tell(Command::CloseReceiver { receiver });
            self.pump().await;
            let is_set =
                |output: &Output| matches!(output, Output::Response { response: Response::Done(Ok(())), .. });
            if outputs.iter().any(is_set) {
                return;
            }
        }
        panic!("the state is never set");
    }

    /// Changes something through the namespace, repeated while the store refuses it.
    async fn change<T, E, F>(&mut self, what: &str, change: impl Fn(Namespace) -> F)
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: std::fmt::Debug + Send + 'static,
    {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let changed = tokio::spawn(change(self.broker.namespace.clone()));
            self.pump().await;
            match changed.await.unwrap() {
                Ok(_) => return,
                Err(error) => last = Some(format!("{error:?}")),
            }
        }
        panic!("{what}: {last:?}");
    }

    /// Bodies in every place, sorted.
    async fn contents(&self, names: &[&str]) -> BTreeMap<(String, SubQueue), Vec<Vec<u8>>> {
        let mut all = BTreeMap::new();
        for name in names {
            for sub_queue in SubQueue::ALL {
                let mut found: Vec<Vec<u8>> = Vec::new();
                for content in self.client(name).browsed(sub_queue).await {
                    found.push(content.to_vec());
                }
                found.sort_unstable();
                all.insert(((*name).to_owned(), sub_queue), found);
            }
        }
        all
    }
}

const QUEUES: [&str; 8] = ["first", "second", "sink", "unique", "works", "dead", "sessions", "orders"];
const SUBSCRIPTIONS: [&str; 2] = ["news/a", "news/b"];

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
