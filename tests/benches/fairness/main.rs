//! The effect of other clients on a polite client, which has one message under way at a time, on a connection and a
//! queue of its own.
//!
//! `cargo build --release && cargo bench -p peeklock-tests --bench fairness`, optionally with `-- CASE…` (names as
//! printed), `RUNS=5` for more repetitions and `SECONDS=20` for longer ones. Each run measures the polite client three
//! times: alone on an idle machine; alone on its broker, while the neighbours load another broker on the same machine
//! and disk; and with the neighbours on its own broker. The ratio of the last two is the cost of sharing a broker,
//! independent of the machine. The neighbours run in a separate process with the lowest priority, so that they do not
//! take the processor from the broker.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)] // reason: it prints a report, and may panic

mod neighbours;
mod polite;

use std::io::Read;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use neighbours::{CASES, Case};
use peeklock_tests::daemon::Daemon;
use polite::Latencies;

/// The first argument of the process that runs the neighbours; the case and the broker's address follow.
const NEIGHBOURS: &str = "neighbours";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    if let [first, case, address] = &arguments[..]
        && first == NEIGHBOURS
    {
        return neighbours::run(find(case), address.parse().unwrap());
    }
    let setting = |name| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let runs = setting("RUNS").unwrap_or(3);
    let time = Duration::from_secs(setting("SECONDS").unwrap_or(8));
    println!(
        "{:<24} {:>26} {:>26} {:>26} {:>22} {:>10}",
        "", "alone, idle machine", "alone, busy machine", "beside neighbours", "beside / busy", "neighbours"
    );
    let columns = "send p50 p99 settle p99";
    println!("{:<24} {columns:>26} {columns:>26} {columns:>26} {:>22} {:>10}", "ms", "send settle", "MB/s");
    let wants = |case: &&Case| arguments.is_empty() || arguments.iter().any(|name| name == case.name);
    CASES.iter().filter(wants).for_each(|case| measure(case, runs, time));
}

fn find(name: &str) -> &'static Case {
    CASES.iter().find(|case| case.name == name).expect("a case that is known")
}

fn measure(case: &Case, runs: u64, time: Duration) {
    let (mut idle, mut busy, mut beside) = (Vec::new(), Vec::new(), Vec::new());
    let mut rates = Vec::new();
    for _ in 0..runs {
        idle.push(alone(time / 4));
        busy.push(elsewhere(case, time));
        let (latencies, rate) = together(case, time);
        beside.push(latencies);
        rates.push(rate);
    }
    let ratio = |of: fn(&Latencies) -> f64| median(beside.iter().zip(&busy).map(|(a, b)| of(a) / of(b)));
    println!(
        "{:<24} {:>26} {:>26} {:>26} {:>22} {:>10.0}",
        case.name,
        shown(&idle),
        shown(&busy),
        shown(&beside),
        format!("{:.1} {:.1}", ratio(|l| l.send_p99), ratio(|l| l.settle_p99)),
        median(rates.into_iter()),
    );
}

/// Runs only the polite client.
fn alone(time: Duration) -> Latencies {
    let daemon = Daemon::with_queues(&[polite::QUEUE]);
    polite::work(daemon.amqp(), time)
}

/// The polite client on one broker, the neighbours on another.
fn elsewhere(case: &Case, time: Duration) -> Latencies {
    let (daemon, other) = (Daemon::with_queues(&[polite::QUEUE]), broker(case));
    let neighbours = Neighbours::start(case, other.amqp());
    let latencies = polite::work(daemon.amqp(), time);
    drop(neighbours);
    latencies
}

/// Runs all on one broker; also returns the neighbours' throughput in MB a second.
fn together(case: &Case, time: Duration) -> (Latencies, f64) {
    let daemon = broker(case);
    let neighbours = Neighbours::start(case, daemon.amqp());
    let latencies = polite::work(daemon.amqp(), time);
    (latencies, neighbours.stop())
}

/// A broker with all queues, and with the initial backlog of the neighbours.
fn broker(case: &Case) -> Daemon {
    let mut names: Vec<String> = (0..case.queues).map(neighbours::queue).collect();
    names.push(polite::QUEUE.to_owned());
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let daemon = Daemon::with_queues(&names);
    neighbours::fill(case, daemon.amqp());
    daemon
}

/// The process of the neighbours.
struct Neighbours {
    child: Child,
    start: Instant,
}

impl Neighbours {
    /// Starts the process, and waits briefly until it has reached its full rate.
    fn start(case: &Case, address: SocketAddr) -> Self {
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).arg(std::env::current_exe().unwrap()).args([NEIGHBOURS, case.name]);
        command.arg(address.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let (child, start) = (command.spawn().unwrap(), Instant::now());
        std::thread::sleep(Duration::from_millis(500));
        Self { child, start }
    }

    /// Ends the process; returns its throughput in MB a second.
    fn stop(mut self) -> f64 {
        drop(self.child.stdin.take());
        let mut bytes = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut bytes).unwrap();
        bytes.trim().parse::<f64>().unwrap() / self.start.elapsed().as_secs_f64() / 1e6
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

fn shown(runs: &[Latencies]) -> String {
    let of = |of: fn(&Latencies) -> f64| median(runs.iter().map(of));
    format!("{:.2} {:.2} {:.2}", of(|l| l.send_p50), of(|l| l.send_p99), of(|l| l.settle_p99))
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
