//! Cost of a page of entity descriptions in a namespace with few and with many entities. `cargo bench -p peeklock-engine
//! --bench administration`.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]
#![allow(clippy::expect_used, reason = "a program for people to read")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use peeklock_engine::QueueOptions;
use peeklock_engine::runtime::{EntityKind, Namespace, NamespaceOptions, SystemClock};
use peeklock_storage::{MemoryStore, ShardId, Store};

const PAGE: usize = 100;

async fn with_queues(count: usize) -> Namespace {
    let shard = MemoryStore::new().acquire(ShardId(0)).await.expect("a shard");
    let options = NamespaceOptions { body_cache_bytes: 0, seed: Some(1), ..NamespaceOptions::default() };
    let namespace =
        Namespace::start(shard, Arc::new(SystemClock::new()), options).await.expect("a namespace");
    let queues = (0..count).map(|number| (format!("queue-{number}"), QueueOptions::default()));
    namespace.declare_all(queues).await.expect("declared");
    namespace
}

fn pages(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for count in [PAGE, 10_000] {
        let namespace = runtime.block_on(with_queues(count));
        for (which, skip) in [("first", 0), ("last", count - PAGE)] {
            criterion.bench_function(&format!("{which} {PAGE} of {count}"), |bencher| {
                bencher.iter(|| black_box(namespace.describe_all(EntityKind::Queue, skip, PAGE)).len());
            });
        }
    }
}

criterion_group!(benches, pages);
criterion_main!(benches);
