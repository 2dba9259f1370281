//! Cost of message records, for several kinds of messages: the store operations of a turn of sends (`write`), and restoring a
//! queue from its heads (`read`). Each figure is the best of several rounds; most of the time of `read` is spent in the queue
//! itself. `cargo bench -p peeklock-engine --bench heads`.
#![allow(clippy::print_stdout, clippy::expect_used, reason = "a program for people to read")]
#![allow(clippy::disallowed_methods, reason = "measures time")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use peeklock_engine::partition::{Outputs, Partition, persist};
use peeklock_engine::{Command, EntityOptions, MessageKey, NewMessage, QueueId, QueueOptions, Timestamp};
use peeklock_storage::{Batch, Entry, Operation, PartitionId, Space};
use rand::SeedableRng;
use rand::rngs::StdRng;
use smallvec::smallvec;

const TURN: u64 = 256;
const TURNS: u64 = 64;
const ROUNDS: usize = 25;
const NOW: Timestamp = Timestamp(1_800_000_000_000);

struct Kind {
    name: &'static str,
    options: QueueOptions,
    message: fn(u64) -> NewMessage,
}

fn plain(_: u64) -> NewMessage {
    NewMessage { content: Bytes::from_static(&[0; 1024]), ..NewMessage::default() }
}

fn of_session(number: u64) -> NewMessage {
    NewMessage { session_id: Some(format!("customer-{:08}", number % 100).into()), ..plain(number) }
}

fn scheduled(number: u64) -> NewMessage {
    NewMessage { scheduled_enqueue_time: Some(NOW.plus_ms(number + 1)), ..plain(number) }
}

fn identified(number: u64) -> NewMessage {
    NewMessage { message_key: Some(MessageKey::of(&number.to_string())), ..plain(number) }
}

fn kinds() -> [Kind; 5] {
    let options = QueueOptions::default;
    let limited = |number| NewMessage { time_to_live_ms: Some(60_000), ..plain(number) };
    [
        Kind { name: "plain", options: options(), message: plain },
        Kind { name: "with a time-to-live", options: options(), message: limited },
        Kind {
            name: "of a session",
            options: QueueOptions { requires_session: true, ..options() },
            message: of_session,
        },
        Kind { name: "scheduled", options: options(), message: scheduled },
        Kind {
            name: "with duplicate detection",
            options: QueueOptions { requires_duplicate_detection: true, ..options() },
            message: identified,
        },
    ]
}

/// The events of each turn.
fn turns(kind: &Kind) -> Vec<Outputs> {
    let mut partition = Partition::new(QueueId(1), kind.options.clone());
    let mut random = StdRng::seed_from_u64(1);
    let turn = |turn: u64| {
        let mut outputs = Outputs::default();
        for number in turn * TURN..(turn + 1) * TURN {
            let messages = smallvec![(kind.message)(number)];
            partition.handle(NOW, &mut random, None, Command::Send { messages }, &mut outputs);
        }
        outputs
    };
    (0..TURNS).map(turn).collect()
}

/// Nanoseconds per message in the best round.
fn best(mut round: impl FnMut()) -> f64 {
    let times = (0..ROUNDS).map(|_| {
        let started = Instant::now();
        round();
        started.elapsed().as_nanos() as f64 / (TURN * TURNS) as f64
    });
    times.fold(f64::MAX, f64::min)
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("{:<26} {:>10} {:>10} {:>12}", "messages", "write ns", "read ns", "head bytes");
    for kind in kinds() {
        let turns = turns(&kind);
        let mut stored = BTreeMap::new();
        let write = best(|| {
            for turn in &turns {
                let mut batch = Batch::new();
                persist(PartitionId(1), &turn.events, &mut batch);
                black_box(&batch);
            }
        });
        for turn in &turns {
            let mut batch = Batch::new();
            persist(PartitionId(1), &turn.events, &mut batch);
            for operation in batch.into_operations() {
                if let Operation::Put { key, value } = operation {
                    stored.insert((key.space, key.number), value);
                }
            }
        }
        let entries = |space: Space| -> Vec<Entry> {
            let range = stored.range((space, 0)..=(space, u64::MAX));
            range.map(|((_, number), value)| Entry { number: *number, value: value.clone() }).collect()
        };
        let (meta, head) = (entries(Space::Meta), entries(Space::Head));
        let bytes: usize = head.iter().map(|entry| entry.value.len()).sum();
        let read = best(|| {
            let options: EntityOptions = kind.options.clone().into();
            let partition = Partition::restore(QueueId(1), options, meta.clone(), head.clone());
            black_box(partition.expect("the record just written"));
        });
        println!(
            "{:<26} {write:>10.1} {read:>10.1} {:>12.1}",
            kind.name,
            bytes as f64 / (TURN * TURNS) as f64
        );
    }
}
