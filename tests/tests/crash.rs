//! SIGKILL during load, again and again: nothing accepted is lost, nothing completed comes back, every sequence number
//! is given once and in rising order. `PEEKLOCK_TEST_SEED` repeats the moments of the kills.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // Helpers of tests, outside #[test].

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use peeklock_tests::audit::Audit;
use peeklock_tests::client::{Client, body, sequence_number};
use peeklock_tests::codec::{Value, code, data_message};
use peeklock_tests::daemon::Daemon;
use peeklock_tests::seed;
use rand::RngExt;

const ROUNDS: u32 = 20;
const QUEUE: &str = "load";
const PRODUCERS: u32 = 3;
const CONSUMERS: u32 = 2;
/// Sends in flight for each producer, deliveries in hand for each consumer.
const WINDOW: u32 = 32;

/// What the threads of a round share.
struct Load {
    address: SocketAddr,
    round: u32,
    audit: Mutex<Audit>,
    answers: AtomicU64,
}

#[test]
fn nothing_accepted_is_lost_and_nothing_completed_returns_over_twenty_kills() {
    let mut random = seed::generator();
    let mut daemon = Daemon::with_queues(&[QUEUE]);
    let mut audit = Audit::default();
    for round in 0..ROUNDS {
        let answers = random.random_range(50..1_500);
        audit = run_until_killed(&mut daemon, audit, round, answers);
        daemon.start();
        daemon.assert_sound();
        audit.restarted(&shown(daemon.amqp()));
        println!("round {round}: killed after {answers} answers, {} messages stored", audit.stored());
    }
    assert!(audit.stored() > 0, "the load is meant to leave messages behind");
    drain(daemon.amqp(), &mut audit);
    audit.restarted(&shown(daemon.amqp()));
    assert_eq!(audit.stored(), 0);
}

/// Loads the daemon until it gave `answers`, kills it in the midst of that, and returns the journal.
fn run_until_killed(daemon: &mut Daemon, audit: Audit, round: u32, answers: u64) -> Audit {
    let load = Arc::new(Load {
        address: daemon.amqp(),
        round,
        audit: Mutex::new(audit),
        answers: AtomicU64::new(0),
    });
    let mut threads: Vec<JoinHandle<io::Error>> = Vec::new();
    for number in 0..PRODUCERS {
        let load = Arc::clone(&load);
        threads.push(std::thread::spawn(move || produce(&load, number).unwrap_err()));
    }
    for _ in 0..CONSUMERS {
        let load = Arc::clone(&load);
        threads.push(std::thread::spawn(move || consume(&load).unwrap_err()));
    }
    while load.answers.load(Ordering::Relaxed) < answers {
        assert!(!threads.iter().any(JoinHandle::is_finished), "a client failed before the kill");
        std::thread::yield_now();
    }
    daemon.kill();
    for thread in threads {
        thread.join().expect("the journal holds");
    }
    let load = Arc::into_inner(load).expect("the threads have ended");
    load.audit.into_inner().unwrap()
}

/// Sends without end, a window at a time; returns only with the error of a cut connection.
fn produce(load: &Load, number: u32) -> io::Result<()> {
    let mut client = Client::connect(load.address)?;
    client.attach_sender(0, QUEUE)?.expect("the queue is there");
    let mut in_flight: HashMap<u32, String> = HashMap::new();
    for count in 0.. {
        let name = format!("{}:{number}:{count}", load.round);
        load.audit.lock().unwrap().asked(&name);
        // Every seventh message is large enough to span log blocks.
        let padding = if count % 7 == 0 { 20_000 } else { 200 };
        let message = data_message(format!("{name} {}", "x".repeat(padding)).as_bytes());
        in_flight.insert(client.transfer(0, &message, 0)?, name);
        while in_flight.len() >= WINDOW as usize {
            let (first, last, state) = client.any_outcome(true)?;
            assert_eq!(state.code(), Some(code::ACCEPTED), "{state:?}");
            for id in first..=last {
                let name = in_flight.remove(&id).expect("an outcome for a message in flight");
                load.audit.lock().unwrap().accepted(&name);
                load.answers.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    Ok(())
}

/// Receives without end and completes most; returns only with the error of a cut connection.
fn consume(load: &Load) -> io::Result<()> {
    let mut client = Client::connect(load.address)?;
    client.attach_receiver(0, QUEUE, WINDOW)?.expect("the queue is there");
    let mut completing: HashMap<u32, String> = HashMap::new();
    for count in 1_u32.. {
        let delivery = client.receive(0)?;
        let name = name(&delivery.message);
        load.audit.lock().unwrap().delivered(&name, delivery.sequence_number());
        if count % 5 != 0 {
            load.audit.lock().unwrap().completing(&name);
            client.dispose(delivery.id, delivery.id, Value::composite(code::ACCEPTED, Vec::new()))?;
            completing.insert(delivery.id, name);
        }
        while completing.len() >= WINDOW as usize / 2 {
            let (first, last, state) = client.any_outcome(false)?;
            assert_eq!(state.code(), Some(code::ACCEPTED), "{state:?}");
            for id in first..=last {
                let name = completing.remove(&id).expect("an outcome for a completion in flight");
                load.audit.lock().unwrap().completed(&name);
                load.answers.fetch_add(1, Ordering::Relaxed);
            }
        }
        client.grant(0, WINDOW)?;
    }
    Ok(())
}

/// Names and numbers of all that the broker has, as browsing shows them.
fn shown(address: SocketAddr) -> Vec<(String, i64)> {
    let mut client = Client::connect(address).unwrap();
    client.attach_management(0, QUEUE).unwrap();
    let messages = client.browse(0).unwrap();
    messages.iter().map(|message| (name(message), sequence_number(message))).collect()
}

/// Receives and completes everything that must be there.
fn drain(address: SocketAddr, audit: &mut Audit) {
    let mut client = Client::connect(address).unwrap();
    client.attach_receiver(0, QUEUE, WINDOW).unwrap().expect("the queue is there");
    while audit.stored() > 0 {
        let delivery = client.receive(0).unwrap();
        let name = name(&delivery.message);
        audit.delivered(&name, delivery.sequence_number());
        assert_eq!(client.complete(delivery.id).unwrap().code(), Some(code::ACCEPTED));
        audit.completed(&name);
        client.grant(0, WINDOW).unwrap();
    }
}

fn name(message: &[u8]) -> String {
    let body = String::from_utf8(body(message)).unwrap();
    body.split(' ').next().unwrap_or_default().to_owned()
}
