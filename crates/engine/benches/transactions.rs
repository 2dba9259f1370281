//! Durable transactions of 10 sends to one queue and 10 completions in another, compared with single sends.
//! `cargo bench -p peeklock-engine --bench transactions`; `CLIENTS=16` sets the number of concurrent clients.
#![allow(clippy::print_stdout, clippy::expect_used, clippy::panic, reason = "a program for people to read")]
#![allow(clippy::disallowed_methods, reason = "measures time")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use peeklock_engine::runtime::{
    EntityRef, Mailbox, MailboxReceiver, Namespace, NamespaceOptions, Output, PartitionHandle, Request,
    Response, SystemClock,
};
use peeklock_engine::{
    Command, CreditLimit, LockToken, NewMessage, QueueOptions, QueuePath, ReceiveMode, ReceiverOptions,
    Settlement,
};
use peeklock_storage::{LocalOptions, LocalStore, ShardId};

const WORK: usize = 10;
const CONTENT_BYTES: usize = 1024;
const TRANSACTIONS: usize = 4_000;

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let wanted = std::env::var("CLIENTS").ok().and_then(|clients| clients.parse().ok());
    let clients = wanted.map_or_else(|| vec![1, 4, 16, 64], |clients| vec![clients]);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    println!(
        "{:<8} {:>16} {:>12} {:>16} {:>12}",
        "clients", "transactions/s", "p50 us", "single sends/s", "p50 us"
    );
    for clients in clients {
        let directory = tempfile::tempdir().expect("a directory");
        let store = LocalStore::open(directory.path(), LocalOptions::default()).expect("a store");
        let lease = store.acquire_now(ShardId(0)).expect("a shard");
        let options =
            NamespaceOptions { body_cache_bytes: 1 << 30, seed: Some(1), ..NamespaceOptions::default() };
        runtime.block_on(async {
            let clock = Arc::new(SystemClock::new());
            let namespace = Namespace::start(lease, clock, options).await.expect("a namespace");
            for name in ["in", "out"] {
                namespace.declare(name, QueueOptions::default()).await.expect("a queue");
            }
            let transactions = run(&namespace, clients, true).await;
            let sends = run(&namespace, clients, false).await;
            println!(
                "{clients:<8} {:>16.0} {:>12} {:>16.0} {:>12}",
                transactions.0, transactions.1, sends.0, sends.1
            );
            namespace.shutdown().await;
        });
    }
}

/// Operations per second of all clients together, and the median duration of one in microseconds.
async fn run(namespace: &Namespace, clients: usize, transactions: bool) -> (f64, u128) {
    let each = TRANSACTIONS / clients;
    let mut ready = Vec::new();
    for _ in 0..clients {
        let mut client = Client::new(namespace);
        if transactions {
            client.lock(each * WORK).await;
        }
        ready.push(client);
    }
    let started = Instant::now();
    let tasks: Vec<_> =
        ready.into_iter().map(|client| tokio::spawn(client.work(each, transactions))).collect();
    let mut times: Vec<Duration> = Vec::new();
    for task in tasks {
        times.extend(task.await.expect("a client"));
    }
    let seconds = started.elapsed().as_secs_f64();
    times.sort_unstable();
    let median = times.get(times.len() / 2).map_or(0, Duration::as_micros);
    ((each * clients) as f64 / seconds, median)
}

struct Client {
    namespace: Namespace,
    source: EntityRef,
    target: EntityRef,
    mailbox: Mailbox,
    outputs: MailboxReceiver,
    tokens: Vec<LockToken>,
}

impl Client {
    fn new(namespace: &Namespace) -> Self {
        let (mailbox, outputs) = Mailbox::new();
        let entity = |name| namespace.entity(name).expect("a queue");
        let (source, target) = (entity("in"), entity("out"));
        Self { namespace: namespace.clone(), source, target, mailbox, outputs, tokens: Vec::new() }
    }

    fn submit(&self, entity: &PartitionHandle, command: Command) {
        entity.submit(Request { mailbox: self.mailbox.clone(), tag: Some(1), command });
    }

    /// Locks `count` messages of the source.
    async fn lock(&mut self, count: usize) {
        let receiver = self.namespace.next_receiver_id(&self.source.partition);
        let options =
            ReceiverOptions { source: QueuePath::main(self.source.queue), mode: ReceiveMode::PeekLock };
        self.submit(&self.source.partition, Command::OpenReceiver { receiver, options, session: None });
        let limit = CreditLimit { messages: count as u64, bytes: u64::MAX };
        self.submit(&self.source.partition, Command::Credit { receiver, limit, drain: false });
        for _ in 0..count / WORK {
            let messages = (0..WORK).map(|_| message()).collect();
            self.submit(&self.source.partition, Command::Send { messages });
        }
        while self.tokens.len() < count {
            if let Some(Output::Delivery(delivery)) = self.outputs.recv().await {
                self.tokens.extend(delivery.message.lock.map(|lock| lock.token));
            }
        }
    }

    async fn work(mut self, count: usize, transactions: bool) -> Vec<Duration> {
        let mut times = Vec::with_capacity(count);
        while self.outputs.try_recv().is_ok() {}
        for _ in 0..count {
            let started = Instant::now();
            if transactions {
                let mut transaction = self.namespace.begin_transaction();
                for _ in 0..WORK {
                    let messages = std::iter::once(message()).collect();
                    transaction.add(&self.target.partition, Command::Send { messages });
                    let tokens = self.tokens.pop().into_iter().collect();
                    let settlement = Settlement::Complete;
                    let complete = Command::Settle { queue: self.source.queue, tokens, settlement };
                    transaction.add(&self.source.partition, complete);
                }
                transaction.commit(self.mailbox.clone(), 1);
            } else {
                let messages = std::iter::once(message()).collect();
                self.submit(&self.target.partition, Command::Send { messages });
            }
            match self.outputs.recv().await {
                Some(Output::Response {
                    response: Response::Done(Ok(())) | Response::Sent(Ok(_)), ..
                }) => {}
                other => panic!("{other:?}"),
            }
            times.push(started.elapsed());
        }
        times
    }
}

fn message() -> NewMessage {
    NewMessage { content: Bytes::from_static(&[7; CONTENT_BYTES]), ..NewMessage::default() }
}
