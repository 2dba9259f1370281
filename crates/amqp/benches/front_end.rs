//! The front end with a null engine: bytes in, commands, answers, bytes out; no sockets.
//!
//! `cargo bench -p peeklock-amqp --bench front_end`. Only the CPU time of the broker's side is measured (endpoint,
//! dialect, mailbox), not that of the client's endpoint.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)] // a benchmark may panic

#[path = "front_end/pair.rs"]
mod pair;

use bytes::Bytes;
use criterion::{
    BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime,
};
use pair::{BATCH, Pair, message, receive, send};
use peeklock_amqp::wire::performative::Role;

fn bench_send(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, payload: &Bytes) {
    group.bench_function(name, |bencher| {
        let mut pair = Pair::new();
        let link = pair.link(Role::Sender);
        bencher.iter_custom(|count| {
            send(&mut pair, link, payload, count * BATCH) / u32::try_from(BATCH).unwrap()
        });
    });
}

fn front_end(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("front end, 1 KB");
    group.throughput(Throughput::Elements(1));
    bench_send(&mut group, "send + accept", &message(Some("0123456789abcdef0123456789abcdef")));
    bench_send(&mut group, "send + accept, id to be given", &message(None));
    group.bench_function("receive + accept", |bencher| {
        let mut pair = Pair::new();
        let link = pair.link(Role::Receiver);
        let content = message(Some("0123456789abcdef0123456789abcdef"));
        let mut number = 0;
        bencher.iter_custom(|count| {
            receive(&mut pair, link, &content, count * BATCH, &mut number) / u32::try_from(BATCH).unwrap()
        });
    });
    group.finish();
}

criterion_group!(benches, front_end);
criterion_main!(benches);
