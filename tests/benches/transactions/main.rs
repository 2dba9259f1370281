//! The cost of transactions over AMQP, with every commit durable: ten messages sent and ten completed in each.
//!
//! `cargo build --release && cargo bench -p peeklock-tests --bench transactions`, optionally with `-- CLIENTS…`
//! (numbers of concurrent clients) and `RUNS=5` for more repetitions. Each client has a connection and a queue of its
//! own. It declares a transaction, waits for its id, writes the twenty operations and the commit, and waits until
//! everything is confirmed. For comparison the same number of clients send one message after the other. Transactions
//! use the processor, single sends mostly wait for the disk: the ratio of their medians depends on both.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)] // reason: it prints a report, and may panic

mod controller;

use std::thread;
use std::time::{Duration, Instant};

use controller::{Controller, OPERATIONS};
use peeklock_tests::client::Client;
use peeklock_tests::codec::{code, data_message};
use peeklock_tests::daemon::Daemon;

/// Duration of each measurement.
const MEASURED: Duration = Duration::from_secs(4);

/// Rate and duration of repeated work.
struct Figures {
    per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// The daemon's processor time per thousand repetitions.
    cpu_s: f64,
}

fn main() {
    let wanted: Vec<u32> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let wanted = if wanted.is_empty() { vec![1, 16, 64] } else { wanted };
    let runs: usize = std::env::var("RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(3);
    println!("{:<10} {:>38} {:>30} {:>8}   (medians of {runs})", "", "transactions", "single sends", "p50");
    println!(
        "{:<10} {:>10} {:>8} {:>8} {:>9} {:>12} {:>8} {:>8} {:>8}",
        "clients", "per s", "p50 ms", "p99 ms", "CPU-s/k", "per s", "p50 ms", "p99 ms", "ratio"
    );
    for clients in wanted {
        report(clients, runs);
    }
}

fn report(clients: u32, runs: usize) {
    let config: String = (0..clients).map(|queue| format!("[[queues]]\nname = \"q{queue}\"\n")).collect();
    let daemon = Daemon::with_config(&config);
    (0..clients).for_each(|client| fill(&daemon, client));
    let (mut transactions, mut sends) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        transactions.push(measure(&daemon, clients, transact));
        sends.push(measure(&daemon, clients, send));
    }
    let median = |figures: &[Figures], figure: fn(&Figures) -> f64| {
        let mut values: Vec<f64> = figures.iter().map(figure).collect();
        values.sort_unstable_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let p50 = [&transactions, &sends].map(|figures| median(figures, |figures| figures.p50_ms));
    println!(
        "{clients:<10} {:>10.0} {:>8.2} {:>8.2} {:>9.2} {:>12.0} {:>8.2} {:>8.2} {:>8.1}",
        median(&transactions, |figures| figures.per_s),
        p50[0],
        median(&transactions, |figures| figures.p99_ms),
        median(&transactions, |figures| figures.cpu_s),
        median(&sends, |figures| figures.per_s),
        p50[1],
        median(&sends, |figures| figures.p99_ms),
        p50[0] / p50[1],
    );
}

/// Stores the messages that the first transactions complete.
fn fill(daemon: &Daemon, client: u32) {
    let mut sender = Client::connect(daemon.amqp()).unwrap();
    sender.attach_sender(0, &format!("q{client}")).unwrap().unwrap();
    for _ in 0..OPERATIONS * 2 {
        let outcome = sender.send(0, &data_message(&[b'x'; 1024])).unwrap();
        assert_eq!(outcome.code(), Some(code::ACCEPTED));
    }
}

/// Runs this many clients concurrently; each returns the durations of its repetitions.
fn measure(daemon: &Daemon, clients: u32, work: fn(&Daemon, u32) -> Vec<Duration>) -> Figures {
    let cpu = daemon.cpu_time();
    let mut times: Vec<Duration> = thread::scope(|scope| {
        let threads: Vec<_> = (0..clients).map(|client| scope.spawn(move || work(daemon, client))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let cpu = (daemon.cpu_time() - cpu).as_secs_f64();
    times.sort_unstable();
    let percentile = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e3;
    let count = f64::from(u32::try_from(times.len()).unwrap());
    Figures {
        per_s: count / MEASURED.as_secs_f64(),
        p50_ms: percentile(50),
        p99_ms: percentile(99),
        cpu_s: cpu / count * 1e3,
    }
}

/// One transaction after the other.
fn transact(daemon: &Daemon, client: u32) -> Vec<Duration> {
    let mut connection = Client::connect(daemon.amqp()).unwrap();
    let mut controller = Controller::attach(&mut connection, &format!("q{client}"));
    repeat(|| controller.transact())
}

/// Sends one message after the other; they are not received.
fn send(daemon: &Daemon, client: u32) -> Vec<Duration> {
    let mut connection = Client::connect(daemon.amqp()).unwrap();
    connection.attach_sender(0, &format!("q{client}")).unwrap().unwrap();
    let message = data_message(&[b'x'; 1024]);
    repeat(|| assert_eq!(connection.send(0, &message).unwrap().code(), Some(code::ACCEPTED)))
}

/// Repeats the work until the measuring time has passed; returns the durations.
fn repeat(mut work: impl FnMut()) -> Vec<Duration> {
    let start = Instant::now();
    let mut times = Vec::new();
    while start.elapsed() < MEASURED {
        let began = Instant::now();
        work();
        times.push(began.elapsed());
    }
    times
}
