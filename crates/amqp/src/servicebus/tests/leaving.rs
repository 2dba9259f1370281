//! Deliveries that have not begun to be sent: released when the link ends, or when they wait too long.

use bytes::Bytes;
use peeklock_engine::runtime::Response;
use peeklock_engine::{Delivery, Lock, LockToken, Received, Refusal, SettleFailure, Settlement};

use super::harness::{Harness, LOCK_MS, NOW, QUEUE, message, view};
use crate::endpoint::Event;
use crate::servicebus::envelope::lookup;
use crate::servicebus::*;
use crate::wire::Value;
use crate::wire::message::Sections;

fn settle(tokens: &[u128], settlement: Settlement) -> Command {
    let tokens = tokens.iter().copied().map(LockToken).collect();
    Command::Settle { queue: QUEUE, tokens, settlement }
}

fn removal(tokens: &[u128]) -> Command {
    settle(tokens, Settlement::Complete)
}

/// A receive-and-delete link whose peer accepts `window` frames at a time, with five messages for it.
fn deleting(window: u32) -> (Harness, LinkId, ReceiverId) {
    let mut harness = Harness::with_window(window);
    let (link, receiver) = harness.deleting_receiver("q");
    harness.client.set_credit(link, 100, false);
    harness.commands();
    for number in 1..=5 {
        harness.deliver(receiver, number);
    }
    (harness, link, receiver)
}

fn sequence_number(payload: &Bytes) -> i64 {
    let sections = Sections::split(payload).unwrap();
    let annotations = Sections::decode_map(&sections.message_annotations).unwrap();
    let Some(Value::Long(number)) = lookup(&annotations, "x-opt-sequence-number") else {
        panic!("{annotations:?}")
    };
    *number
}

/// Sequence numbers of the messages that the client received, and whether the link has ended.
fn got(harness: &mut Harness) -> (Vec<i64>, bool) {
    let (mut numbers, mut ended) = (Vec::new(), false);
    for event in harness.events() {
        match event {
            Event::Message { tag, settled, payload, .. } => {
                assert!(settled && !ended);
                assert!(tag.is_empty(), "no lock token");
                numbers.push(sequence_number(&payload));
            }
            Event::Detached { .. } => ended = true,
            _ => {}
        }
    }
    (numbers, ended)
}

#[test]
fn a_message_is_removed_before_it_leaves_and_no_more_than_the_window_takes() {
    let (mut harness, link, receiver) = deleting(2);
    let (tag, command) = harness.command();
    assert_eq!(command, removal(&[1, 2]));
    assert_eq!(got(&mut harness), (vec![], false), "nothing leaves before");
    harness.answer(tag, Response::Settled(Vec::new()));
    assert_eq!(got(&mut harness), (vec![1, 2], false));
    let (tag, command) = harness.command();
    assert_eq!(command, removal(&[3, 4]), "the window is open again");
    harness.client.detach(link, None);
    assert_eq!(harness.commands(), [], "the link ends after the deliveries under way");
    harness.answer(tag, Response::Settled(Vec::new()));
    let commands: Vec<Command> = harness.commands().into_iter().map(|(_, command)| command).collect();
    assert_eq!(commands, [Command::CloseReceiver { receiver }, settle(&[5], Settlement::Release)]);
}

#[test]
fn messages_not_removed_are_not_sent() {
    let (mut harness, ..) = deleting(100);
    let (tag, command) = harness.command();
    assert_eq!(command, removal(&[1, 2, 3, 4, 5]));
    let lost = |index| SettleFailure { index, refusal: Refusal::MessageLockLost };
    harness.answer(tag, Response::Settled(vec![lost(0), lost(3)]));
    assert_eq!(got(&mut harness), (vec![2, 3, 5], false));
    assert_eq!(harness.commands()[0].1, settle(&[4, 1], Settlement::Release));
}

#[test]
fn deliveries_being_sent_precede_a_detach_by_the_engine() {
    let (mut harness, _, receiver) = deleting(3);
    let (tag, _) = harness.command();
    let refusal = Refusal::EntityDeleted;
    harness.output(Output::ReceiverClosed { receiver, refusal });
    assert_eq!(got(&mut harness), (vec![], false));
    harness.answer(tag, Response::Settled(Vec::new()));
    assert_eq!(got(&mut harness), (vec![1, 2, 3], true));
}

#[test]
fn unsent_deliveries_are_returned_with_the_connection() {
    let (mut harness, _, receiver) = deleting(2);
    harness.command();
    harness.server.handle_end_of_input();
    let commands: Vec<Command> = harness.commands().into_iter().map(|(_, command)| command).collect();
    assert_eq!(commands, [Command::CloseReceiver { receiver }, settle(&[3, 4, 5], Settlement::Release)]);
}

/// Credits and releases in a short form.
fn in_short(commands: Vec<(Option<u64>, Command)>) -> Vec<(&'static str, Vec<u64>)> {
    let one = |(_, command)| match command {
        Command::Credit { limit, .. } => ("credit", vec![limit.messages]),
        Command::Settle { tokens, settlement: Settlement::Release, .. } => {
            ("release", tokens.iter().map(|token| u64::try_from(token.0).unwrap()).collect())
        }
        Command::Settle { tokens, .. } => {
            ("complete", tokens.iter().map(|token| u64::try_from(token.0).unwrap()).collect())
        }
        other => panic!("{other:?}"),
    };
    commands.into_iter().map(one).collect()
}

#[test]
fn deliveries_waiting_half_of_their_lock_are_returned() {
    let mut harness = Harness::with_window(2);
    let (link, receiver) = harness.receiver("q");
    harness.client.set_credit(link, 100, false);
    harness.commands();
    (1..=5).for_each(|number| harness.deliver(receiver, number));
    assert_eq!(harness.turn_unread(0), []);
    assert_eq!(harness.turn_unread(LOCK_MS / 2 - 1), []);
    let given_back = in_short(harness.turn_unread(1));
    // One credit less would void delivered messages; one more is granted once other receivers can get the released
    // ones.
    let expected = [("credit", vec![5]), ("release", vec![3, 4, 5]), ("credit", vec![6])];
    assert_eq!(given_back, expected);
    assert_eq!(harness.broker.unsettled, 2);
    harness.deliver(receiver, 3);
    assert_eq!(in_short(harness.turn_unread(0)), []);
    assert_eq!(
        in_short(harness.turn_unread(LOCK_MS / 2)),
        [("credit", vec![6]), ("release", vec![3]), ("credit", vec![7])]
    );
    harness.deliver(receiver, 3);
    assert_eq!(harness.messages().len(), 3, "the window is open again");
    assert_eq!(in_short(harness.commands()), [("credit", vec![9])], "and grows");
}

/// A message of a session has the end of the session's lock, which may be near.
#[test]
fn a_message_whose_lock_is_about_to_end_is_sent() {
    let mut harness = Harness::new();
    let (link, receiver) = harness.receiver("q");
    harness.client.set_credit(link, 1, false);
    harness.commands();
    let lock = Some(Lock { token: LockToken(1), locked_until: NOW.plus_ms(1) });
    let message = Received { view: view(1), content: message("late"), lock };
    harness.output(Output::Delivery(Box::new(Delivery { receiver, message, departing: None, share: None })));
    assert_eq!(in_short(harness.turn_unread(0)), []);
    assert_eq!(harness.messages().len(), 1);
}

#[test]
fn deliveries_being_sent_are_not_withdrawn() {
    let (mut harness, ..) = deleting(2);
    let removed = harness.turn_unread(0);
    let (tag, _) = removed[0].clone();
    assert_eq!(in_short(removed), [("complete", vec![1, 2])]);
    let given_back = in_short(harness.turn_unread(LOCK_MS / 2));
    assert_eq!(given_back, [("credit", vec![5]), ("release", vec![3, 4, 5])]);
    harness.answer(tag, Response::Settled(Vec::new()));
    assert_eq!(got(&mut harness), (vec![1, 2], false));
}

#[test]
fn a_drain_is_answered_when_the_remaining_deliveries_are_given_back() {
    let mut harness = Harness::with_window(1);
    let (link, receiver) = harness.receiver("q");
    harness.client.set_credit(link, 10, true);
    harness.commands();
    (1..=3).for_each(|number| harness.deliver(receiver, number));
    harness.output(Output::Drained { receiver });
    assert_eq!(harness.turn_unread(0), []);
    let given_back = in_short(harness.turn_unread(LOCK_MS / 2));
    assert_eq!(given_back, [("credit", vec![3]), ("release", vec![2, 3])]);
    let drained = |event: &Event| matches!(event, Event::Drained { .. });
    assert!(harness.events().iter().any(drained));
    harness.client.set_credit(link, 1, false);
    assert_eq!(
        in_short(harness.commands()),
        [("credit", vec![4])],
        "credit counts from the delivered messages"
    );
}

#[test]
fn a_drain_is_answered_when_no_message_could_be_removed() {
    let mut harness = Harness::with_window(100);
    let (link, receiver) = harness.deleting_receiver("q");
    harness.client.set_credit(link, 10, true);
    harness.commands();
    harness.deliver(receiver, 1);
    harness.output(Output::Drained { receiver });
    let (tag, command) = harness.command();
    assert_eq!(command, removal(&[1]));
    let drained = |event: &Event| matches!(event, Event::Drained { .. });
    assert!(!harness.events().iter().any(drained), "the delivery precedes the answer");
    harness
        .answer(tag, Response::Settled(vec![SettleFailure { index: 0, refusal: Refusal::MessageLockLost }]));
    assert!(harness.events().iter().any(drained));
    assert_eq!(in_short(harness.commands()), [("release", vec![1])], "the credit is void");
}

#[test]
fn deliveries_on_their_way_from_the_engine_when_credit_is_reduced_are_given_back_at_once() {
    for drain in [false, true] {
        let mut harness = Harness::new();
        let (link, receiver) = harness.receiver("q");
        harness.client.set_credit(link, 5, false);
        harness.client.set_credit(link, 2, drain);
        harness.commands();
        (1..=5).for_each(|number| harness.deliver(receiver, number));
        assert_eq!(in_short(harness.turn_unread(0)), [("release", vec![3, 4, 5])]);
        if drain {
            harness.output(Output::Drained { receiver });
        }
        assert_eq!((harness.messages().len(), harness.broker.unsettled), (2, 2));
        harness.client.set_credit(link, 1, false);
        assert_eq!(in_short(harness.commands()), [("credit", vec![6])], "the third message for the peer");
    }
}
