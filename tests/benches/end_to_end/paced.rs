//! Sends at a fixed rate, each due at a fixed time: a stall counts for every message due meanwhile.

use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use peeklock_tests::client::Client;
use peeklock_tests::codec;
use peeklock_tests::daemon::Daemon;
use peeklock_tests::wire::{DISPOSITION, Wire, range};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::beside;
use crate::figures::{Figure, Latencies};
use crate::load::{Load, Through, receive, send};
use crate::work::{spend, warm};

pub(crate) use crate::beside::Beside;

/// Duration of the measurement.
const TIME: Duration = Duration::from_secs(10);
/// Interval in which the generator writes the messages that are due and reads the answers that have arrived. An answer
/// may be seen this much late; a generator that waited for each answer would take the processor from the daemon.
const TICK: Duration = Duration::from_millis(1);
/// How long to wait for answers in addition to a tick.
const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// Most messages under way: less than the credit granted by the daemon.
const UNDER_WAY_MAX: u32 = 500;

/// The latency of sends at `rate` a second, by default half of the saturating rate.
pub(crate) fn measure(binary: &Path, load: &Load, beside: Beside, rate: Option<u32>) -> Vec<Figure> {
    let daemon = Daemon::of_binary(binary, &(load.config() + beside::CONFIG));
    warm(&daemon, load);
    let (_, saturated) = spend(&daemon, load.messages, || send(&daemon, load));
    receive(&daemon, load);
    beside.prepare(&daemon);
    let per_s = rate.map_or(saturated.per_s / 2.0, f64::from);
    let is_over = AtomicBool::new(false);
    let Through::Queues(queues) = load.through else { panic!("only queues are paced") };
    let mut clients: Vec<Client> = (0..load.connections)
        .map(|connection| {
            let mut client = Client::connect(daemon.amqp()).unwrap();
            client.attach_sender(0, &format!("q{}", connection % queues)).unwrap().unwrap();
            client
        })
        .collect();
    let Paced { latencies, lateness } = thread::scope(|scope| {
        scope.spawn(|| beside.go_on(binary, &daemon, &is_over));
        let paced = pace(&mut clients, load.body_bytes, per_s);
        is_over.store(true, Ordering::Relaxed);
        paced
    });
    vec![
        Figure::higher("rate_per_s", per_s),
        Figure::lower("ack_p50_ms", latencies.quantile_ms(0.5)),
        Figure::lower("ack_p99_ms", latencies.quantile_ms(0.99)),
        Figure::lower("ack_p999_ms", latencies.quantile_ms(0.999)),
        Figure::lower("ack_longest_ms", latencies.longest_ms()),
        Figure::lower("sent_late_p999_ms", lateness.quantile_ms(0.999)),
    ]
}

/// The generator's measurements.
#[derive(Default)]
struct Paced {
    /// Times from when a message was due to its answer.
    latencies: Latencies,
    /// Times from when a message was due to its sending: delays of the generator, not the daemon.
    lateness: Latencies,
}

/// One connection of the generator.
struct Sender<'a> {
    wire: Wire<'a>,
    sent: u32,
    answered: u32,
    /// When the first message is due after the start.
    first_due: Duration,
    /// Time between two messages.
    interval: Duration,
}

/// Sends one message after the other at the time it is due; latencies count from then. One thread serves all
/// connections, so that nearly all of the machine is left to the daemon.
fn pace(clients: &mut [Client], body_bytes: usize, per_s: f64) -> Paced {
    let message = codec::data_message(&vec![b'x'; body_bytes]);
    let interval = Duration::from_secs_f64(clients.len() as f64 / per_s);
    let count = (TIME.as_secs_f64() * per_s) as u32 / clients.len() as u32;
    let sockets: Vec<TcpStream> =
        clients.iter_mut().map(|client| client.stream().try_clone().unwrap()).collect();
    let mut senders: Vec<Sender<'_>> = (clients.iter_mut().enumerate())
        .map(|(number, client)| {
            let first_due = Duration::from_secs_f64(number as f64 / per_s);
            Sender { wire: Wire::new(client.stream()), sent: 0, answered: 0, first_due, interval }
        })
        .collect();
    let mut paced = Paced::default();
    let start = Instant::now();
    let mut tick = start;
    while senders.iter().any(|sender| sender.answered < count) {
        for sender in &mut senders {
            sender.write(start, count, &message, &mut paced.lateness);
        }
        tick = (tick + TICK).max(Instant::now());
        thread::sleep(tick - Instant::now());
        let mut polled: Vec<PollFd<'_>> =
            sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        poll(&mut polled, Some(&NO_WAIT)).unwrap();
        for (sender, polled) in senders.iter_mut().zip(&polled) {
            if !polled.revents().is_empty() {
                sender.read(start, &mut paced.latencies);
            }
        }
    }
    paced
}

impl Sender<'_> {
    /// How long after `start` a message is due.
    fn due(&self, id: u32) -> Duration {
        self.first_due + self.interval * id
    }

    /// Writes the messages that are due.
    fn write(&mut self, start: Instant, count: u32, message: &[u8], lateness: &mut Latencies) {
        let passed = start.elapsed();
        while self.sent < count
            && self.sent - self.answered < UNDER_WAY_MAX
            && let Some(late) = passed.checked_sub(self.due(self.sent))
        {
            lateness.add(late, 1);
            self.wire.put_transfer(self.sent, message, false);
            self.sent += 1;
        }
        self.wire.flush();
    }

    /// Reads the available answers.
    fn read(&mut self, start: Instant, latencies: &mut Latencies) {
        let (first_due, interval) = (self.first_due, self.interval);
        let answered = &mut self.answered;
        self.wire.read_frames(|code, frame| {
            if code == DISPOSITION {
                let (first, last) = range(frame);
                let passed = start.elapsed();
                let due = (first..=last).map(|id| first_due + interval * id);
                due.for_each(|due| latencies.add(passed.saturating_sub(due), 1));
                *answered += last - first + 1;
            }
        });
    }
}
