//! Sends at a fixed rate, each due at its time: a stall counts for every message that was due meanwhile.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use peeklock_tests::client::Client;
use peeklock_tests::codec;
use peeklock_tests::daemon::Daemon;
use peeklock_tests::wire::{DISPOSITION, Wire, range};

use crate::beside;
use crate::figures::{Figure, Latencies};
use crate::load::{Load, Through, receive, send};
use crate::work::{spend, warm};

pub(crate) use crate::beside::Beside;

/// How long it goes on.
const TIME: Duration = Duration::from_secs(10);
/// How often the writer looks which messages are due.
const TICK: Duration = Duration::from_millis(1);
/// Messages under way at most: less than the credit that the daemon grants.
const UNDER_WAY_MAX: u32 = 500;

/// The latency of sends at half of the rate that saturates.
pub(crate) fn measure(binary: &Path, load: &Load, beside: Beside) -> Vec<Figure> {
    let daemon = Daemon::of_binary(binary, &(load.config() + beside::CONFIG));
    warm(&daemon, load);
    let (_, saturated) = spend(&daemon, load.messages, || send(&daemon, load));
    receive(&daemon, load);
    beside.prepare(&daemon);
    let per_s = saturated.per_s / 2.0;
    let is_over = AtomicBool::new(false);
    let latencies: Latencies = thread::scope(|scope| {
        scope.spawn(|| beside.go_on(binary, &daemon, &is_over));
        let each_per_s = per_s / f64::from(load.connections);
        let senders: Vec<_> = (0..load.connections)
            .map(|connection| {
                let Through::Queues(queues) = load.through else { panic!("only queues are paced") };
                let (queue, address) = (format!("q{}", connection % queues), daemon.amqp());
                scope.spawn(move || pace(address, &queue, load.body_bytes, each_per_s))
            })
            .collect();
        let parts: Vec<Latencies> = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
        is_over.store(true, Ordering::Relaxed);
        parts.into_iter().collect()
    });
    vec![
        Figure::higher("rate_per_s", per_s),
        Figure::lower("ack_p50_ms", latencies.quantile_ms(0.5)),
        Figure::lower("ack_p99_ms", latencies.quantile_ms(0.99)),
        Figure::lower("ack_p999_ms", latencies.quantile_ms(0.999)),
        Figure::lower("ack_longest_ms", latencies.longest_ms()),
    ]
}

/// Sends message after message, each at its time; latencies count from then.
fn pace(address: SocketAddr, queue: &str, body_bytes: usize, per_s: f64) -> Latencies {
    let mut client = Client::connect(address).unwrap();
    client.attach_sender(0, queue).unwrap().unwrap();
    let message = codec::data_message(&vec![b'x'; body_bytes]);
    let count = (TIME.as_secs_f64() * per_s) as u32;
    let start = Instant::now();
    let due = |id: u32| start + Duration::from_secs_f64(f64::from(id) / per_s);
    let answered = AtomicU32::new(0);
    let mut answers = client.stream().try_clone().unwrap();
    thread::scope(|scope| {
        let reading = scope.spawn(|| read_answers(&mut answers, count, &answered, due));
        let mut wire = Wire::new(client.stream());
        let mut sent = 0;
        while sent < count {
            let now = Instant::now();
            let room = UNDER_WAY_MAX - (sent - answered.load(Ordering::Relaxed));
            let first = sent;
            while sent < count && sent - first < room && due(sent) <= now {
                wire.put_transfer(sent, &message, false);
                sent += 1;
            }
            wire.flush();
            thread::sleep(TICK);
        }
        reading.join().unwrap()
    })
}

fn read_answers(
    stream: &mut std::net::TcpStream,
    count: u32,
    answered: &AtomicU32,
    due: impl Fn(u32) -> Instant,
) -> Latencies {
    let mut latencies = Latencies::default();
    let mut wire = Wire::new(stream);
    while answered.load(Ordering::Relaxed) < count {
        wire.read_frames(|code, frame| {
            if code == DISPOSITION {
                let (first, last) = range(frame);
                let now = Instant::now();
                (first..=last).for_each(|id| latencies.add(now.saturating_duration_since(due(id)), 1));
                answered.fetch_add(last - first + 1, Ordering::Relaxed);
            }
        });
    }
    latencies
}
