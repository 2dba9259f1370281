//! Cost of timers: arming, cancelling and firing with few and with many of them pending; and the latency of other queues
//! while a million messages of one queue expire. `cargo bench -p peeklock-engine --bench timers`.
#![allow(clippy::print_stdout, clippy::expect_used, clippy::panic, reason = "a program for people to read")]
#![allow(clippy::disallowed_methods, reason = "measures time")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use peeklock_engine::partition::{Outputs, Partition};
use peeklock_engine::runtime::{
    EntityRef, Mailbox, MailboxReceiver, ManualClock, Namespace, NamespaceOptions, Output, Request, Response,
};
use peeklock_engine::{
    Command, CreditLimit, Effect, NewMessage, QueueId, QueueOptions, QueuePath, ReceiveMode, ReceiverId,
    ReceiverOptions, Reply, RequestId, SequenceNumber, Settlement, Timestamp,
};
use peeklock_storage::{LocalOptions, LocalStore, ShardId, Store};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use smallvec::smallvec;

const ID: QueueId = QueueId(1);
const HOUR_MS: u64 = 3_600_000;
/// Messages that expire while clients of another queue wait for responses.
const BACKLOG: usize = 1_000_000;
const BATCH: usize = 1_000;
/// Minimum number of round trips measured while nothing expires.
const ROUND_TRIPS: usize = 2_000;
const QUIET: Duration = Duration::from_millis(200);

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("{:<12} {:>20} {:>20} {:>20}", "pending", "arm (send) ns", "cancel ns", "fire (expire) ns");
    for pending in [1_000, 10_000, 100_000, 1_000_000] {
        let [arm, cancel, fire] = operations(pending);
        println!("{pending:<12} {arm:>20.0} {cancel:>20.0} {fire:>20.0}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(neighbours());
}

struct Bench {
    partition: Partition,
    random: StdRng,
    outputs: Outputs,
    now: Timestamp,
}

impl Bench {
    fn new() -> Self {
        let partition = Partition::new(ID, QueueOptions::default());
        Self { partition, random: StdRng::seed_from_u64(1), outputs: Outputs::default(), now: Timestamp(1) }
    }

    fn handle(&mut self, command: Command) {
        self.outputs.events.clear();
        self.outputs.effects.clear();
        let request = Some(RequestId(1));
        self.partition.handle(self.now, &mut self.random, request, command, &mut self.outputs);
    }

    /// Stores a message with a timer of its own: a scheduled message, because it can be cancelled by its sequence number.
    fn schedule(&mut self, at: Timestamp) -> SequenceNumber {
        let message = NewMessage { scheduled_enqueue_time: Some(at), ..message(None) };
        self.handle(Command::Send { messages: smallvec![message] });
        match self.outputs.effects.pop() {
            Some(Effect::Reply { reply: Reply::Sent(Ok(numbers)), .. }) => {
                *numbers.first().expect("one number")
            }
            other => panic!("{other:?}"),
        }
    }
}

fn message(time_to_live_ms: Option<u64>) -> NewMessage {
    NewMessage { content: Bytes::from_static(b"x"), time_to_live_ms, ..NewMessage::default() }
}

/// Nanoseconds for arming, cancelling and firing one timer while `pending` others are pending.
fn operations(pending: usize) -> [f64; 3] {
    let mut bench = Bench::new();
    let mut times = StdRng::seed_from_u64(2);
    let numbers: Vec<_> =
        (0..pending).map(|_| bench.schedule(Timestamp(2 + times.random_range(0..HOUR_MS)))).collect();
    let count = 10_000.min(pending);
    let started = Instant::now();
    let more: Vec<_> =
        (0..count).map(|_| bench.schedule(Timestamp(2 + times.random_range(0..HOUR_MS)))).collect();
    let armed = started.elapsed();
    let started = Instant::now();
    for number in more {
        bench.handle(Command::CancelScheduled { numbers: vec![number] });
    }
    let cancelled = started.elapsed();
    assert_eq!(bench.partition.counts().scheduled, numbers.len() as u64);

    let mut bench = Bench::new();
    for _ in 0..pending {
        let life_ms = times.random_range(1..HOUR_MS);
        bench.handle(Command::Send { messages: smallvec![message(Some(life_ms))] });
    }
    listen(&mut bench);
    bench.now = bench.now.plus_ms(HOUR_MS);
    let started = Instant::now();
    while bench.partition.next_deadline().is_some() {
        bench.handle(Command::Tick);
    }
    let fired = started.elapsed();
    assert_eq!(bench.partition.counts().active, 0);
    let each = |elapsed: Duration, count: usize| elapsed.as_nanos() as f64 / count as f64;
    [each(armed, count), each(cancelled, count), each(fired, pending)]
}

/// A receiver whose credit admits no message: messages expire only while there is a receiver.
fn listen(bench: &mut Bench) {
    let [open, credit] = listening(ReceiverId(1), ID);
    bench.handle(open);
    bench.handle(credit);
}

fn listening(receiver: ReceiverId, queue: QueueId) -> [Command; 2] {
    let options = ReceiverOptions { source: QueuePath::main(queue), mode: ReceiveMode::PeekLock };
    let limit = CreditLimit { messages: 1, bytes: 0 };
    [
        Command::OpenReceiver { receiver, options, session: None },
        Command::Credit { receiver, limit, drain: false },
    ]
}

/// Latency of a message through another queue, while nothing happens and while a million messages expire.
async fn neighbours() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = LocalStore::open(directory.path(), LocalOptions::default()).expect("a store");
    let shard = store.acquire(ShardId(0)).await.expect("a shard");
    let clock = ManualClock::new(Timestamp(1_700_000_000_000));
    let options =
        NamespaceOptions { body_cache_bytes: 64 << 20, seed: Some(1), ..NamespaceOptions::default() };
    let namespace = Namespace::start(shard, Arc::new(clock.clone()), options).await.expect("a namespace");
    let dead_lettering =
        QueueOptions { dead_lettering_on_message_expiration: true, ..QueueOptions::default() };
    namespace.declare("backlog", dead_lettering).await.expect("a queue");
    namespace.declare("neighbour", QueueOptions::default()).await.expect("a queue");
    let mut backlog = Client::new(&namespace, "backlog");
    for _ in 0..BACKLOG / BATCH {
        let messages = std::iter::repeat_n(message(Some(HOUR_MS)), BATCH).collect();
        backlog.ask(Command::Send { messages }).await;
    }
    for command in listening(namespace.next_receiver_id(&backlog.partition), backlog.queue) {
        backlog.tell(command);
    }
    let mut neighbour = Client::new(&namespace, "neighbour");
    neighbour.listen(namespace.next_receiver_id(&neighbour.partition));
    let mut quiet = Vec::new();
    let started = Instant::now();
    while quiet.len() < ROUND_TRIPS || started.elapsed() < QUIET {
        quiet.push(neighbour.round_trip().await);
    }
    clock.advance(HOUR_MS);
    let mut busy = Vec::new();
    let started = Instant::now();
    while namespace.counts("backlog").expect("a queue").active > 0 {
        busy.push(neighbour.round_trip().await);
    }
    let expired = started.elapsed();
    println!();
    println!("{BACKLOG} messages expired into the dead-letter queue in {:.2} s", expired.as_secs_f64());
    println!(
        "{:<44} {:>8} {:>10} {:>10} {:>10}",
        "send → deliver → complete beside it, µs", "count", "p50", "p99", "max"
    );
    report("nothing expires", &mut quiet);
    report("while they expire", &mut busy);
    namespace.shutdown().await;
}

fn report(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |share: f64| {
        let index = ((times.len() - 1) as f64 * share) as usize;
        times.get(index).map_or(0, Duration::as_micros)
    };
    println!("{what:<44} {:>8} {:>10} {:>10} {:>10}", times.len(), at(0.5), at(0.99), at(1.0));
}

struct Client {
    partition: peeklock_engine::runtime::PartitionHandle,
    queue: QueueId,
    mailbox: Mailbox,
    outputs: MailboxReceiver,
}

impl Client {
    fn new(namespace: &Namespace, name: &str) -> Self {
        let EntityRef { partition, queue, .. } = namespace.entity(name).expect("a queue");
        let (mailbox, outputs) = Mailbox::new();
        Self { partition, queue, mailbox, outputs }
    }

    fn tell(&self, command: Command) {
        self.partition.submit(Request { mailbox: self.mailbox.clone(), tag: None, command });
    }

    async fn ask(&mut self, command: Command) -> Response {
        self.partition.submit(Request { mailbox: self.mailbox.clone(), tag: Some(1), command });
        match self.outputs.recv().await {
            Some(Output::Response { response, .. }) => response,
            other => panic!("{other:?}"),
        }
    }

    /// Receives all messages.
    fn listen(&self, receiver: ReceiverId) {
        let [open, _] = listening(receiver, self.queue);
        self.tell(open);
        let limit = CreditLimit { messages: u64::MAX, bytes: u64::MAX };
        self.tell(Command::Credit { receiver, limit, drain: false });
    }

    /// Sends, receives and completes one message.
    async fn round_trip(&mut self) -> Duration {
        let started = Instant::now();
        let send = Command::Send { messages: smallvec![message(None)] };
        self.partition.submit(Request { mailbox: self.mailbox.clone(), tag: Some(1), command: send });
        let mut answered = false;
        let mut delivered = None;
        while !answered || delivered.is_none() {
            match self.outputs.recv().await {
                Some(Output::Response { response: Response::Sent(Ok(_)), .. }) => answered = true,
                Some(Output::Delivery(delivery)) => delivered = delivery.message.lock,
                other => panic!("{other:?}"),
            }
        }
        let tokens = delivered.map(|lock| lock.token).into_iter().collect();
        let complete = Command::Settle { queue: self.queue, tokens, settlement: Settlement::Complete };
        assert_eq!(self.ask(complete).await, Response::Settled(Vec::new()));
        started.elapsed()
    }
}
