//! Sending to one entity by way of another, as requested by older clients and JMS with a property of their attach.

use peeklock_tests::client::{Client, attach, terminus};
use peeklock_tests::codec::{self, Value, code};
use peeklock_tests::daemon::Daemon;
use peeklock_tests::recorded::bodies;

use super::management::schedule;
use super::stage::{
    CONFIG, COORDINATOR, LINK, accepted, assert_accepted, assert_accepted_in, controller, fill, text,
};

/// Attaches [`LINK`] + 1 to the queue `one`, for messages to `destination`; returns the condition when refused.
fn via_one(client: &mut Client, destination: Value) -> Result<(), String> {
    via(client, "one", destination)
}

/// Like [`via_one`], for any node.
fn via(client: &mut Client, node: &str, destination: Value) -> Result<(), String> {
    let handle = LINK + 1;
    let name = format!("sender-{handle}");
    let Value::Described(descriptor, fields) =
        attach(handle, &name, false, Value::Null, terminus(code::TARGET, node))
    else {
        unreachable!()
    };
    let Value::List(mut fields) = *fields else { unreachable!() };
    fields.resize(13, Value::Null);
    let property = Value::symbol("com.microsoft:transfer-destination-address");
    fields.push(Value::Map(vec![(property, destination)]));
    client.say(&Value::Described(descriptor, Box::new(Value::List(fields)))).unwrap();
    let answer = client.wait(|frame| {
        let refused = frame
            .is(code::DETACH)
            .then(|| Err(frame.field(2).field(0).text().unwrap_or_default().to_owned()));
        let ours =
            frame.is(code::ATTACH) && frame.field(0).text() == Some(&name) && *frame.field(6) != Value::Null;
        refused.or(ours.then_some(Ok(())))
    });
    answer.unwrap()
}

#[test]
fn without_a_transaction_a_message_sent_via_a_queue_reaches_its_destination() {
    for destination in ["two", "topic"] {
        let mut daemon = Daemon::with_config(CONFIG);
        let mut client = Client::connect(daemon.amqp()).unwrap();
        via_one(&mut client, Value::string(destination)).unwrap();
        assert_accepted(&client.send(LINK + 1, &text("a")).unwrap());
        let place = if destination == "topic" { "topic/Subscriptions/all" } else { destination };
        assert_eq!(bodies(&daemon, place), ["a"]);
        assert_eq!(bodies(&daemon, "one"), [""; 0]);
        daemon.assert_sound();
    }
}

#[test]
fn in_a_transaction_the_message_and_a_completion_of_the_queue_between_are_one_whole() {
    for fail in [true, false] {
        let mut daemon = Daemon::with_config(CONFIG);
        fill(&daemon, &["old"]);
        let mut client = Client::connect(daemon.amqp()).unwrap();
        client.attach_receiver(LINK, "one", 1).unwrap().unwrap();
        client.attach_coordinator(COORDINATOR).unwrap().unwrap();
        let delivery = client.receive(LINK).unwrap();
        via_one(&mut client, Value::string("two")).unwrap();
        let id = client.declare(COORDINATOR).unwrap();
        assert_accepted_in(&client.send_in(LINK + 1, &text("new"), &id).unwrap(), &id);
        assert_accepted_in(&client.settle_in(delivery.id, &id, accepted()).unwrap(), &id);
        assert_eq!(bodies(&daemon, "two"), [""; 0]);
        assert_accepted(&client.discharge(COORDINATOR, &id, fail).unwrap());
        assert_eq!(bodies(&daemon, "one").len(), usize::from(fail));
        assert_eq!(bodies(&daemon, "two").len(), usize::from(!fail));
        daemon.assert_sound();
    }
}

#[test]
fn messages_may_carry_the_partition_key_of_the_queue_between() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut client = Client::connect(daemon.amqp()).unwrap();
    via_one(&mut client, Value::string("two")).unwrap();
    client.attach_coordinator(COORDINATOR).unwrap().unwrap();
    let keys = ["x-opt-via-partition-key", "x-opt-partition-key"];
    let keys = keys.map(|key| (Value::symbol(key), Value::string("key"))).to_vec();
    let message = [codec::section(code::MESSAGE_ANNOTATIONS, Value::Map(keys)), text("a")].concat();
    let id = client.declare(COORDINATOR).unwrap();
    assert_accepted_in(&client.send_in(LINK + 1, &message, &id).unwrap(), &id);
    assert_accepted(&client.discharge(COORDINATOR, &id, false).unwrap());
    assert_eq!(bodies(&daemon, "two"), ["a"]);
    daemon.assert_sound();
}

#[test]
fn messages_scheduled_via_a_queue_are_scheduled_at_their_destination() {
    for in_transaction in [false, true] {
        let mut daemon = Daemon::with_config(CONFIG);
        let mut client = controller(&daemon);
        via(&mut client, "one/$management", Value::string("two")).unwrap();
        client.attach_receiver(LINK + 2, "one/$management", 10).unwrap().unwrap();
        let operation = "com.microsoft:schedule-message";
        let status = if in_transaction {
            let id = client.declare(COORDINATOR).unwrap();
            let (status, _) = client.request_in(LINK + 1, operation, schedule("a"), &id).unwrap();
            assert_eq!(bodies(&daemon, "two"), [""; 0]);
            assert_accepted(&client.discharge(COORDINATOR, &id, false).unwrap());
            status
        } else {
            client.request(LINK + 1, operation, schedule("a")).unwrap().0
        };
        assert_eq!(status, 200);
        assert_eq!(bodies(&daemon, "two"), ["a"]);
        assert_eq!(bodies(&daemon, "one"), [""; 0]);
        daemon.assert_sound();
    }
}

#[test]
fn a_destination_that_is_none_is_refused_at_the_attach() {
    let daemon = Daemon::with_config(CONFIG);
    for (destination, condition) in
        [(Value::string("no-such-queue"), "amqp:not-found"), (Value::Int(7), "com.microsoft:argument-error")]
    {
        let mut client = Client::connect(daemon.amqp()).unwrap();
        assert_eq!(via_one(&mut client, destination), Err(condition.to_owned()));
    }
}

#[test]
fn messages_refused_by_the_destination_are_transfer_dead_letters_of_the_root() {
    let mut daemon = Daemon::with_config(CONFIG);
    fill(&daemon, &["old"]);
    let mut client = controller(&daemon);
    client.attach_receiver(LINK, "one", 1).unwrap().unwrap();
    let delivery = client.receive(LINK).unwrap();
    client.attach_sender(LINK + 1, "sessions").unwrap().unwrap();
    // A message without a session, for a queue that requires one.
    let id = client.declare(COORDINATOR).unwrap();
    client.send_in(LINK + 1, &text("new"), &id).unwrap();
    client.settle_in(delivery.id, &id, accepted()).unwrap();
    assert_accepted(&client.discharge(COORDINATOR, &id, false).unwrap());
    assert_eq!(bodies(&daemon, "one"), [""; 0]);
    assert_eq!(bodies(&daemon, "sessions"), [""; 0]);
    assert_eq!(bodies(&daemon, "one/$Transfer/$DeadLetterQueue"), ["new"]);
    daemon.assert_sound();
}

/// The root of a subscription is its topic (azure-sdk-for-java 17148).
#[test]
fn messages_refused_by_the_destination_are_transfer_dead_letters_of_the_topic_of_a_subscription() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut plain = Client::connect(daemon.amqp()).unwrap();
    plain.attach_sender(LINK, "topic").unwrap().unwrap();
    assert_accepted(&plain.send(LINK, &text("old")).unwrap());
    let mut client = controller(&daemon);
    client.attach_receiver(LINK, "topic/Subscriptions/all", 1).unwrap().unwrap();
    let delivery = client.receive(LINK).unwrap();
    client.attach_sender(LINK + 1, "sessions").unwrap().unwrap();
    let id = client.declare(COORDINATOR).unwrap();
    client.send_in(LINK + 1, &text("new"), &id).unwrap();
    client.settle_in(delivery.id, &id, accepted()).unwrap();
    assert_accepted(&client.discharge(COORDINATOR, &id, false).unwrap());
    assert_eq!(bodies(&daemon, "topic/Subscriptions/all"), [""; 0]);
    assert_eq!(bodies(&daemon, "sessions"), [""; 0]);
    assert_eq!(bodies(&daemon, "topic/$Transfer/$DeadLetterQueue"), ["new"]);
    daemon.kill();
    daemon.start();
    assert_eq!(bodies(&daemon, "topic/$Transfer/$DeadLetterQueue"), ["new"]);
    daemon.assert_sound();
}

#[test]
fn transfer_dead_letters_of_a_topic_are_settled_in_a_transaction_that_sends_them_on() {
    for fail in [true, false] {
        let mut daemon = Daemon::with_config(CONFIG);
        let mut sender = Client::connect(daemon.amqp()).unwrap();
        via(&mut sender, "topic", Value::string("sessions")).unwrap();
        assert_accepted(&sender.send(LINK + 1, &text("refused")).unwrap());
        let kept = "topic/$Transfer/$DeadLetterQueue";
        let mut client = controller(&daemon);
        client.attach_receiver(LINK, kept, 1).unwrap().unwrap();
        let delivery = client.receive(LINK).unwrap();
        client.attach_sender(LINK + 1, "two").unwrap().unwrap();
        let id = client.declare(COORDINATOR).unwrap();
        assert_accepted_in(&client.send_in(LINK + 1, &text("again"), &id).unwrap(), &id);
        assert_accepted_in(&client.settle_in(delivery.id, &id, accepted()).unwrap(), &id);
        assert_accepted(&client.discharge(COORDINATOR, &id, fail).unwrap());
        assert_eq!(bodies(&daemon, kept).len(), usize::from(fail));
        assert_eq!(bodies(&daemon, "two").len(), usize::from(!fail));
        assert_eq!(bodies(&daemon, "topic/Subscriptions/all"), [""; 0]);
        daemon.assert_sound();
    }
}

/// Messages of a topic itself are scheduled or transfer dead letters; dead letters belong to its subscriptions.
#[test]
fn of_a_topic_itself_only_transfer_dead_letters_are_received() {
    let daemon = Daemon::with_config(CONFIG);
    for (node, condition) in [
        ("topic", Some("amqp:not-allowed")),
        ("topic/$DeadLetterQueue", Some("amqp:not-found")),
        ("topic/$Transfer/$DeadLetterQueue", None),
    ] {
        let mut client = Client::connect(daemon.amqp()).unwrap();
        let attached = client.attach_receiver(LINK, node, 1).unwrap();
        let refused = attached.err().map(|error| error.field(0).text().unwrap_or_default().to_owned());
        assert_eq!(refused.as_deref(), condition, "{node}");
    }
}
