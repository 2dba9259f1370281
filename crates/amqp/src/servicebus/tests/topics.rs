use bytes::{Bytes, BytesMut};
use peeklock_engine::runtime::Response;
use peeklock_engine::{PropertyValue, QueuePath, Refusal, SubQueue};
use smallvec::SmallVec;

use super::harness::{Harness, SUBSCRIPTION, TOPIC, message, request, view};
use crate::endpoint::Event;
use crate::servicebus::envelope::lookup;
use crate::servicebus::submission::BATCH_MESSAGE_FORMAT;
use crate::servicebus::*;
use crate::wire::Value;
use crate::wire::message::{MessageProperties, Sections, encode_application_properties, encode_body_value};
use crate::wire::performative::{Attach, DeliveryState};

fn refusal(harness: &mut Harness, attach: Attach) -> (String, String) {
    harness.attach(attach);
    assert_eq!(harness.commands(), [], "the engine is not bothered");
    let error = harness.refusal().expect("refused");
    (error.condition.into(), error.description.unwrap().into())
}

/// A request to browse the first messages.
fn peek(message_id: u64) -> Bytes {
    let body = Value::Map(vec![
        ("from-sequence-number".into(), Value::Long(1)),
        ("message-count".into(), Value::Int(5)),
    ]);
    let operation = [("operation", "com.microsoft:peek-message".into())];
    request(Value::ULong(message_id), &operation, &body)
}

fn with_property(subject: &str) -> Bytes {
    let mut output = BytesMut::new();
    let properties = MessageProperties { subject: Some(subject.into()), ..MessageProperties::default() };
    properties.encode(&mut output);
    encode_application_properties(&[("color".into(), "red".into())], &mut output);
    encode_body_value(&Value::Null, &mut output);
    output.freeze()
}

fn sent(harness: &mut Harness) -> SmallVec<[peeklock_engine::NewMessage; 1]> {
    match harness.command().1 {
        Command::Send { messages } => messages,
        other => panic!("{other:?}"),
    }
}

#[test]
fn messages_for_a_topic_carry_the_properties_that_rules_use() {
    let mut harness = Harness::new();
    let topic = harness.sender("T");
    harness.send(topic, false, 0, with_property("one"));
    let messages = sent(&mut harness);
    let rule_properties = messages[0].rule_properties.as_deref().expect("for rules");
    assert_eq!(rule_properties.label.as_deref(), Some("one"));
    assert_eq!(rule_properties.user, [("color".into(), PropertyValue::Text("red".into()))]);
    let given = Sections::split(&messages[0].content).unwrap().decode_properties().unwrap().message_id;
    assert_eq!(rule_properties.message_id.as_deref(), given.as_str(), "the id it was given");

    let mut batch = BytesMut::new();
    for subject in ["one", "two"] {
        batch.extend_from_slice(&[0x00, 0x53, 0x75]);
        Value::Binary(with_property(subject)).encode(&mut batch);
    }
    harness.send(topic, false, BATCH_MESSAGE_FORMAT, batch.freeze());
    let labels: Vec<_> = sent(&mut harness)
        .iter()
        .map(|message| message.rule_properties.as_deref().unwrap().label.as_deref().unwrap().to_owned())
        .collect();
    assert_eq!(labels, ["one", "two"]);

    let queue = harness.sender("q");
    harness.send(queue, false, 0, with_property("one"));
    assert_eq!(sent(&mut harness)[0].rule_properties, None, "no rule needs them");
}

#[test]
fn a_subscription_is_received_from_by_its_path_in_any_case() {
    for (address, sub_queue) in [
        ("t/Subscriptions/s", SubQueue::Main),
        ("amqps://localhost/T/subscriptions/S", SubQueue::Main),
        ("/%74/Subscriptions/%73", SubQueue::Main),
        ("t/Subscriptions/s/$deadletterqueue", SubQueue::DeadLetter),
        ("t/Subscriptions/s/$Transfer/$DeadLetterQueue", SubQueue::TransferDeadLetter),
    ] {
        let mut harness = Harness::new();
        let attach = harness.receiver_attach(address);
        harness.attach(attach.clone());
        let (tag, command) = harness.command();
        let Command::OpenReceiver { options, session: None, .. } = command else { panic!("{command:?}") };
        assert_eq!(options.source, QueuePath { queue: SUBSCRIPTION, sub_queue });
        harness.answer(tag, Response::Opened(Ok(None)));
        let reply = harness.events().into_iter().find_map(|event| match event {
            Event::Attach { attach, .. } => Some(attach),
            _ => None,
        });
        let reply = reply.expect("accepted");
        assert_eq!(reply.source, attach.source, "byte for byte");
        assert_eq!(reply.max_message_size, Some(20_000), "the topic's limit");
    }
}

/// `TopicClient.FormatTransferDeadLetterPath` of the older .NET client; ServiceBusExplorer 100.
#[test]
fn the_transfer_dead_letters_of_a_topic_are_received_and_browsed_like_those_of_a_queue() {
    let kept = QueuePath { queue: TOPIC, sub_queue: SubQueue::TransferDeadLetter };
    for address in ["t/$Transfer/$DeadLetterQueue", "amqps://localhost/T/$transfer/$deadletterqueue"] {
        let mut harness = Harness::new();
        let attach = harness.receiver_attach(address);
        harness.attach(attach);
        let (_, command) = harness.command();
        let Command::OpenReceiver { options, session: None, .. } = command else { panic!("{command:?}") };
        assert_eq!(options.source, kept);

        let mut harness = Harness::new();
        let node = harness.requester(&format!("{address}/$management"));
        harness.send(node, true, 0, peek(1));
        let (_, command) = harness.command();
        assert!(matches!(command, Command::Peek { source, .. } if source == kept), "{command:?}");
    }
    let mut harness = Harness::new();
    let sender = harness.sender_attach("t/$Transfer/$DeadLetterQueue");
    let (condition, text) = refusal(&mut harness, sender);
    assert_eq!(condition, "amqp:not-allowed");
    assert!(text.starts_with("Messages can't be sent to a dead-letter queue"), "{text}");
}

#[test]
fn topics_take_and_subscriptions_give() {
    let mut harness = Harness::new();
    let receiver = harness.receiver_attach("t");
    let (condition, text) = refusal(&mut harness, receiver);
    assert_eq!(condition, "amqp:not-allowed");
    assert!(text.starts_with("Messages can't be received from a topic"), "{text}");
    for address in ["t/Subscriptions/s", "t/Subscriptions/s/$DeadLetterQueue"] {
        let sender = harness.sender_attach(address);
        let (condition, text) = refusal(&mut harness, sender);
        assert_eq!(condition, "amqp:not-allowed");
        assert!(text.starts_with("Messages can't be sent to a subscription"), "{text}");
    }
}

#[test]
fn missing_entities_are_reported_in_the_wording_that_sdks_match() {
    let mut harness = Harness::new();
    for address in ["t/Subscriptions/x", "x/Subscriptions/s", "q/Subscriptions/s", "t/$DeadLetterQueue"] {
        let attach = harness.receiver_attach(address);
        let (condition, text) = refusal(&mut harness, attach);
        assert_eq!(condition, "amqp:not-found");
        assert!(
            text.starts_with(&format!("The messaging entity 'sb://localhost/{address}' could not")),
            "{text}"
        );
    }
    let attach = harness.sender_attach("t/Subscriptions/x/$management");
    assert_eq!(refusal(&mut harness, attach).0, "amqp:not-found");
}

#[test]
fn copies_show_their_own_number_and_the_topics() {
    let mut harness = Harness::new();
    let (link, receiver) = harness.receiver("t/Subscriptions/s");
    harness.client.set_credit(link, 10, false);
    let body = peeklock_engine::BodyRef(40);
    let view = peeklock_engine::MessageView { queue: SUBSCRIPTION, body, ..view(3) };
    let locked_until = super::harness::NOW.plus_ms(1000);
    let lock = Some(peeklock_engine::Lock { token: peeklock_engine::LockToken(1), locked_until });
    let message = peeklock_engine::Received { view, content: message("x"), lock };
    harness.output(Output::Delivery(Box::new(peeklock_engine::Delivery {
        receiver,
        message,
        departing: None,
        share: None,
    })));
    let (_, _, payload) = harness.messages().remove(0);
    let sections = Sections::split(&payload).unwrap();
    let annotations = Sections::decode_map(&sections.message_annotations).unwrap();
    assert_eq!(lookup(&annotations, "x-opt-sequence-number"), Some(&Value::Long(3)));
    assert_eq!(lookup(&annotations, "x-opt-enqueue-sequence-number"), Some(&Value::Long(40)));
}

#[test]
fn a_large_message_is_measured_by_the_topic() {
    let mut harness = Harness::new();
    let topic = harness.sender("t");
    harness.send(topic, false, 0, message(&"x".repeat(15_000)));
    assert_eq!(harness.commands().len(), 1);
    harness.send(topic, false, 0, message(&"x".repeat(20_000)));
    assert!(matches!(harness.outcome(), Some(DeliveryState::Rejected(Some(_)))));
}

#[test]
fn rules_are_asked_of_the_subscription() {
    let mut harness = Harness::new();
    let node = harness.requester("t/Subscriptions/s/$management");
    let body = Value::Map(vec![("top".into(), Value::Int(5)), ("skip".into(), Value::Int(2))]);
    let operation = [("operation", "com.microsoft:enumerate-rules".into())];
    harness.send(node, true, 0, request(Value::ULong(1), &operation, &body));
    let (tag, command) = harness.command();
    assert_eq!(command, Command::ListRules { queue: SUBSCRIPTION, skip: 2, top: 5 });
    harness.answer(tag, Response::Rules(Err(Refusal::EntityDeleted)));
    let (_, _, payload) = harness.messages().remove(0);
    let sections = Sections::split(&payload).unwrap();
    let properties = Sections::decode_map(&sections.application_properties).unwrap();
    assert_eq!(lookup(&properties, "statusCode"), Some(&Value::Int(404)));
    let text = lookup(&properties, "statusDescription").unwrap().as_str().unwrap();
    assert!(
        text.starts_with(
            "The messaging entity 'sb://localhost/t/Subscriptions/s/$management' could not be found"
        ),
        "{text}"
    );
}

#[test]
fn scheduling_on_a_topic_is_for_the_topic() {
    let mut harness = Harness::new();
    let node = harness.requester("t/$management");
    let numbers = Value::Array(vec![Value::Long(3)]);
    let body = Value::Map(vec![("sequence-numbers".into(), numbers)]);
    let operation = [("operation", "com.microsoft:cancel-scheduled-message".into())];
    harness.send(node, true, 0, request(Value::ULong(1), &operation, &body));
    assert!(matches!(harness.command().1, Command::CancelScheduled { .. }));
    harness.send(node, true, 1, peek(2));
    let (_, command) = harness.command();
    assert!(
        matches!(command, Command::Peek { source, .. } if source == QueuePath::main(TOPIC)),
        "{command:?}"
    );
    let attach = harness.sender_attach("t");
    harness.attach(attach);
    assert!(matches!(harness.command().1, Command::Watch { queue: TOPIC, .. }));
}
