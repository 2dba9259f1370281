//! The coordinator and peers that misuse it.

use peeklock_tests::bystander::Bystander;
use peeklock_tests::client::{Client, disposition, transactional};
use peeklock_tests::codec::{self, Value, code};
use peeklock_tests::daemon::Daemon;
use peeklock_tests::recorded::bodies;

use super::stage::{
    CONFIG, COORDINATOR, LINK, accepted, assert_accepted, assert_accepted_in, controller, fill, refused,
    sending, text,
};

const UNKNOWN: &str = "amqp:transaction:unknown-id";

#[test]
fn the_coordinator_needs_no_token_and_gives_ids_that_differ() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut one = controller(&daemon);
    let mut two = controller(&daemon);
    let mut ids: Vec<Vec<u8>> = Vec::new();
    for _ in 0..50 {
        ids.push(one.declare(COORDINATOR).unwrap());
        ids.push(two.declare(COORDINATOR).unwrap());
    }
    assert!(ids.iter().all(|id| (1..=32).contains(&id.len())));
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 100);
    daemon.assert_sound();
}

#[test]
fn discharging_an_undeclared_transaction_is_an_unknown_id() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut client = controller(&daemon);
    for id in [&b""[..], &[7], &[7; 16], &[7; 32], &[7; 33], &[7; 400]] {
        // An id has at most 32 bytes.
        let expected = if id.len() > 32 { "amqp:decode-error" } else { UNKNOWN };
        for fail in [false, true] {
            assert_eq!(refused(&client.discharge(COORDINATOR, id, fail).unwrap()), expected, "{id:?}");
        }
    }
    client.declare(COORDINATOR).unwrap();
    daemon.assert_sound();
}

#[test]
fn a_second_discharge_and_work_after_it_are_an_unknown_id() {
    for fail in [false, true] {
        let mut daemon = Daemon::with_config(CONFIG);
        fill(&daemon, &["locked"]);
        let mut client = sending(&daemon);
        client.attach_receiver(LINK + 1, "one", 1).unwrap().unwrap();
        let delivery = client.receive(LINK + 1).unwrap();
        let id = client.declare(COORDINATOR).unwrap();
        assert_accepted(&client.discharge(COORDINATOR, &id, fail).unwrap());
        assert_eq!(refused(&client.discharge(COORDINATOR, &id, false).unwrap()), UNKNOWN);
        assert_eq!(refused(&client.send_in(LINK, &text("a"), &id).unwrap()), UNKNOWN);
        client
            .say(&disposition(true, delivery.id, delivery.id, false, transactional(&id, Some(accepted()))))
            .unwrap();
        let answer =
            client.wait(|frame| frame.is(code::DISPOSITION).then(|| frame.field(4).clone())).unwrap();
        assert_eq!(refused(&answer), UNKNOWN);
        assert_accepted(&client.complete(delivery.id).unwrap());
        assert_eq!(bodies(&daemon, "one"), [""; 0]);
        daemon.assert_sound();
    }
}

#[test]
fn an_id_of_another_connection_means_nothing_and_its_owner_can_commit() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut owner = sending(&daemon);
    let mut thief = sending(&daemon);
    let id = owner.declare(COORDINATOR).unwrap();
    assert_accepted_in(&owner.send_in(LINK, &text("own"), &id).unwrap(), &id);
    assert_eq!(refused(&thief.send_in(LINK, &text("foreign"), &id).unwrap()), UNKNOWN);
    assert_eq!(refused(&thief.discharge(COORDINATOR, &id, true).unwrap()), UNKNOWN);
    assert_accepted(&owner.discharge(COORDINATOR, &id, false).unwrap());
    assert_eq!(bodies(&daemon, "one"), ["own"]);
    daemon.assert_sound();
}

#[test]
fn another_coordinator_link_of_the_connection_may_discharge() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut client = sending(&daemon);
    client.attach_coordinator(9).unwrap().unwrap();
    let id = client.declare(COORDINATOR).unwrap();
    client.send_in(LINK, &text("a"), &id).unwrap();
    assert_accepted(&client.discharge(9, &id, false).unwrap());
    assert_eq!(bodies(&daemon, "one"), ["a"]);
    daemon.assert_sound();
}

#[test]
fn a_coordinator_link_that_is_detached_rolls_back_its_transactions() {
    let mut daemon = Daemon::with_config(CONFIG);
    fill(&daemon, &["old"]);
    let mut client = sending(&daemon);
    client.attach_coordinator(9).unwrap().unwrap();
    client.attach_receiver(LINK + 1, "one", 1).unwrap().unwrap();
    let delivery = client.receive(LINK + 1).unwrap();
    let doomed = client.declare(9).unwrap();
    let other = client.declare(COORDINATOR).unwrap();
    client.send_in(LINK, &text("doomed"), &doomed).unwrap();
    client.settle_in(delivery.id, &doomed, accepted()).unwrap();
    client.send_in(LINK, &text("other"), &other).unwrap();
    client.say(&Value::composite(code::DETACH, vec![Value::Uint(9), Value::Bool(true)])).unwrap();
    client.wait(|frame| frame.is(code::DETACH).then_some(())).unwrap();
    assert_eq!(refused(&client.discharge(COORDINATOR, &doomed, false).unwrap()), UNKNOWN);
    assert_accepted(&client.discharge(COORDINATOR, &other, false).unwrap());
    assert_eq!(bodies(&daemon, "one"), ["old", "other"]);
    assert_accepted(&client.complete(delivery.id).unwrap());
    assert_eq!(bodies(&daemon, "one"), ["other"]);
    daemon.assert_sound();
}

#[test]
fn a_connection_that_is_cut_rolls_back() {
    let mut daemon = Daemon::with_config(CONFIG);
    fill(&daemon, &["old"]);
    let mut client = sending(&daemon);
    client.attach_receiver(LINK + 1, "one", 1).unwrap().unwrap();
    let delivery = client.receive(LINK + 1).unwrap();
    let id = client.declare(COORDINATOR).unwrap();
    client.send_in(LINK, &text("new"), &id).unwrap();
    client.settle_in(delivery.id, &id, accepted()).unwrap();
    drop(client);
    fill(&daemon, &["after it"]);
    assert_eq!(bodies(&daemon, "one"), ["old", "after it"]);
    daemon.assert_sound();
}

#[test]
fn hundreds_of_declarations_are_taken_and_then_the_broker_is_busy() {
    let mut daemon = Daemon::with_config(&format!("[transactions]\nopen_per_connection = 300\n{CONFIG}"));
    let mut client = sending(&daemon);
    let ids: Vec<Vec<u8>> = (0..300).map(|_| client.declare(COORDINATOR).unwrap()).collect();
    let declare = || Value::composite(code::DECLARE, vec![Value::Null]);
    assert_eq!(refused(&client.control(COORDINATOR, declare()).unwrap()), "com.microsoft:server-busy");
    for id in &ids {
        assert_accepted_in(&client.send_in(LINK, &text("a"), id).unwrap(), id);
    }
    for (number, id) in ids.iter().enumerate() {
        assert_accepted(&client.discharge(COORDINATOR, id, number % 2 == 0).unwrap());
    }
    assert_eq!(bodies(&daemon, "one").len(), 150);
    client.declare(COORDINATOR).unwrap();
    daemon.assert_sound();
}

#[test]
fn a_coordinator_rejects_malformed_requests() {
    let mut daemon = Daemon::with_config(CONFIG);
    let discharge = |fields| Value::composite(code::DISCHARGE, fields);
    let nonsense = [
        codec::section(code::AMQP_VALUE, discharge(vec![])),
        codec::section(code::AMQP_VALUE, discharge(vec![Value::Null, Value::Bool(true)])),
        codec::section(code::AMQP_VALUE, discharge(vec![Value::string("text"), Value::Bool(false)])),
        codec::section(code::AMQP_VALUE, Value::composite(code::DECLARED, vec![Value::Binary(vec![1])])),
        codec::section(code::AMQP_VALUE, Value::composite(code::DECLARE, vec![Value::Binary(vec![1])])),
        codec::section(code::AMQP_VALUE, Value::Null),
        codec::section(code::AMQP_VALUE, Value::string("declare")),
        text("declare"),
        vec![0xff; 40],
        Vec::new(),
    ];
    for message in &nonsense {
        let mut client = controller(&daemon);
        client.transfer(COORDINATOR, message, 0).unwrap();
        // Rejected, or the link or connection ended with an error: anything except silence or success.
        let answer = client.wait(|frame| {
            let code = frame.performative.code()?;
            [code::DISPOSITION, code::DETACH, code::CLOSE, code::END].contains(&code).then(|| frame.clone())
        });
        if let Ok(frame) = answer
            && frame.is(code::DISPOSITION)
        {
            refused(frame.field(4));
        }
    }
    controller(&daemon).declare(COORDINATOR).unwrap();
    daemon.assert_sound();
}

#[test]
fn half_a_transfer_with_a_state_is_no_part_of_its_transaction() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut client = sending(&daemon);
    client.attach_sender(LINK + 1, "one").unwrap().unwrap();
    let id = client.declare(COORDINATOR).unwrap();
    client.send_in(LINK, &text("whole"), &id).unwrap();
    let message = text("half a message");
    client.transfer_in(LINK + 1, &message[..6], 0, true, transactional(&id, None)).unwrap();
    client.say(&Value::composite(code::DETACH, vec![Value::Uint(LINK + 1), Value::Bool(true)])).unwrap();
    client.wait(|frame| frame.is(code::DETACH).then_some(())).unwrap();
    assert_accepted(&client.discharge(COORDINATOR, &id, false).unwrap());
    assert_eq!(bodies(&daemon, "one"), ["whole"]);
    daemon.assert_sound();
}

#[test]
fn a_bystander_is_not_harmed_by_misuse() {
    let mut daemon = Daemon::with_config(CONFIG);
    let bystander = Bystander::start(daemon.amqp(), "two");
    for round in 0..20_u8 {
        let mut client = sending(&daemon);
        let id = client.declare(COORDINATOR).unwrap();
        for _ in 0..20 {
            client.transfer_in(LINK, &text("never"), 0, false, transactional(&id, None)).unwrap();
        }
        let unknown = transactional(&[round; 16], None);
        client.transfer_in(LINK, &text("never"), 0, false, unknown).unwrap();
        client.say(&disposition(true, 0, u32::MAX, false, transactional(&id, Some(accepted())))).unwrap();
        if round % 2 == 0 {
            let _ = client.discharge_later(COORDINATOR, &id, true);
        }
    }
    bystander.dismiss();
    assert_eq!(bodies(&daemon, "one"), [""; 0]);
    daemon.assert_sound();
}

#[test]
fn a_transaction_that_takes_too_long_is_rolled_back() {
    let mut daemon = Daemon::with_config(&format!("[transactions]\ntime_out = \"PT1S\"\n{CONFIG}"));
    let mut client = sending(&daemon);
    let id = client.declare(COORDINATOR).unwrap();
    client.send_in(LINK, &text("late"), &id).unwrap();
    let begun = std::time::Instant::now();
    while refused_or_not(&mut client, &id) {
        assert!(begun.elapsed() < peeklock_tests::client::PATIENCE, "the transaction does not end");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let outcome = client.discharge(COORDINATOR, &id, false).unwrap();
    assert!(["amqp:transaction:timeout", UNKNOWN].contains(&refused(&outcome)));
    assert_eq!(bodies(&daemon, "one"), [""; 0]);
    daemon.assert_sound();
}

/// Whether the transaction still accepts operations.
fn refused_or_not(client: &mut Client, id: &[u8]) -> bool {
    client.send_in(LINK, &text("more"), id).unwrap().field(1).code() == Some(code::ACCEPTED)
}
