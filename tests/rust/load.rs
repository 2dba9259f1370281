//! Load on a queue, a topic and sessions until the daemon is killed, and verification of the result: nothing accepted
//! is lost, nothing completed comes back, every sequence number is assigned once and in increasing order; a message of
//! a topic is in all subscriptions or in none; a session is in order and keeps its state.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use crate::audit::Audit;
use crate::client::{Client, body, sequence_number};
use crate::codec::{Value, code, data_message};
use crate::daemon::Daemon;
use crate::session_audit::SessionAudit;

/// Most unanswered sends of each producer, and unsettled deliveries of each consumer.
const WINDOW: u32 = 32;
/// A holder sets the state of its session after this many messages.
const MESSAGES_PER_STATE: u32 = 8;

const QUEUE: &str = "load";
const SUBSCRIPTIONS: [&str; 2] = ["news/Subscriptions/one", "news/Subscriptions/two"];
const BASKETS: &str = "baskets";
const SESSIONS: [&str; 2] = ["red", "blue"];

/// Targets of producers, and the entities in which their messages arrive.
const TARGETS: [(&str, &[&str]); 4] =
    [(QUEUE, &[QUEUE]), (QUEUE, &[QUEUE]), ("news", &SUBSCRIPTIONS), (BASKETS, &[BASKETS])];
/// Sources of consumers, and the session if there is one.
const SOURCES: [(&str, Option<&str>); 6] = [
    (QUEUE, None),
    (QUEUE, None),
    (SUBSCRIPTIONS[0], None),
    (SUBSCRIPTIONS[1], None),
    (BASKETS, Some(SESSIONS[0])),
    (BASKETS, Some(SESSIONS[1])),
];

/// Declares the entities of the load.
pub const CONFIG: &str = r#"
[[queues]]
name = "load"
[[queues]]
name = "baskets"
requires_session = true
lock_duration = "PT5M"
[[topics]]
name = "news"
[[topics.subscriptions]]
name = "one"
[[topics.subscriptions]]
name = "two"
"#;

/// The known state of all messages, over all rounds.
#[derive(Debug, Default)]
pub struct Journal {
    places: HashMap<&'static str, Audit>,
    sessions: HashMap<&'static str, SessionAudit>,
}

/// State shared by the threads of a round.
struct Load {
    address: SocketAddr,
    round: u32,
    journal: Mutex<Journal>,
    answers: AtomicU64,
}

/// Runs the load until the daemon has given `answers` answers, kills it meanwhile, and returns the journal.
pub fn run_until_killed(daemon: &mut Daemon, journal: Journal, round: u32, answers: u64) -> Journal {
    run_until_killed_after(daemon, journal, round, answers, |_| ())
}

/// Like [`run_until_killed`], with a call of `before_kill` after the last of these answers, while the load continues.
pub fn run_until_killed_after(
    daemon: &mut Daemon,
    journal: Journal,
    round: u32,
    answers: u64,
    before_kill: impl FnOnce(&mut Daemon),
) -> Journal {
    let load = Arc::new(Load {
        address: daemon.amqp(),
        round,
        journal: Mutex::new(journal),
        answers: AtomicU64::new(0),
    });
    let mut threads: Vec<JoinHandle<io::Error>> = Vec::new();
    for (number, (target, places)) in TARGETS.into_iter().enumerate() {
        let load = Arc::clone(&load);
        threads.push(std::thread::spawn(move || load.produce(number, target, places).unwrap_err()));
    }
    for (place, session) in SOURCES {
        let load = Arc::clone(&load);
        threads.push(std::thread::spawn(move || load.consume(place, session).unwrap_err()));
    }
    while load.answers.load(Ordering::Relaxed) < answers {
        assert!(!threads.iter().any(JoinHandle::is_finished), "a client failed before the kill");
        std::thread::yield_now();
    }
    before_kill(daemon);
    daemon.kill();
    for thread in threads {
        thread.join().expect("the journal holds");
    }
    let load = Arc::into_inner(load).expect("the threads have ended");
    load.journal.into_inner().unwrap()
}

impl Load {
    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap()
    }

    /// Sends repeatedly, a window at a time; returns only with the error of a cut connection.
    fn produce(&self, number: usize, target: &str, places: &'static [&'static str]) -> io::Result<()> {
        let mut client = Client::connect(self.address)?;
        client.attach_sender(0, target)?.expect("the configured queue exists");
        let mut in_flight: HashMap<u32, String> = HashMap::new();
        for count in 0..usize::MAX {
            let session = SESSIONS[count % SESSIONS.len()];
            let name = format!("{}:{number}:{count}:{session}", self.round);
            places.iter().for_each(|place| self.journal().place(place).asked(&name));
            in_flight.insert(client.transfer(0, &message(&name, session, count), 0)?, name);
            while in_flight.len() >= WINDOW as usize {
                let (first, last, state) = client.any_outcome(true)?;
                assert_eq!(state.code(), Some(code::ACCEPTED), "{state:?}");
                for id in first..=last {
                    let name = in_flight.remove(&id).expect("an outcome for a message in flight");
                    places.iter().for_each(|place| self.journal().place(place).accepted(&name));
                    self.answers.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    /// Receives repeatedly and completes most messages; returns only with the error of a cut connection.
    fn consume(&self, place: &'static str, session: Option<&'static str>) -> io::Result<()> {
        let mut client = Client::connect(self.address)?;
        attach(&mut client, place, session)?;
        if let Some(session) = session {
            client.attach_management(1, place)?;
            self.journal().session(session).shown(state(&mut client, session)?.as_deref());
        }
        let mut completing: HashMap<u32, String> = HashMap::new();
        for count in 1_u32.. {
            let delivery = client.receive(0)?;
            let name = name(&delivery.message);
            self.journal().delivered(place, session, &name, delivery.sequence_number());
            if count % 5 != 0 {
                self.journal().place(place).completing(&name);
                client.dispose(delivery.id, delivery.id, Value::composite(code::ACCEPTED, Vec::new()))?;
                completing.insert(delivery.id, name);
            }
            while completing.len() >= WINDOW as usize / 2 {
                let (first, last, state) = client.any_outcome(false)?;
                assert_eq!(state.code(), Some(code::ACCEPTED), "{state:?}");
                for id in first..=last {
                    let name = completing.remove(&id).expect("an outcome for a completion in flight");
                    self.journal().place(place).completed(&name);
                    self.answers.fetch_add(1, Ordering::Relaxed);
                }
            }
            if let Some(session) = session.filter(|_| count % MESSAGES_PER_STATE == 0) {
                self.set_state(&mut client, session, &format!("{}:{count}", self.round))?;
            }
            client.grant(0, WINDOW)?;
        }
        Ok(())
    }

    fn set_state(&self, client: &mut Client, session: &'static str, state: &str) -> io::Result<()> {
        self.journal().session(session).setting(state.as_bytes());
        let state = Value::Binary(state.as_bytes().to_vec());
        let body = vec![
            (Value::string("session-id"), Value::string(session)),
            (Value::string("session-state"), state),
        ];
        let (status, _) = client.request(1, "com.microsoft:set-session-state", Value::Map(body))?;
        assert_eq!(status, 200);
        self.journal().session(session).set();
        self.answers.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl Journal {
    fn place(&mut self, place: &'static str) -> &mut Audit {
        self.places.entry(place).or_default()
    }

    fn session(&mut self, session: &'static str) -> &mut SessionAudit {
        self.sessions.entry(session).or_default()
    }

    fn delivered(&mut self, place: &'static str, session: Option<&'static str>, name: &str, number: i64) {
        self.place(place).delivered(name, number);
        if let Some(session) = session {
            assert!(name.ends_with(session), "{name} is not of the session {session}");
            self.session(session).delivered(name, number);
        }
        // A message in one subscription must be in all of them.
        if SUBSCRIPTIONS.contains(&place) {
            SUBSCRIPTIONS.into_iter().for_each(|other| self.place(other).accepted(name));
        }
    }

    /// Compares the restarted daemon's messages with the journal.
    pub fn restarted(&mut self, address: SocketAddr) {
        let [one, two] = SUBSCRIPTIONS.map(|place| self.place(place).in_doubt());
        let in_doubt: HashSet<String> = one.intersection(&two).cloned().collect();
        let mut published = Vec::new();
        for (place, audit) in &mut self.places {
            let shown = shown(address, place);
            audit.restarted(&shown);
            let names = || shown.iter().map(|(name, _)| name.clone());
            if SUBSCRIPTIONS.contains(place) {
                published.push(names().filter(|name| in_doubt.contains(name)).collect::<HashSet<_>>());
            }
            if *place == BASKETS {
                for session in SESSIONS {
                    let audit = self.sessions.entry(session).or_default();
                    audit.restarted(names().filter(|name| name.ends_with(session)));
                }
            }
        }
        assert_eq!(published[0], published[1], "a message is in all subscriptions or in none");
    }

    /// Number of messages that each entity must contain.
    pub fn stored(&self) -> HashMap<&'static str, usize> {
        self.places.iter().map(|(place, audit)| (*place, audit.stored())).collect()
    }

    /// Receives and completes all messages that must exist.
    pub fn drain(&mut self, address: SocketAddr) {
        // Two consumers of the queue would wait for each other's messages.
        for (place, session) in SOURCES.into_iter().skip(1) {
            let mut client = Client::connect(address).unwrap();
            attach(&mut client, place, session).unwrap();
            let shown = shown(address, place);
            let count = shown.iter().filter(|(name, _)| session.is_none_or(|id| name.ends_with(id))).count();
            for _ in 0..count {
                let delivery = client.receive(0).unwrap();
                let name = name(&delivery.message);
                self.delivered(place, session, &name, delivery.sequence_number());
                assert_eq!(client.complete(delivery.id).unwrap().code(), Some(code::ACCEPTED));
                self.place(place).completed(&name);
                client.grant(0, WINDOW).unwrap();
            }
        }
    }
}

/// A message that begins with its name. Every seventh is large enough to span several blocks of the log.
fn message(name: &str, session: &str, count: usize) -> Vec<u8> {
    let mut properties = vec![Value::Null; 10];
    properties.push(Value::string(session));
    let padding = if count.is_multiple_of(7) { 20_000 } else { 200 };
    let data = data_message(format!("{name} {}", "x".repeat(padding)).as_bytes());
    [Value::composite(code::PROPERTIES, properties).encode(), data].concat()
}

fn attach(client: &mut Client, place: &str, session: Option<&str>) -> io::Result<()> {
    let attached = match session {
        Some(session) => client.attach_session(0, place, session, WINDOW)?,
        None => client.attach_receiver(0, place, WINDOW)?,
    };
    attached.expect("the configured queue exists");
    Ok(())
}

/// The state of a session held by this connection.
fn state(client: &mut Client, session: &str) -> io::Result<Option<Vec<u8>>> {
    let body = Value::Map(vec![(Value::string("session-id"), Value::string(session))]);
    let (status, answer) = client.request(1, "com.microsoft:get-session-state", body)?;
    assert_eq!(status, 200);
    match answer.get("session-state") {
        Some(Value::Binary(state)) => Ok(Some(state.clone())),
        Some(Value::Null) => Ok(None),
        other => panic!("no state but {other:?}"),
    }
}

/// Names and numbers of all messages in an entity, by browsing.
pub fn shown(address: SocketAddr, place: &str) -> Vec<(String, i64)> {
    let mut client = Client::connect(address).unwrap();
    client.attach_management(0, place).unwrap();
    let messages = client.browse(0).unwrap();
    messages.iter().map(|message| (name(message), sequence_number(message))).collect()
}

fn name(message: &[u8]) -> String {
    let body = String::from_utf8(body(message)).unwrap();
    body.split(' ').next().unwrap_or_default().to_owned()
}
