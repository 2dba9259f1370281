use super::rig::{LOCK_MS, QUEUE, Rig, abandon, message, options};
use crate::partition::step::TIMERS_PER_CALL_MAX;
use crate::{Command, LockToken, QueueOptions, ReceiveMode, Refusal, Reply, Settlement, SubQueue};

fn renew(rig: &mut Rig, tokens: &[LockToken]) -> Result<Vec<crate::Timestamp>, Refusal> {
    match rig.ask(Command::RenewLocks { queue: QUEUE, tokens: tokens.to_vec() }) {
        Reply::Renewed(renewed) => renewed,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lock_ends_at_its_time_and_counts_as_a_failed_delivery() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    let (_, token) = rig.take_one().unwrap();
    assert_eq!(rig.partition.next_deadline(), Some(rig.now.plus_ms(LOCK_MS)));
    rig.advance(LOCK_MS - 1);
    assert!(rig.take_one().is_none());
    rig.advance(1);
    assert_eq!(rig.partition.next_deadline(), None);
    let (view, second) = rig.take_one().unwrap();
    assert_eq!(view.delivery_count, 1);
    assert_ne!(token, second);
    assert_eq!(rig.settle(token, Settlement::Complete), Err(Refusal::MessageLockLost));
    assert_eq!(rig.settle(second, Settlement::Complete), Ok(()));
}

#[test]
fn lock_loss_returns_messages_to_a_waiting_receiver_in_their_old_order() {
    let mut rig = Rig::new(options());
    rig.try_send((0..3).map(|_| message("x")).collect()).unwrap();
    rig.take(SubQueue::Main, ReceiveMode::PeekLock, 3);
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    rig.credit(receiver, 9, false);
    assert_eq!(super::rig::numbers(rig.advance(LOCK_MS)), [1, 2, 3]);
}

#[test]
fn the_nth_lost_lock_dead_letters() {
    let mut rig = Rig::new(QueueOptions { max_delivery_count: 2, ..options() });
    rig.send(message("a"));
    for _ in 0..2 {
        assert!(rig.take_one().is_some());
        rig.advance(LOCK_MS);
    }
    assert_eq!(rig.counts(), (0, 1, 0));
}

#[test]
fn renewal_counts_from_now_and_is_not_additive() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    let (_, token) = rig.take_one().unwrap();
    rig.advance(10_000);
    for _ in 0..2 {
        assert_eq!(renew(&mut rig, &[token]), Ok(vec![rig.now.plus_ms(LOCK_MS)]));
    }
    rig.advance(LOCK_MS - 1);
    assert!(rig.take_one().is_none());
    rig.advance(1);
    assert_eq!(renew(&mut rig, &[token]), Err(Refusal::MessageLockLost));
    assert!(rig.take_one().is_some());
}

#[test]
fn one_lost_lock_fails_the_whole_renewal() {
    let mut rig = Rig::new(options());
    rig.try_send(vec![message("a"), message("b")]).unwrap();
    let (_, first) = rig.take_one().unwrap();
    rig.advance(1000);
    let (_, second) = rig.take_one().unwrap();
    rig.settle(second, abandon()).unwrap();
    assert_eq!(renew(&mut rig, &[first, second]), Err(Refusal::MessageLockLost));
    assert_eq!(rig.partition.next_deadline(), Some(rig.now.plus_ms(LOCK_MS - 1000)), "not prolonged");
    assert!(matches!(renew(&mut rig, &[]), Err(Refusal::InvalidArgument(_))));
}

#[test]
fn a_lock_whose_timer_is_late_has_ended_all_the_same() {
    let mut rig = Rig::new(options());
    let count = TIMERS_PER_CALL_MAX + 1;
    rig.try_send((0..count).map(|_| message("x")).collect()).unwrap();
    let taken = rig.take(SubQueue::Main, ReceiveMode::PeekLock, count as u64);
    let last = taken.last().unwrap().1.unwrap().token;
    rig.now = rig.now.plus_ms(LOCK_MS);
    assert_eq!(rig.settle(last, Settlement::Complete), Err(Refusal::MessageLockLost));
    assert_eq!(rig.partition.state.locks.len(), 1, "its timer did not fit into the call");
    assert!(rig.partition.next_deadline().unwrap() <= rig.now);
    assert_eq!(renew(&mut rig, &[last]), Err(Refusal::MessageLockLost));
    assert_eq!(rig.partition.state.locks.len(), 0);
}

#[test]
fn locks_are_gone_after_a_restart_and_cost_no_delivery_count() {
    let mut rig = Rig::new(options());
    rig.try_send(vec![message("a"), message("b")]).unwrap();
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, abandon()).unwrap();
    let (_, token) = rig.take_one().unwrap();
    rig.restart();
    assert_eq!(rig.settle(token, Settlement::Complete), Err(Refusal::MessageLockLost));
    let (view, _) = rig.take_one().unwrap();
    assert_eq!((view.sequence_number.0, view.delivery_count), (1, 1));
    assert_eq!(rig.partition.next_deadline(), Some(rig.now.plus_ms(LOCK_MS)));
}

#[test]
fn tokens_are_never_reused() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let (_, token) = rig.take_one().unwrap();
        assert!(seen.insert(token));
        rig.settle(token, Settlement::Release).unwrap();
    }
}
