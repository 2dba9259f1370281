//! Sends and settlements in transactions, answer by answer.

use peeklock_tests::client::{BATCH_FORMAT, Client, disposition, transactional};
use peeklock_tests::codec::{self, Value, code};
use peeklock_tests::daemon::Daemon;
use peeklock_tests::recorded::bodies;

use super::stage::{
    CONFIG, COORDINATOR, LINK, accepted, assert_accepted, assert_accepted_in, controller, fill, refused,
    sending, text,
};

/// A client with a link to the coordinator and, as [`LINK`], one that receives from the queue `one`.
fn receiving(daemon: &Daemon, credit: u32) -> Client {
    let mut client = controller(daemon);
    client.attach_receiver(LINK, "one", credit).unwrap().unwrap();
    client
}

/// The outcomes of settlements by the client library's names, with the expected answers.
fn outcomes() -> [(&'static str, Value, Value); 4] {
    let modified = |undeliverable| {
        Value::composite(code::MODIFIED, vec![Value::Null, Value::Bool(undeliverable), Value::Null])
    };
    let info = vec![(Value::symbol("DeadLetterReason"), Value::string("why"))];
    let error = vec![Value::symbol("com.microsoft:dead-letter"), Value::Null, Value::Map(info)];
    let error = Value::composite(0x1d, error);
    let rejected = |error| Value::composite(code::REJECTED, vec![error]);
    [
        ("complete", accepted(), accepted()),
        ("abandon", modified(false), modified(false)),
        ("defer", modified(true), modified(true)),
        ("dead-letter", rejected(error), rejected(Value::Null)),
    ]
}

#[test]
fn settlements_are_answered_unsettled_and_settled_by_the_commit_before_the_discharge() {
    for (name, outcome, answer) in outcomes() {
        let mut daemon = Daemon::with_config(CONFIG);
        fill(&daemon, &["a"]);
        let mut client = receiving(&daemon, 1);
        let delivery = client.receive(LINK).unwrap();
        let id = client.declare(COORDINATOR).unwrap();
        let provisional = client.settle_in(delivery.id, &id, outcome).unwrap();
        assert_eq!(*provisional.field(0), Value::Binary(id.clone()), "{name}");
        assert_eq!(provisional.field(1).code(), answer.code(), "{name}");
        // The error of a dead-lettering is not repeated: .NET would interpret it as a refusal.
        if answer.code() == Some(code::REJECTED) {
            assert_eq!(*provisional.field(1).field(0), Value::Null);
        }
        let discharge = client.discharge_later(COORDINATOR, &id, false).unwrap();
        let mut order = Vec::new();
        while order.last() != Some(&"discharged") {
            order.push(client.wait(|frame| step(frame, delivery.id, discharge)).unwrap());
        }
        assert_eq!(order, ["settled", "discharged"], "{name}");
        daemon.assert_sound();
    }
}

fn step(frame: &peeklock_tests::client::Frame, delivery: u32, discharge: u32) -> Option<&'static str> {
    if !frame.is(code::DISPOSITION) || *frame.field(3) != Value::Bool(true) {
        return None;
    }
    let covers = |id: u32| {
        let first = frame.field(1).integer().unwrap();
        (first..=frame.field(2).integer().unwrap_or(first)).contains(&i64::from(id))
    };
    match frame.field(0) {
        Value::Bool(true) if covers(discharge) => {
            assert_accepted(frame.field(4));
            Some("discharged")
        }
        Value::Bool(false) if covers(delivery) => Some("settled"),
        _ => None,
    }
}

#[test]
fn after_a_roll_back_the_same_delivery_is_settled_again() {
    for (name, outcome, _) in outcomes() {
        let mut daemon = Daemon::with_config(CONFIG);
        fill(&daemon, &["a"]);
        let mut client = receiving(&daemon, 1);
        let delivery = client.receive(LINK).unwrap();
        for _ in 0..3 {
            let id = client.declare(COORDINATOR).unwrap();
            let answer = client.settle_in(delivery.id, &id, outcome.clone()).unwrap();
            assert_eq!(*answer.field(0), Value::Binary(id.clone()), "{name}");
            assert_accepted(&client.discharge(COORDINATOR, &id, true).unwrap());
            assert_eq!(bodies(&daemon, "one"), ["a"], "{name}");
        }
        assert_accepted(&client.complete(delivery.id).unwrap());
        assert_eq!(bodies(&daemon, "one"), [""; 0], "{name}");
        daemon.assert_sound();
    }
}

#[test]
fn requests_after_an_unanswered_discharge_see_its_effect() {
    for fail in [true, false] {
        let mut daemon = Daemon::with_config(CONFIG);
        fill(&daemon, &["old"]);
        let mut client = receiving(&daemon, 1);
        client.attach_sender(LINK + 1, "one").unwrap().unwrap();
        client.attach_management(LINK + 2, "one").unwrap();
        let delivery = client.receive(LINK).unwrap();
        let id = client.declare(COORDINATOR).unwrap();
        client.send_in(LINK + 1, &text("new"), &id).unwrap();
        client.settle_in(delivery.id, &id, accepted()).unwrap();
        client.discharge_later(COORDINATOR, &id, fail).unwrap();
        let shown = client.browse(LINK + 2).unwrap();
        let shown: Vec<_> = shown.iter().map(|message| peeklock_tests::client::body(message)).collect();
        assert_eq!(shown, [if fail { b"old" } else { b"new" }]);
        daemon.assert_sound();
    }
}

#[test]
fn a_completion_right_behind_a_roll_back_is_taken() {
    let mut daemon = Daemon::with_config(CONFIG);
    fill(&daemon, &["a"]);
    let mut client = receiving(&daemon, 1);
    let delivery = client.receive(LINK).unwrap();
    let id = client.declare(COORDINATOR).unwrap();
    client.settle_in(delivery.id, &id, accepted()).unwrap();
    client.discharge_later(COORDINATOR, &id, true).unwrap();
    assert_accepted(&client.complete(delivery.id).unwrap());
    assert_eq!(bodies(&daemon, "one"), [""; 0]);
    daemon.assert_sound();
}

#[test]
fn work_and_its_discharge_may_be_sent_without_waiting_for_answers() {
    let mut daemon = Daemon::with_config(CONFIG);
    fill(&daemon, &["old"]);
    let mut client = receiving(&daemon, 1);
    client.attach_sender(LINK + 1, "one").unwrap().unwrap();
    let delivery = client.receive(LINK).unwrap();
    for fail in [true, false] {
        let id = client.declare(COORDINATOR).unwrap();
        for number in 0..20 {
            let message = text(&number.to_string());
            client.transfer_in(LINK + 1, &message, 0, false, transactional(&id, None)).unwrap();
        }
        let state = transactional(&id, Some(accepted()));
        client.say(&disposition(true, delivery.id, delivery.id, false, state)).unwrap();
        assert_accepted(&client.discharge(COORDINATOR, &id, fail).unwrap());
    }
    let expected: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    assert_eq!(bodies(&daemon, "one"), expected);
    daemon.assert_sound();
}

#[test]
fn batches_and_messages_of_many_frames_are_work_of_a_transaction() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut client = sending(&daemon);
    let batch: Vec<u8> = ["a", "b", "c"]
        .iter()
        .flat_map(|body| codec::section(code::DATA, Value::Binary(text(body))))
        .collect();
    let large = "x".repeat(100_000);
    for fail in [true, false] {
        let id = client.declare(COORDINATOR).unwrap();
        let state = || transactional(&id, None);
        let sent = client.transfer_in(LINK, &batch, BATCH_FORMAT, false, state()).unwrap();
        assert_accepted_in(&client.outcome(sent, true).unwrap(), &id);
        // Only the first frame has the state, as in the SDKs.
        let message = text(&large);
        let (first, second) = message.split_at(50_000);
        client.transfer_in(LINK, first, 0, true, state()).unwrap();
        let sent = client.transfer_in(LINK, second, 0, false, Value::Null).unwrap();
        assert_accepted_in(&client.outcome(sent, true).unwrap(), &id);
        assert_eq!(bodies(&daemon, "one"), [""; 0]);
        assert_accepted(&client.discharge(COORDINATOR, &id, fail).unwrap());
    }
    assert_eq!(bodies(&daemon, "one"), ["a", "b", "c", &large]);
    daemon.assert_sound();
}

#[test]
fn one_refused_message_makes_the_commit_fail_as_a_whole() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut client = controller(&daemon);
    client.attach_sender(LINK, "sessions").unwrap().unwrap();
    let in_session = |body: &str| {
        let mut properties = vec![Value::Null; 10];
        properties.push(Value::string("s"));
        [Value::composite(code::PROPERTIES, properties).encode(), text(body)].concat()
    };
    let id = client.declare(COORDINATOR).unwrap();
    assert_accepted_in(&client.send_in(LINK, &in_session("good"), &id).unwrap(), &id);
    // A message without a session, for a queue that requires one.
    refused(&client.send_in(LINK, &text("bad"), &id).unwrap());
    refused(&client.discharge(COORDINATOR, &id, false).unwrap());
    assert_eq!(bodies(&daemon, "sessions"), [""; 0]);

    let id = client.declare(COORDINATOR).unwrap();
    client.send_in(LINK, &in_session("good"), &id).unwrap();
    assert_accepted(&client.discharge(COORDINATOR, &id, false).unwrap());
    assert_eq!(bodies(&daemon, "sessions"), ["good"]);
    daemon.assert_sound();
}

#[test]
fn a_lock_that_another_settlement_took_makes_the_commit_fail_as_a_whole() {
    let mut daemon = Daemon::with_config(CONFIG);
    fill(&daemon, &["a"]);
    let mut client = receiving(&daemon, 1);
    client.attach_sender(LINK + 1, "one").unwrap().unwrap();
    client.attach_management(LINK + 2, "one").unwrap();
    let delivery = client.receive(LINK).unwrap();
    let id = client.declare(COORDINATOR).unwrap();
    client.settle_in(delivery.id, &id, accepted()).unwrap();
    client.send_in(LINK + 1, &text("b"), &id).unwrap();
    assert_accepted(&client.complete(delivery.id).unwrap());
    assert_eq!(
        refused(&client.discharge(COORDINATOR, &id, false).unwrap()),
        "com.microsoft:message-lock-lost"
    );
    assert_eq!(bodies(&daemon, "one"), [""; 0]);
    daemon.assert_sound();
}

#[test]
fn a_settlement_in_a_transaction_of_a_lock_that_is_lost_is_refused_at_once() {
    let mut daemon = Daemon::with_config(&CONFIG.replacen(
        "name = \"one\"",
        "name = \"one\"\nlock_duration = \"PT5S\"",
        1,
    ));
    fill(&daemon, &["a"]);
    let mut client = receiving(&daemon, 1);
    let delivery = client.receive(LINK).unwrap();
    // Delivered again: the first lock has ended.
    let mut other = Client::connect(daemon.amqp()).unwrap();
    other.attach_receiver(0, "one", 1).unwrap().unwrap();
    other.receive(0).unwrap();
    let id = client.declare(COORDINATOR).unwrap();
    let state = transactional(&id, Some(accepted()));
    client.say(&disposition(true, delivery.id, delivery.id, false, state)).unwrap();
    let answer = client.wait(|frame| frame.is(code::DISPOSITION).then(|| frame.field(4).clone())).unwrap();
    assert_eq!(refused(&answer), "com.microsoft:message-lock-lost");
    refused(&client.discharge(COORDINATOR, &id, false).unwrap());
    daemon.assert_sound();
}

#[test]
fn settlements_by_the_client_are_part_of_the_transaction() {
    for fail in [false, true] {
        let mut daemon = Daemon::with_config(CONFIG);
        fill(&daemon, &["old"]);
        let mut client = receiving(&daemon, 1);
        let delivery = client.receive(LINK).unwrap();
        let id = client.declare(COORDINATOR).unwrap();
        let state = transactional(&id, Some(accepted()));
        client.say(&disposition(true, delivery.id, delivery.id, true, state)).unwrap();
        assert_accepted(&client.discharge(COORDINATOR, &id, fail).unwrap());
        assert_eq!(bodies(&daemon, "one").len(), usize::from(fail));
        daemon.assert_sound();
    }
}

#[test]
fn a_range_of_deliveries_is_settled_in_a_transaction() {
    let mut daemon = Daemon::with_config(CONFIG);
    fill(&daemon, &["a", "b", "c", "d"]);
    let mut client = receiving(&daemon, 4);
    let deliveries: Vec<u32> = (0..4).map(|_| client.receive(LINK).unwrap().id).collect();
    let id = client.declare(COORDINATOR).unwrap();
    let state = transactional(&id, Some(accepted()));
    client.say(&disposition(true, deliveries[0], deliveries[2], false, state)).unwrap();
    // Answered in one disposition or in several; the last one ends the wait.
    assert_accepted_in(&client.provisional(deliveries[2]).unwrap(), &id);
    assert_accepted(&client.discharge(COORDINATOR, &id, false).unwrap());
    assert_eq!(bodies(&daemon, "one"), ["d"]);
    daemon.assert_sound();
}

#[test]
fn a_plain_session_may_mix_entities_and_its_transactions_may_not() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_sender(1, "one").unwrap().unwrap();
    client.attach_coordinator(COORDINATOR).unwrap().unwrap();
    client.attach_sender(2, "two").unwrap().unwrap();
    client.attach_receiver(3, "two", 1).unwrap().unwrap();
    assert_accepted(&client.send(1, &text("plain")).unwrap());
    let id = client.declare(COORDINATOR).unwrap();
    assert_accepted_in(&client.send_in(1, &text("a"), &id).unwrap(), &id);
    assert_eq!(refused(&client.send_in(2, &text("b"), &id).unwrap()), "amqp:not-allowed");
    assert_accepted(&client.discharge(COORDINATOR, &id, true).unwrap());
    assert_accepted(&client.send(2, &text("plain")).unwrap());
    client.receive(3).unwrap();
    assert_eq!(bodies(&daemon, "one"), ["plain"]);
    daemon.assert_sound();
}

#[test]
fn on_a_session_that_begins_with_a_coordinator_a_later_receiver_of_another_entity_is_refused() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut client = controller(&daemon);
    client.attach_receiver(1, "one", 1).unwrap().unwrap();
    client.attach_receiver(2, "one", 1).unwrap().unwrap();
    client.attach_sender(3, "two").unwrap().unwrap();
    for (handle, other) in [(4, "two"), (5, "topic/Subscriptions/all")] {
        let error = client.attach_receiver(handle, other, 1).unwrap().unwrap_err();
        assert_eq!(error.field(0).text(), Some("amqp:not-allowed"));
        let text = error.field(1).text().unwrap();
        assert!(
            text.contains(
                "Local transactions cannot span multiple top-level entities such as queue or topic"
            ),
            "{text}"
        );
    }
    assert_accepted(&client.send(3, &text("to two, without a transaction")).unwrap());
    assert_eq!(bodies(&daemon, "two").len(), 1);
    daemon.assert_sound();
}
