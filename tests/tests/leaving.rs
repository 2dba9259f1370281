//! Messages on their way to a peer that does not accept them: those not sent yet remain available to others.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // Helpers of tests, outside #[test].

use peeklock_tests::client::{Client, Frame};
use peeklock_tests::codec::{self, Value, code, data_message};
use peeklock_tests::daemon::Daemon;

/// Grants credit for a receiver that accepts this many transfer frames.
fn ask(client: &mut Client, handle: u32, window: u32, credit: u32) {
    let flow = vec![
        Value::Uint(0),
        Value::Uint(window),
        Value::Uint(0),
        Value::Uint(i32::MAX.unsigned_abs()),
        Value::Uint(handle),
        Value::Uint(0),
        Value::Uint(credit),
    ];
    client.say(&Value::composite(code::FLOW, flow)).unwrap();
}

fn fill(daemon: &Daemon, queue: &str, messages: usize, body_bytes: usize) {
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_sender(0, queue).unwrap().unwrap();
    let message = data_message(&vec![7; body_bytes]);
    let (mut sent, mut settled) = (0, 0);
    while settled < messages {
        while sent < messages && sent < settled + 100 {
            client.transfer(0, &message, 0).unwrap();
            sent += 1;
        }
        let (first, last, _) = client.any_outcome(true).unwrap();
        settled += usize::try_from(last - first + 1).unwrap();
    }
}

fn stored(daemon: &Daemon, queue: &str) -> usize {
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_management(0, queue).unwrap();
    client.browse(0).unwrap().len()
}

/// Detaches properly and counts the deliveries that arrive before the answer.
fn detach(client: &mut Client, handle: u32) -> usize {
    client.say(&Value::composite(code::DETACH, vec![Value::Uint(handle), Value::Bool(true)])).unwrap();
    let mut deliveries = 0;
    let is_last = |frame: &Frame| frame.is(code::TRANSFER) && *frame.field(5) != Value::Bool(true);
    client
        .wait(|frame| {
            deliveries += usize::from(is_last(frame));
            frame.is(code::DETACH).then_some(())
        })
        .unwrap();
    deliveries
}

#[test]
fn messages_to_be_deleted_that_the_window_did_not_let_out_are_still_there() {
    const MESSAGES: usize = 3_000;
    let mut daemon = Daemon::with_queues(&["queue"]);
    fill(&daemon, "queue", MESSAGES, 10);
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_unlocked(0, "queue", 0).unwrap();
    ask(&mut client, 0, 1, 3_000);
    client.receive(0).unwrap();
    assert_eq!(detach(&mut client, 0), 0, "the window is closed");
    assert_eq!(stored(&daemon, "queue"), MESSAGES - 1);
    daemon.assert_sound();
}

#[test]
fn messages_to_be_deleted_that_a_blocked_socket_did_not_take_are_still_there() {
    const MESSAGES: usize = 200;
    let mut daemon = Daemon::with_queues(&["queue"]);
    fill(&daemon, "queue", MESSAGES, 100 << 10);
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_unlocked(0, "queue", 300).unwrap();
    let mut before = MESSAGES;
    // Until no more messages are sent because the buffers are full.
    loop {
        let now = stored(&daemon, "queue");
        if now == before && now < MESSAGES {
            break;
        }
        before = now;
    }
    let received = detach(&mut client, 0);
    assert!(received < MESSAGES, "{received} fit into buffers");
    assert_eq!(received + stored(&daemon, "queue"), MESSAGES, "{received} left");
    daemon.assert_sound();
}

const HEADER: u64 = 0x70;

/// The delivery count in the header of a message.
fn delivery_count(message: &[u8]) -> i64 {
    let sections = codec::sections(message);
    let header = sections.iter().find(|section| section.code() == Some(HEADER)).unwrap();
    header.field(4).integer().unwrap_or(0)
}

#[test]
fn messages_that_the_window_did_not_let_out_are_others_before_their_locks_end_and_no_failed_deliveries() {
    const MESSAGES: usize = 20;
    let config = "[[queues]]\nname = \"queue\"\nlock_duration = \"PT5S\"\nmax_delivery_count = 1";
    let mut daemon = Daemon::with_config(config);
    fill(&daemon, "queue", MESSAGES, 10);
    let mut slow = Client::connect(daemon.amqp()).unwrap();
    slow.attach_receiver(0, "queue", 0).unwrap().unwrap();
    ask(&mut slow, 0, 1, 100);
    let first = slow.receive(0).unwrap();
    slow.complete(first.id).unwrap();
    let mut other = Client::connect(daemon.amqp()).unwrap();
    other.attach_receiver(0, "queue", 100).unwrap().unwrap();
    for _ in 1..MESSAGES {
        let delivery = other.receive(0).unwrap();
        assert_eq!(delivery_count(&delivery.message), 0);
        other.complete(delivery.id).unwrap();
    }
    assert_eq!((stored(&daemon, "queue"), stored(&daemon, "queue/$DeadLetterQueue")), (0, 0));
    daemon.assert_sound();
}
