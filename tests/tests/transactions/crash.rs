//! Repeated SIGKILL while transactions across two queues and a topic are prepared, committed and answered: after each
//! restart every transaction is applied completely or not at all, and those with an answer are applied.
//! `PEEKLOCK_TEST_SEED` repeats the times of the kills.
//!
//! A fixed number of tokens circulates in the queue `tokens`. Each transaction completes one token, sends another one
//! with the transaction's name to the same queue, and sends its name to the queue `out` and to the topic `news`.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use peeklock_tests::client::{Client, transactional};
use peeklock_tests::codec::{Value, code};
use peeklock_tests::daemon::Daemon;
use peeklock_tests::recorded::bodies;
use peeklock_tests::seed;
use rand::RngExt;

use super::stage::{COORDINATOR, accepted, assert_accepted, assert_accepted_in, text};

const ROUNDS: u32 = 20;
const WORKERS: u32 = 3;
const TOKENS: u32 = 24;
/// One transaction in this many is rolled back.
const ROLLED_BACK: u32 = 5;

const CONFIG: &str = r#"
[[queues]]
name = "tokens"
[[queues]]
name = "out"
[[topics]]
name = "news"
[[topics.subscriptions]]
name = "one"
[[topics.subscriptions]]
name = "two"
"#;
/// Entities in which the name of a transaction arrives, except `tokens`.
const PLACES: [&str; 3] = ["out", "news/Subscriptions/one", "news/Subscriptions/two"];

const TOKEN_RECEIVER: u32 = 1;
/// Links that send to `tokens`, `out` and `news`.
const SENDERS: [(u32, &str); 3] = [(2, "tokens"), (3, "out"), (4, "news")];

/// The known state of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Its commit was requested; not answered yet.
    Asked,
    /// Its commit was confirmed, or it was found after a restart.
    Committed,
    /// It was rolled back, or never discharged, or not found after a restart.
    Gone,
}

/// All transactions of all rounds.
#[derive(Debug, Default)]
struct Journal {
    known: HashMap<String, Known>,
    /// The token that each transaction completes.
    consumed: HashMap<String, String>,
}

struct Load {
    address: SocketAddr,
    round: u32,
    journal: Mutex<Journal>,
    /// Number of discharges written.
    discharges: AtomicU64,
}

#[test]
fn transactions_are_whole_or_not_there_over_twenty_kills() {
    let mut random = seed::generator();
    let mut daemon = Daemon::with_config(CONFIG);
    let mut journal = Journal::default();
    fill(&daemon);
    for round in 0..ROUNDS {
        let discharges = random.random_range(5..120);
        let pause = Duration::from_micros(random.random_range(0..3_000));
        journal = run_until_killed(&mut daemon, journal, round, (discharges, pause));
        daemon.start();
        daemon.assert_sound();
        journal.restarted(&Shown::by(&daemon));
        let committed = journal.known.values().filter(|known| **known == Known::Committed).count();
        println!(
            "round {round}: killed {pause:?} after {discharges} discharges, {committed} committed so far"
        );
    }
    assert!(journal.known.values().any(|known| *known == Known::Gone));
}

fn fill(daemon: &Daemon) {
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_sender(0, "tokens").unwrap().unwrap();
    for number in 0..TOKENS {
        assert_accepted(&client.send(0, &text(&format!("first:{number}"))).unwrap());
    }
}

/// Runs until this many discharges were written, kills the daemon a little later and returns the journal.
fn run_until_killed(
    daemon: &mut Daemon,
    journal: Journal,
    round: u32,
    (discharges, pause): (u64, Duration),
) -> Journal {
    let load =
        Load { address: daemon.amqp(), round, journal: Mutex::new(journal), discharges: AtomicU64::new(0) };
    let load = Arc::new(load);
    let workers: Vec<JoinHandle<io::Error>> = (0..WORKERS)
        .map(|worker| {
            let load = Arc::clone(&load);
            std::thread::spawn(move || load.work(worker).unwrap_err())
        })
        .collect();
    while load.discharges.load(Ordering::Relaxed) < discharges {
        assert!(!workers.iter().any(JoinHandle::is_finished), "a worker failed before the kill");
        std::thread::yield_now();
    }
    let begun = Instant::now();
    while begun.elapsed() < pause {
        std::thread::yield_now();
    }
    daemon.kill();
    for worker in workers {
        worker.join().expect("the broker answers as it should");
    }
    Arc::into_inner(load).expect("the workers have ended").journal.into_inner().unwrap()
}

impl Load {
    /// Makes transactions repeatedly; returns only with the error of a cut connection.
    fn work(&self, worker: u32) -> io::Result<()> {
        let mut client = Client::connect(self.address)?;
        client.attach_coordinator(COORDINATOR)?.expect("a coordinator");
        client.attach_receiver(TOKEN_RECEIVER, "tokens", 1)?.expect("the configured queue exists");
        for (handle, target) in SENDERS {
            client.attach_sender(handle, target)?.expect("the configured queue exists");
        }
        for count in 0.. {
            let token = client.receive(TOKEN_RECEIVER)?;
            let consumed = String::from_utf8(token.body()).unwrap();
            let name = format!("{}:{worker}:{count}", self.round);
            self.note(&name, Known::Gone, Some(consumed));
            let is_rolled_back = count % ROLLED_BACK == ROLLED_BACK - 1;
            self.transact(&mut client, &name, token.id, is_rolled_back)?;
            if is_rolled_back {
                // The lock still exists: the token is released.
                client.dispose(token.id, token.id, Value::composite(code::RELEASED, Vec::new()))?;
                client.outcome(token.id, false)?;
            }
            client.grant(TOKEN_RECEIVER, 1)?;
        }
        Ok(())
    }

    fn transact(&self, client: &mut Client, name: &str, token: u32, is_rolled_back: bool) -> io::Result<()> {
        let id = client.declare(COORDINATOR)?;
        let mut sent = Vec::new();
        for (handle, _) in SENDERS {
            sent.push(client.transfer_in(handle, &text(name), 0, false, transactional(&id, None))?);
        }
        assert_accepted_in(&client.settle_in(token, &id, accepted())?, &id);
        while !sent.is_empty() {
            // One disposition may answer several deliveries.
            let (first, last, outcome) = client.any_outcome(true)?;
            assert_accepted_in(&outcome, &id);
            sent.retain(|delivery| !(first..=last).contains(delivery));
        }
        if !is_rolled_back {
            self.note(name, Known::Asked, None);
        }
        let discharge = client.discharge_later(COORDINATOR, &id, is_rolled_back)?;
        self.discharges.fetch_add(1, Ordering::Relaxed);
        assert_accepted(&client.outcome(discharge, true)?);
        if !is_rolled_back {
            self.note(name, Known::Committed, None);
        }
        Ok(())
    }

    fn note(&self, name: &str, known: Known, consumed: Option<String>) {
        let mut journal = self.journal.lock().unwrap();
        journal.known.insert(name.to_owned(), known);
        if let Some(consumed) = consumed {
            journal.consumed.insert(name.to_owned(), consumed);
        }
    }
}

/// The contents of a restarted daemon.
struct Shown {
    /// The names in [`PLACES`].
    places: [HashSet<String>; 3],
    tokens: HashSet<String>,
}

impl Shown {
    fn by(daemon: &Daemon) -> Self {
        Self {
            places: PLACES.map(|place| unique(bodies(daemon, place))),
            tokens: unique(bodies(daemon, "tokens")),
        }
    }
}

impl Journal {
    /// Compares the restarted daemon's contents with the journal; then they become the known state.
    fn restarted(&mut self, shown: &Shown) {
        let Shown { places: [out, one, two], tokens } = shown;
        assert_eq!(out, one, "a transaction is half there");
        assert_eq!(out, two, "a transaction is half there");
        for (name, known) in &mut self.known {
            let is_there = out.contains(name);
            assert!(is_there || *known != Known::Committed, "{name} was answered as committed and is lost");
            assert!(!is_there || *known != Known::Gone, "{name} was never committed and is there");
            *known = if is_there { Known::Committed } else { Known::Gone };
        }
        assert_eq!(tokens.len(), usize::try_from(TOKENS).unwrap(), "a token was lost or made");
        for name in out {
            assert!(
                !tokens.contains(&self.consumed[name]),
                "{name} is there although the message that it completed is, too"
            );
        }
        let alien = tokens.iter().find(|token| !token.starts_with("first:") && !out.contains(*token));
        assert_eq!(alien, None, "a token of a transaction that is not there");
    }
}

fn unique(bodies: Vec<String>) -> HashSet<String> {
    let count = bodies.len();
    let set: HashSet<String> = bodies.into_iter().collect();
    assert_eq!(set.len(), count, "a message is there twice");
    set
}

mod auditing {
    use super::*;

    /// One transaction, `t`, that completed the first token.
    fn journal(known: Known) -> Journal {
        Journal {
            known: HashMap::from([("t".to_owned(), known)]),
            consumed: HashMap::from([("t".to_owned(), "first:0".to_owned())]),
        }
    }

    fn names(names: &[&str]) -> HashSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// The initial tokens without the first one, plus this one.
    fn tokens(instead: &str) -> HashSet<String> {
        (1..TOKENS).map(|number| format!("first:{number}")).chain([instead.to_owned()]).collect()
    }

    fn whole() -> Shown {
        Shown { places: [names(&["t"]), names(&["t"]), names(&["t"])], tokens: tokens("t") }
    }

    fn nothing() -> Shown {
        Shown { places: [names(&[]), names(&[]), names(&[])], tokens: tokens("first:0") }
    }

    #[test]
    fn a_transaction_without_an_answer_may_be_there_or_not() {
        journal(Known::Asked).restarted(&whole());
        journal(Known::Asked).restarted(&nothing());
    }

    #[test]
    #[should_panic(expected = "half there")]
    fn a_transaction_that_is_half_there_is_found_out() {
        let places = [names(&["t"]), names(&["t"]), names(&[])];
        journal(Known::Asked).restarted(&Shown { places, ..whole() });
    }

    #[test]
    #[should_panic(expected = "is lost")]
    fn a_committed_transaction_that_is_lost_is_found_out() {
        journal(Known::Committed).restarted(&nothing());
    }

    #[test]
    #[should_panic(expected = "never committed")]
    fn a_transaction_that_was_rolled_back_and_is_there_is_found_out() {
        journal(Known::Gone).restarted(&whole());
    }

    #[test]
    #[should_panic(expected = "a token of a transaction that is not there")]
    fn a_token_without_its_transaction_is_found_out() {
        journal(Known::Asked).restarted(&Shown { tokens: tokens("t"), ..nothing() });
    }

    #[test]
    #[should_panic(expected = "although the message that it completed is, too")]
    fn a_completion_that_is_missing_is_found_out() {
        journal(Known::Asked).restarted(&Shown { tokens: tokens("first:0"), ..whole() });
    }
}
