use peeklock_engine::runtime::Response;
use peeklock_engine::{CreditLimit, Delivery, Lock, LockToken, Received, Refusal, SettleFailure, Settlement};
use smallvec::SmallVec;

use super::harness::{Harness, NOW, QUEUE, request, view};
use crate::endpoint::Event;
use crate::endpoint::IncomingId;
use crate::servicebus::receiver::{UNSETTLED_MAX, WINDOW_BYTES, WINDOW_MESSAGES};
use crate::servicebus::*;
use crate::wire::Value;
use crate::wire::message::Sections;
use crate::wire::performative::DeliveryState;

fn limit(messages: u64) -> CreditLimit {
    CreditLimit { messages, bytes: WINDOW_BYTES }
}

/// A receiver with credit and that many messages at the client.
fn received(harness: &mut Harness, count: u64) -> (LinkId, ReceiverId, Vec<IncomingId>) {
    let (link, receiver) = harness.receiver("q");
    harness.client.set_credit(link, 100, false);
    assert_eq!(harness.command().1, Command::Credit { receiver, limit: limit(100), drain: false });
    for number in 1..=count {
        harness.deliver(receiver, number);
    }
    let messages = harness.messages();
    assert_eq!(messages.len(), usize::try_from(count).unwrap());
    (link, receiver, messages.into_iter().map(|(id, ..)| id).collect())
}

/// States the broker settled the client's deliveries with.
fn settled(harness: &mut Harness) -> Vec<Option<DeliveryState>> {
    let events = harness.events().into_iter();
    events
        .filter_map(|event| match event {
            Event::Settled { state, .. } => Some(state),
            _ => None,
        })
        .collect()
}

fn tokens(numbers: &[u128]) -> SmallVec<[LockToken; 1]> {
    numbers.iter().copied().map(LockToken).collect()
}

#[test]
fn messages_travel_under_their_lock_token_with_an_explicit_delivery_count() {
    let mut harness = Harness::new();
    let (link, receiver) = harness.receiver("q");
    harness.client.set_credit(link, 1, false);
    harness.deliver(receiver, 5);
    let (_, tag, payload) = harness.messages().remove(0);
    assert_eq!(tag[..], lock_token::to_tag(LockToken(5)));
    let sections = Sections::split(&payload).unwrap();
    assert_eq!(sections.decode_header().unwrap().delivery_count, Some(0));
}

/// Stored by an earlier version, which accepted ids of any type and maps with duplicate keys.
#[test]
fn a_stored_message_is_delivered_unchanged_and_can_be_dead_lettered() {
    let mut harness = Harness::new();
    let (_, receiver, _) = received(&mut harness, 0);
    let twice = Value::Map(vec![("key".into(), Value::Null), ("key".into(), Value::Null)]);
    let content = request(Value::Int(1), &[("map", twice.clone())], &twice);
    let lock = Some(Lock { token: LockToken(5), locked_until: NOW.plus_ms(60_000) });
    let message = Received { view: view(5), content: content.clone(), lock };
    let delivery = Delivery { receiver, message, departing: None, share: None };
    harness.output(Output::Delivery(Box::new(delivery)));
    let (id, _, payload) = harness.messages().remove(0);
    assert!(payload.ends_with(&content));
    harness.client.update_incoming(id, DeliveryState::Rejected(None));
    let Command::Settle { tokens, settlement: Settlement::DeadLetter { .. }, .. } = harness.command().1
    else {
        panic!("a dead letter")
    };
    assert_eq!(tokens[..], [LockToken(5)]);
}

#[test]
fn an_outcome_settles_and_is_answered_in_kind_once_done() {
    let mut harness = Harness::new();
    let (_, _, ids) = received(&mut harness, 1);
    harness.client.update_incoming(ids[0], DeliveryState::Accepted);
    let (tag, command) = harness.command();
    assert_eq!(
        command,
        Command::Settle { queue: QUEUE, tokens: tokens(&[1]), settlement: Settlement::Complete }
    );
    assert_eq!(settled(&mut harness), []);
    harness.answer(tag, Response::Settled(Vec::new()));
    assert_eq!(settled(&mut harness), [Some(DeliveryState::Accepted)]);
}

#[test]
fn s19_dead_lettering_is_confirmed_without_an_error() {
    let mut harness = Harness::new();
    let (_, _, ids) = received(&mut harness, 1);
    let error = crate::wire::performative::Error {
        condition: "com.microsoft:dead-letter".into(),
        ..Default::default()
    };
    harness.client.update_incoming(ids[0], DeliveryState::Rejected(Some(error)));
    let (tag, _) = harness.command();
    harness.answer(tag, Response::Settled(Vec::new()));
    assert_eq!(settled(&mut harness), [Some(DeliveryState::Rejected(None))]);
}

#[test]
fn a_range_with_one_lost_lock_fails_for_that_one_only() {
    let mut harness = Harness::new();
    let (_, _, ids) = received(&mut harness, 3);
    for id in ids {
        harness.client.update_incoming(id, DeliveryState::Accepted);
    }
    let (tag, command) = harness.command();
    let Command::Settle { queue: QUEUE, tokens: settled_tokens, .. } = command else { panic!("one settle") };
    assert_eq!(settled_tokens, tokens(&[1, 2, 3]), "neighbours travel together");
    let lost = SettleFailure { index: 1, refusal: Refusal::MessageLockLost };
    harness.answer(tag, Response::Settled(vec![lost]));
    let states = settled(&mut harness);
    assert_eq!((&states[0], &states[2]), (&Some(DeliveryState::Accepted), &Some(DeliveryState::Accepted)));
    let Some(DeliveryState::Rejected(Some(error))) = &states[1] else { panic!("{states:?}") };
    assert_eq!(&*error.condition, "com.microsoft:message-lock-lost");
    assert!(error.description.as_deref().unwrap().starts_with("The lock supplied is invalid."));
}

#[test]
fn a_settled_outcome_is_carried_out_silently() {
    let mut harness = Harness::new();
    let (_, _, ids) = received(&mut harness, 1);
    harness.client.settle_incoming(ids[0], DeliveryState::Released);
    let (tag, command) = harness.command();
    assert_eq!(
        (tag, command),
        (None, Command::Settle { queue: QUEUE, tokens: tokens(&[1]), settlement: Settlement::Release })
    );
    assert_eq!(harness.broker.unsettled, 0);
}

#[test]
fn a_drain_is_answered_when_the_engine_has_nothing_more() {
    let mut harness = Harness::new();
    let (link, receiver) = harness.receiver("q");
    harness.client.set_credit(link, 5, true);
    assert_eq!(harness.command().1, Command::Credit { receiver, limit: limit(5), drain: true });
    harness.deliver(receiver, 1);
    harness.output(Output::Drained { receiver });
    let events = harness.events();
    assert!(matches!(events[..], [Event::Message { .. }, Event::Drained { .. }]), "{events:?}");
    harness.client.set_credit(link, 2, false);
    let Command::Credit { limit, drain, .. } = harness.command().1 else { panic!("credit") };
    assert_eq!((limit.messages, drain), (3, false), "credit counts from the delivered messages");
}

#[test]
fn the_engine_gets_credit_through_a_window() {
    let mut harness = Harness::new();
    let (link, receiver) = harness.receiver("q");
    harness.client.set_credit(link, 1_000_000, false);
    assert_eq!(
        harness.command().1,
        Command::Credit { receiver, limit: limit(WINDOW_MESSAGES), drain: false }
    );
    for number in 1..=WINDOW_MESSAGES {
        harness.deliver(receiver, number);
    }
    harness.server_turn();
    assert_eq!(harness.messages().len(), usize::try_from(WINDOW_MESSAGES).unwrap());
    let commands = harness.commands();
    let Some((None, Command::Credit { limit, .. })) = commands.last() else { panic!("{commands:?}") };
    assert_eq!(limit.messages, 2 * WINDOW_MESSAGES);
}

#[test]
fn a_detach_returns_unsent_deliveries_and_keeps_the_others_locked() {
    let mut harness = Harness::with_window(1);
    let (link, receiver) = harness.receiver("q");
    harness.client.set_credit(link, 10, false);
    harness.commands();
    for number in 1..=3 {
        harness.deliver(receiver, number);
    }
    assert_eq!(harness.turn_unread(0), [], "the first one has left");
    harness.client.detach(link, None);
    let commands: Vec<Command> = harness.commands().into_iter().map(|(_, command)| command).collect();
    let release = Command::Settle { queue: QUEUE, tokens: tokens(&[2, 3]), settlement: Settlement::Release };
    assert_eq!(commands, [Command::CloseReceiver { receiver }, release]);
    assert_eq!(harness.broker.unsettled, 0);
}

#[test]
fn a_delivery_that_crosses_the_detach_is_given_back() {
    let mut harness = Harness::new();
    let (link, receiver) = harness.receiver("q");
    harness.client.detach(link, None);
    assert_eq!(harness.command().1, Command::CloseReceiver { receiver });
    harness.deliver(receiver, 4);
    let release = Command::Settle { queue: QUEUE, tokens: tokens(&[4]), settlement: Settlement::Release };
    assert_eq!(harness.command().1, release);
}

#[test]
fn a_receiver_the_engine_closes_is_detached_with_the_reason() {
    let mut harness = Harness::new();
    let (_, receiver) = harness.receiver("q");
    harness.output(Output::ReceiverClosed { receiver, refusal: Refusal::EntityDeleted });
    assert_eq!(&*harness.refusal().unwrap().condition, "amqp:not-found");
    assert_eq!(harness.commands(), []);
}

#[test]
fn a_peer_that_never_settles_loses_its_link() {
    let mut harness = Harness::new();
    let (link, receiver) = harness.receiver("q");
    harness.client.set_credit(link, u32::MAX, false);
    harness.broker.unsettled = UNSETTLED_MAX;
    harness.deliver(receiver, 1);
    assert_eq!(&*harness.refusal().unwrap().condition, "amqp:resource-limit-exceeded");
}

#[test]
fn outcomes_of_unknown_transactions_are_refused_and_nothing_settles() {
    let mut harness = Harness::new();
    let (_, _, ids) = received(&mut harness, 1);
    let outcome = Some(Box::new(DeliveryState::Accepted));
    let state = DeliveryState::Transactional { txn_id: bytes::Bytes::from_static(b"t"), outcome };
    harness.client.update_incoming(ids[0], state);
    assert_eq!(harness.commands(), []);
    let events = harness.events();
    let [Event::Updated { state: DeliveryState::Transactional { outcome: Some(outcome), .. }, .. }] =
        &events[..]
    else {
        panic!("{events:?}")
    };
    let DeliveryState::Rejected(Some(error)) = &**outcome else { panic!("{outcome:?}") };
    assert_eq!(&*error.condition, "amqp:transaction:unknown-id");
}

#[test]
fn completions_one_by_one_reach_the_engine_together() {
    let mut harness = Harness::new();
    let (_, _, ids) = received(&mut harness, 4);
    for (index, id) in ids.into_iter().enumerate() {
        let state = if index == 2 { DeliveryState::Released } else { DeliveryState::Accepted };
        harness.client.update_incoming(id, state);
        harness.client_speaks();
    }
    let commands = harness.commands();
    let settles: Vec<_> = commands
        .iter()
        .map(|(_, command)| match command {
            Command::Settle { tokens, settlement, .. } => (tokens.clone(), settlement.clone()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        settles,
        [
            (tokens(&[1, 2]), Settlement::Complete),
            (tokens(&[3]), Settlement::Release),
            (tokens(&[4]), Settlement::Complete),
        ]
    );
    for (tag, _) in commands {
        harness.answer(tag, Response::Settled(Vec::new()));
    }
    assert_eq!(settled(&mut harness).len(), 4);
}

#[test]
fn deliveries_sent_just_before_the_detach_stay_locked() {
    let mut harness = Harness::new();
    let (link, receiver) = harness.receiver("q");
    harness.client.set_credit(link, 5, false);
    harness.commands();
    harness.deliver(receiver, 1);
    harness.one_turn();
    // The broker's next input is the detach.
    harness.client.detach(link, None);
    assert_eq!(harness.command().1, Command::CloseReceiver { receiver });
}

/// A peer that drains endlessly must not pile up requests to the engine.
#[test]
fn drains_count_as_unanswered_and_repeated_ones_are_joined() {
    let mut harness = Harness::new();
    let (link, receiver) = harness.receiver("q");
    for _ in 0..3 {
        harness.client.set_credit(link, 10, true);
        harness.pump();
    }
    assert_eq!(harness.command().1, Command::Credit { receiver, limit: limit(10), drain: true });
    assert_eq!(harness.broker.unanswered().messages, 1);
    harness.output(Output::Drained { receiver });
    harness.pump();
    assert_eq!(harness.broker.unanswered().messages, 0);
    assert!(harness.events().iter().any(|event| matches!(event, Event::Drained { link: l } if *l == link)));
}

#[test]
fn credit_granted_during_a_drain_moves_the_window_once_that_is_answered() {
    let mut harness = Harness::new();
    let (link, receiver) = harness.receiver("q");
    let messages = |harness: &mut Harness| {
        let credits = harness.commands().into_iter().filter_map(|(_, command)| match command {
            Command::Credit { limit, drain, .. } => Some((limit.messages, drain)),
            _ => None,
        });
        credits.collect::<Vec<_>>()
    };
    harness.client.set_credit(link, 10_000, true);
    assert_eq!(messages(&mut harness), [(WINDOW_MESSAGES, true)]);
    (1..=WINDOW_MESSAGES).for_each(|number| harness.deliver(receiver, number));
    harness.client.set_credit(link, 10_000, false);
    let granted: Vec<_> = messages(&mut harness);
    assert!(granted.iter().all(|(_, drain)| !drain), "{granted:?}");
    harness.output(Output::Drained { receiver });
    let moved = messages(&mut harness);
    let last = granted.into_iter().chain(moved).last();
    assert_eq!(last, Some((2 * WINDOW_MESSAGES, false)));
    assert_eq!(harness.broker.unanswered().messages, 0);
}

#[test]
fn a_drain_of_a_detached_link_counts_no_longer() {
    let mut harness = Harness::new();
    let (link, _) = harness.receiver("q");
    harness.client.set_credit(link, 10, true);
    harness.pump();
    harness.client.detach(link, None);
    harness.pump();
    assert_eq!(harness.broker.unanswered(), Unanswered::default());
}
