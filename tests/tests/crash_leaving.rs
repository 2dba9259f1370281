//! Repeated SIGKILL, or end of the connection, while messages are sent to a receive-and-delete receiver: none is
//! delivered twice, and no more are lost than docs/differences.md states. `PEEKLOCK_TEST_SEED` repeats the times.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // Helpers of tests, outside #[test].

use std::collections::BTreeSet;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use peeklock_tests::client::{Client, sequence_number};
use peeklock_tests::codec::data_message;
use peeklock_tests::daemon::Daemon;
use peeklock_tests::seed;
use rand::RngExt;

const ROUNDS: usize = 12;
/// Body sizes in bytes, and the number of messages of this size at the start of a round.
const LOADS: [(usize, usize); 3] = [(10, 6_000), (1_000, 3_000), (20_000, 300)];
/// Most messages and bytes of one link that are removed from the disk and not passed to the connection yet.
const LEAVING_MESSAGES_MAX: usize = 2_048;
const LEAVING_BYTES_MAX: usize = 512 << 10;
/// Most bytes that the connection has not passed to the socket yet.
const OUTPUT_BYTES_MAX: usize = 512 << 10;

/// How a receiver ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The daemon is killed while the receiver reads.
    Killed,
    /// The daemon is killed after the receiver stopped reading, so that buffers may be full.
    KilledWhileWaiting,
    /// The receiver disconnects, and reads the data still on its way.
    HungUp,
}

const ENDINGS: [Ending; 4] =
    [Ending::Killed, Ending::KilledWhileWaiting, Ending::HungUp, Ending::KilledWhileWaiting];

#[test]
fn losses_by_a_kill_are_bounded_without_duplicates() {
    let mut random = seed::generator();
    let queues = LOADS.map(|(body_bytes, _)| format!("queue-{body_bytes}"));
    let mut daemon = Daemon::with_queues(&queues.each_ref().map(String::as_str));
    let mut lost_in_all = 0;
    for round in 0..ROUNDS {
        let ((body_bytes, messages), queue) = (LOADS[round % LOADS.len()], &queues[round % LOADS.len()]);
        let ending = ENDINGS[round % ENDINGS.len()];
        let before = fill(&daemon, queue, messages, body_bytes);
        let (after, pause) =
            (random.random_range(1..messages / 2), Duration::from_micros(random.random_range(0..20_000)));
        let received = receive_until(&mut daemon, queue, ending, (after, pause));
        if ending != Ending::HungUp {
            daemon.start();
        }
        daemon.assert_sound();
        let stored = stored_at_last(&daemon, queue);
        let lost = received.assert_bounded(&before, &stored);
        println!(
            "round {round}: {ending:?} {pause:?} after {after} of {messages} messages of {body_bytes} bytes: {} came, {lost} lost",
            received.numbers.len()
        );
        lost_in_all += lost;
    }
    assert!(lost_in_all > 0, "the moments are meant to be those in which messages leave");
}

/// The received messages, in order.
struct Came {
    numbers: Vec<i64>,
    /// Length of the shortest message, in bytes.
    message_bytes: usize,
}

impl Came {
    /// Asserts the documented guarantees; returns the number of lost messages.
    fn assert_bounded(&self, before: &BTreeSet<i64>, stored: &BTreeSet<i64>) -> usize {
        assert!(self.numbers.is_sorted_by(|one, next| one < next), "something came twice or out of order");
        let received: BTreeSet<i64> = self.numbers.iter().copied().collect();
        assert!(received.is_subset(before) && stored.is_subset(before), "something came from nowhere");
        assert!(received.is_disjoint(stored), "something that came would come again");
        let lost: BTreeSet<i64> =
            before.difference(&received).filter(|one| !stored.contains(one)).copied().collect();
        assert!(received.last() < lost.first() || lost.is_empty(), "lost, though later ones came");
        assert!(lost.last() < stored.first() || stored.is_empty(), "lost, though earlier ones stayed");
        let count_max = LEAVING_MESSAGES_MAX + OUTPUT_BYTES_MAX / self.message_bytes;
        assert!(lost.len() <= count_max, "{} lost, not {count_max} at most", lost.len());
        // One more message may be on its way to the output buffer.
        let bytes_max = LEAVING_BYTES_MAX + OUTPUT_BYTES_MAX + 2 * self.message_bytes;
        let bytes = lost.len() * self.message_bytes;
        assert!(bytes <= bytes_max, "{bytes} bytes lost, not {bytes_max} at most");
        lost.len()
    }
}

/// Sends until the queue has this many messages; returns their numbers.
fn fill(daemon: &Daemon, queue: &str, messages: usize, body_bytes: usize) -> BTreeSet<i64> {
    let missing = messages.saturating_sub(stored(daemon, queue).len());
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_sender(0, queue).unwrap().unwrap();
    let message = data_message(&vec![7; body_bytes]);
    let (mut sent, mut settled) = (0, 0);
    while settled < missing {
        while sent < missing && sent < settled + 100 {
            client.transfer(0, &message, 0).unwrap();
            sent += 1;
        }
        let (first, last, _) = client.any_outcome(true).unwrap();
        settled += usize::try_from(last - first + 1).unwrap();
    }
    stored(daemon, queue)
}

/// The numbers of the messages in a queue.
fn stored(daemon: &Daemon, queue: &str) -> BTreeSet<i64> {
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_management(0, queue).unwrap();
    client.browse(0).unwrap().iter().map(|message| sequence_number(message)).collect()
}

/// Like [`stored`], once no more messages are being removed.
fn stored_at_last(daemon: &Daemon, queue: &str) -> BTreeSet<i64> {
    let mut before = stored(daemon, queue);
    loop {
        let now = stored(daemon, queue);
        if now == before {
            return now;
        }
        before = now;
    }
}

/// Receives this many messages, waits briefly, ends in the given way, and receives the rest.
fn receive_until(
    daemon: &mut Daemon,
    queue: &str,
    ending: Ending,
    (after, pause): (usize, Duration),
) -> Came {
    let count = Arc::new(AtomicUsize::new(0));
    let (goes_on, waits) = mpsc::channel();
    let reader = {
        let (address, queue, count) = (daemon.amqp(), queue.to_owned(), Arc::clone(&count));
        thread::spawn(move || read(address, &queue, (ending, after), &count, &waits))
    };
    while count.load(Ordering::Relaxed) < after {
        assert!(!reader.is_finished(), "the receiver ended before its time");
        thread::yield_now();
    }
    if ending != Ending::HungUp {
        let begun = Instant::now();
        while begun.elapsed() < pause {
            thread::yield_now();
        }
        daemon.kill();
    }
    // The reader may have ended.
    let _ = goes_on.send(());
    joined(reader)
}

fn joined(reader: JoinHandle<Came>) -> Came {
    reader.join().expect("the broker sends the expected frames")
}

fn read(
    address: SocketAddr,
    queue: &str,
    (ending, after): (Ending, usize),
    count: &AtomicUsize,
    waits: &Receiver<()>,
) -> Came {
    let mut client = Client::connect(address).unwrap();
    client.attach_unlocked(0, queue, 1_000_000).unwrap();
    let mut came = Came { numbers: Vec::new(), message_bytes: usize::MAX };
    while let Ok(delivery) = client.receive(0) {
        came.numbers.push(delivery.sequence_number());
        came.message_bytes = came.message_bytes.min(delivery.message.len());
        count.store(came.numbers.len(), Ordering::Relaxed);
        if came.numbers.len() == after {
            match ending {
                Ending::Killed => {}
                Ending::KilledWhileWaiting => waits.recv().unwrap(),
                Ending::HungUp => client.stream().shutdown(Shutdown::Write).unwrap(),
            }
        }
    }
    came
}
