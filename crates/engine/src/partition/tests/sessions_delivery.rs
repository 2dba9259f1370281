//! Sessions: deliveries to a holder, their order, and settlement.

use super::rig::{LOCK_MS, QUEUE, Rig, abandon, dead_letter, defer, deliveries, numbers};
use super::rig_sessions::{numbers_for, of, with_sessions};
use crate::{
    Command, CreditLimit, Effect, LockToken, QueueOptions, ReceiveMode, Refusal, Settlement, SubQueue,
};

#[test]
fn a_holder_gets_its_session_s_messages_only_in_order_as_far_as_credit_reaches() {
    let mut rig = Rig::new(with_sessions());
    for session in ["a", "b", "a", "b", "a", "a"] {
        rig.send(of(session, "x"));
    }
    let a = rig.accept("a");
    let b = rig.accept("b");
    assert_eq!(numbers_for(a, rig.credit(a, 2, false)), [1, 3]);
    assert_eq!(numbers_for(b, rig.credit(b, 9, false)), [2, 4]);
    assert_eq!(numbers_for(a, rig.credit(a, 9, false)), [5, 6]);
}

#[test]
fn later_messages_are_delivered_at_once_to_the_holder() {
    let mut rig = Rig::new(with_sessions());
    let receiver = rig.accept("a");
    rig.credit(receiver, 2, false);
    let messages = vec![of("b", "x"), of("a", "y"), of("a", "z"), of("a", "no credit")].into();
    assert_eq!(numbers(rig.handle(None, Command::Send { messages })), [2, 3]);
}

#[test]
fn bytes_hold_deliveries_back() {
    let mut rig = Rig::new(with_sessions());
    rig.try_send(vec![of("a", "12345"), of("a", "6"), of("a", "7")]).unwrap();
    let receiver = rig.accept("a");
    let limit = |bytes| CreditLimit { messages: 9, bytes };
    let mut credit =
        |bytes| rig.handle(None, Command::Credit { receiver, limit: limit(bytes), drain: false });
    assert_eq!(numbers(credit(3)), [1]);
    assert_eq!(numbers(credit(6)), [2]);
    assert_eq!(numbers(credit(7)), [3]);
}

#[test]
fn an_abandoned_message_comes_next_before_later_ones() {
    let mut rig = Rig::new(with_sessions());
    rig.try_send(vec![of("a", "1"), of("a", "2"), of("a", "3"), of("a", "4")]).unwrap();
    let (receiver, tokens) = rig.accept_and_take("a", 2);
    rig.settle(tokens[0], abandon()).unwrap();
    let effects = rig.credit(receiver, 4, false);
    let got: Vec<_> = deliveries(effects)
        .iter()
        .map(|(_, view, _)| (view.sequence_number.0, view.delivery_count))
        .collect();
    assert_eq!(got, [(1, 1), (3, 0)]);
}

#[test]
fn locks_of_messages_end_with_the_session_s() {
    let mut rig = Rig::new(with_sessions());
    rig.send(of("a", "x"));
    let receiver = rig.accept("a");
    let session_ends = rig.now.plus_ms(LOCK_MS);
    rig.advance(1000);
    let taken = rig.take_in_session(receiver, 1);
    assert_eq!(taken[0].1.locked_until, session_ends);
    assert_eq!(rig.partition.next_deadline(), Some(session_ends), "no timer of its own");
}

#[test]
fn receiving_and_deleting_takes_the_messages_of_the_session() {
    let mut rig = Rig::new(with_sessions());
    rig.try_send(vec![of("a", "1"), of("b", "2"), of("a", "3")]).unwrap();
    let mode = ReceiveMode::ReceiveAndDelete;
    let (receiver, _) = rig.try_open_in(mode, SubQueue::Main, Some("a")).unwrap();
    let taken = deliveries(rig.credit(receiver, 9, false));
    assert_eq!(taken.iter().map(|(_, view, _)| view.sequence_number.0).collect::<Vec<_>>(), [1, 3]);
    rig.settle(taken[0].2.unwrap().token, Settlement::Complete).unwrap();
    assert_eq!(rig.counts(), (2, 0, 0));
    rig.close(receiver);
    assert_eq!(rig.delivery_counts(SubQueue::Main), [(2, 0), (3, 0)], "undelivered messages are back");
}

#[test]
fn unsent_deliveries_do_not_count_when_the_session_lock_is_lost() {
    let mut rig = Rig::new(QueueOptions { max_delivery_count: 1, ..with_sessions() });
    rig.try_send(vec![of("a", "1"), of("a", "2")]).unwrap();
    let mode = ReceiveMode::ReceiveAndDelete;
    let (receiver, _) = rig.try_open_in(mode, SubQueue::Main, Some("a")).unwrap();
    assert_eq!(deliveries(rig.credit(receiver, 9, false)).len(), 2);
    rig.advance(LOCK_MS * 2);
    assert_eq!(rig.delivery_counts(SubQueue::Main), [(1, 0), (2, 0)]);
}

#[test]
fn a_drain_ends_when_the_session_is_dry_whatever_others_hold() {
    let mut rig = Rig::new(with_sessions());
    rig.try_send(vec![of("a", "1"), of("b", "2")]).unwrap();
    let receiver = rig.accept("a");
    let effects = rig.credit(receiver, 9, true);
    assert_eq!(effects.last(), Some(&Effect::Drained { receiver }));
    assert_eq!(numbers(effects), [1]);
    assert_eq!(numbers(rig.handle(None, Command::Send { messages: vec![of("a", "3")].into() })), [0; 0]);
    assert_eq!(numbers(rig.credit(receiver, 2, false)), [3]);
}

#[test]
fn settling_works_as_elsewhere_while_the_session_is_held() {
    let mut rig = Rig::new(with_sessions());
    rig.try_send(vec![of("a", "1"), of("a", "2"), of("a", "3"), of("a", "4")]).unwrap();
    let (_, tokens) = rig.accept_and_take("a", 4);
    rig.settle(tokens[0], Settlement::Complete).unwrap();
    rig.settle(tokens[1], dead_letter("bad")).unwrap();
    rig.settle(tokens[2], Settlement::Release).unwrap();
    assert_eq!(rig.delivery_counts(SubQueue::Main), [(3, 0), (4, 0)]);
    assert_eq!(rig.delivery_counts(SubQueue::DeadLetter), [(2, 0)]);
    assert_eq!(rig.settle(tokens[0], Settlement::Complete), Err(Refusal::SessionLockLost), "settled already");
}

#[test]
fn settling_after_the_session_s_lock_says_so() {
    let mut rig = Rig::new(with_sessions());
    rig.send(of("a", "1"));
    let (receiver, tokens) = rig.accept_and_take("a", 1);
    rig.now = rig.now.plus_ms(LOCK_MS);
    assert_eq!(rig.settle(tokens[0], Settlement::Complete), Err(Refusal::SessionLockLost));
    assert_eq!(
        rig.settle(LockToken(9), Settlement::Complete),
        Err(Refusal::SessionLockLost),
        "never given out"
    );
    assert_eq!(rig.renew_session(receiver), Err(Refusal::SessionLockLost));
    let (_, tokens) = rig.accept_and_take("a", 1);
    rig.settle(tokens[0], Settlement::Complete).unwrap();
}

#[test]
fn the_lock_of_a_session_s_message_can_t_be_renewed() {
    let mut rig = Rig::new(with_sessions());
    rig.send(of("a", "1"));
    let (_, tokens) = rig.accept_and_take("a", 1);
    let renew = |tokens| Command::RenewLocks { queue: QUEUE, tokens };
    let crate::Reply::Renewed(Err(Refusal::InvalidArgument(text))) = rig.ask(renew(tokens)) else { panic!() };
    assert!(text.contains("session"), "{text}");
    let unknown = rig.ask(renew(vec![LockToken(9)]));
    assert_eq!(unknown, crate::Reply::Renewed(Err(Refusal::SessionLockLost)));
}

#[test]
fn the_nth_failed_delivery_dead_letters_whatever_failed() {
    let mut rig = Rig::new(QueueOptions { max_delivery_count: 2, ..with_sessions() });
    rig.send(of("a", "1"));
    rig.send(of("a", "2"));
    let (_, tokens) = rig.accept_and_take("a", 2);
    rig.settle(tokens[0], abandon()).unwrap();
    rig.advance(LOCK_MS);
    assert_eq!(rig.delivery_counts(SubQueue::Main), [(1, 1), (2, 1)]);
    rig.accept_and_take("a", 2);
    rig.advance(LOCK_MS);
    assert_eq!(rig.delivery_counts(SubQueue::DeadLetter), [(1, 2), (2, 2)]);
    let dead = rig.peek(SubQueue::DeadLetter);
    let reason = dead[0].dead_letter.as_ref().unwrap().reason.as_deref();
    assert_eq!(reason, Some("MaxDeliveryCountExceeded"));
}

#[test]
fn the_nth_failed_delivery_dead_letters_by_a_deferral_too() {
    let mut rig = Rig::new(QueueOptions { max_delivery_count: 2, ..with_sessions() });
    rig.send(of("a", "1"));
    rig.send(of("a", "2"));
    let (receiver, tokens) = rig.accept_and_take("a", 2);
    rig.settle(tokens[0], defer()).unwrap();
    rig.settle(tokens[1], abandon()).unwrap();
    let again = rig.receive_deferred_for(Some(receiver), &[1]).unwrap();
    rig.settle(again[0].1.unwrap().token, defer()).unwrap();
    assert_eq!(rig.delivery_counts(SubQueue::Main), [(2, 1)]);
    assert_eq!(rig.delivery_counts(SubQueue::DeadLetter), [(1, 2)]);
}

#[test]
fn the_dead_letter_queue_of_sessions_has_none() {
    let mut rig = Rig::new(with_sessions());
    rig.try_send(vec![of("a", "1"), of("b", "2")]).unwrap();
    for session in ["a", "b"] {
        let (receiver, tokens) = rig.accept_and_take(session, 1);
        rig.settle(tokens[0], dead_letter("bad")).unwrap();
        rig.close(receiver);
    }
    let taken = rig.take(SubQueue::DeadLetter, ReceiveMode::PeekLock, 5);
    let ends: Vec<_> = taken.iter().map(|(_, lock)| lock.unwrap().locked_until).collect();
    assert_eq!(ends, [rig.now.plus_ms(LOCK_MS); 2], "locks of their own");
    let tokens: Vec<_> = taken.iter().map(|(_, lock)| lock.unwrap().token).collect();
    rig.advance(10);
    let until = rig.now.plus_ms(LOCK_MS);
    let renewed = rig.ask(Command::RenewLocks { queue: QUEUE, tokens: tokens.clone() });
    assert_eq!(renewed, crate::Reply::Renewed(Ok(vec![until; 2])));
    rig.settle(tokens[0], Settlement::Complete).unwrap();
    rig.advance(LOCK_MS);
    assert_eq!(rig.delivery_counts(SubQueue::DeadLetter), [(2, 0)]);
    let record = rig.partition.state.record(QUEUE, SubQueue::DeadLetter, crate::SequenceNumber(2));
    assert_eq!(record.unwrap().session_id().map(|id| &**id), Some("b"), "the id is kept");
}

#[test]
fn messages_of_a_session_share_its_record() {
    let mut rig = Rig::new(with_sessions());
    rig.try_send(vec![of("a", "1"), of("a", "2"), of("b", "3")]).unwrap();
    rig.send(of("a", "4"));
    let extra = |rig: &Rig, number| {
        let record = rig.partition.state.record(QUEUE, SubQueue::Main, crate::SequenceNumber(number));
        std::sync::Arc::clone(record.unwrap().extra().unwrap())
    };
    for restarted in [false, true] {
        for number in [2, 4] {
            assert!(std::sync::Arc::ptr_eq(&extra(&rig, 1), &extra(&rig, number)), "{number} {restarted}");
        }
        rig.restart();
    }
}
