//! Running a case once.

use std::path::Path;
use std::time::{Duration, Instant};

use peeklock_tests::client::Client;
use peeklock_tests::daemon::{self, Daemon};

use crate::cases::Work;
use crate::figures::{Figure, Latencies};
use crate::load::{Load, Through, receive, send, together};
use crate::{carried, large, many, paced};

/// Messages sent and received before a measurement on a warm store, so that segments exist and are reused.
const WARM_MESSAGES: u32 = 300_000;

impl Work {
    /// Starts a daemon, does the work once, and returns the figures. `rate` replaces half of the saturating rate, in sends
    /// a second.
    pub(crate) fn measure(&self, binary: &Path, rate: Option<u32>) -> Vec<Figure> {
        match self {
            Self::InTurn(load) => in_turn(binary, load),
            Self::Together(load) => at_once(binary, load),
            Self::Empty(load) => empty(binary, load),
            Self::Backlog(load, messages) => backlog(binary, load, *messages),
            Self::Paced(load, beside) => paced::measure(binary, load, *beside, rate),
            Self::Start => start(binary),
            Self::Memory => memory(binary),
            Self::IdleConnections(idle) => many::idle_connections(binary, *idle),
            Self::Entities => many::entities(binary),
            Self::Waiting(load) => many::waiting(binary, load),
            Self::Sessions(load) => many::sessions(binary, load),
            Self::Large(load) => large::measure(binary, load),
            Self::Carried(load, carrier) => carried::measure(binary, load, *carrier),
        }
    }
}

/// The cost of a part of the work.
pub(crate) struct Spent {
    pub(crate) per_s: f64,
    /// Processor seconds of the broker per million messages.
    pub(crate) broker_cpu: f64,
    /// Processor seconds of the generator per million messages.
    own_cpu: f64,
}

/// Measures the cost of work with this many messages.
pub(crate) fn spend<T>(daemon: &Daemon, messages: u32, work: impl FnOnce() -> T) -> (T, Spent) {
    let (broker, own, start) = (daemon.cpu_time(), daemon::own_cpu_time(), Instant::now());
    let result = work();
    let messages = f64::from(messages);
    let per_million = |time: Duration| time.as_secs_f64() / messages * 1e6;
    let spent = Spent {
        per_s: messages / start.elapsed().as_secs_f64(),
        broker_cpu: per_million(daemon.cpu_time() - broker),
        own_cpu: per_million(daemon::own_cpu_time() - own),
    };
    (result, spent)
}

/// Fills and empties the queues of `load` once.
pub(crate) fn warm(daemon: &Daemon, load: &Load) {
    let once = Load { messages: load.messages.min(WARM_MESSAGES), ..*load };
    send(daemon, &once);
    receive(daemon, &once);
}

pub(crate) fn in_turn(binary: &Path, load: &Load) -> Vec<Figure> {
    let daemon = Daemon::of_binary(binary, &load.config());
    warm(&daemon, load);
    let (latencies, sent) = spend(&daemon, load.messages, || send(&daemon, load));
    let mut figures = vec![
        Figure::higher("send_per_s", sent.per_s),
        Figure::lower("send_cpu_s_per_million", sent.broker_cpu),
        Figure::lower("send_cpu_of_generator", sent.broker_cpu / sent.own_cpu),
        Figure::lower("ack_p50_ms", latencies.quantile_ms(0.5)),
        Figure::lower("ack_p99_ms", latencies.quantile_ms(0.99)),
    ];
    if load.received() > 0 {
        let ((), received) = spend(&daemon, load.received(), || receive(&daemon, load));
        figures.extend([
            Figure::higher("receive_per_s", received.per_s),
            Figure::lower("receive_cpu_s_per_million", received.broker_cpu),
            Figure::lower("receive_cpu_of_generator", received.broker_cpu / received.own_cpu),
        ]);
    }
    figures
}

fn at_once(binary: &Path, load: &Load) -> Vec<Figure> {
    let daemon = Daemon::of_binary(binary, &load.config());
    warm(&daemon, load);
    let (latencies, spent) = spend(&daemon, load.messages, || together(&daemon, load));
    vec![
        Figure::higher("pairs_per_s", spent.per_s),
        Figure::lower("pair_cpu_s_per_million", spent.broker_cpu),
        Figure::lower("ack_p50_ms", latencies.quantile_ms(0.5)),
        Figure::lower("ack_p99_ms", latencies.quantile_ms(0.99)),
    ]
}

fn empty(binary: &Path, load: &Load) -> Vec<Figure> {
    let daemon = Daemon::of_binary(binary, &load.config());
    let (latencies, first) = spend(&daemon, load.messages, || send(&daemon, load));
    receive(&daemon, load);
    warm(&daemon, load);
    let (_, later) = spend(&daemon, load.messages, || send(&daemon, load));
    growth(&latencies, &first, &later)
}

fn backlog(binary: &Path, load: &Load, messages: u32) -> Vec<Figure> {
    let daemon = Daemon::of_binary(binary, &load.config());
    warm(&daemon, load);
    let (_, once) = spend(&daemon, load.messages, || send(&daemon, load));
    receive(&daemon, load);
    let much = Load { messages, ..*load };
    let (latencies, grown) = spend(&daemon, messages, || send(&daemon, &much));
    growth(&latencies, &grown, &once)
}

fn growth(latencies: &Latencies, growing: &Spent, warm: &Spent) -> Vec<Figure> {
    let (p50, p99) = (latencies.quantile_ms(0.5), latencies.quantile_ms(0.99));
    vec![
        Figure::higher("send_per_s", growing.per_s),
        Figure::higher("of_warm_rate", growing.per_s / warm.per_s),
        Figure::lower("ack_p50_ms", p50),
        Figure::lower("ack_p99_ms", p99),
        Figure::lower("ack_p99_of_p50", p99 / p50),
        Figure::lower("ack_longest_ms", latencies.longest_ms()),
    ]
}

/// Time from spawning the process to the first accepted connection, on an empty directory.
fn start(binary: &Path) -> Vec<Figure> {
    let start = Instant::now();
    let daemon = Daemon::of_binary(binary, "");
    drop(Client::connect(daemon.amqp()).unwrap());
    vec![Figure::lower("to_first_connection_ms", start.elapsed().as_secs_f64() * 1e3)]
}

/// The memory that a million waiting messages add to the daemon, before and after a crash.
fn memory(binary: &Path) -> Vec<Figure> {
    let load = Load {
        body_bytes: 1024,
        connections: 16,
        through: Through::Queues(1),
        messages: 1_000_000,
        window: 100,
    };
    let mut daemon = Daemon::of_binary(binary, &load.config());
    let idle = daemon.resident_bytes();
    send(&daemon, &load);
    let full = daemon.resident_bytes();
    daemon.kill();
    let start = Instant::now();
    daemon.start();
    let elapsed = start.elapsed();
    let restarted = daemon.resident_bytes();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    vec![
        Figure::lower("idle_mib", mib(idle)),
        Figure::lower("million_waiting_adds_mib", mib(full.saturating_sub(idle))),
        Figure::lower("ready_after_kill_ms", elapsed.as_secs_f64() * 1e3),
        Figure::lower("restarted_adds_mib", mib(restarted.saturating_sub(idle))),
    ]
}
