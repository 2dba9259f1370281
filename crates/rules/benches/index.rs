//! The cost of a message in a topic with many rules, and the memory used by rules. Plain `main`, because memory is
//! counted by a wrapped allocator: `cargo bench -p peeklock-rules --bench index`.

#![allow(clippy::print_stdout)] // reason: it prints a report
#![allow(clippy::expect_used)] // reason: a benchmark may panic

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use peeklock_rules::{
    Arrival, CorrelationFilter, Filter, Index, PropertyValue, RuleProperties, SqlFilter, Subject,
};

/// Rounds of each measurement; the median is reported.
const ROUNDS: usize = 9;
/// Evaluations in a round that evaluates all rules.
const EVALUATIONS: usize = 5_000_000;
/// Messages in a round that evaluates few rules.
const MESSAGES: usize = 500_000;

/// Counts allocated bytes, including the system allocator's own overhead.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

/// glibc: eight bytes of header, multiples of sixteen, at least 32.
fn footprint(bytes: usize) -> usize {
    (bytes + 8).next_multiple_of(16).max(32)
}

#[allow(unsafe_code)] // reason: `GlobalAlloc` is an unsafe trait
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

/// A way to write that a property equals a value, different for each rule.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    filter: fn(usize) -> Filter,
}

const KINDS: [Kind; 5] = [
    Kind { name: "correlation filter, label", filter: by_label },
    Kind { name: "correlation filter, application property", filter: by_property },
    Kind { name: "SQL, sys.Label = 'x'", filter: |number| sql(&format!("sys.Label = '{}'", label(number))) },
    Kind { name: "SQL, customer = 5", filter: |number| sql(&format!("customer = {number}")) },
    Kind {
        name: "SQL, color = 'red' AND customer = 5",
        filter: |number| sql(&format!("color = 'red' AND customer = {number}")),
    },
];

fn label(number: usize) -> String {
    format!("customer-{number:06}")
}

fn by_label(number: usize) -> Filter {
    let filter = CorrelationFilter { label: Some(label(number).into()), ..CorrelationFilter::default() };
    Filter::Correlation(Box::new(filter))
}

fn by_property(number: usize) -> Filter {
    let user = vec![("customer".into(), PropertyValue::Integer(number as i64))];
    Filter::Correlation(Box::new(CorrelationFilter { user, ..CorrelationFilter::default() }))
}

fn sql(text: &str) -> Filter {
    Filter::Sql(Box::new(SqlFilter::new(text, Vec::new()).expect("a filter")))
}

/// A message with four application properties that matches one rule.
fn message(number: usize) -> RuleProperties {
    let user = [
        ("color", PropertyValue::Text("red".into())),
        ("price", PropertyValue::Double(9.5)),
        ("Customer", PropertyValue::Integer(number as i64)),
        ("region", PropertyValue::Text("north".into())),
    ];
    RuleProperties {
        label: Some(label(number).into()),
        message_id: Some(format!("id-{number}").into()),
        user: user.map(|(name, value)| (name.into(), value)).into(),
        ..RuleProperties::default()
    }
}

/// The median CPU time per message in nanoseconds; each message must match exactly one rule.
fn measure(messages: &[RuleProperties], count: usize, mut ask: impl FnMut(&Subject<'_>) -> usize) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let started = cpu_time();
            let mut matching = 0;
            for rule_properties in messages.iter().cycle().take(count) {
                matching += ask(black_box(&Subject { rule_properties, arrival: Arrival::default() }));
            }
            assert_eq!(matching, count);
            (cpu_time() - started).as_nanos() as f64 / count as f64
        })
        .collect();
    rounds.sort_unstable_by(f64::total_cmp);
    rounds.get(ROUNDS / 2).copied().unwrap_or_default()
}

/// CPU time of this thread where the system provides it (Linux), otherwise the elapsed time.
fn cpu_time() -> Duration {
    static STARTED: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let elapsed = STARTED.get_or_init(Instant::now).elapsed();
    let schedstat =
        std::fs::read("/proc/thread-self/schedstat").ok().and_then(|text| String::from_utf8(text).ok());
    let on_cpu_ns = schedstat.and_then(|text| text.split(' ').next()?.parse().ok());
    on_cpu_ns.map_or(elapsed, Duration::from_nanos)
}

/// One subscription for each rule.
fn index_of(rules: &[Arc<Filter>]) -> Index<Filter> {
    let mut index = Index::default();
    for (group, rule) in (0..).zip(rules) {
        index.set(group, std::slice::from_ref(rule));
    }
    index
}

fn ask_many(kind: Kind) {
    for count in [1, 100, 2_000, 100_000] {
        if count > 2_000 && kind.name.starts_with("SQL") {
            continue;
        }
        let rules: Vec<_> = (0..count).map(|number| Arc::new((kind.filter)(number))).collect();
        let messages: Vec<_> = (0..256).map(|number| message(number * 7919 % count)).collect();
        let index = index_of(&rules);
        let mut verdicts = Vec::new();
        let indexed = measure(&messages, MESSAGES, |subject| {
            verdicts.clear();
            index.ask(subject, &mut || 0, &mut verdicts);
            verdicts.len()
        });
        let one_by_one = measure(&messages, (EVALUATIONS / count).max(1), |subject| {
            rules.iter().filter(|rule| rule.matches(subject, &mut || 0) == Ok(true)).count()
        });
        println!("{:<44} {count:>7} rules {indexed:>9.0} ns {one_by_one:>12.0} ns", kind.name);
    }
}

/// The memory used in addition to the rules themselves, and the cost of changing one of many.
fn many_correlation_filters() {
    const RULES: usize = 100_000;
    for per_group in [50, 1_000] {
        let before = ALLOCATED.load(Ordering::Relaxed);
        let rules: Vec<_> = (0..RULES).map(|number| Arc::new(by_property(number))).collect();
        let with_rules = ALLOCATED.load(Ordering::Relaxed);
        let mut index = Index::default();
        let started = cpu_time();
        for (group, rules) in (0..).zip(rules.chunks(per_group)) {
            index.set(group, rules);
        }
        let built = cpu_time() - started;
        let with_index = ALLOCATED.load(Ordering::Relaxed);
        let started = cpu_time();
        for (group, rules) in (0..).zip(rules.chunks(per_group)) {
            index.set(group, rules);
        }
        let set_again = cpu_time() - started;
        let each = |from: usize, to: usize| to.saturating_sub(from) as f64 / RULES as f64;
        println!(
            "{RULES} correlation filters, {per_group} in a group: {:.0} bytes each and {:.0} in the index; built in \
             {:.1} ms, a group set again in {:.1} µs",
            each(before, with_rules),
            each(with_rules, with_index),
            built.as_secs_f64() * 1e3,
            set_again.as_secs_f64() * 1e6 / (RULES / per_group) as f64,
        );
    }
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("{:<44} {:>13} {:>12} {:>15}", "a message that matches one rule", "", "index", "one by one");
    KINDS
        .into_iter()
        .filter(|kind| SqlFilter::new("1=1", vec![]).is_ok() || !kind.name.starts_with("SQL"))
        .for_each(ask_many);
    many_correlation_filters();
}
