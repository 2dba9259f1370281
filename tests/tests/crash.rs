//! Repeated SIGKILL during load on a queue, a topic and sessions: nothing accepted is lost, nothing completed comes
//! back, every sequence number is assigned once and in increasing order; a message of a topic is in all subscriptions
//! or in none; a session is in order and keeps its state. `PEEKLOCK_TEST_SEED` repeats the times of the kills.

use peeklock_tests::daemon::Daemon;
use peeklock_tests::load::{CONFIG, Journal, run_until_killed};
use peeklock_tests::seed;
use rand::RngExt;

const ROUNDS: u32 = 20;

#[test]
fn nothing_accepted_is_lost_and_nothing_completed_returns_over_twenty_kills() {
    let mut random = seed::generator();
    let mut daemon = Daemon::with_config(CONFIG);
    let mut journal = Journal::default();
    for round in 0..ROUNDS {
        let answers = random.random_range(50..1_500);
        journal = run_until_killed(&mut daemon, journal, round, answers);
        daemon.start();
        daemon.assert_sound();
        journal.restarted(daemon.amqp());
        println!("round {round}: killed after {answers} answers, stored: {:?}", journal.stored());
    }
    assert!(
        journal.stored().values().all(|stored| *stored > 0),
        "the load is meant to leave messages behind"
    );
    journal.drain(daemon.amqp());
    journal.restarted(daemon.amqp());
    assert!(journal.stored().values().all(|stored| *stored == 0));
}
