//! Well-formed performatives in an invalid order or with invalid contents.

use peeklock_tests::client::{Client, attach, begin, disposition, flow, open, terminus, transfer};
use peeklock_tests::codec::{Value, code, data_message, frame};
use peeklock_tests::daemon::Daemon;

use super::framing::beside_a_bystander;

/// Sends frames and then a close: the broker answers, possibly with errors, and ends the connection.
fn survives(daemon: &Daemon, frames: &[Vec<u8>]) {
    let mut peer = Client::connect(daemon.amqp()).unwrap();
    for bytes in frames {
        if peer.write(bytes).is_err() {
            break;
        }
    }
    let _ = peer.say(&Value::composite(code::CLOSE, vec![Value::Null]));
    peer.read_to_end();
}

fn performative(code: u64, fields: Vec<Value>) -> Vec<u8> {
    frame(0, &Value::composite(code, fields), &[])
}

#[test]
fn performatives_out_of_order_are_answered_with_an_error() {
    beside_a_bystander(|daemon| {
        let attach = attach(7, "link", false, Value::Null, terminus(code::TARGET, "victim"));
        let accepted = Value::composite(code::ACCEPTED, Vec::new());
        let cases: Vec<Vec<Vec<u8>>> = vec![
            vec![frame(0, &open(), &[])],
            vec![frame(0, &begin(), &[])],
            vec![frame(9, &attach, &[])],
            vec![frame(0, &attach, &[]), frame(0, &attach, &[])],
            vec![frame(0, &transfer(3, 0, 0, false), &data_message(b"no link"))],
            vec![frame(0, &flow(3, 0, 10, false, true), &[])],
            vec![frame(0, &disposition(true, 5, 9, false, accepted.clone()), &[])],
            vec![frame(0, &disposition(false, 5, 9, true, accepted), &[])],
            vec![performative(code::DETACH, vec![Value::Uint(3), Value::Bool(true)])],
            vec![performative(code::DETACH, vec![Value::Uint(u32::MAX), Value::Bool(true)])],
            vec![performative(code::END, vec![Value::Null]), frame(0, &attach, &[])],
            vec![frame(65_535, &begin(), &[])],
            vec![frame(5, &Value::composite(code::END, vec![Value::Null]), &[])],
            vec![performative(0x99, vec![Value::Null])],
            vec![performative(code::SASL_INIT, vec![Value::symbol("ANONYMOUS")])],
        ];
        for case in &cases {
            survives(daemon, case);
        }
    });
}

#[test]
fn transfers_on_a_receiving_link_are_refused() {
    beside_a_bystander(|daemon| {
        let mut peer = Client::connect(daemon.amqp()).unwrap();
        peer.attach_receiver(0, "victim", 10).unwrap().unwrap();
        peer.transfer(0, &data_message(b"wrong way"), 0).unwrap();
        let _ = peer.say(&Value::composite(code::CLOSE, vec![Value::Null]));
        peer.read_to_end();
        let mut other = Client::connect(daemon.amqp()).unwrap();
        other.attach_management(0, "victim").unwrap();
        assert_eq!(other.browse(0).unwrap().len(), 0);
    });
}

#[test]
fn handles_and_channels_of_the_largest_numbers() {
    beside_a_bystander(|daemon| {
        let mut peer = Client::connect(daemon.amqp()).unwrap();
        peer.say(&attach(u32::MAX, "high", false, Value::Null, terminus(code::TARGET, "victim"))).unwrap();
        peer.say(&Value::composite(code::CLOSE, vec![Value::Null])).unwrap();
        peer.read_to_end();
    });
}

#[test]
fn every_delivery_id_in_one_disposition_costs_nothing() {
    beside_a_bystander(|daemon| {
        let mut peer = Client::connect(daemon.amqp()).unwrap();
        peer.attach_sender(0, "victim").unwrap().unwrap();
        peer.attach_receiver(1, "victim", 10).unwrap().unwrap();
        let outcomes = [code::ACCEPTED, code::REJECTED, 0x26, 0x27];
        for outcome in outcomes {
            peer.send(0, &data_message(b"settled by the range")).unwrap();
            let delivery = peer.receive(1).unwrap();
            for is_receiver in [true, false] {
                let state = Value::composite(outcome, Vec::new());
                peer.say(&disposition(is_receiver, 0, u32::MAX, false, state.clone())).unwrap();
                peer.say(&disposition(is_receiver, u32::MAX, 0, false, state)).unwrap();
            }
            // The range includes the delivery: it is answered, and the connection continues.
            peer.outcome(delivery.id, false).unwrap();
            peer.grant(1, 10).unwrap();
            if outcome == 0x26 || outcome == 0x27 {
                let again = peer.receive(1).unwrap();
                peer.complete(again.id).unwrap();
            }
        }
    });
}

#[test]
fn many_wide_dispositions_do_not_starve_others() {
    beside_a_bystander(|daemon| {
        let mut peer = Client::connect(daemon.amqp()).unwrap();
        let accepted = Value::composite(code::ACCEPTED, Vec::new());
        let one = frame(0, &disposition(true, 0, u32::MAX, true, accepted), &[]);
        let many = one.repeat(10_000);
        peer.write(&many).unwrap();
        peer.attach_sender(0, "victim").unwrap().unwrap();
    });
}

#[test]
fn sending_without_credit_is_tolerated() {
    beside_a_bystander(|daemon| {
        let mut peer = Client::connect(daemon.amqp()).unwrap();
        peer.say(&attach(0, "sender-0", false, Value::Null, terminus(code::TARGET, "victim"))).unwrap();
        let last = (0..5_000).map(|_| peer.transfer(0, &data_message(b"early"), 0).unwrap()).last().unwrap();
        assert_eq!(peer.outcome(last, true).unwrap().code(), Some(code::ACCEPTED));
        let mut other = Client::connect(daemon.amqp()).unwrap();
        other.attach_management(0, "victim").unwrap();
        assert_eq!(other.browse(0).unwrap().len(), 5_000);
    });
}

#[test]
fn stealing_a_link_name_over_and_over() {
    beside_a_bystander(|daemon| {
        let mut peer = Client::connect(daemon.amqp()).unwrap();
        for handle in 0..500 {
            peer.say(&attach(handle, "same", true, terminus(code::SOURCE, "victim"), Value::Null)).unwrap();
        }
        let _ = peer.say(&Value::composite(code::CLOSE, vec![Value::Null]));
        peer.read_to_end();
    });
}

#[test]
fn links_to_nowhere_are_refused_one_by_one() {
    beside_a_bystander(|daemon| {
        let mut peer = Client::connect(daemon.amqp()).unwrap();
        let long = "x".repeat(60_000);
        let names = [
            "",
            "/",
            "$management",
            "$cbs/$management",
            "victim/$management/$management",
            "no\u{0}queue",
            &long,
        ];
        for (handle, name) in (0..).zip(names) {
            let refused = peer.attach_sender(handle, name).unwrap().unwrap_err();
            assert!(
                refused.field(0).text().is_some_and(|condition| condition.starts_with("amqp:")),
                "{name}: {refused:?}"
            );
        }
        peer.attach_sender(100, "victim").unwrap().unwrap();
    });
}
