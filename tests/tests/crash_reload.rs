//! Repeated SIGKILL while the daemon applies a changed configuration under load: the store can be opened at the next
//! start, nothing accepted is lost, nothing completed comes back, and no two entities share stored data.
//! `PEEKLOCK_TEST_SEED` repeats the times of the kills.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests, outside #[test].

use std::collections::BTreeMap;
use std::time::Duration;

use peeklock_tests::client::Client;
use peeklock_tests::codec::{code, data_message};
use peeklock_tests::daemon::Daemon;
use peeklock_tests::load::{CONFIG, Journal, run_until_killed_after, shown};
use peeklock_tests::seed;
use rand::RngExt;

const ROUNDS: u32 = 20;
/// Queues that each new configuration adds.
const ADDED: u32 = 25;
/// Longest wait between the signal and the kill: about as long as a reload takes.
const RELOAD_US_MAX: u64 = 40_000;

/// The configuration of a round: other options for the loaded entities, more queues, another subscription.
fn config(round: u32) -> String {
    let options = format!("max_delivery_count = {}\nlock_duration = \"PT{}S\"\n", 1_000 + round, 60 + round);
    let mut config = CONFIG.replace("name = \"load\"\n", &format!("name = \"load\"\n{options}"));
    config = config.replace("name = \"one\"\n", &format!("name = \"one\"\n{options}"));
    for added in 1..=round.div_ceil(4) {
        config += &format!("[[topics.subscriptions]]\nname = \"extra-{added}\"\nlock_duration = \"PT10S\"\n");
    }
    for number in 0..round * ADDED {
        config += &format!("[[queues]]\nname = \"{}\"\n", added_name(number));
    }
    config
}

fn added_name(number: u32) -> String {
    format!("added-{number}")
}

/// Sends to a queue added by a configuration, and records the message.
fn send(daemon: &Daemon, queue: &str, sent: &mut BTreeMap<String, Vec<String>>) {
    let messages = sent.entry(queue.to_owned()).or_default();
    let name = format!("{queue}:{}", messages.len());
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_sender(0, queue).unwrap().expect("the configured queue exists");
    let outcome = client.send(0, &data_message(name.as_bytes())).unwrap();
    assert_eq!(outcome.code(), Some(code::ACCEPTED));
    messages.push(name);
}

#[test]
fn nothing_is_lost_when_the_daemon_is_killed_while_it_reloads() {
    let mut random = seed::generator();
    let mut daemon = Daemon::with_config(&config(0));
    let mut journal = Journal::default();
    let mut sent: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for round in 1..=ROUNDS {
        let answers = random.random_range(50..600);
        let moment = Duration::from_micros(random.random_range(0..RELOAD_US_MAX));
        journal = run_until_killed_after(&mut daemon, journal, round, answers, |daemon| {
            daemon.set_config(&config(round));
            daemon.reload();
            std::thread::sleep(moment);
        });
        daemon.start();
        daemon.assert_sound();
        journal.restarted(daemon.amqp());
        for (queue, messages) in &sent {
            let found: Vec<String> = shown(daemon.amqp(), queue).into_iter().map(|(name, _)| name).collect();
            assert_eq!(found, *messages, "{queue}");
        }
        for number in [round * ADDED - 1, random.random_range(0..round * ADDED)] {
            send(&daemon, &added_name(number), &mut sent);
        }
        println!("round {round}: killed {moment:?} after the signal, stored: {:?}", journal.stored());
    }
    let log = daemon.log();
    let (begun, ended) = (log.matches("SIGHUP").count(), log.matches("reloaded;").count());
    println!("{begun} reloads begun, {ended} of them ended before the kill");
    assert!(begun > 0, "no signal arrived before its kill");
    journal.drain(daemon.amqp());
    journal.restarted(daemon.amqp());
    assert!(journal.stored().values().all(|stored| *stored == 0));
}
