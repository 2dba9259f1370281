use peeklock_engine::runtime::Response;
use peeklock_engine::{LockToken, QueuePath, ReceiveMode, ReceiverOptions, Refusal, Settlement, SubQueue};

use super::authorization::{access_and_clock, ended, put_token};
use super::harness::{Harness, QUEUE};
use crate::endpoint::Event;
use crate::server::Peer;
use crate::servicebus::*;
use crate::wire::Value;
use crate::wire::performative::{Attach, ReceiverSettleMode, SenderSettleMode, Terminus};

fn attach_reply(harness: &mut Harness) -> Attach {
    let events = harness.events();
    let replies = events.into_iter().find_map(|event| match event {
        Event::Attach { attach, .. } => Some(*attach),
        _ => None,
    });
    replies.expect("an answer to the attach")
}

fn condition_of(harness: &mut Harness, attach: Attach) -> String {
    harness.attach(attach);
    assert!(harness.commands().is_empty(), "the engine is not bothered");
    harness.refusal().expect("refused").condition.into()
}

#[test]
fn a_sender_sees_its_attach_echoed_and_gets_credit_at_once() {
    let mut harness = Harness::new();
    let attach = harness.sender_attach("amqps://localhost:5671/Q");
    harness.attach(attach.clone());
    let events = harness.events();
    let credit = events.iter().find_map(|event| match event {
        Event::Credit { limit, .. } => Some(*limit),
        _ => None,
    });
    assert_eq!(credit, Some(1000), "JS gives up after a second without credit");
    let reply = events.into_iter().find_map(|event| match event {
        Event::Attach { attach, .. } => Some(attach),
        _ => None,
    });
    let reply = reply.expect("an answer to the attach");
    assert_eq!((&reply.source, &reply.target), (&attach.source, &attach.target));
    assert_eq!(
        (reply.snd_settle_mode, reply.rcv_settle_mode),
        (attach.snd_settle_mode, attach.rcv_settle_mode)
    );
    assert_eq!(reply.max_message_size, Some(10_000));
    let batches = ("com.microsoft:max-message-batch-size".into(), Value::Long(10_000));
    assert!(reply.properties.contains(&batches), "{:?}", reply.properties);
}

#[test]
fn a_settlement_in_two_steps_is_not_promised_to_senders_nor_unsettled_responses() {
    let mut harness = Harness::new();
    for address in ["q", "q/$management", "$cbs"] {
        let attach = harness.sender_attach(address);
        harness.attach(Attach { rcv_settle_mode: ReceiverSettleMode::Second, ..attach });
        assert_eq!(attach_reply(&mut harness).rcv_settle_mode, ReceiverSettleMode::First, "{address}");
    }
    for address in ["q/$management", "$cbs"] {
        let attach = harness.receiver_attach(address);
        harness.attach(attach);
        assert_eq!(attach_reply(&mut harness).snd_settle_mode, SenderSettleMode::Settled, "{address}");
    }
}

#[test]
fn a_message_that_its_receiver_does_not_take_ends_the_link_and_is_given_back() {
    let mut harness = Harness::new();
    let attach = harness.receiver_attach("q");
    let link = harness.attach(Attach { max_message_size: Some(60), ..attach });
    let (tag, Command::OpenReceiver { receiver, .. }) = harness.command() else { panic!("a receiver opens") };
    harness.answer(tag, Response::Opened(Ok(None)));
    harness.client.set_credit(link, 10, false);
    harness.commands();
    harness.deliver(receiver, 3);
    assert_eq!(&*harness.refusal().unwrap().condition, "amqp:link:message-size-exceeded");
    let commands: Vec<_> = harness.commands().into_iter().map(|(_, command)| command).collect();
    let tokens = [LockToken(3)].into_iter().collect();
    let settlement = Settlement::Release;
    let released = Command::Settle { queue: QUEUE, tokens, settlement };
    assert_eq!(commands, [Command::CloseReceiver { receiver }, released]);
}

#[test]
fn a_receiver_is_accepted_once_the_engine_has_opened_it() {
    let mut harness = Harness::new();
    let attach = harness.receiver_attach("/my%20queue/$DeadLetterQueue");
    harness.attach(attach.clone());
    let (tag, command) = harness.command();
    let options = ReceiverOptions {
        source: QueuePath { queue: QUEUE, sub_queue: SubQueue::DeadLetter },
        mode: ReceiveMode::PeekLock,
    };
    assert_eq!(command, Command::OpenReceiver { receiver: ReceiverId(1), options, session: None });
    assert!(harness.events().iter().all(|event| !matches!(event, Event::Attach { .. })));
    harness.answer(tag, Response::Opened(Ok(None)));
    let reply = attach_reply(&mut harness);
    assert_eq!((&reply.source, &reply.target), (&attach.source, &attach.target));
    assert_eq!(
        (reply.snd_settle_mode, reply.rcv_settle_mode),
        (attach.snd_settle_mode, attach.rcv_settle_mode)
    );
    assert_eq!(reply.initial_delivery_count, Some(0));
}

#[test]
fn a_receiver_the_engine_refuses_is_refused() {
    let mut harness = Harness::new();
    let attach = harness.receiver_attach("q");
    harness.attach(attach);
    let (tag, _) = harness.command();
    harness.answer(tag, Response::Opened(Err(Refusal::EntityDeleted)));
    assert_eq!(&*harness.refusal().unwrap().condition, "amqp:not-found");
}

#[test]
fn settled_senders_mean_receive_and_delete_and_others_peek_lock() {
    for (mode, expected) in [
        (SenderSettleMode::Settled, ReceiveMode::ReceiveAndDelete),
        (SenderSettleMode::Unsettled, ReceiveMode::PeekLock),
        (SenderSettleMode::Mixed, ReceiveMode::PeekLock),
    ] {
        let mut harness = Harness::new();
        let attach = harness.receiver_attach("q");
        harness.attach(Attach { snd_settle_mode: mode, ..attach });
        let (_, Command::OpenReceiver { options, .. }) = harness.command() else {
            panic!("a receiver opens")
        };
        assert_eq!(options.mode, expected);
    }
}

#[test]
fn unknown_entities_are_refused_with_the_text_the_sdks_look_for() {
    let mut harness = Harness::new();
    for address in ["nope", "q/$Nowhere", "q/Subscriptions/s", "nope/$management"] {
        for attach in [harness.sender_attach(address), harness.receiver_attach(address)] {
            let target_or_source = attach.role;
            harness.attach(attach);
            let events = harness.events();
            let null = events.iter().any(|event| match event {
                Event::Attach { attach, .. } => attach.source.is_none() && attach.target.is_none(),
                _ => false,
            });
            assert!(null, "{target_or_source:?}: attach without termini before the detach");
            let error = events.into_iter().find_map(|event| match event {
                Event::Detached { error, closed: true, .. } => error,
                _ => None,
            });
            let error = error.expect("a closing detach");
            assert_eq!(&*error.condition, "amqp:not-found");
            let text = error.description.unwrap();
            assert!(text.starts_with("The messaging entity 'sb://localhost/"), "{text}");
            assert!(text.contains("could not be found"), "{text}");
        }
    }
}

#[test]
fn unsupported_attach_features_are_refused() {
    let mut harness = Harness::new();
    let mut dynamic = harness.receiver_attach("q");
    dynamic.source = Some(Terminus { dynamic: true, ..Terminus::default() });
    let mut anonymous = harness.receiver_attach("q");
    anonymous.source = Some(Terminus::default());
    for attach in [dynamic, anonymous] {
        assert_eq!(condition_of(&mut harness, attach), "amqp:not-implemented");
    }
    let dead_letter = harness.sender_attach("q/$DeadLetterQueue");
    assert_eq!(condition_of(&mut harness, dead_letter), "amqp:not-allowed");
}

#[test]
fn filters_that_are_not_in_place_are_not_echoed() {
    let mut harness = Harness::new();
    let mut attach = harness.receiver_attach("q");
    attach.source.as_mut().unwrap().filter.push(("apache.org:selector-filter:string".into(), Value::Null));
    harness.attach(attach);
    let (tag, _) = harness.command();
    harness.answer(tag, Response::Opened(Ok(None)));
    assert!(attach_reply(&mut harness).source.unwrap().filter.is_empty());
}

#[test]
fn the_end_of_a_connection_closes_its_receivers() {
    let mut harness = Harness::new();
    let (_, receiver) = harness.receiver("q");
    harness.client.close(None);
    assert_eq!(harness.command(), (None, Command::CloseReceiver { receiver }));
}

/// Closing the link deletes the subscription, which needs the right at that time.
#[test]
fn a_link_that_unsubscribes_needs_the_right_when_it_is_closed() {
    for (passed_ms, deletions) in [(0, 1), (3_600_000, 0)] {
        let (access, clock) = access_and_clock();
        let mut harness = Harness::with(access, &Peer::default());
        put_token(&mut harness, "t");
        let attach = Attach { name: "mine".into(), source: None, ..harness.receiver_attach("t") };
        let link = harness.attach(attach);
        assert_eq!(ended(&mut harness), Vec::<String>::new());
        clock.advance(passed_ms);
        harness.client.detach(link, None);
        harness.pump();
        assert_eq!(harness.broker.pending.len(), deletions, "after {passed_ms} ms");
    }
}
