//! The cost of parsing SQL rules, as at a broker's start: `cargo bench -p peeklock-rules --bench reading`.

#![allow(missing_docs)] // reason: criterion generates items without docs
#![allow(clippy::expect_used)] // reason: a benchmark may panic

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use peeklock_rules::{SqlAction, SqlFilter};

/// Rules parsed in a round: one for each of a topic's subscriptions (semantics §18).
const RULES: usize = 2_000;

fn filters(text: impl Fn(usize) -> String) -> Vec<String> {
    (0..RULES).map(text).collect()
}

/// A rule of the longest text that Service Bus accepts: 1024 characters.
fn longest(number: usize) -> String {
    let terms = (0..36).map(|term| format!("property{term:02} = 'value{number:04}'"));
    terms.collect::<Vec<_>>().join(" AND ")
}

fn read(criterion: &mut Criterion) {
    let kinds = [
        ("equality", filters(|number| format!("customer = 'customer-{number}'"))),
        ("two_conditions", filters(|number| format!("a = 'x{number}' AND b > {number}"))),
        (
            "like_and_in",
            filters(|number| {
                format!("sys.Label LIKE '%{number}' AND (region IN ('north', 'south') OR NOT EXISTS(tier))")
            }),
        ),
        ("longest", filters(longest)),
    ];
    let mut group = criterion.benchmark_group("read_2000_filters");
    group.throughput(Throughput::Elements(RULES as u64));
    for (name, texts) in kinds {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for text in &texts {
                    black_box(SqlFilter::new(text, Vec::new()).expect("a condition"));
                }
            });
        });
    }
    let actions = filters(|number| format!("SET sys.Label = 'x{number}'; SET b = b + {number} REMOVE c"));
    group.bench_function("actions", |bencher| {
        bencher.iter(|| {
            for text in &actions {
                black_box(SqlAction::new(text, Vec::new()).expect("statements"));
            }
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = read
}
criterion_main!(benches);
