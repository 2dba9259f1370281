//! Sessions: one expired message expires its session (S-23), while a receiver listens (S-24).

use super::super::step::EXPIRIES_PER_CALL_MAX;
use super::rig::{LOCK_MS, Rig, abandon, defer, numbers};
use super::rig_sessions::{of, of_with_ttl, opened, with_sessions};
use crate::{NewMessage, QueueOptions, Refusal, SubQueue};

fn dead_lettering() -> QueueOptions {
    QueueOptions { dead_lettering_on_message_expiration: true, ..with_sessions() }
}

#[test]
fn s_23_one_expired_message_expires_its_whole_session() {
    for flag in [false, true] {
        let options = QueueOptions { dead_lettering_on_message_expiration: flag, ..with_sessions() };
        let mut rig = Rig::new(options);
        rig.try_send(vec![of("a", "1"), of_with_ttl("a", "2", 10), of("a", "3"), of("b", "4")]).unwrap();
        rig.advance(10);
        let receiver = rig.accept("a");
        assert_eq!(rig.counts(), (4, 0, 0));
        assert_eq!(rig.credit(receiver, 9, false), [], "expired before the first delivery");
        assert_eq!(rig.counts(), (1, if flag { 3 } else { 0 }, 0));
        for view in rig.peek(SubQueue::DeadLetter) {
            let why = view.dead_letter.unwrap();
            assert_eq!(why.reason.as_deref(), Some("TTLExpiredException"), "S-19");
        }
    }
}

#[test]
fn s_24_nothing_expires_without_a_listener() {
    let mut rig = Rig::new(dead_lettering());
    rig.try_send(vec![of_with_ttl("a", "1", 10), of("b", "2")]).unwrap();
    let b = rig.accept("b");
    rig.credit(b, 9, false);
    rig.advance(20);
    assert_eq!(rig.counts(), (2, 0, 0), "another session's holder is no listener");
    let a = rig.accept("a");
    rig.advance(1);
    assert_eq!(rig.counts(), (2, 0, 0), "a holder without credit neither");
    let (_, _) = (rig.close(a), rig.accept("c"));
    assert_eq!(rig.counts(), (2, 0, 0), "nor one who waits by name");
    rig.restart();
    rig.advance(1);
    assert_eq!(rig.counts(), (2, 0, 0));
}

#[test]
fn s_24_a_listening_holder_makes_the_session_expire_on_time() {
    let mut rig = Rig::new(dead_lettering());
    rig.try_send(vec![of("a", "1"), of_with_ttl("a", "2", 100), of("a", "3")]).unwrap();
    let receiver = rig.accept("a");
    rig.handle(
        None,
        crate::Command::Credit {
            receiver,
            limit: crate::CreditLimit { messages: 9, bytes: 0 },
            drain: false,
        },
    );
    assert_eq!(rig.partition.next_deadline(), Some(rig.now.plus_ms(100)), "bytes play no part (S-3)");
    rig.advance(99);
    assert_eq!(rig.counts(), (3, 0, 0));
    rig.advance(1);
    assert_eq!(rig.counts(), (0, 3, 0));
}

#[test]
fn s_24_a_receiver_of_any_session_makes_overdue_messages_expire() {
    let mut rig = Rig::new(dead_lettering());
    rig.try_send(vec![of("a", "1"), of_with_ttl("a", "2", 10), of_with_ttl("b", "3", 10), of("c", "4")])
        .unwrap();
    rig.try_send(vec![of_with_ttl("d", "5", 10)]).unwrap();
    rig.advance(10);
    assert_eq!(rig.next_available().unwrap().1, "c");
    assert_eq!(rig.counts(), (2, 3, 0), "only those who would have been given");
    assert_eq!(rig.next_available().unwrap_err(), Refusal::NoSessionAvailable);
    assert_eq!(rig.counts(), (1, 4, 0));
}

#[test]
fn one_who_waits_gets_no_session_that_expired() {
    let mut rig = Rig::new(dead_lettering());
    let (_, _) = rig.ask_next(1, LOCK_MS * 2);
    let messages = vec![of_with_ttl("a", "1", 0), of("a", "2")].into();
    let effects = rig.handle(None, crate::Command::Send { messages });
    assert_eq!(opened(&effects), []);
    assert_eq!(rig.counts(), (0, 2, 0));
}

#[test]
fn s_36_deferred_and_scheduled_messages_and_the_state_survive_the_session_s_expiry() {
    let mut rig = Rig::new(dead_lettering());
    rig.try_send(vec![of_with_ttl("a", "1", 10), of_with_ttl("a", "2", 10), of("a", "3")]).unwrap();
    let later = Some(rig.now.plus_ms(LOCK_MS));
    rig.send(NewMessage { scheduled_enqueue_time: later, ..of_with_ttl("a", "4", 10) });
    let (receiver, tokens) = rig.accept_and_take("a", 1);
    rig.settle(tokens[0], defer()).unwrap();
    rig.set_state(receiver, Some("state")).unwrap();
    rig.advance(10);
    assert_eq!(numbers(rig.credit(receiver, 9, false)), [0; 0]);
    assert_eq!(rig.counts(), (1, 2, 1));
    assert_eq!(rig.state(receiver).unwrap().unwrap(), "state");
    let requested = rig.receive_deferred_for(Some(receiver), &[1]);
    assert_eq!(requested, Err(Refusal::DeferredNotFound(1)));
    assert_eq!(rig.counts(), (0, 3, 1), "it expires when it is requested");
}

#[test]
fn s_5_messages_in_flight_are_exempt_until_they_return() {
    let mut rig = Rig::new(dead_lettering());
    rig.try_send(vec![of_with_ttl("a", "1", 10), of("a", "2"), of_with_ttl("a", "3", 10)]).unwrap();
    let (receiver, tokens) = rig.accept_and_take("a", 2);
    rig.advance(10);
    rig.credit(receiver, 3, false);
    assert_eq!(rig.counts(), (2, 1, 0), "message 3 expired; those in flight did not");
    rig.settle(tokens[0], abandon()).unwrap();
    assert_eq!(rig.counts(), (1, 2, 0), "S-20: its own time is over");
    rig.settle(tokens[1], abandon()).unwrap();
    assert_eq!(rig.delivery_counts(SubQueue::Main), [(2, 1)], "its own is not");
}

#[test]
fn s_20_an_expired_message_that_is_returned_ends_alone() {
    let mut rig = Rig::new(dead_lettering());
    rig.try_send(vec![of_with_ttl("a", "1", 10), of("a", "2"), of("a", "3")]).unwrap();
    let (_, tokens) = rig.accept_and_take("a", 2);
    rig.advance(10);
    rig.settle(tokens[0], abandon()).unwrap();
    assert_eq!(rig.counts(), (2, 1, 0), "neither the one in flight nor the one that waits");
}

#[test]
fn very_many_expire_in_portions_and_none_is_delivered_meanwhile() {
    let many = EXPIRIES_PER_CALL_MAX * 2 + 10;
    let mut rig = Rig::new(dead_lettering());
    let mut messages = vec![of_with_ttl("a", "first", 10)];
    messages.extend((1..many).map(|_| of("a", "x")));
    rig.try_send(messages).unwrap();
    rig.send(of("b", "y"));
    rig.advance(10);
    let a = rig.accept("a");
    let b = rig.accept("b");
    assert_eq!(rig.credit(a, 99_999, false), []);
    assert_eq!(rig.counts(), ((many + 1 - EXPIRIES_PER_CALL_MAX) as u64, EXPIRIES_PER_CALL_MAX as u64, 0));
    assert!(rig.partition.next_deadline().is_some_and(|at| at <= rig.now));
    assert_eq!(numbers(rig.credit(b, 9, false)), [many as u64 + 1], "others are served meanwhile");
    assert_eq!(rig.advance(0), []);
    assert_eq!(rig.counts(), (1, many as u64, 0));
    rig.send(of("a", "later"));
    assert_eq!(rig.counts(), (2, many as u64, 0), "a new beginning");
}

#[test]
fn a_left_over_portion_of_expiries_is_no_session_for_waiting_receivers() {
    let many = EXPIRIES_PER_CALL_MAX + 10;
    let mut rig = Rig::new(with_sessions());
    let mut messages = vec![of_with_ttl("a", "first", 10)];
    messages.extend((1..many).map(|_| of("a", "x")));
    rig.try_send(messages).unwrap();
    rig.advance(10);
    assert_eq!(rig.next_available().unwrap_err(), Refusal::NoSessionAvailable);
    let (_, effects) = rig.ask_next(1, LOCK_MS);
    assert_eq!(opened(&effects), []);
    assert_eq!(rig.counts(), (0, 0, 0));
    assert_eq!(rig.partition.next_deadline(), Some(rig.now.plus_ms(LOCK_MS)));
}

#[test]
fn s_4_a_message_past_its_time_is_never_delivered_to_a_holder() {
    let mut rig = Rig::new(with_sessions());
    let receiver = rig.accept("a");
    rig.credit(receiver, 9, false);
    let messages = vec![of("a", "1"), of_with_ttl("a", "2", 0)].into();
    let effects = rig.handle(None, crate::Command::Send { messages });
    assert_eq!(numbers(effects), [0; 0]);
    assert_eq!(rig.counts(), (0, 0, 0));
}
