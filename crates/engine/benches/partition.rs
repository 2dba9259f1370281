//! Cost of the partition: time per message and command, memory per waiting message, time to restore and to fire
//! timers. A plain `main`, because a wrapped allocator counts the memory:
//! `cargo bench -p peeklock-engine --bench partition`.

#![allow(clippy::print_stdout)] // the report
#![allow(clippy::disallowed_methods)] // a benchmark reads the clock
#![allow(clippy::expect_used)] // and may fail loudly

#[path = "partition/duplicates.rs"]
mod duplicates;
#[path = "partition/sessions.rs"]
mod sessions;

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use peeklock_engine::partition::{Outputs, Partition, persist};
use peeklock_engine::{
    Command, CreditLimit, Effect, NewMessage, QueueId, QueueOptions, QueuePath, ReceiveMode, ReceiverId,
    ReceiverOptions, Settlement, Timestamp,
};
use peeklock_storage::{Batch, Entry, Operation, PartitionId, Space};
use rand::SeedableRng;
use rand::rngs::StdRng;
use smallvec::smallvec;

const ID: QueueId = QueueId(1);
const MESSAGES: usize = 1_000_000;
const TURN: usize = 256;

/// Counts the allocated bytes, including the system allocator's overhead.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

/// glibc: a header of eight bytes, rounded up to a multiple of sixteen, at least 32.
fn footprint(bytes: usize) -> usize {
    (bytes + 8).next_multiple_of(16).max(32)
}

#[allow(unsafe_code)] // an allocator can't be written without
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(footprint(layout.size()), Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(footprint(layout.size()), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Bench {
    partition: Partition,
    random: StdRng,
    outputs: Outputs,
    now: Timestamp,
}

impl Bench {
    fn new(options: QueueOptions) -> Self {
        let now = Timestamp(1_800_000_000_000);
        Self {
            partition: Partition::new(ID, options),
            random: StdRng::seed_from_u64(1),
            outputs: Outputs::default(),
            now,
        }
    }

    fn handle(&mut self, command: Command) {
        self.partition.handle(self.now, &mut self.random, None, command, &mut self.outputs);
    }

    fn send(&mut self, time_to_live_ms: Option<u64>) {
        let content = Bytes::from_static(&[0; 1024]);
        let messages = smallvec![NewMessage { content, time_to_live_ms, ..NewMessage::default() }];
        self.handle(Command::Send { messages });
    }

    fn clear(&mut self) {
        self.outputs.events.clear();
        self.outputs.effects.clear();
    }

    fn fill(&mut self, time_to_live_ms: Option<u64>) {
        for _ in 0..MESSAGES {
            self.send(time_to_live_ms);
            self.clear();
        }
    }

    fn open(&mut self, receiver: ReceiverId) {
        let options = ReceiverOptions { source: QueuePath::main(ID), mode: ReceiveMode::PeekLock };
        self.handle(Command::OpenReceiver { receiver, options, session: None });
    }

    fn credit(&mut self, receiver: ReceiverId, messages: u64) {
        let limit = CreditLimit { messages, bytes: u64::MAX };
        self.handle(Command::Credit { receiver, limit, drain: false });
    }

    /// Completes all delivered messages.
    fn complete(&mut self) -> usize {
        let effects = std::mem::take(&mut self.outputs.effects);
        self.clear();
        for effect in &effects {
            if let Effect::Deliver { lock: Some(lock), .. } = effect {
                let (tokens, settlement) = (smallvec![lock.token], Settlement::Complete);
                self.handle(Command::Settle { queue: ID, tokens, settlement });
            }
        }
        effects.len()
    }
}

fn report(what: &str, started: Instant, count: usize) {
    let elapsed = started.elapsed();
    let each = elapsed.as_nanos() as f64 / count as f64;
    println!("{what:<58} {each:>8.1} ns each  {:>8.1} ms in all", elapsed.as_secs_f64() * 1000.0);
}

/// Sends, delivers and completes messages in turns, each of them persisted, in a queue with a backlog of the given length.
fn life_cycle(backlog: usize, with_persist: bool) {
    let mut bench = Bench::new(QueueOptions::default());
    for _ in 0..backlog {
        bench.send(None);
        bench.clear();
    }
    let receiver = ReceiverId(1);
    bench.open(receiver);
    let started = Instant::now();
    let mut credit = 0;
    let mut persisted = 0;
    for _ in 0..MESSAGES / TURN {
        for _ in 0..TURN {
            bench.send(None);
        }
        let write = |bench: &mut Bench| {
            let mut batch = Batch::new();
            if with_persist {
                persist(PartitionId(1), &bench.outputs.events, &mut batch);
            }
            batch.len()
        };
        persisted += write(&mut bench);
        bench.clear();
        credit += TURN as u64;
        bench.credit(receiver, credit);
        bench.complete();
        persisted += write(&mut bench);
        bench.clear();
    }
    let persist_note = if with_persist { "+persist" } else { "" };
    report(&format!("send+deliver+complete{persist_note}, {backlog} waiting"), started, MESSAGES);
    black_box(persisted);
}

fn waiting_messages() -> Bench {
    let before = ALLOCATED.load(Ordering::Relaxed);
    let mut bench = Bench::new(QueueOptions::default());
    let started = Instant::now();
    bench.fill(None);
    report("send", started, MESSAGES);
    let bytes = ALLOCATED.load(Ordering::Relaxed) - before;
    println!("{:<58} {:>8.1} bytes each", "memory of waiting messages", bytes as f64 / MESSAGES as f64);
    bench
}

fn restore() {
    let mut bench = Bench::new(QueueOptions::default());
    let mut store = BTreeMap::new();
    let mut head_bytes = 0;
    for _ in 0..MESSAGES / TURN {
        for _ in 0..TURN {
            bench.send(None);
        }
        let mut batch = Batch::new();
        persist(PartitionId(1), &bench.outputs.events, &mut batch);
        for operation in batch.into_operations() {
            if let Operation::Put { key, value } = operation
                && key.space != Space::Body
            {
                head_bytes += value.len();
                store.insert((key.space, key.number), value);
            }
        }
        bench.clear();
    }
    let entries = |space| {
        let range = store.range((space, 0)..=(space, u64::MAX));
        range.map(|((_, number), value)| Entry { number: *number, value: value.clone() }).collect::<Vec<_>>()
    };
    let (meta, head) = (entries(Space::Meta), entries(Space::Head));
    let count = head.len();
    println!("{:<58} {:>8.1} bytes each", "head record", head_bytes as f64 / count as f64);
    let started = Instant::now();
    let partition =
        Partition::restore(ID, QueueOptions::default(), meta, head).expect("the record just written");
    report("restore", started, count);
    assert_eq!(partition.counts().active, count as u64);
}

fn deliver_and_complete(mut bench: Bench) {
    let receiver = ReceiverId(1);
    bench.open(receiver);
    let started = Instant::now();
    bench.credit(receiver, MESSAGES as u64);
    report("deliver all of a long queue", started, MESSAGES);
    let started = Instant::now();
    let completed = bench.complete();
    report("complete with all of it locked", started, completed);
    assert_eq!(bench.partition.counts().active, 0);
}

fn sparse() {
    let before = ALLOCATED.load(Ordering::Relaxed);
    let mut bench = Bench::new(QueueOptions::default());
    bench.fill(None);
    let receiver = ReceiverId(1);
    bench.open(receiver);
    bench.credit(receiver, MESSAGES as u64);
    let tokens = std::mem::take(&mut bench.outputs.effects);
    for (index, effect) in tokens.iter().enumerate() {
        if let Effect::Deliver { lock: Some(lock), .. } = effect {
            let settlement = if index % 100 == 0 {
                Settlement::Defer { modify: Vec::new() }
            } else {
                Settlement::Complete
            };
            bench.handle(Command::Settle { queue: ID, tokens: smallvec![lock.token], settlement });
            bench.clear();
        }
    }
    drop(tokens);
    bench.outputs = Outputs::default();
    let left = bench.partition.counts().active;
    let bytes = ALLOCATED.load(Ordering::Relaxed) - before;
    println!("{:<58} {:>8.1} bytes each", "memory of one in a hundred left", bytes as f64 / left as f64);
}

fn time_to_live() {
    let options = QueueOptions { dead_lettering_on_message_expiration: true, ..QueueOptions::default() };
    let before = ALLOCATED.load(Ordering::Relaxed);
    let mut bench = Bench::new(options);
    let started = Instant::now();
    for index in 0..MESSAGES as u64 {
        bench.send(Some(60_000 + index * 7919 % 1000));
        bench.clear();
    }
    report("send with time-to-live (arms a timer)", started, MESSAGES);
    let bytes = ALLOCATED.load(Ordering::Relaxed) - before;
    println!(
        "{:<58} {:>8.1} bytes each",
        "memory of waiting messages that expire",
        bytes as f64 / MESSAGES as f64
    );
    bench.now = bench.now.plus_ms(100_000);
    let receiver = ReceiverId(1);
    bench.open(receiver);
    let started = Instant::now();
    bench.credit(receiver, 1);
    while bench.partition.next_deadline().is_some() {
        bench.clear();
        bench.handle(Command::Tick);
    }
    report("expire to the dead-letter queue", started, MESSAGES);
    assert_eq!(bench.partition.counts().dead_letter, MESSAGES as u64);
}

fn lock_ends() {
    let mut bench = Bench::new(QueueOptions::default());
    bench.fill(None);
    let receiver = ReceiverId(1);
    bench.open(receiver);
    bench.credit(receiver, MESSAGES as u64);
    bench.now = bench.now.plus_ms(100_000);
    let started = Instant::now();
    while bench.partition.next_deadline().is_some() {
        bench.clear();
        bench.handle(Command::Tick);
    }
    report("end locks and return messages", started, MESSAGES);
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    life_cycle(0, false);
    life_cycle(0, true);
    life_cycle(MESSAGES, true);
    let bench = waiting_messages();
    deliver_and_complete(bench);
    sparse();
    restore();
    time_to_live();
    lock_ends();
    sessions::main();
    duplicates::main();
}
