//! Cost of topics: sending to many subscriptions with different filters, and fanning one message out to many subscriptions.
//! `cargo bench -p peeklock-engine --bench topics`; with `partition`, `memory` or `disk` after `--`, only that part runs.
#![allow(clippy::print_stdout, clippy::expect_used, clippy::panic, reason = "a program for people to read")]
#![allow(clippy::disallowed_methods, reason = "measures time")]

mod partition;
mod runtime;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use peeklock_engine::{CorrelationFilter, Filter, NewMessage, Rule, RuleProperties};

/// Rounds of each measurement; their median is reported.
const ROUNDS: usize = 5;
const CONTENT_BYTES: usize = 1024;
/// Maximum number of subscriptions of a topic.
const SUBSCRIPTIONS_MAX: u64 = 2_000;
/// Subscriptions that receive a copy of each message.
const FAN_OUT: u64 = 100;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.iter().any(|argument| argument == "--test") {
        return;
    }
    let wanted = |name: &str| arguments.iter().any(|argument| argument == name);
    let all = !["partition", "memory", "disk"].into_iter().any(wanted);
    if all || wanted("partition") {
        partition::main();
    }
    for store in ["memory", "disk"].into_iter().filter(|store| all || wanted(store)) {
        runtime::main(store);
    }
}

/// The label that only the subscription of this number accepts.
fn label(number: u64) -> Box<str> {
    format!("customer-{number:06}").into()
}

fn equality(number: u64) -> Rule {
    let filter = CorrelationFilter { label: Some(label(number)), ..CorrelationFilter::default() };
    Rule { filter: Filter::Correlation(Box::new(filter)), ..Rule::default_rule() }
}

/// A message for the subscription of this number, and for those that accept every message.
fn message(number: u64) -> NewMessage {
    let rule_properties = RuleProperties { label: Some(label(number)), ..RuleProperties::default() };
    NewMessage {
        content: Bytes::from_static(&[0; CONTENT_BYTES]),
        rule_properties: Some(Arc::new(rule_properties)),
        ..NewMessage::default()
    }
}

/// The median of several rounds.
fn median(mut round: impl FnMut() -> f64) -> f64 {
    let mut figures: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
    figures.sort_unstable_by(f64::total_cmp);
    figures.get(ROUNDS / 2).copied().unwrap_or_default()
}

/// CPU time of this process where the system reports it (Linux), otherwise the elapsed time.
fn process_cpu_time() -> Duration {
    let stat = std::fs::read("/proc/self/stat").ok().and_then(|text| String::from_utf8(text).ok());
    let ticks = stat.and_then(|text| {
        // After the program's name: state and ten more fields, then user and system time in hundredths of a second.
        let mut numbers = text.rsplit(')').next()?.split_whitespace().skip(11);
        Some(numbers.next()?.parse::<u64>().ok()? + numbers.next()?.parse::<u64>().ok()?)
    });
    ticks.map_or_else(elapsed, |ticks| Duration::from_millis(ticks * 10))
}

/// CPU time of this thread where the system reports it (Linux), otherwise the elapsed time.
fn thread_cpu_time() -> Duration {
    let schedstat =
        std::fs::read("/proc/thread-self/schedstat").ok().and_then(|text| String::from_utf8(text).ok());
    let on_cpu_ns = schedstat.and_then(|text| text.split(' ').next()?.parse().ok());
    on_cpu_ns.map_or_else(elapsed, Duration::from_nanos)
}

fn elapsed() -> Duration {
    static STARTED: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    STARTED.get_or_init(Instant::now).elapsed()
}
