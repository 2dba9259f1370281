//! Cost of duplicate detection with a million ids in the window, and of a queue without it.

use std::hint::black_box;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use peeklock_engine::partition::persist;
use peeklock_engine::{Command, MessageKey, NewMessage, QueueOptions};
use peeklock_storage::{Batch, PartitionId};
use smallvec::smallvec;

use super::{ALLOCATED, Bench, MESSAGES, TURN, report};

fn options(requires_duplicate_detection: bool) -> QueueOptions {
    QueueOptions { requires_duplicate_detection, ..QueueOptions::default() }
}

fn key(index: usize) -> MessageKey {
    MessageKey::of(&format!("2f1acc6c-7a3f-4b52-8a4f-{index:012}"))
}

impl Bench {
    /// Sends each id once, in turns, each of them persisted.
    fn send_all(&mut self) {
        for first in (0..MESSAGES).step_by(TURN) {
            for index in first..first + TURN {
                let content = Bytes::from_static(&[0; 1024]);
                let message = NewMessage { content, message_key: Some(key(index)), ..NewMessage::default() };
                self.handle(Command::Send { messages: smallvec![message] });
            }
            let mut batch = Batch::new();
            persist(PartitionId(1), &self.outputs.events, &mut batch);
            black_box(batch.len());
            self.clear();
        }
    }
}

pub(crate) fn main() {
    let mut bytes = [0; 2];
    let mut bench = None;
    for (requires, bytes) in [false, true].into_iter().zip(&mut bytes) {
        drop(bench.take());
        let before = ALLOCATED.load(Ordering::Relaxed);
        let with = bench.insert(Bench::new(options(requires)));
        let started = Instant::now();
        with.send_all();
        let note = if requires { "looking for duplicates" } else { "with an id, not looking for duplicates" };
        report(&format!("send+persist, {note}"), started, MESSAGES);
        *bytes = ALLOCATED.load(Ordering::Relaxed) - before;
    }
    let Some(mut bench) = bench else { return };
    let each = bytes[1].saturating_sub(bytes[0]) as f64 / MESSAGES as f64;
    println!("{:<58} {each:>8.1} bytes each", "memory of remembered ids");
    let started = Instant::now();
    bench.send_all();
    report("send+persist a duplicate", started, MESSAGES);
    assert_eq!(bench.partition.counts().active, MESSAGES as u64);
    bench.now = bench.now.plus_ms(700_000);
    let started = Instant::now();
    let mut turns = 0;
    while bench.partition.next_deadline().is_some_and(|at| at <= bench.now) {
        bench.handle(Command::Tick);
        let mut batch = Batch::new();
        persist(PartitionId(1), &bench.outputs.events, &mut batch);
        black_box(batch.len());
        bench.clear();
        turns += 1;
    }
    report(&format!("forget ids, in {turns} turns"), started, MESSAGES);
}
