//! Throughput of forwarding a backlog to another queue: 100 000 messages of 1 KB wait, then forwarding is switched on for
//! their queue. `cargo bench -p peeklock-engine --bench forwarding`.
#![allow(clippy::print_stdout, clippy::expect_used, clippy::panic, reason = "a program for people to read")]
#![allow(clippy::disallowed_methods, reason = "measures time")]

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use peeklock_engine::runtime::{
    Mailbox, Namespace, NamespaceOptions, Output, Request, Response, SystemClock,
};
use peeklock_engine::{Command, Forwarding, NewMessage, QueueOptions};
use peeklock_storage::{Lease, LocalOptions, LocalStore, MemoryStore, ShardId, Store};

const BACKLOG: u64 = 100_000;
const BATCH: u64 = 500;
const CONTENT_BYTES: usize = 1024;
const ROUNDS: usize = 3;

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    println!("{:<44} {:>14} {:>14}", "messages per second, median of 3", "all cached", "all read back");
    for name in ["memory store", "local store"] {
        let [cached, cold] = [1 << 30, 0].map(|body_cache_bytes| {
            let mut rates: Vec<f64> = (0..ROUNDS)
                .map(|_| {
                    let directory = tempfile::tempdir().expect("a directory");
                    let store: Box<dyn Store> = match name {
                        "memory store" => Box::new(MemoryStore::new()),
                        _ => Box::new(
                            LocalStore::open(directory.path(), LocalOptions::default()).expect("a store"),
                        ),
                    };
                    let lease = runtime.block_on(store.acquire(ShardId(0))).expect("a shard");
                    runtime.block_on(measure(lease, body_cache_bytes))
                })
                .collect();
            rates.sort_by(f64::total_cmp);
            rates.get(ROUNDS / 2).copied().expect("a round")
        });
        println!("{name:<44} {cached:>14.0} {cold:>14.0}");
    }
}

async fn measure(lease: Lease, body_cache_bytes: usize) -> f64 {
    let options = NamespaceOptions { body_cache_bytes, seed: Some(1), ..NamespaceOptions::default() };
    let namespace =
        Namespace::start(lease, Arc::new(SystemClock::new()), options).await.expect("a namespace");
    for name in ["source", "target"] {
        namespace.declare(name, QueueOptions::default()).await.expect("a queue");
    }
    fill(&namespace).await;
    let forwarding = Forwarding { forward_to: Some("target".into()), ..Forwarding::default() };
    let started = Instant::now();
    let options = QueueOptions { forwarding, ..QueueOptions::default() };
    namespace.declare("source", options).await.expect("it forwards");
    while namespace.counts("target").expect("the target").active < BACKLOG {
        namespace.catch_up().await;
    }
    let elapsed = started.elapsed();
    namespace.shutdown().await;
    BACKLOG as f64 / elapsed.as_secs_f64()
}

async fn fill(namespace: &Namespace) {
    let source = namespace.entity("source").expect("the source");
    let (mailbox, mut outputs) = Mailbox::new();
    for tag in 0..BACKLOG / BATCH {
        let message = || NewMessage { content: Bytes::from(vec![7; CONTENT_BYTES]), ..NewMessage::default() };
        let command = Command::Send { messages: (0..BATCH).map(|_| message()).collect() };
        source.partition.submit(Request { mailbox: mailbox.clone(), tag: Some(tag), command });
        match outputs.recv().await {
            Some(Output::Response { response: Response::Sent(Ok(_)), .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}
