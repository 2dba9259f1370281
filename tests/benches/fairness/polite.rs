//! The polite client and its latencies.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use peeklock_tests::client::Client;
use peeklock_tests::codec::{code, data_message};

/// Its queue, which no other client uses.
pub(crate) const QUEUE: &str = "polite";

/// Pause between two messages, so that it needs only a small part of the broker's capacity.
const PAUSE: Duration = Duration::from_millis(2);

/// Latencies in milliseconds.
pub(crate) struct Latencies {
    pub(crate) send_p50: f64,
    /// From writing a message to its durable acceptance.
    pub(crate) send_p99: f64,
    /// From the acceptance to the confirmation of the message's completion.
    pub(crate) settle_p99: f64,
}

/// Sends, receives and completes one message after the other for `time`.
pub(crate) fn work(address: SocketAddr, time: Duration) -> Latencies {
    let mut client = Client::connect(address).unwrap();
    client.attach_sender(0, QUEUE).unwrap().unwrap();
    client.attach_receiver(1, QUEUE, 1).unwrap().unwrap();
    let (mut sends, mut settlements) = (Vec::new(), Vec::new());
    let start = Instant::now();
    let message = data_message(&[b'x'; 1024]);
    while start.elapsed() < time {
        let began = Instant::now();
        assert_eq!(client.send(0, &message).unwrap().code(), Some(code::ACCEPTED));
        sends.push(began.elapsed());
        let began = Instant::now();
        let delivery = client.receive(1).unwrap();
        assert_eq!(client.complete(delivery.id).unwrap().code(), Some(code::ACCEPTED));
        settlements.push(began.elapsed());
        client.grant(1, 1).unwrap();
        std::thread::sleep(PAUSE);
    }
    Latencies {
        send_p50: percentile(&mut sends, 50),
        send_p99: percentile(&mut sends, 99),
        settle_p99: percentile(&mut settlements, 99),
    }
}

fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    times[(times.len() * percent / 100).min(times.len() - 1)].as_secs_f64() * 1e3
}
