//! Sessions with a non-exclusive lock: a receiver that presents the token takes them over with their locked messages.

use super::rig::{LOCK_MS, Rig, abandon};
use super::rig_sessions::{closed, numbers_for, of, with_sessions};
use crate::{LockToken, ReceiverId, Refusal, SessionLock, Settlement, SubQueue};

const NON_EXCLUSIVE: SessionLock = SessionLock::NonExclusive;

fn filled() -> Rig {
    let mut rig = Rig::new(with_sessions());
    rig.try_send(vec![of("s", "1"), of("s", "2"), of("t", "3")]).unwrap();
    rig
}

/// A session with one locked message: its holder, its token, and that of the message.
fn held(rig: &mut Rig) -> (ReceiverId, LockToken, LockToken) {
    let (holder, token) = rig.accept_with(Some("s"), NON_EXCLUSIVE).unwrap();
    let taken = rig.take_in_session(holder, 1);
    (holder, token, taken[0].1.token)
}

#[test]
fn the_token_takes_the_session_over_and_the_former_holder_is_notified() {
    let mut rig = filled();
    let (former, token, message) = held(&mut rig);
    let (next, same) = rig.accept_with(Some("S"), SessionLock::TakeOver(token)).unwrap();
    assert_eq!(same, token, "the token stays");
    assert_eq!(closed(&rig.effects), [(former, Refusal::SessionLockLost)]);
    assert_eq!(rig.renew_session(former), Err(Refusal::SessionLockLost));
    rig.renew_session(next).unwrap();
    rig.settle(message, Settlement::Complete).unwrap();
    assert_eq!(numbers_for(next, rig.credit(next, 5, false)), [2]);
    assert_eq!(rig.counts().0, 2);
}

#[test]
fn messages_in_flight_stay_locked_for_the_new_holder() {
    let mut rig = filled();
    let (_, token, message) = held(&mut rig);
    let (next, _) = rig.accept_with(Some("s"), SessionLock::TakeOver(token)).unwrap();
    assert_eq!(numbers_for(next, rig.credit(next, 5, false)), [2], "1 is locked");
    rig.settle(message, abandon()).unwrap();
    assert_eq!(rig.delivery_counts(SubQueue::Main)[0], (1, 1));
    let effects = rig.close(next);
    assert_eq!(closed(&effects), []);
    assert_eq!(rig.delivery_counts(SubQueue::Main), [(1, 1), (2, 0), (3, 0)], "given back, not failed");
}

#[test]
fn a_lock_that_ends_takes_its_token_along() {
    let mut rig = filled();
    let (_, token, message) = held(&mut rig);
    let effects = rig.advance(LOCK_MS);
    assert_eq!(closed(&effects).len(), 1);
    assert_eq!(rig.accept_with(Some("s"), SessionLock::TakeOver(token)), Err(Refusal::SessionLockLost));
    assert_eq!(rig.settle(message, Settlement::Complete), Err(Refusal::SessionLockLost));
    assert_eq!(rig.delivery_counts(SubQueue::Main)[0], (1, 1), "a failed delivery");
    let (_, other) = rig.accept_with(Some("s"), NON_EXCLUSIVE).unwrap();
    assert_ne!(other, token);
}

#[test]
fn a_token_presented_at_the_instant_at_which_the_lock_ends_is_too_late() {
    let mut rig = filled();
    let (_, token, _) = held(&mut rig);
    rig.now = rig.now.plus_ms(LOCK_MS);
    assert_eq!(rig.accept_with(Some("s"), SessionLock::TakeOver(token)), Err(Refusal::SessionLockLost));
}

#[test]
fn of_two_that_present_the_same_token_the_second_takes_over_from_the_first() {
    let mut rig = filled();
    let (_, token, message) = held(&mut rig);
    let (first, _) = rig.accept_with(Some("s"), SessionLock::TakeOver(token)).unwrap();
    let (second, _) = rig.accept_with(Some("s"), SessionLock::TakeOver(token)).unwrap();
    assert_eq!(closed(&rig.effects), [(first, Refusal::SessionLockLost)]);
    rig.settle(message, Settlement::Complete).unwrap();
    rig.renew_session(second).unwrap();
}

#[test]
fn another_token_is_refused_and_changes_nothing() {
    let mut rig = filled();
    let (holder, token, message) = held(&mut rig);
    let wrong = SessionLock::TakeOver(LockToken(token.0 ^ 1));
    let refused = Refusal::SessionCannotBeLocked("s".into());
    assert_eq!(rig.accept_with(Some("s"), wrong), Err(refused.clone()));
    assert_eq!(rig.accept_with(Some("s"), NON_EXCLUSIVE), Err(refused));
    let of_the_message = SessionLock::TakeOver(message);
    assert!(rig.accept_with(Some("s"), of_the_message).is_err(), "the lock of a message is no session's");
    rig.renew_session(holder).unwrap();
    rig.settle(message, Settlement::Complete).unwrap();
}

#[test]
fn a_session_held_exclusively_can_not_be_taken_over() {
    let mut rig = filled();
    let holder = rig.accept("s");
    for token in [0, u128::MAX] {
        let refused = rig.accept_with(Some("s"), SessionLock::TakeOver(LockToken(token)));
        assert_eq!(refused, Err(Refusal::SessionCannotBeLocked("s".into())));
    }
    rig.renew_session(holder).unwrap();
}

#[test]
fn a_token_needs_the_id_of_its_session() {
    let mut rig = filled();
    let (_, token, _) = held(&mut rig);
    let refused = rig.accept_with(None, SessionLock::TakeOver(token));
    assert!(matches!(refused, Err(Refusal::InvalidArgument(_))), "{refused:?}");
    let elsewhere = rig.accept_with(Some("t"), SessionLock::TakeOver(token));
    assert_eq!(elsewhere, Err(Refusal::SessionLockLost), "that session has no holder");
}

#[test]
fn the_next_available_session_comes_with_a_token_at_once_or_later() {
    let mut rig = filled();
    let (_, first) = rig.accept_with(None, NON_EXCLUSIVE).unwrap();
    let (holder, second) = rig.accept_with(None, NON_EXCLUSIVE).unwrap();
    assert_ne!(first, second);
    rig.accept_with(Some("t"), SessionLock::TakeOver(second)).unwrap();
    assert_eq!(closed(&rig.effects), [(holder, Refusal::SessionLockLost)]);
    let waiting = rig.wait_for_a_session(NON_EXCLUSIVE);
    rig.send(of("u", "4"));
    let token = rig.token_of(waiting).unwrap();
    rig.accept_with(Some("u"), SessionLock::TakeOver(token)).unwrap();
}

#[test]
fn no_token_outlives_a_restart() {
    let mut rig = filled();
    let (_, token, _) = held(&mut rig);
    rig.restart();
    assert_eq!(rig.accept_with(Some("s"), SessionLock::TakeOver(token)), Err(Refusal::SessionLockLost));
    rig.accept_with(Some("s"), NON_EXCLUSIVE).unwrap();
}
