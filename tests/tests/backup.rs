//! Backups of a broker under load, with SIGKILL of the command or of the broker meanwhile: the broker's data is not
//! affected, and each complete backup restores to a state that the broker had after the command began.
//! `PEEKLOCK_TEST_SEED` repeats the times of the kills.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // Helpers of tests, outside #[test].

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use peeklock_tests::client::{Client, body};
use peeklock_tests::codec::{Value, code, data_message};
use peeklock_tests::daemon::{Daemon, command};
use peeklock_tests::seed;
use rand::RngExt;
use rand::rngs::StdRng;

const ROUNDS: u32 = 12;
/// Most unanswered sends of each producer, and unsettled deliveries of each consumer.
const WINDOW: u32 = 32;
/// Longest wait before a kill, for a backup that links and for one that copies slowly.
const LINKING_MS_MAX: u64 = 250;
const COPYING_MS_MAX: u64 = 1_000;

/// Targets of producers, and the entities in which their messages arrive.
const TARGETS: [(&str, &[&str]); 2] = [("load", &["load"]), ("news", &SUBSCRIPTIONS)];
const SUBSCRIPTIONS: [&str; 2] = ["news/Subscriptions/one", "news/Subscriptions/two"];
const PLACES: [&str; 3] = ["load", SUBSCRIPTIONS[0], SUBSCRIPTIONS[1]];

const CONFIG: &str = r#"
[storage]
segment_size = "1 MiB"
reserve = "1 MiB"
[[queues]]
name = "load"
[[topics]]
name = "news"
[[topics.subscriptions]]
name = "one"
[[topics.subscriptions]]
name = "two"
"#;

/// The known state of the messages in one entity, by name.
#[derive(Debug, Clone, Default)]
struct Known {
    asked: HashSet<String>,
    accepted: HashSet<String>,
    completing: HashSet<String>,
    completed: HashSet<String>,
}

type Journal = HashMap<&'static str, Known>;

/// State shared by the threads of a round.
struct Load {
    address: SocketAddr,
    round: u32,
    journal: Mutex<Journal>,
    answers: AtomicU64,
}

/// The process killed during a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Nobody,
    Command,
    Broker,
}

#[test]
fn backups_under_load_are_complete_or_refused_after_a_kill_of_either_side() {
    let mut random = seed::generator();
    let mut daemon = Daemon::with_config(CONFIG);
    let mut journal = Journal::default();
    let mut complete = 0;
    for round in 0..ROUNDS {
        let victim = [Victim::Nobody, Victim::Command, Victim::Broker][round as usize % 3];
        let target = tempfile::tempdir().unwrap();
        let target = target.path().join("backup");
        let (before, after) =
            run_round(&mut daemon, std::mem::take(&mut journal), round, victim, &target, &mut random);
        let is_complete = target.join("BACKUP").exists();
        assert!(is_complete || victim != Victim::Nobody, "an undisturbed backup failed: {}", daemon.log());
        if is_complete {
            complete += 1;
            let mut restored = Daemon::stopped(CONFIG);
            restore(&target, &restored.data_directory());
            restored.start();
            check(restored.amqp(), &before, &after);
        } else {
            refuse(&target);
        }
        daemon.start();
        daemon.assert_sound();
        check(daemon.amqp(), &after, &after);
        println!("round {round}: {victim:?} killed, backup complete: {is_complete}");
        journal = after;
    }
    assert!(complete >= ROUNDS / 3);
}

/// Runs the load, makes a backup meanwhile, kills according to `victim`, and finally always the broker. Returns the
/// journal at the start of the command, and at the end.
fn run_round(
    daemon: &mut Daemon,
    journal: Journal,
    round: u32,
    victim: Victim,
    target: &Path,
    random: &mut StdRng,
) -> (Journal, Journal) {
    let load = Arc::new(Load {
        address: daemon.amqp(),
        round,
        journal: Mutex::new(journal),
        answers: AtomicU64::new(0),
    });
    let mut threads: Vec<JoinHandle<io::Error>> = Vec::new();
    for (target, places) in TARGETS {
        let load = Arc::clone(&load);
        threads.push(std::thread::spawn(move || load.produce(target, places).unwrap_err()));
    }
    for place in PLACES {
        let load = Arc::clone(&load);
        threads.push(std::thread::spawn(move || load.consume(place).unwrap_err()));
    }
    let answers = random.random_range(300..900);
    while load.answers.load(Ordering::Relaxed) < answers {
        assert!(!threads.iter().any(JoinHandle::is_finished), "a client failed before the kill");
        std::thread::yield_now();
    }
    let before = load.journal.lock().unwrap().clone();
    let is_slow = random.random_bool(0.5);
    let mut backup = begin(&daemon.data_directory(), target, is_slow && victim != Victim::Nobody);
    let ms_max = if is_slow { COPYING_MS_MAX } else { LINKING_MS_MAX };
    let moment = Duration::from_millis(random.random_range(0..ms_max));
    match victim {
        Victim::Nobody => assert!(backup.wait().unwrap().success(), "{}", daemon.log()),
        Victim::Command => {
            std::thread::sleep(moment);
            backup.kill().unwrap();
        }
        Victim::Broker => std::thread::sleep(moment),
    }
    daemon.kill();
    backup.wait().unwrap();
    for thread in threads {
        thread.join().expect("the clients' checks hold");
    }
    let load = Arc::into_inner(load).expect("the threads have ended");
    (before, load.journal.into_inner().unwrap())
}

fn begin(data: &Path, target: &Path, is_slow: bool) -> Child {
    let mut command = command();
    command.args(["store", "backup", "--data-dir"]).arg(data).arg(target);
    if is_slow {
        command.args(["--copy", "--rate", "4 MiB"]);
    }
    command.stdout(Stdio::null()).spawn().unwrap()
}

fn restore(backup: &Path, data: &Path) {
    let restored = command().args(["store", "restore", "--data-dir"]).arg(data).arg(backup).output().unwrap();
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
}

/// Asserts that the files of an interrupted backup are not accepted as a backup.
fn refuse(backup: &Path) {
    let nowhere = backup.with_file_name("nowhere");
    let refused =
        command().args(["store", "restore", "--data-dir"]).arg(&nowhere).arg(backup).output().unwrap();
    assert!(!refused.status.success());
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("no complete backup"), "{text}");
    assert!(!nowhere.exists());
}

/// Compares the broker's messages with the journals from before and after the backup.
fn check(address: SocketAddr, before: &Journal, after: &Journal) {
    let mut all = HashMap::new();
    for place in PLACES {
        let shown = shown(address, place);
        let (before, after) = (&before[place], &after[place]);
        for name in before.accepted.difference(&after.completing) {
            assert!(shown.contains(name), "{place}: {name} was accepted, never completed, and is lost");
        }
        for name in &shown {
            assert!(after.asked.contains(name), "{place}: {name} was never sent");
            assert!(!before.completed.contains(name), "{place}: {name} was completed and is back");
        }
        all.insert(place, shown);
    }
    let [one, two] = SUBSCRIPTIONS.map(|place| (&all[place], &after[place].completing));
    for ((shown, _), (other, completing)) in [(one, two), (two, one)] {
        for name in shown.difference(other) {
            assert!(
                completing.contains(name),
                "{name} is in one subscription only and was completed nowhere"
            );
        }
    }
}

impl Load {
    fn note(&self, place: &'static str, note: impl FnOnce(&mut Known)) {
        note(self.journal.lock().unwrap().entry(place).or_default());
    }

    /// Sends repeatedly, a window at a time; returns only with the error of a cut connection.
    fn produce(&self, target: &str, places: &'static [&'static str]) -> io::Result<()> {
        let mut client = Client::connect(self.address)?;
        client.attach_sender(0, target)?.expect("the configured queue exists");
        let mut in_flight: HashMap<u32, String> = HashMap::new();
        for count in 0..usize::MAX {
            let name = format!("{}:{target}:{count}", self.round);
            for place in places {
                self.note(place, |known| {
                    known.asked.insert(name.clone());
                });
            }
            in_flight.insert(client.transfer(0, &message(&name, count), 0)?, name);
            while in_flight.len() >= WINDOW as usize {
                let (first, last, state) = client.any_outcome(true)?;
                assert_eq!(state.code(), Some(code::ACCEPTED), "{state:?}");
                for id in first..=last {
                    let name = in_flight.remove(&id).expect("an outcome for a message in flight");
                    for place in places {
                        self.note(place, |known| {
                            known.accepted.insert(name.clone());
                        });
                    }
                    self.answers.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    /// Receives repeatedly and completes most messages; returns only with the error of a cut connection.
    fn consume(&self, place: &'static str) -> io::Result<()> {
        let mut client = Client::connect(self.address)?;
        client.attach_receiver(0, place, WINDOW)?.expect("the configured queue exists");
        let mut completing: HashMap<u32, String> = HashMap::new();
        for count in 1_u32.. {
            let delivery = client.receive(0)?;
            let name = name(&delivery.message);
            if count % 9 != 0 {
                self.note(place, |known| {
                    known.completing.insert(name.clone());
                });
                client.dispose(delivery.id, delivery.id, Value::composite(code::ACCEPTED, Vec::new()))?;
                completing.insert(delivery.id, name);
            }
            while completing.len() >= WINDOW as usize / 2 {
                let (first, last, state) = client.any_outcome(false)?;
                assert_eq!(state.code(), Some(code::ACCEPTED), "{state:?}");
                for id in first..=last {
                    let name = completing.remove(&id).expect("an outcome for a completion in flight");
                    self.note(place, |known| {
                        known.completed.insert(name);
                    });
                    self.answers.fetch_add(1, Ordering::Relaxed);
                }
            }
            client.grant(0, WINDOW)?;
        }
        Ok(())
    }
}

/// A message that begins with its name, large enough to fill segments soon.
fn message(name: &str, count: usize) -> Vec<u8> {
    let padding = if count.is_multiple_of(3) { 8_000 } else { 400 };
    data_message(format!("{name} {}", "x".repeat(padding)).as_bytes())
}

/// Names of all messages in an entity, by browsing.
fn shown(address: SocketAddr, place: &str) -> HashSet<String> {
    let mut client = Client::connect(address).unwrap();
    client.attach_management(0, place).unwrap();
    client.browse(0).unwrap().iter().map(|message| name(message)).collect()
}

fn name(message: &[u8]) -> String {
    let body = String::from_utf8(body(message)).unwrap();
    body.split(' ').next().unwrap_or_default().to_owned()
}
