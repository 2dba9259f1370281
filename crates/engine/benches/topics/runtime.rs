//! The whole path through the runtime and a store: actors, commits, responses.

use std::sync::Arc;
use std::time::Instant;

use peeklock_engine::runtime::{
    Mailbox, MailboxReceiver, Namespace, NamespaceOptions, Output, PartitionHandle, Request, Response,
    SystemClock,
};
use peeklock_engine::{
    Command, CreditLimit, QueueId, QueuePath, ReceiveMode, ReceiverOptions, Rule, Settlement,
    SubscriptionOptions, TopicOptions,
};
use peeklock_storage::{LocalOptions, LocalStore, MemoryStore, ShardId, Store};

use super::{FAN_OUT, ROUNDS, SUBSCRIPTIONS_MAX, equality, message, process_cpu_time};

const SENDS: u64 = 100_000;
const FANNED_OUT: u64 = 10_000;
/// Maximum number of messages sent and not yet accepted.
const IN_FLIGHT: u64 = 256;
/// Maximum number of messages delivered and not yet completed, per receiver.
const CREDIT: u64 = 100;
const TOPIC: &str = "topic";

/// Messages or copies per second, and CPU microseconds per message or copy.
type Figures = [f64; 2];

pub(super) fn main(store: &'static str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    // A task, as connections are: the thread that blocks on the runtime would be woken by the system each time.
    let rounds = |case| runtime.block_on(runtime.spawn(many_rounds(store, case))).expect("a client");
    println!("{:<58} {:>12} {:>10}", "runtime, medians", "each/s", "CPU µs");
    let [few, many] = [1, SUBSCRIPTIONS_MAX].map(|subscriptions| {
        let [sent, _] = rounds(Case::Equalities(subscriptions));
        report(&format!("{store}: send, {subscriptions} subscriptions that each want another"), sent);
        sent
    });
    println!("  ratio {:>63.2} {:>10.2}", few[0] / many[0], many[1] / few[1]);
    let [sent, completed] = rounds(Case::FanOut);
    report(&format!("{store}: send to {FAN_OUT} subscriptions, each copy"), sent);
    report(&format!("{store}: deliver and complete, each copy"), completed);
}

fn report(what: &str, [rate, cpu_us]: Figures) {
    println!("{what:<58} {rate:>12.0} {cpu_us:>10.2}");
}

#[derive(Clone, Copy)]
enum Case {
    /// So many subscriptions, only one of which accepts each message.
    Equalities(u64),
    /// All subscriptions accept every message.
    FanOut,
}

/// The medians of sending and of receiving.
async fn many_rounds(store: &'static str, case: Case) -> [Figures; 2] {
    let mut figures = [const { [const { Vec::new() }; 2] }; 2];
    for _ in 0..ROUNDS {
        let round = one_round(store, case).await;
        for (all, one) in figures.as_flattened_mut().iter_mut().zip(round.as_flattened()) {
            all.push(*one);
        }
    }
    figures.map(|pair| {
        pair.map(|mut all: Vec<f64>| {
            all.sort_unstable_by(f64::total_cmp);
            all.get(ROUNDS / 2).copied().unwrap_or_default()
        })
    })
}

async fn one_round(store: &str, case: Case) -> [Figures; 2] {
    let directory = tempfile::tempdir().expect("a directory");
    let store: Box<dyn Store> = match store {
        "memory" => Box::new(MemoryStore::new()),
        _ => Box::new(LocalStore::open(directory.path(), LocalOptions::default()).expect("a store")),
    };
    let shard = store.acquire(ShardId(0)).await.expect("a shard");
    let options =
        NamespaceOptions { body_cache_bytes: 1 << 28, seed: Some(1), ..NamespaceOptions::default() };
    let namespace =
        Namespace::start(shard, Arc::new(SystemClock::new()), options).await.expect("a namespace");
    namespace.declare(TOPIC, TopicOptions::default()).await.expect("a topic");
    let (subscriptions, messages) = match case {
        Case::Equalities(subscriptions) => (subscriptions, SENDS),
        Case::FanOut => (FAN_OUT, FANNED_OUT),
    };
    let wanted = (0..subscriptions).map(|number| {
        let rule = match case {
            Case::Equalities(_) => equality(number),
            Case::FanOut => Rule::default_rule(),
        };
        (name(number), SubscriptionOptions::default(), vec![rule])
    });
    namespace.declare_subscriptions(TOPIC, wanted.collect()).await.expect("subscriptions");
    let copies = if matches!(case, Case::FanOut) { messages * FAN_OUT } else { messages };
    let sent = timed(copies, send_all(&namespace, messages, subscriptions)).await;
    let completed = match case {
        Case::Equalities(_) => Figures::default(),
        Case::FanOut => timed(copies, receive_all(&namespace, messages)).await,
    };
    namespace.shutdown().await;
    [sent, completed]
}

fn name(number: u64) -> String {
    format!("subscription-{number}")
}

async fn timed(count: u64, work: impl Future<Output = ()>) -> Figures {
    let (started, cpu) = (Instant::now(), process_cpu_time());
    work.await;
    let rate = count as f64 / started.elapsed().as_secs_f64();
    [rate, (process_cpu_time() - cpu).as_secs_f64() * 1e6 / count as f64]
}

async fn send_all(namespace: &Namespace, messages: u64, subscriptions: u64) {
    let topic = namespace.entity(TOPIC).expect("the topic").partition;
    let prepared: Vec<_> = (0..subscriptions).map(message).collect();
    let mut prepared = prepared.iter().cycle().step_by(7);
    let (mailbox, mut answers) = Mailbox::new();
    let (mut sent, mut accepted, mut outputs) = (0, 0, Vec::new());
    while accepted < messages {
        while sent < messages && sent - accepted < IN_FLIGHT {
            let command = Command::Send { messages: prepared.next().cloned().into_iter().collect() };
            topic.submit(Request { mailbox: mailbox.clone(), tag: Some(sent), command });
            sent += 1;
        }
        answers.recv_many(&mut outputs, 1024).await;
        for output in outputs.drain(..) {
            let Output::Response { response: Response::Sent(Ok(_)), .. } = output else {
                panic!("{output:?}")
            };
            accepted += 1;
        }
    }
}

/// One receiver per subscription; all of them belong to one client.
struct Client {
    topic: PartitionHandle,
    mailbox: Mailbox,
    outputs: MailboxReceiver,
}

impl Client {
    fn submit(&self, tag: Option<u64>, command: Command) {
        self.topic.submit(Request { mailbox: self.mailbox.clone(), tag, command });
    }
}

async fn receive_all(namespace: &Namespace, messages: u64) {
    let (mailbox, outputs) = Mailbox::new();
    let topic = namespace.entity(TOPIC).expect("the topic").partition;
    let mut client = Client { topic, mailbox, outputs };
    let mut receivers: std::collections::HashMap<QueueId, _> = (0..FAN_OUT)
        .map(|number| {
            let queue = namespace.subscription(TOPIC, &name(number)).expect("a subscription").queue;
            let receiver = namespace.next_receiver_id(&client.topic);
            let options = ReceiverOptions { source: QueuePath::main(queue), mode: ReceiveMode::PeekLock };
            client.submit(None, Command::OpenReceiver { receiver, options, session: None });
            let limit = CreditLimit { messages: CREDIT, bytes: u64::MAX };
            client.submit(None, Command::Credit { receiver, limit, drain: false });
            (queue, (receiver, 0, CREDIT))
        })
        .collect();
    let (mut settled, mut taken) = (0, Vec::new());
    while settled < messages * FAN_OUT {
        client.outputs.recv_many(&mut taken, 1024).await;
        for output in taken.drain(..) {
            match output {
                Output::Delivery(delivery) => {
                    let queue = delivery.message.view.queue;
                    let (receiver, delivered, granted) = receivers.get_mut(&queue).expect("one of them");
                    let tokens = delivery.message.lock.iter().map(|lock| lock.token).collect();
                    let settlement = Settlement::Complete;
                    client.submit(Some(0), Command::Settle { queue, tokens, settlement });
                    *delivered += 1;
                    // Credit is renewed when half of it is used, as the SDKs do.
                    if *granted - *delivered <= CREDIT / 2 {
                        *granted = *delivered + CREDIT;
                        let (receiver, messages) = (*receiver, *granted);
                        let limit = CreditLimit { messages, bytes: u64::MAX };
                        client.submit(None, Command::Credit { receiver, limit, drain: false });
                    }
                }
                Output::Response { response: Response::Settled(failures), .. } if failures.is_empty() => {
                    settled += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
