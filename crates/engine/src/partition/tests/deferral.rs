use super::rig::{LOCK_MS, Rig, abandon, dead_letter, defer, message, options, with_ttl};
use crate::{
    LockToken, MessageState, NewMessage, Property, QueueOptions, ReceiveMode, Refusal, Settlement, SubQueue,
};

/// A rig with `count` deferred messages, numbered from 1.
fn with_deferred(options: QueueOptions, count: usize, message: &NewMessage) -> Rig {
    let mut rig = Rig::new(options);
    for _ in 0..count {
        rig.send(message.clone());
        let (_, token) = rig.take_one().unwrap();
        rig.settle(token, defer()).unwrap();
    }
    rig
}

fn retrieve(rig: &mut Rig, number: u64) -> LockToken {
    rig.receive_deferred(&[number], ReceiveMode::PeekLock).unwrap()[0].1.unwrap().token
}

#[test]
fn s34_s35_s37_deferred_messages_stay_in_the_main_queue() {
    let rig = with_deferred(options(), 2, &message("abc"));
    assert_eq!(rig.counts(), (2, 0, 0));
    assert_eq!(rig.partition.counts().size_bytes, 6);
}

#[test]
fn s38_normal_receive_never_returns_them() {
    let mut rig = with_deferred(options(), 1, &message("a"));
    assert!(rig.take_one().is_none());
    rig.restart();
    assert!(rig.take_one().is_none());
}

#[test]
fn s39_browsing_finds_them() {
    let mut rig = with_deferred(options(), 1, &message("a"));
    assert_eq!(rig.peek(SubQueue::Main)[0].state, MessageState::Deferred);
}

#[test]
fn s40_s41_s43_the_number_stays_valid_for_anyone_across_a_restart() {
    let mut rig = with_deferred(options(), 2, &message("a"));
    rig.restart();
    let received = rig.receive_deferred(&[2, 1], ReceiveMode::PeekLock).unwrap();
    let numbers: Vec<_> = received.iter().map(|(view, _)| view.sequence_number.0).collect();
    assert_eq!(numbers, [2, 1], "in the order asked for");
    for (_, lock) in received {
        rig.settle(lock.unwrap().token, Settlement::Complete).unwrap();
    }
    assert_eq!(rig.counts(), (0, 0, 0));
}

#[test]
fn s36_they_do_not_expire_by_themselves() {
    let options = QueueOptions { dead_lettering_on_message_expiration: true, ..options() };
    let mut rig = with_deferred(options, 1, &with_ttl("a", 1000));
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    rig.credit(receiver, 5, false);
    let token = retrieve(&mut rig, 1);
    rig.advance(LOCK_MS);
    assert_eq!(rig.settle(token, abandon()), Err(Refusal::MessageLockLost));
    assert_eq!(rig.counts(), (1, 0, 0));
    rig.restart();
    assert_eq!(rig.counts(), (1, 0, 0));
}

#[test]
fn a_request_ends_the_expired_ones_and_finds_none() {
    for dead_lettering in [false, true] {
        let options = QueueOptions { dead_lettering_on_message_expiration: dead_lettering, ..options() };
        let mut rig = with_deferred(options, 2, &with_ttl("a", 1000));
        let token = retrieve(&mut rig, 2);
        rig.advance(1000);
        let unlocked = rig.receive_deferred(&[2], ReceiveMode::PeekLock);
        assert_eq!(unlocked, Err(Refusal::DeferredNotFound(2)), "locked");
        assert_eq!(rig.counts(), (2, 0, 0));
        rig.settle(token, Settlement::Complete).unwrap();
        let expired = rig.receive_deferred(&[1], ReceiveMode::ReceiveAndDelete);
        assert_eq!(expired, Err(Refusal::DeferredNotFound(1)));
        assert_eq!(rig.counts(), (0, u64::from(dead_lettering), 0));
        rig.restart();
        assert_eq!(rig.counts(), (0, u64::from(dead_lettering), 0));
    }
}

#[test]
fn a_request_that_is_refused_for_an_expired_message_leaves_the_others_deferred() {
    let mut rig = with_deferred(options(), 2, &message("a"));
    rig.send(with_ttl("brief", 1000));
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, defer()).unwrap();
    rig.advance(1000);
    for numbers in [&[1, 3, 3][..], &[]] {
        let refused = rig.receive_deferred(numbers, ReceiveMode::PeekLock);
        assert!(matches!(refused, Err(Refusal::InvalidArgument(_))), "{refused:?}");
    }
    assert_eq!(rig.counts(), (3, 0, 0), "a malformed request ends nothing");
    let refused = rig.receive_deferred(&[1, 3, 2], ReceiveMode::PeekLock);
    assert_eq!(refused, Err(Refusal::DeferredNotFound(3)));
    assert_eq!(rig.counts(), (2, 0, 0));
    assert_eq!(rig.receive_deferred(&[1, 2], ReceiveMode::PeekLock).unwrap().len(), 2);
}

#[test]
fn one_bad_number_fails_the_whole_request() {
    let mut rig = with_deferred(options(), 2, &message("a"));
    rig.send(message("active"));
    for bad in [3, 4, 0, u64::MAX] {
        let refused = rig.receive_deferred(&[1, bad], ReceiveMode::ReceiveAndDelete);
        assert_eq!(refused, Err(Refusal::DeferredNotFound(bad)));
    }
    assert_eq!(rig.counts(), (3, 0, 0));
    retrieve(&mut rig, 2);
    let refused = rig.receive_deferred(&[1, 2], ReceiveMode::PeekLock);
    assert_eq!(refused, Err(Refusal::DeferredNotFound(2)), "locked by another");
    retrieve(&mut rig, 1);
}

#[test]
fn a_list_that_is_empty_or_names_one_twice_is_refused() {
    let mut rig = with_deferred(options(), 2, &message("a"));
    for numbers in [&[][..], &[1, 2, 1]] {
        let refused = rig.receive_deferred(numbers, ReceiveMode::PeekLock);
        assert!(matches!(refused, Err(Refusal::InvalidArgument(_))), "{refused:?}");
    }
    let refused = rig.receive_deferred(&vec![1; 10_001], ReceiveMode::PeekLock);
    assert!(matches!(refused, Err(Refusal::InvalidArgument(_))), "{refused:?}");
}

#[test]
fn receive_and_delete_by_number_works_once() {
    let mut rig = with_deferred(options(), 1, &message("a"));
    let received = rig.receive_deferred(&[1], ReceiveMode::ReceiveAndDelete).unwrap();
    assert_eq!(received[0].1, None);
    assert_eq!(rig.counts(), (0, 0, 0));
    let again = rig.receive_deferred(&[1], ReceiveMode::ReceiveAndDelete);
    assert_eq!(again, Err(Refusal::DeferredNotFound(1)));
}

#[test]
fn abandon_defer_and_lock_loss_return_it_to_the_deferred_and_count() {
    let mut rig = with_deferred(options(), 1, &message("a"));
    let token = retrieve(&mut rig, 1);
    rig.settle(token, abandon()).unwrap();
    let token = retrieve(&mut rig, 1);
    rig.settle(token, defer()).unwrap();
    retrieve(&mut rig, 1);
    rig.advance(LOCK_MS);
    assert!(rig.take_one().is_none());
    let received = rig.receive_deferred(&[1], ReceiveMode::PeekLock).unwrap();
    assert_eq!(received[0].0.delivery_count, 4);
    rig.settle(received[0].1.unwrap().token, Settlement::Release).unwrap();
    assert_eq!(rig.peek(SubQueue::Main)[0].delivery_count, 4);
    assert_eq!(rig.peek(SubQueue::Main)[0].state, MessageState::Deferred);
}

#[test]
fn an_abandoned_deferred_message_is_dead_lettered_at_the_maximum() {
    let mut rig = with_deferred(QueueOptions { max_delivery_count: 2, ..options() }, 1, &message("a"));
    let token = retrieve(&mut rig, 1);
    rig.settle(token, abandon()).unwrap();
    assert_eq!(rig.counts(), (0, 1, 0));
    let (view, _) = rig.take_one_from(SubQueue::DeadLetter).unwrap();
    assert_eq!(view.state, MessageState::Active, "in the dead-letter queue it is deferred no longer");
}

/// azure-service-bus 375.
#[test]
fn a_deferral_at_the_last_allowed_delivery_dead_letters() {
    let options = QueueOptions { max_delivery_count: 1, ..options() };
    for mut rig in [with_deferred(options.clone(), 1, &message("a")), {
        let mut rig = with_deferred(QueueOptions { max_delivery_count: 2, ..options }, 1, &message("a"));
        let token = retrieve(&mut rig, 1);
        rig.settle(token, defer()).unwrap();
        rig
    }] {
        assert_eq!(rig.counts(), (0, 1, 0));
        assert_eq!(
            rig.receive_deferred(&[1], ReceiveMode::PeekLock),
            Err(Refusal::DeferredNotFound(1)),
            "it is deferred no longer"
        );
        rig.restart();
        let (view, _) = rig.take_one_from(SubQueue::DeadLetter).unwrap();
        assert_eq!(view.state, MessageState::Active);
        let why = view.dead_letter.unwrap();
        assert_eq!(why.reason.as_deref(), Some("MaxDeliveryCountExceeded"));
    }
}

#[test]
fn a_deferral_at_the_last_allowed_delivery_keeps_the_changed_properties() {
    let mut rig = Rig::new(QueueOptions { max_delivery_count: 1, ..options() });
    rig.send(message("a"));
    let (_, token) = rig.take_one().unwrap();
    let modify = vec![Property { name: "why".into(), value: "later".into() }];
    rig.settle(token, Settlement::Defer { modify: modify.clone() }).unwrap();
    let dead = rig.peek(SubQueue::DeadLetter);
    assert_eq!((dead[0].modified.as_deref(), dead[0].delivery_count), (Some(&modify), 1));
}

/// Its life is over, but as long as its lock holds this has no effect on a settlement (S-5).
#[test]
fn an_expired_message_that_is_deferred_at_its_last_allowed_delivery_has_the_reason_of_the_maximum() {
    for max_delivery_count in [1, 2] {
        let mut rig = Rig::new(QueueOptions { max_delivery_count, ..options() });
        rig.send(with_ttl("a", 1000));
        let (_, token) = rig.take_one().unwrap();
        rig.advance(1000);
        rig.settle(token, defer()).unwrap();
        let dead = u64::from(max_delivery_count == 1);
        assert_eq!(rig.counts(), (1 - dead, dead, 0));
    }
}

#[test]
fn a_dead_letter_is_deferred_however_often() {
    let mut rig = Rig::new(QueueOptions { max_delivery_count: 1, ..options() });
    rig.send(message("a"));
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, defer()).unwrap();
    let (_, token) = rig.take_one_from(SubQueue::DeadLetter).unwrap();
    rig.settle(token, defer()).unwrap();
    assert_eq!(rig.peek(SubQueue::DeadLetter)[0].state, MessageState::Deferred);
}

#[test]
fn it_can_be_dead_lettered_by_its_holder() {
    let mut rig = with_deferred(options(), 1, &message("a"));
    let token = retrieve(&mut rig, 1);
    rig.settle(token, dead_letter("bad")).unwrap();
    assert!(rig.take_one_from(SubQueue::DeadLetter).is_some());
}

#[test]
fn an_answer_has_to_fit_into_memory() {
    let half = crate::RECEIVE_DEFERRED_BYTES_MAX / 2;
    let options = QueueOptions { max_message_size_bytes: u64::MAX, max_size_bytes: u64::MAX, ..options() };
    let large = NewMessage { content: vec![0; half].into(), ..NewMessage::default() };
    let mut rig = with_deferred(options, 2, &large);
    rig.send(NewMessage { content: "x".into(), ..NewMessage::default() });
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, defer()).unwrap();
    let refused = rig.receive_deferred(&[1, 2, 3], ReceiveMode::PeekLock);
    assert!(matches!(refused, Err(Refusal::InvalidArgument(_))));
    assert_eq!(rig.receive_deferred(&[1, 2], ReceiveMode::PeekLock).unwrap().len(), 2);
}
