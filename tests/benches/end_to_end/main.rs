//! What a message costs the daemon from end to end, over real sockets and with every acknowledgement durable.
//!
//! `cargo build --release && cargo bench -p peeklock-tests --bench end_to_end`, optionally with
//! `-- CASE…` (names as printed) to run some cases only and `RUNS=5` for more repetitions. Compare CPU seconds
//! per million messages first: they are steady where throughput is not, since the generator shares the machine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)] // It reports to people, and a surprise ends it.

mod load;

use std::time::{Duration, Instant};

use load::{Load, Through, receive, send};
use peeklock_tests::daemon::Daemon;

const CASES: &[Load] = &[
    Load {
        name: "1KB-16-queues",
        body_bytes: 1024,
        connections: 16,
        through: Through::Queues(16),
        messages: 400_000,
        window: 100,
    },
    Load {
        name: "1KB-one-queue",
        body_bytes: 1024,
        connections: 16,
        through: Through::Queues(1),
        messages: 400_000,
        window: 100,
    },
    Load {
        name: "1KB-one-connection",
        body_bytes: 1024,
        connections: 1,
        through: Through::Queues(1),
        messages: 200_000,
        window: 500,
    },
    Load {
        name: "100B-16-queues",
        body_bytes: 100,
        connections: 16,
        through: Through::Queues(16),
        messages: 400_000,
        window: 100,
    },
    Load {
        name: "64KB-one-connection",
        body_bytes: 65_536,
        connections: 1,
        through: Through::Queues(1),
        messages: 10_000,
        window: 100,
    },
    Load {
        name: "one-at-a-time",
        body_bytes: 1024,
        connections: 1,
        through: Through::Queues(1),
        messages: 3_000,
        window: 1,
    },
    Load {
        name: "topic-100-copies",
        body_bytes: 1024,
        connections: 4,
        through: Through::Copies(100),
        messages: 10_000,
        window: 100,
    },
    Load {
        name: "topic-1-subject",
        body_bytes: 1024,
        connections: 4,
        through: Through::Subjects(1),
        messages: 100_000,
        window: 100,
    },
    Load {
        name: "topic-2000-subjects",
        body_bytes: 1024,
        connections: 4,
        through: Through::Subjects(2_000),
        messages: 100_000,
        window: 100,
    },
];

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|wish| wish == name);
    let runs: usize = std::env::var("RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(3);
    println!(
        "{:<22} {:>10} {:>12} {:>10} {:>12}   (medians of {runs})",
        "case", "send/s", "CPU-s/M", "recv/s", "CPU-s/M"
    );
    for load in CASES.iter().filter(|load| wants(load.name)) {
        run(load, runs);
    }
    if wants("start") {
        start(runs);
    }
    if wants("memory") {
        memory();
    }
}

/// Sends everything, then receives and completes everything.
fn run(load: &Load, runs: usize) {
    let daemon = Daemon::with_config(&load.config());
    let mut figures: [Vec<f64>; 4] = Default::default();
    for _ in 0..runs {
        let (sent_per_s, send_cpu) = measure(&daemon, load, load.messages, send);
        let (received_per_s, receive_cpu) = measure(&daemon, load, load.received(), receive);
        for (list, figure) in figures.iter_mut().zip([sent_per_s, send_cpu, received_per_s, receive_cpu]) {
            list.push(figure);
        }
    }
    let [sent, send_cpu, received, receive_cpu] = figures.map(median);
    print!("{:<22} {sent:>10.0} {send_cpu:>12.2}", load.name);
    if load.received() > 0 {
        print!(" {received:>10.0} {receive_cpu:>12.2}");
    }
    println!();
}

/// Messages per second, and CPU seconds of the daemon per million messages.
fn measure(daemon: &Daemon, load: &Load, messages: u32, work: fn(&Daemon, &Load)) -> (f64, f64) {
    let (cpu, start) = (daemon.cpu_time(), Instant::now());
    work(daemon, load);
    let (cpu, elapsed) = (daemon.cpu_time() - cpu, start.elapsed());
    let messages = f64::from(messages);
    (messages / elapsed.as_secs_f64(), cpu.as_secs_f64() / messages * 1e6)
}

/// From spawning the process to the first accepted connection.
fn start(runs: usize) {
    let times = (0..runs.max(5)).map(|_| {
        let start = Instant::now();
        let daemon = Daemon::with_config(&CASES[0].config());
        drop(peeklock_tests::client::Client::connect(daemon.amqp()).unwrap());
        start.elapsed().as_secs_f64() * 1e3
    });
    println!(
        "{:<22} {:>10.1} ms to the first open connection, empty directory",
        "start",
        median(times.collect())
    );
}

/// What a million waiting messages add to the daemon's memory, before and after a crash.
fn memory() {
    let load = Load {
        name: "memory",
        body_bytes: 1024,
        connections: 16,
        through: Through::Queues(1),
        messages: 1_000_000,
        window: 100,
    };
    let mut daemon = Daemon::with_config(&load.config());
    let idle = daemon.resident_bytes();
    send(&daemon, &load);
    let full = daemon.resident_bytes();
    daemon.kill();
    let start = Instant::now();
    daemon.start();
    let elapsed = start.elapsed();
    let restarted = daemon.resident_bytes();
    report_memory(idle, full, restarted, elapsed);
}

fn report_memory(idle: u64, full: u64, restarted: u64, elapsed: Duration) {
    let mib = |bytes: u64| bytes >> 20;
    println!(
        "{:<22} idle {} MiB; 1 M waiting 1 KB messages add {} MiB; killed and ready again in {:.0} ms, adding {} MiB",
        "memory",
        mib(idle),
        mib(full.saturating_sub(idle)),
        elapsed.as_secs_f64() * 1e3,
        mib(restarted.saturating_sub(idle)),
    );
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
