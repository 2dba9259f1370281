//! A message handler's transaction as made by NServiceBus by default (`SendsAtomicWithReceive`) with .NET's client: the
//! coordinator is attached first, then the receiver; batches, single and scheduled messages for other entities are sent
//! in the transaction that completes or dead-letters the message.

use peeklock_tests::client::{BATCH_FORMAT, Client, transactional};
use peeklock_tests::codec::{self, Value, code};
use peeklock_tests::daemon::Daemon;
use peeklock_tests::recorded::bodies;

use super::stage::{
    CONFIG, COORDINATOR, LINK, accepted, assert_accepted, assert_accepted_in, controller, fill, text,
};

const TO_TWO: u32 = LINK + 1;
const TO_TOPIC: u32 = LINK + 2;
const TO_ITSELF: u32 = LINK + 3;
const SUBSCRIPTION: &str = "topic/Subscriptions/all";

/// A client whose receiver was attached right after its coordinator, so that `one` is the root of its transactions.
fn handler(daemon: &Daemon) -> Client {
    let mut client = controller(daemon);
    client.attach_receiver(LINK, "one", 1).unwrap().unwrap();
    for (handle, entity) in [(TO_TWO, "two"), (TO_TOPIC, "topic"), (TO_ITSELF, "one")] {
        client.attach_sender(handle, entity).unwrap().unwrap();
    }
    client
}

/// A batch of two messages.
fn batch() -> Vec<u8> {
    ["a", "b"].iter().flat_map(|body| codec::section(code::DATA, Value::Binary(text(body)))).collect()
}

/// A message that becomes active in the year 2100: a delayed retry.
fn delayed(body: &str) -> Vec<u8> {
    let time = (Value::symbol("x-opt-scheduled-enqueue-time"), Value::Timestamp(4_102_444_800_000));
    [codec::section(code::MESSAGE_ANNOTATIONS, Value::Map(vec![time])), text(body)].concat()
}

/// Sends all messages of the handler in the transaction.
fn send_all(client: &mut Client, id: &[u8]) {
    let messages =
        [(TO_TWO, batch(), BATCH_FORMAT), (TO_TOPIC, text("event"), 0), (TO_ITSELF, delayed("retry"), 0)];
    for (handle, message, format) in messages {
        let state = transactional(id, None);
        let sent = client.transfer_in(handle, &message, format, false, state).unwrap();
        assert_accepted_in(&client.outcome(sent, true).unwrap(), id);
    }
}

fn dead_lettered() -> Value {
    let error = Value::composite(0x1d, vec![Value::symbol("com.microsoft:dead-letter")]);
    Value::composite(code::REJECTED, vec![error])
}

#[test]
fn sends_of_a_handler_and_its_settlement_are_atomic() {
    for (settlement, dead) in [(accepted(), &[][..]), (dead_lettered(), &["in"][..])] {
        let mut daemon = Daemon::with_config(CONFIG);
        fill(&daemon, &["in"]);
        let mut client = handler(&daemon);
        let delivery = client.receive(LINK).unwrap();
        for fail in [true, false] {
            let id = client.declare(COORDINATOR).unwrap();
            send_all(&mut client, &id);
            client.settle_in(delivery.id, &id, settlement.clone()).unwrap();
            assert_eq!(bodies(&daemon, "two"), [""; 0]);
            assert_eq!(bodies(&daemon, SUBSCRIPTION), [""; 0]);
            assert_eq!(bodies(&daemon, "one"), ["in"]);
            assert_accepted(&client.discharge(COORDINATOR, &id, fail).unwrap());
        }
        // Once each, although the first attempt was rolled back.
        assert_eq!(bodies(&daemon, "two"), ["a", "b"]);
        assert_eq!(bodies(&daemon, SUBSCRIPTION), ["event"]);
        assert_eq!(bodies(&daemon, "one"), ["retry"]);
        assert_eq!(bodies(&daemon, "one/$DeadLetterQueue"), dead);
        daemon.assert_sound();
    }
}

#[test]
fn a_handler_that_is_killed_before_the_commit_leaves_its_message_and_nothing_else() {
    let mut daemon = Daemon::with_config(CONFIG);
    fill(&daemon, &["in"]);
    let mut client = handler(&daemon);
    let delivery = client.receive(LINK).unwrap();
    let id = client.declare(COORDINATOR).unwrap();
    send_all(&mut client, &id);
    client.settle_in(delivery.id, &id, accepted()).unwrap();
    daemon.kill();
    daemon.start();
    assert_eq!(bodies(&daemon, "one"), ["in"]);
    assert_eq!(bodies(&daemon, "two"), [""; 0]);
    assert_eq!(bodies(&daemon, SUBSCRIPTION), [""; 0]);
    // The same handler continues.
    let mut client = handler(&daemon);
    let delivery = client.receive(LINK).unwrap();
    let id = client.declare(COORDINATOR).unwrap();
    send_all(&mut client, &id);
    client.settle_in(delivery.id, &id, accepted()).unwrap();
    assert_accepted(&client.discharge(COORDINATOR, &id, false).unwrap());
    assert_eq!(bodies(&daemon, "two"), ["a", "b"]);
    assert_eq!(bodies(&daemon, "one"), ["retry"]);
    daemon.assert_sound();
}
