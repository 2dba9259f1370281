//! Processing of committed messages by entities: rules and actions, forwarding, quotas, time to live.

use peeklock_tests::client::Client;
use peeklock_tests::codec::{self, Value, code};
use peeklock_tests::daemon::Daemon;
use peeklock_tests::recorded::bodies;

use super::stage::{COORDINATOR, LINK, accepted, assert_accepted, assert_accepted_in, refused, text};

const CONFIG: &str = r#"
[[queues]]
name = "source"
[[queues]]
name = "small"
max_size_in_megabytes = 1
[[queues]]
name = "forwards"
forward_to = "target"
[[queues]]
name = "target"
[[topics]]
name = "ruled"
[[topics.subscriptions]]
name = "red"
rules = [{ name = "red", sql = "colour = 'red'", action = "SET seen = 'yes'" }]
[[topics.subscriptions]]
name = "none"
rules = []
[[topics.subscriptions]]
name = "forwards"
forward_to = "target"
rules = [{ name = "blue", sql = "colour = 'blue'" }]
"#;

fn coloured(colour: &str) -> Vec<u8> {
    let properties = Value::Map(vec![(Value::string("colour"), Value::string(colour))]);
    [codec::section(code::APPLICATION_PROPERTIES, properties), text(colour)].concat()
}

/// A client with a link to the coordinator and, as [`LINK`], one that sends to an entity.
fn sending_to(daemon: &Daemon, entity: &str) -> Client {
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_coordinator(COORDINATOR).unwrap().unwrap();
    client.attach_sender(LINK, entity).unwrap().unwrap();
    client
}

/// Waits until an entity has these bodies, delivered by a forwarder.
fn await_bodies(daemon: &Daemon, entity: &str, expected: &[&str]) {
    let begun = std::time::Instant::now();
    while bodies(daemon, entity) != expected {
        let found = bodies(daemon, entity);
        assert!(
            begun.elapsed() < peeklock_tests::client::PATIENCE,
            "{entity} has {found:?}, not {expected:?}"
        );
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn rules_and_actions_work_on_messages_of_a_transaction() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut client = sending_to(&daemon, "ruled");
    for fail in [true, false] {
        let id = client.declare(COORDINATOR).unwrap();
        for colour in ["red", "blue", "green"] {
            assert_accepted_in(&client.send_in(LINK, &coloured(colour), &id).unwrap(), &id);
        }
        assert_accepted(&client.discharge(COORDINATOR, &id, fail).unwrap());
    }
    assert_eq!(bodies(&daemon, "ruled/Subscriptions/red"), ["red"]);
    assert_eq!(bodies(&daemon, "ruled/Subscriptions/none"), [""; 0]);
    await_bodies(&daemon, "target", &["blue"]);

    client.attach_receiver(LINK + 1, "ruled/Subscriptions/red", 1).unwrap().unwrap();
    let delivery = client.receive(LINK + 1).unwrap();
    let sections = codec::sections(&delivery.message);
    let application =
        sections.iter().find(|section| section.code() == Some(code::APPLICATION_PROPERTIES)).unwrap();
    assert_eq!(application.inner().get("seen").and_then(Value::text), Some("yes"));
    daemon.assert_sound();
}

#[test]
fn messages_of_a_transaction_are_forwarded_after_the_commit() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut client = sending_to(&daemon, "forwards");
    let id = client.declare(COORDINATOR).unwrap();
    client.send_in(LINK, &text("a"), &id).unwrap();
    client.send_in(LINK, &text("b"), &id).unwrap();
    assert_eq!(bodies(&daemon, "target"), [""; 0]);
    assert_accepted(&client.discharge(COORDINATOR, &id, false).unwrap());
    await_bodies(&daemon, "target", &["a", "b"]);
    assert_eq!(bodies(&daemon, "forwards"), [""; 0]);
    daemon.assert_sound();
}

/// Body size of [`large`] in bytes: once the queue `small` has many messages, one more exceeds its limit.
const LARGE_BYTES: usize = 50_000;

fn large() -> Vec<u8> {
    text(&"x".repeat(LARGE_BYTES))
}

/// Sends to the queue `small` until it is full.
fn fill_up(client: &mut Client) {
    while client.send(LINK, &large()).unwrap().code() == Some(code::ACCEPTED) {}
}

#[test]
fn a_full_queue_fails_a_transaction_as_a_whole_and_takes_its_completions() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut client = sending_to(&daemon, "small");
    fill_up(&mut client);
    let before = bodies(&daemon, "small").len();
    client.attach_receiver(LINK + 1, "small", 1).unwrap().unwrap();
    let delivery = client.receive(LINK + 1).unwrap();
    let id = client.declare(COORDINATOR).unwrap();
    assert_eq!(refused(&client.send_in(LINK, &large(), &id).unwrap()), "amqp:resource-limit-exceeded");
    refused(&client.discharge(COORDINATOR, &id, false).unwrap());
    assert_eq!(bodies(&daemon, "small").len(), before);

    let id = client.declare(COORDINATOR).unwrap();
    assert_accepted_in(&client.settle_in(delivery.id, &id, accepted()).unwrap(), &id);
    assert_accepted(&client.discharge(COORDINATOR, &id, false).unwrap());
    assert_eq!(bodies(&daemon, "small").len(), before - 1);
    daemon.assert_sound();
}

#[test]
fn messages_that_fit_one_by_one_and_not_together_are_stored_as_a_whole_or_not_at_all() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut client = sending_to(&daemon, "small");
    let id = client.declare(COORDINATOR).unwrap();
    let count = 30;
    for _ in 0..count {
        assert_accepted_in(&client.send_in(LINK, &large(), &id).unwrap(), &id);
    }
    let outcome = client.discharge(COORDINATOR, &id, false).unwrap();
    let stored = bodies(&daemon, "small").len();
    let is_committed = outcome.code() == Some(code::ACCEPTED);
    assert_eq!(stored, if is_committed { count } else { 0 }, "{outcome:?}");
    daemon.assert_sound();
}

#[test]
fn a_full_destination_makes_transfer_dead_letters() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut plain = sending_to(&daemon, "small");
    fill_up(&mut plain);
    let before = bodies(&daemon, "small").len();

    let mut client = sending_to(&daemon, "source");
    client.attach_sender(LINK + 1, "small").unwrap().unwrap();
    let id = client.declare(COORDINATOR).unwrap();
    assert_accepted_in(&client.send_in(LINK, &text("kept"), &id).unwrap(), &id);
    assert_accepted_in(&client.send_in(LINK + 1, &large(), &id).unwrap(), &id);
    assert_accepted(&client.discharge(COORDINATOR, &id, false).unwrap());
    assert_eq!(bodies(&daemon, "source"), ["kept"]);
    assert_eq!(bodies(&daemon, "small").len(), before);
    assert_eq!(bodies(&daemon, "source/$Transfer/$DeadLetterQueue"), ["x".repeat(LARGE_BYTES)]);
    daemon.assert_sound();
}
