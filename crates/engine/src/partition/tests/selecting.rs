//! Receivers with a selector.

use super::rig::{LOCK_MS, Rig, abandon, dead_letter, message, numbers, options, with_ttl};
use crate::{
    Command, Effect, QueueOptions, ReceiveMode, ReceiverId, Refusal, SequenceNumber, Settlement, SubQueue,
};

/// Opens a receiver with a selector and credit.
fn select(rig: &mut Rig, sub_queue: SubQueue, messages: u64) -> (ReceiverId, Vec<Effect>) {
    let receiver = rig.open(sub_queue, ReceiveMode::PeekLock);
    assert_eq!(rig.handle(None, Command::Select { receiver }), []);
    let effects = rig.credit(receiver, messages, false);
    (receiver, effects)
}

/// The messages that receivers are asked to examine.
fn asked(effects: &[Effect]) -> Vec<u64> {
    let views = effects.iter().filter_map(|effect| match effect {
        Effect::Examine { views, .. } => Some(views),
        _ => None,
    });
    views.flatten().map(|view| view.sequence_number.0).collect()
}

fn examined(rig: &mut Rig, receiver: ReceiverId, matching: &[u64]) -> Vec<Effect> {
    let matching = matching.iter().copied().map(SequenceNumber).collect();
    rig.handle(None, Command::Examined { receiver, matching })
}

fn rig_with(messages: u64) -> Rig {
    let mut rig = Rig::new(options());
    for _ in 0..messages {
        rig.send(message("a"));
    }
    rig
}

#[test]
fn only_matching_messages_are_delivered_in_order() {
    let mut rig = rig_with(4);
    let (receiver, effects) = select(&mut rig, SubQueue::Main, 10);
    assert_eq!((asked(&effects), numbers(effects)), (vec![1, 2, 3, 4], vec![]));
    assert_eq!(numbers(examined(&mut rig, receiver, &[4, 2, 99])), [2, 4]);
    // Other messages are available to other receivers.
    let plain = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    assert_eq!(numbers(rig.credit(plain, 10, false)), [1, 3]);
}

#[test]
fn each_message_is_asked_about_once() {
    let mut rig = rig_with(2);
    let (receiver, effects) = select(&mut rig, SubQueue::Main, 10);
    assert_eq!(asked(&effects), [1, 2]);
    rig.send(message("b"));
    assert_eq!(asked(&examined(&mut rig, receiver, &[])), [3]);
    assert_eq!(examined(&mut rig, receiver, &[]), []);
    assert_eq!(rig.credit(receiver, 20, false), []);
}

#[test]
fn without_credit_nothing_is_asked() {
    let mut rig = rig_with(2);
    let (receiver, effects) = select(&mut rig, SubQueue::Main, 1);
    assert_eq!(asked(&effects), [1, 2]);
    assert_eq!(numbers(examined(&mut rig, receiver, &[1, 2])), [1]);
    rig.send(message("b"));
    let effects = rig.credit(receiver, 3, false);
    assert_eq!((asked(&effects), numbers(effects)), (vec![3], vec![2]));
}

#[test]
fn a_returned_message_is_examined_again_and_holds_back_later_ones() {
    let mut rig = rig_with(3);
    let (receiver, _) = select(&mut rig, SubQueue::Main, 1);
    let effects = examined(&mut rig, receiver, &[1, 2, 3]);
    let Some(Effect::Deliver { lock: Some(lock), .. }) = effects.first() else { panic!("{effects:?}") };
    rig.settle(lock.token, abandon()).unwrap();
    let effects = rig.credit(receiver, 5, false);
    assert_eq!((asked(&effects), numbers(effects)), (vec![1], vec![]));
    assert_eq!(numbers(examined(&mut rig, receiver, &[1])), [1, 2, 3]);
}

#[test]
fn a_postponed_message_is_examined_when_it_is_due_and_holds_back_nothing_before() {
    const DELAY_MS: u64 = 5_000;
    let mut rig = rig_with(3);
    let (receiver, _) = select(&mut rig, SubQueue::Main, 1);
    let (other, _) = select(&mut rig, SubQueue::Main, 0);
    let effects = examined(&mut rig, receiver, &[1, 3]);
    let Some(Effect::Deliver { lock: Some(lock), .. }) = effects.first() else { panic!("{effects:?}") };
    let until = rig.now.plus_ms(DELAY_MS);
    rig.settle(lock.token, Settlement::Postpone { modify: Vec::new(), until }).unwrap();
    let effects = rig.credit(receiver, 5, false);
    assert_eq!((asked(&effects), numbers(effects)), (vec![], vec![3]));
    assert_eq!(asked(&rig.credit(other, 5, false)), [2]);
    assert_eq!(examined(&mut rig, other, &[]), []);
    assert_eq!(asked(&rig.advance(DELAY_MS - 1)), []);
    // Both are asked: the message has become available since both last examined it.
    assert_eq!(asked(&rig.advance(1)), [1, 1]);
    assert_eq!(numbers(examined(&mut rig, other, &[])), []);
    assert_eq!(numbers(examined(&mut rig, receiver, &[1])), [1]);
}

#[test]
fn a_postponed_message_is_examined_again_after_a_restart() {
    let mut rig = rig_with(1);
    let (_, token) = rig.take_one().unwrap();
    let until = rig.now.plus_ms(LOCK_MS);
    rig.settle(token, Settlement::Postpone { modify: Vec::new(), until }).unwrap();
    rig.restart();
    let (receiver, effects) = select(&mut rig, SubQueue::Main, 5);
    assert_eq!(asked(&effects), []);
    assert_eq!(asked(&rig.advance(LOCK_MS)), [1]);
    assert_eq!(numbers(examined(&mut rig, receiver, &[1])), [1]);
}

#[test]
fn a_message_that_was_locked_during_its_examination_is_examined_again() {
    let mut rig = rig_with(1);
    let (receiver, effects) = select(&mut rig, SubQueue::Main, 5);
    assert_eq!(asked(&effects), [1]);
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, abandon()).unwrap();
    let effects = examined(&mut rig, receiver, &[1]);
    assert_eq!((asked(&effects), numbers(effects)), (vec![1], vec![]));
}

#[test]
fn a_drain_ends_when_everything_was_looked_at() {
    let mut rig = rig_with(2);
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    rig.handle(None, Command::Select { receiver });
    assert_eq!(asked(&rig.credit(receiver, 5, true)), [1, 2]);
    let effects = examined(&mut rig, receiver, &[2]);
    assert_eq!(effects.last(), Some(&Effect::Drained { receiver }));
    assert_eq!(numbers(effects), [2]);
    // No receiver is listening any more.
    assert_eq!(rig.credit(receiver, 1, true), [Effect::Drained { receiver }]);
}

#[test]
fn each_drain_is_answered_once_also_one_that_other_credit_replaces() {
    let mut rig = rig_with(1);
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    rig.handle(None, Command::Select { receiver });
    assert_eq!(asked(&rig.credit(receiver, 5, true)), [1]);
    assert_eq!(rig.credit(receiver, 6, true), [Effect::Drained { receiver }]);
    assert_eq!(rig.credit(receiver, 7, false), [Effect::Drained { receiver }]);
    assert_eq!(rig.credit(receiver, 8, true), []);
    let effects = examined(&mut rig, receiver, &[1]);
    assert!(matches!(effects[..], [Effect::Deliver { .. }, Effect::Drained { .. }]), "{effects:?}");
}

#[test]
fn dead_letters_are_selected_alike() {
    let mut rig = rig_with(2);
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, dead_letter("bad")).unwrap();
    let (receiver, effects) = select(&mut rig, SubQueue::DeadLetter, 5);
    assert_eq!(asked(&effects), [1]);
    assert_eq!(numbers(examined(&mut rig, receiver, &[1])), [1]);
    // A message with a lower number than the examined ones.
    let (receiver, _) = select(&mut rig, SubQueue::DeadLetter, 5);
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, dead_letter("bad")).unwrap();
    assert_eq!(numbers(examined(&mut rig, receiver, &[2])), [2]);
}

#[test]
fn expired_messages_are_neither_browsed_nor_delivered() {
    let mut rig = Rig::new(options());
    rig.send(with_ttl("a", LOCK_MS));
    rig.send(message("b"));
    let (receiver, effects) = select(&mut rig, SubQueue::Main, 5);
    assert_eq!(asked(&effects), [1, 2]);
    rig.advance(LOCK_MS);
    assert_eq!(numbers(examined(&mut rig, receiver, &[1, 2])), [2]);
    assert_eq!(rig.counts(), (1, 0, 0));
}

#[test]
fn pending_requests_of_a_closed_receiver_are_void() {
    let mut rig = rig_with(1);
    let (receiver, _) = select(&mut rig, SubQueue::Main, 5);
    rig.handle(None, Command::CloseReceiver { receiver });
    assert_eq!(examined(&mut rig, receiver, &[1]), []);
    assert_eq!(rig.take_one().unwrap().0.sequence_number.0, 1);
}

#[test]
fn each_receiver_is_asked_for_itself() {
    let mut rig = rig_with(4);
    let (first, _) = select(&mut rig, SubQueue::Main, 5);
    let (second, _) = select(&mut rig, SubQueue::Main, 0);
    examined(&mut rig, first, &[]);
    let effects = rig.credit(second, 5, false);
    assert_eq!(asked(&effects), [1, 2, 3, 4]);
    for _ in 0..2 {
        rig.send(message("b"));
    }
    // The first receiver was asked about the new messages when the first of them was sent.
    let effects = examined(&mut rig, second, &[1, 2]);
    assert_eq!((asked(&effects), numbers(effects)), (vec![5, 6], vec![1, 2]));
}

#[test]
fn the_holder_of_a_session_can_t_have_a_selector() {
    let mut rig = Rig::new(QueueOptions { requires_session: true, ..options() });
    let receiver = rig.open(SubQueue::DeadLetter, ReceiveMode::PeekLock);
    assert_eq!(rig.handle(None, Command::Select { receiver }), []);
    let receiver = ReceiverId(77);
    rig.send(crate::NewMessage { session_id: Some("s".into()), ..message("a") });
    let accepted = rig.ask(Command::OpenReceiver {
        receiver,
        options: crate::ReceiverOptions { source: super::rig::path(SubQueue::Main), ..Default::default() },
        session: Some(crate::SessionRequest {
            id: Some("s".into()),
            wait_until: rig.now,
            ..crate::SessionRequest::default()
        }),
    });
    assert!(matches!(accepted, crate::Reply::Opened(Ok(Some(_)))), "{accepted:?}");
    let effects = rig.handle(None, Command::Select { receiver });
    assert!(
        matches!(&effects[..], [Effect::ReceiverClosed { refusal: Refusal::NotAllowed(_), .. }]),
        "{effects:?}"
    );
}

#[test]
fn messages_removed_meanwhile_are_not_delivered() {
    let mut rig = rig_with(2);
    let (receiver, _) = select(&mut rig, SubQueue::Main, 5);
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, Settlement::Complete).unwrap();
    assert_eq!(numbers(examined(&mut rig, receiver, &[1, 2])), [2]);
}
