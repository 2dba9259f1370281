//! Random histories of messages forwarded from a queue and two subscriptions to one target, with crashes, refused
//! batches and changes of options meanwhile: each arrives once, and nothing is left in the source.

use std::collections::BTreeMap;

use peeklock_engine::runtime::{Namespace, Output, Response};
use peeklock_engine::{
    EntityStatus, Forwarding, QueueOptions, Rule, SubQueue, SubscriptionOptions, TopicOptions,
};
use peeklock_storage::{Error, Space};
use proptest::prelude::*;

use crate::broker::{Broker, Client, QUEUE, quiet};
use crate::forwarding::{client_of, contents, restarted, stored};

const TARGET: &str = "target";
const TOPIC: &str = "news";
const PAUSES_MS: u64 = 60_000;

/// A step of a history.
#[derive(Debug, Clone)]
enum Step {
    /// Sends `count` messages to the queue or to the topic.
    Send {
        topic: bool,
        count: usize,
    },
    /// The queue's forwarding and status are changed, without waiting for the result.
    Change {
        forwards: bool,
        disabled: bool,
    },
    /// Forwarding of the second subscription is switched on or off.
    ChangeSubscription {
        forwards: bool,
    },
    /// The store holds its batches until they are released.
    Hold,
    ReleaseOne,
    ReleaseAll,
    /// The next batch is refused.
    Refuse,
    /// Tasks run for so many turns.
    Turns(usize),
    Advance(u64),
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<bool>(), prop_oneof![Just(1), 2..8_usize, Just(300)])
            .prop_map(|(topic, count)| Step::Send { topic, count }),
        2 => (any::<bool>(), any::<bool>())
            .prop_map(|(forwards, disabled)| Step::Change { forwards, disabled }),
        1 => any::<bool>().prop_map(|forwards| Step::ChangeSubscription { forwards }),
        2 => Just(Step::Hold),
        3 => Just(Step::ReleaseOne),
        1 => Just(Step::ReleaseAll),
        1 => Just(Step::Refuse),
        4 => (0..12_usize).prop_map(Step::Turns),
        1 => (1..6_000_u64).prop_map(Step::Advance),
        1 => Just(Step::Crash),
    ]
}

fn queue(forwards: bool, disabled: bool) -> QueueOptions {
    let status = if disabled { EntityStatus::Disabled } else { EntityStatus::Active };
    QueueOptions { forwarding: to_target(forwards), status, ..QueueOptions::default() }
}

fn to_target(forwards: bool) -> Forwarding {
    Forwarding { forward_to: forwards.then(|| TARGET.into()), ..Forwarding::default() }
}

/// Whether the declaration succeeded: a refused one changes nothing.
async fn subscribe(namespace: &Namespace, name: &str, forwards: bool) -> bool {
    let options = SubscriptionOptions { forwarding: to_target(forwards), ..SubscriptionOptions::default() };
    let wanted = vec![(name.to_owned(), options, vec![Rule::default_rule()])];
    namespace.declare_subscriptions(TOPIC, wanted).await.is_ok()
}

struct World {
    broker: Broker,
    seed: u64,
    /// Clients of the queue and of the topic.
    clients: [Client; 2],
    next: usize,
    /// Messages sent and not answered yet.
    sent: BTreeMap<u64, String>,
    accepted: Vec<String>,
}

impl World {
    async fn start() -> Self {
        let broker = Broker::start(1 << 20).await;
        // Reading several pages back happens on another thread, for which turns of the tasks are no measure.
        broker.store.set_page_entries_max(usize::MAX);
        broker.namespace.declare(TARGET, QueueOptions::default()).await.unwrap();
        broker.namespace.declare(QUEUE, queue(true, false)).await.unwrap();
        broker.namespace.declare(TOPIC, TopicOptions::default()).await.unwrap();
        for name in ["one", "two"] {
            assert!(subscribe(&broker.namespace, name, true).await);
        }
        let clients = [client_of(&broker, QUEUE), client_of(&broker, TOPIC)];
        Self { broker, seed: 1, clients, next: 0, sent: BTreeMap::new(), accepted: Vec::new() }
    }

    async fn step(&mut self, step: &Step) {
        match *step {
            Step::Send { topic, count } => {
                for _ in 0..count {
                    let content = format!("{}{:06}", if topic { "t" } else { "q" }, self.next);
                    self.next += 1;
                    let tag = self.clients[usize::from(topic)].send(&content);
                    self.sent.insert(tag * 2 + u64::from(topic), content);
                }
            }
            Step::Change { forwards, disabled } => {
                let namespace = self.broker.namespace.clone();
                tokio::spawn(async move { namespace.declare(QUEUE, queue(forwards, disabled)).await });
            }
            Step::ChangeSubscription { forwards } => {
                let namespace = self.broker.namespace.clone();
                tokio::spawn(async move { subscribe(&namespace, "two", forwards).await });
            }
            Step::Hold => self.broker.store.hold(),
            Step::ReleaseOne => drop(self.broker.store.release_one()),
            Step::ReleaseAll => self.broker.store.release_all(),
            Step::Refuse => self.broker.store.fail_next(Error::Full { reason: "so it goes".to_owned() }),
            Step::Turns(turns) => {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
            }
            Step::Advance(ms) => self.broker.clock.advance(ms),
            Step::Crash => self.crash().await,
        }
        self.listen();
    }

    /// Records the accepted messages.
    fn listen(&mut self) {
        for (topic, client) in (0..).zip(&mut self.clients) {
            while let Ok(output) = client.outputs.try_recv() {
                let Output::Response { tag, response } = output else { continue };
                let content = self.sent.remove(&(tag * 2 + topic));
                if let (Some(content), Response::Sent(Ok(_))) = (content, response) {
                    self.accepted.push(content);
                }
            }
        }
    }

    async fn crash(&mut self) {
        self.broker.store.crash();
        quiet().await;
        self.listen();
        self.seed += 1;
        let (store, clock) = (self.broker.store.clone(), self.broker.clock.clone());
        let namespace = self.broker.namespace.clone();
        self.broker = restarted(Broker { store, clock, namespace }, self.seed).await;
        self.sent.clear();
        self.clients = [client_of(&self.broker, QUEUE), client_of(&self.broker, TOPIC)];
    }

    /// Lets everything finish and checks the messages that arrived.
    async fn end(mut self) {
        self.broker.store.release_all();
        for _ in 0..4 {
            quiet().await;
            self.broker.clock.advance(PAUSES_MS);
        }
        self.listen();
        // Declares until it succeeds: a pending refusal of the store may hit this batch, or have halted the queue.
        while self.broker.namespace.declare(QUEUE, queue(true, false)).await.is_err() {}
        while !subscribe(&self.broker.namespace, "two", true).await {}
        for _ in 0..12 {
            quiet().await;
            self.broker.clock.advance(PAUSES_MS);
        }
        let arrived = contents(&self.broker, TARGET, SubQueue::Main).await;
        self.listen();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for content in &arrived {
            *counts.entry(content).or_default() += 1;
        }
        for content in &self.accepted {
            let copies = if content.starts_with('t') { 2 } else { 1 };
            assert_eq!(counts.get(content.as_str()), Some(&copies), "{content}");
        }
        for (content, count) in &counts {
            let copies = if content.starts_with('t') { 2 } else { 1 };
            assert_eq!(*count, copies, "{content}");
        }
        let of_queue: Vec<_> = arrived.iter().filter(|content| content.starts_with('q')).collect();
        assert!(of_queue.is_sorted(), "{of_queue:?}");
        let left = (stored(&self.broker, Space::Head), stored(&self.broker, Space::Body));
        assert_eq!(left, (arrived.len(), arrived.len()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_message_arrives_once_whatever_happens(history in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut world = World::start().await;
            for step in &history {
                world.step(step).await;
            }
            world.end().await;
        });
    }
}
