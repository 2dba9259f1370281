//! CPU time of a message on its way through an actor: send → accepted and deliver → complete → settled, with bodies of 1 KB
//! and 256 requests in flight per queue. Client, actor and store share one thread, so CPU time per message is
//! exact and includes all three: `cargo bench -p peeklock-engine --bench runtime`.
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
    Command, CreditLimit, NewMessage, QueueId, QueueOptions, QueuePath, ReceiveMode, ReceiverOptions,
    SequenceNumber, Settlement,
};
use peeklock_storage::{
    Batch, Commit, Epoch, Error, Key, Lease, Limits, MemoryStore, Page, PartitionId, Partitions, Pressure,
    Read, Scan, Shard, ShardId, Space, Store, commit, partitions, read, scan,
};
use tokio::sync::watch;

const MESSAGES: u64 = 400_000;
const IN_FLIGHT: u64 = 256;
const CONTENT_BYTES: usize = 1024;
const CONTENTS_PER_BUFFER: usize = 64;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let [declared, running] = runtime.block_on(idle_queues(10_000));
    println!("bytes per idle queue: {declared:.0}, with a running actor: {running:.0}");
    println!("{:<44} {:>14} {:>14}", "CPU ns per message", "send → ack", "deliver → done");
    for queues in [1, 16] {
        for (name, body_cache_bytes) in [("all cached", 1 << 30), ("all read back", 0)] {
            let lease = runtime.block_on(MemoryStore::new().acquire(ShardId(0))).expect("a shard");
            let [send, receive] = runtime.block_on(measure(lease, queues, body_cache_bytes));
            println!(
                "{:<44} {send:>14.0} {receive:>14.0}",
                format!("memory store, {queues} queue(s), {name}")
            );
        }
        let [send, receive] = runtime.block_on(measure(NullShard::lease(), queues, 1 << 30));
        println!("{:<44} {send:>14.0} {receive:>14.0}", format!("no store, {queues} queue(s), all cached"));
    }
}

/// Memory of idle queues, first as restored, then each with a running actor.
async fn idle_queues(count: u64) -> [f64; 2] {
    let shard = MemoryStore::new().acquire(ShardId(0)).await.expect("a shard");
    let options = NamespaceOptions { body_cache_bytes: 0, seed: Some(1), ..NamespaceOptions::default() };
    let namespace =
        Namespace::start(shard, Arc::new(SystemClock::new()), options).await.expect("a namespace");
    let before = resident_bytes();
    let queues = (0..count).map(|number| (format!("queue-{number}"), QueueOptions::default()));
    namespace.declare_all(queues).await.expect("queues");
    let declared = resident_bytes();
    for name in namespace.names() {
        Client::new(&namespace, &name, 0).browse().await;
    }
    let running = resident_bytes();
    namespace.shutdown().await;
    [declared - before, running - before].map(|bytes| bytes / count as f64)
}

/// Resident memory of this process, where the system reports it (Linux); otherwise 0.
fn resident_bytes() -> f64 {
    let statm = std::fs::read("/proc/self/statm").ok().and_then(|text| String::from_utf8(text).ok());
    statm.and_then(|text| text.split(' ').nth(1)?.parse::<f64>().ok()).unwrap_or(0.0) * 4096.0
}

/// CPU nanoseconds per message for sending and for receiving.
async fn measure(lease: Lease, queues: u64, body_cache_bytes: usize) -> [f64; 2] {
    let options = NamespaceOptions { body_cache_bytes, seed: Some(1), ..NamespaceOptions::default() };
    let namespace =
        Namespace::start(lease, Arc::new(SystemClock::new()), options).await.expect("a namespace");
    let mut clients = Vec::new();
    for number in 0..queues {
        let name = format!("queue-{number}");
        namespace.declare(&name, QueueOptions::default()).await.expect("a queue");
        clients.push(Client::new(&namespace, &name, MESSAGES / queues));
    }
    let started = cpu_time();
    let tasks: Vec<_> = clients.into_iter().map(|client| tokio::spawn(client.send_all())).collect();
    let mut clients = Vec::new();
    for task in tasks {
        clients.push(task.await.expect("a client"));
    }
    let sent = cpu_time();
    let tasks: Vec<_> = clients.into_iter().map(|client| tokio::spawn(client.receive_all())).collect();

    for task in tasks {
        task.await.expect("a client");
    }
    let received = cpu_time();
    namespace.shutdown().await;
    [sent - started, received - sent].map(|cpu| cpu.as_nanos() as f64 / MESSAGES as f64)
}

struct Client {
    namespace: Namespace,
    handle: PartitionHandle,
    queue: QueueId,
    mailbox: Mailbox,
    outputs: MailboxReceiver,
    messages: u64,
}

impl Client {
    fn new(namespace: &Namespace, name: &str, messages: u64) -> Self {
        let EntityRef { partition: handle, queue, .. } = namespace.entity(name).expect("a queue");
        let (mailbox, outputs) = Mailbox::new();
        Self { namespace: namespace.clone(), handle, queue, mailbox, outputs, messages }
    }

    fn submit(&self, tag: Option<u64>, command: Command) {
        self.handle.submit(Request { mailbox: self.mailbox.clone(), tag, command });
    }

    async fn browse(mut self) {
        let (from, source) = (SequenceNumber(1), QueuePath::main(self.queue));
        self.submit(Some(1), Command::Peek { from, count_max: 1, bytes_max: 1, source, session: None });
        self.outputs.recv().await.expect("an answer");
    }

    async fn send_all(mut self) -> Self {
        let (mut sent, mut accepted, mut outputs) = (0, 0, Vec::new());
        let mut buffer = Bytes::new();
        while accepted < self.messages {
            while sent < self.messages && sent - accepted < IN_FLIGHT {
                if buffer.is_empty() {
                    buffer = Bytes::from(vec![7; CONTENT_BYTES * CONTENTS_PER_BUFFER]);
                }
                let message = NewMessage { content: buffer.split_to(CONTENT_BYTES), ..NewMessage::default() };
                self.submit(Some(sent), Command::Send { messages: std::iter::once(message).collect() });
                sent += 1;
            }
            self.outputs.recv_many(&mut outputs, 1024).await;
            for output in outputs.drain(..) {
                let Output::Response { response: Response::Sent(Ok(_)), .. } = output else {
                    panic!("{output:?}")
                };
                accepted += 1;
            }
        }
        self
    }

    async fn receive_all(mut self) -> Self {
        let receiver = self.namespace.next_receiver_id(&self.handle);
        let options = ReceiverOptions { source: QueuePath::main(self.queue), mode: ReceiveMode::PeekLock };
        self.submit(None, Command::OpenReceiver { receiver, options, session: None });
        let (mut granted, mut delivered, mut settled, mut outputs) = (0, 0, 0, Vec::new());
        while settled < self.messages {
            // Credit is renewed when half of it is used, as the SDKs do.
            if granted - delivered <= IN_FLIGHT / 2 && granted < self.messages {
                granted = delivered + IN_FLIGHT;
                let limit = CreditLimit { messages: granted, bytes: u64::MAX };
                self.submit(None, Command::Credit { receiver, limit, drain: false });
            }
            self.outputs.recv_many(&mut outputs, 1024).await;
            for output in outputs.drain(..) {
                match output {
                    Output::Delivery(delivery) => {
                        assert_eq!(delivery.message.content.len(), CONTENT_BYTES);
                        let token = delivery.message.lock.expect("a lock").token;
                        let tokens = std::iter::once(token).collect();
                        let settle =
                            Command::Settle { queue: self.queue, tokens, settlement: Settlement::Complete };
                        self.submit(Some(delivered), settle);
                        delivered += 1;
                    }
                    Output::Response { response: Response::Settled(failures), .. } if failures.is_empty() => {
                        settled += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        self
    }
}

/// CPU time of this thread where the system reports it (Linux), otherwise the elapsed time.
fn cpu_time() -> Duration {
    static STARTED: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let elapsed = STARTED.get_or_init(Instant::now).elapsed();
    let schedstat =
        std::fs::read("/proc/thread-self/schedstat").ok().and_then(|text| String::from_utf8(text).ok());
    let on_cpu_ns = schedstat.and_then(|text| text.split(' ').next()?.parse().ok());
    on_cpu_ns.map_or(elapsed, Duration::from_nanos)
}

/// Reports every batch as durable and stores nothing, so that only the runtime's own cost remains.
struct NullShard {
    pressure: watch::Sender<Pressure>,
    /// The lease is lost when this sender is dropped.
    _loss: watch::Sender<Option<Error>>,
}

impl NullShard {
    fn lease() -> Lease {
        let (pressure, loss) = (watch::Sender::new(Pressure::Normal), watch::Sender::new(None));
        let lost = loss.subscribe();
        Lease::new(ShardId(0), Arc::new(Self { pressure, _loss: loss }), Epoch(1), lost)
    }
}

impl Shard for NullShard {
    fn submit(&self, _: Batch) -> Commit {
        let (notifier, answer) = commit();
        notifier.resolve(Ok(()));
        answer
    }

    fn resume(&self, _: PartitionId) {}

    fn read(&self, keys: Vec<Key>) -> Read {
        let (notifier, answer) = read();
        notifier.resolve(Ok(vec![None; keys.len()]));
        answer
    }

    fn scan(&self, _: Space, _: PartitionId, _: u64) -> Scan {
        let (notifier, answer) = scan();
        notifier.resolve(Ok(Page::default()));
        answer
    }

    fn partitions(&self) -> Partitions {
        let (notifier, answer) = partitions();
        notifier.resolve(Ok(Vec::new()));
        answer
    }

    fn limits(&self) -> Limits {
        Limits { value_bytes_max: 1 << 30, batch_bytes_max: 1 << 30 }
    }

    fn pressure(&self) -> watch::Receiver<Pressure> {
        self.pressure.subscribe()
    }
}
