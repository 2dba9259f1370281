//! A well-behaved client that works while another one misbehaves.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::client::{Client, PATIENCE};
use crate::codec::{code, data_message};

/// Sends, receives and completes on a queue of its own until it is stopped.
#[derive(Debug)]
pub struct Bystander {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Bystander {
    /// Starts to work on `queue`, which no other client may use.
    pub fn start(address: SocketAddr, queue: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let rounds = Arc::new(AtomicU64::new(0));
        let thread = {
            let (stop, rounds, queue) = (Arc::clone(&stop), Arc::clone(&rounds), queue.to_owned());
            std::thread::spawn(move || work(address, &queue, &stop, &rounds))
        };
        let bystander = Self { stop, rounds, thread };
        bystander.await_progress();
        bystander
    }

    /// Waits until some more messages were completed, on the connection that already existed.
    pub fn await_progress(&self) {
        let goal = self.rounds.load(Ordering::Relaxed) + 3;
        let start = Instant::now();
        while self.rounds.load(Ordering::Relaxed) < goal {
            assert!(!self.thread.is_finished(), "the connection of the bystander failed");
            assert!(start.elapsed() < PATIENCE, "the bystander is stuck");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Asserts that the client still makes progress, and stops it.
    pub fn dismiss(self) {
        self.await_progress();
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the connection of the bystander failed");
    }
}

fn work(address: SocketAddr, queue: &str, stop: &AtomicBool, rounds: &AtomicU64) {
    let mut client = Client::connect(address).unwrap();
    client.attach_sender(0, queue).unwrap().unwrap();
    client.attach_receiver(1, queue, 1).unwrap().unwrap();
    while !stop.load(Ordering::Relaxed) {
        let body = rounds.load(Ordering::Relaxed).to_be_bytes();
        let outcome = client.send(0, &data_message(&body)).unwrap();
        assert_eq!(outcome.code(), Some(code::ACCEPTED));
        let delivery = client.receive(1).unwrap();
        assert_eq!(delivery.body(), body);
        assert_eq!(client.complete(delivery.id).unwrap().code(), Some(code::ACCEPTED));
        client.grant(1, 1).unwrap();
        rounds.fetch_add(1, Ordering::Relaxed);
    }
}
