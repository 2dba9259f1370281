use peeklock_engine::runtime::Response;
use peeklock_engine::{Refusal, SequenceNumber};

use super::harness::{Harness, message};
use crate::servicebus::submission::BATCH_MESSAGE_FORMAT;
use crate::servicebus::*;
use crate::wire::message::encode_body_data;
use crate::wire::performative::DeliveryState;

/// The number of messages in each command, with a tag if its answer is awaited.
fn sizes(commands: &[(Option<u64>, Command)]) -> Vec<(usize, bool)> {
    let size = |command: &Command| match command {
        Command::Send { messages } => messages.len(),
        Command::SendEach { messages } => {
            assert!(messages.len() > 1, "a message alone costs less in a `Send`");
            messages.len()
        }
        Command::Credit { .. } => 0,
        other => panic!("{other:?}"),
    };
    commands.iter().map(|(tag, command)| (size(command), tag.is_some())).collect()
}

/// The outcomes of the client's deliveries in order: the condition of each rejection.
fn outcomes(harness: &mut Harness) -> Vec<Option<String>> {
    let mut outcomes = Vec::new();
    for event in harness.events() {
        let Event::Disposition { tags, state, settled: true, .. } = event else { continue };
        let outcome = match state {
            Some(DeliveryState::Accepted) => None,
            Some(DeliveryState::Rejected(Some(error))) => Some(error.condition.to_string()),
            other => panic!("{other:?}"),
        };
        outcomes.extend(tags.iter().map(|_| outcome.clone()));
    }
    outcomes
}

#[test]
fn messages_of_one_turn_for_a_queue_are_one_command_and_answered_each_on_its_own() {
    let mut harness = Harness::new();
    let (sender, other) = (harness.sender("q"), harness.sender("q"));
    for (link, text) in [(sender, "a"), (sender, "b"), (other, "c"), (sender, "d")] {
        harness.write(link, false, 0, message(text));
        harness.client_speaks();
    }
    let (tag, Command::SendEach { messages }) = harness.command() else { panic!("one command") };
    let contents: Vec<_> = messages.iter().map(|message| message.content.clone()).collect();
    assert_eq!(contents, ["a", "b", "c", "d"].map(message));
    assert_eq!(outcomes(&mut harness), [], "not before they are durable");
    let results = vec![
        Ok(SequenceNumber(1)),
        Err(Refusal::EntityFull { limit_bytes: 1 }),
        Ok(SequenceNumber(2)),
        Ok(SequenceNumber(3)),
    ];
    harness.answer(tag, Response::SentEach(results));
    let rejected = Some("amqp:resource-limit-exceeded".to_owned());
    assert_eq!(outcomes(&mut harness), [None, rejected, None, None]);
}

#[test]
fn a_message_alone_and_the_next_turn_are_commands_of_their_own() {
    let mut harness = Harness::new();
    let sender = harness.sender("q");
    for _ in 0..2 {
        harness.send(sender, false, 0, message("a"));
    }
    assert_eq!(sizes(&harness.commands()), [(1, true), (1, true)]);
}

#[test]
fn what_can_not_be_joined_stays_in_order() {
    let mut harness = Harness::new();
    let sender = harness.sender("q");
    let mut batch = bytes::BytesMut::new();
    for text in ["1", "2"] {
        encode_body_data(&message(text), &mut batch);
    }
    let (small, large) = (message("a"), message(&"x".repeat(5000)));
    let sent = [
        (false, 0, small.clone()),
        (false, 0, small.clone()),
        (true, 0, small.clone()),
        (false, 0, small.clone()),
        (false, BATCH_MESSAGE_FORMAT, batch.freeze()),
        (false, 0, large),
        (false, 0, small.clone()),
        (false, 0, small.clone()),
    ];
    for (settled, message_format, payload) in sent {
        harness.write(sender, settled, message_format, payload);
    }
    let commands = harness.commands();
    // A message sent settled has a command of its own, because its memory is accounted for until the answer.
    assert_eq!(sizes(&commands), [(2, true), (1, true), (1, true), (2, true), (1, true), (2, true)]);
}

#[test]
fn a_command_has_room_for_64_messages() {
    let mut harness = Harness::new();
    let sender = harness.sender("q");
    for _ in 0..130 {
        harness.write(sender, false, 0, message("a"));
    }
    assert_eq!(sizes(&harness.commands()), [(64, true), (64, true), (2, true)]);
}

#[test]
fn messages_for_topics_are_sent_singly() {
    let mut harness = Harness::new();
    let sender = harness.sender("t");
    for _ in 0..3 {
        harness.write(sender, false, 0, message("a"));
    }
    assert_eq!(sizes(&harness.commands()), [(1, true); 3]);
}

#[test]
fn commands_for_a_queue_stay_in_the_order_of_the_client() {
    let mut harness = Harness::new();
    let sender = harness.sender("q");
    let (receiver, _) = harness.receiver("q");
    harness.write(sender, false, 0, message("a"));
    harness.client_speaks();
    harness.client.set_credit(receiver, 5, false);
    harness.client_speaks();
    harness.write(sender, false, 0, message("b"));
    harness.write(sender, false, 0, message("c"));
    assert_eq!(sizes(&harness.commands()), [(1, true), (0, false), (2, true)]);
}
