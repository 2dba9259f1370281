use super::rig::{LOCK_MS, QUEUE, Rig, abandon, dead_letter, defer, deliveries, message, options, with_ttl};
use crate::partition::step::EXPIRIES_PER_CALL_MAX;
use crate::{Command, CreditLimit, QueueOptions, ReceiveMode, Reply, Settlement, SubQueue};

fn dead_lettering() -> QueueOptions {
    QueueOptions { dead_lettering_on_message_expiration: true, ..options() }
}

#[test]
fn s3_nothing_expires_without_an_active_listener() {
    let mut rig = Rig::new(dead_lettering());
    rig.send(with_ttl("a", 1000));
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    rig.take(SubQueue::DeadLetter, ReceiveMode::PeekLock, 1);
    rig.advance(5000);
    assert_eq!(rig.counts(), (1, 0, 0), "open, but without credit");
    assert_eq!(rig.peek(SubQueue::Main).len(), 1);
    assert_eq!(rig.partition.next_deadline(), None, "and no timer is needed");
    rig.credit(receiver, 1, false);
    assert_eq!(rig.counts(), (0, 1, 0));
}

#[test]
fn s4_past_their_time_messages_are_not_delivered() {
    let mut rig = Rig::new(options());
    rig.try_send(vec![with_ttl("a", 1000), with_ttl("b", 2000), message("c")]).unwrap();
    rig.now = rig.now.plus_ms(1000);
    let taken = rig.take(SubQueue::Main, ReceiveMode::PeekLock, 9);
    assert_eq!(taken.iter().map(|(view, _)| view.sequence_number.0).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn s5_s7_s21_a_locked_message_past_its_time_can_be_settled_in_every_way() {
    for (settlement, counts) in [
        (Settlement::Complete, (0, 0, 0)),
        (defer(), (1, 0, 0)),
        (dead_letter("bad"), (0, 1, 0)),
        (abandon(), (0, 0, 0)),
        (Settlement::Release, (0, 0, 0)),
    ] {
        let mut rig = Rig::new(options());
        rig.send(with_ttl("a", 1000));
        let (_, token) = rig.take_one().unwrap();
        let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
        rig.credit(receiver, 1, false);
        rig.advance(5000);
        assert_eq!(rig.counts(), (1, 0, 0));
        let Reply::Renewed(renewed) = rig.ask(Command::RenewLocks { queue: QUEUE, tokens: vec![token] })
        else {
            panic!()
        };
        assert_eq!(renewed, Ok(vec![rig.now.plus_ms(LOCK_MS)]));
        assert_eq!(rig.settle(token, settlement.clone()), Ok(()));
        assert_eq!(rig.counts(), counts, "{settlement:?}");
    }
}

#[test]
fn s6_s20_abandon_and_lock_loss_expire_at_once_even_without_a_listener() {
    for abandoned in [true, false] {
        let mut rig = Rig::new(dead_lettering());
        rig.send(with_ttl("a", 1000));
        let (_, token) = rig.take_one().unwrap();
        if abandoned {
            rig.advance(5000);
            rig.settle(token, abandon()).unwrap();
        } else {
            rig.advance(LOCK_MS);
        }
        assert_eq!(rig.counts(), (0, 1, 0));
        let why = rig.peek(SubQueue::DeadLetter)[0].dead_letter.clone().unwrap();
        assert_eq!(why.reason.as_deref(), Some("TTLExpiredException"));
    }
}

#[test]
fn expiry_comes_before_the_maximum_delivery_count() {
    let mut rig = Rig::new(QueueOptions { max_delivery_count: 1, ..dead_lettering() });
    rig.send(with_ttl("a", 1000));
    let (_, token) = rig.take_one().unwrap();
    rig.advance(1000);
    rig.settle(token, abandon()).unwrap();
    let why = rig.peek(SubQueue::DeadLetter)[0].dead_letter.clone().unwrap();
    assert_eq!(why.reason.as_deref(), Some("TTLExpiredException"));
}

#[test]
fn s8_a_tiny_time_to_live_is_accepted() {
    let mut rig = Rig::new(options());
    rig.try_send(vec![with_ttl("a", 1), with_ttl("b", 0)]).unwrap();
    assert_eq!(rig.counts(), (2, 0, 0));
    let taken = rig.take(SubQueue::Main, ReceiveMode::PeekLock, 2);
    assert_eq!(taken.len(), 1, "alive in the millisecond of its arrival, but not without any time");
    assert_eq!(rig.counts(), (1, 0, 0));
}

#[test]
fn s17_s19_s22_with_the_flag_it_is_dead_lettered_in_one_event() {
    let mut rig = Rig::new(dead_lettering());
    rig.send(with_ttl("a", 1000));
    rig.now = rig.now.plus_ms(1000);
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    rig.credit(receiver, 1, false);
    assert_eq!(rig.events.iter().filter(|event| event.durability() == crate::Durability::Sync).count(), 1);
    assert_eq!(rig.counts(), (0, 1, 0));
    let why = rig.peek(SubQueue::DeadLetter)[0].dead_letter.clone().unwrap();
    assert_eq!(why.reason.as_deref(), Some("TTLExpiredException"));
    assert_eq!(why.description.as_deref(), Some("The message expired and was dead lettered."));
}

#[test]
fn s18_without_the_flag_it_is_dropped() {
    let mut rig = Rig::new(options());
    rig.send(with_ttl("a", 1000));
    rig.now = rig.now.plus_ms(1000);
    assert!(rig.take_one().is_none());
    assert_eq!(rig.partition.counts(), super::super::Counts::default());
}

#[test]
fn a_listener_held_up_by_its_byte_limit_still_makes_messages_expire_on_time() {
    let mut rig = Rig::new(options());
    rig.try_send(vec![message("a"), with_ttl("b", 1000), with_ttl("c", 3000)]).unwrap();
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    let limit = CreditLimit { messages: 9, bytes: 1 };
    let effects = rig.handle(None, Command::Credit { receiver, limit, drain: false });
    assert_eq!(deliveries(effects).len(), 1);
    assert_eq!(rig.partition.next_deadline(), Some(rig.now.plus_ms(1000)));
    rig.advance(1000);
    assert_eq!(rig.counts(), (2, 0, 0));
    assert_eq!(rig.partition.next_deadline(), Some(rig.now.plus_ms(2000)));
}

#[test]
fn a_long_backlog_expires_over_several_calls_and_none_of_it_is_delivered() {
    let mut rig = Rig::new(options());
    let backlog = EXPIRIES_PER_CALL_MAX * 2 + 1;
    rig.try_send((0..backlog).map(|_| with_ttl("a", 1000)).chain([message("live")]).collect()).unwrap();
    rig.now = rig.now.plus_ms(1000);
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    let mut waiting = backlog as u64 + 1;
    let mut effects = rig.credit(receiver, 1, true);
    for _ in 0..2 {
        assert_eq!(effects, vec![], "nothing delivered, and not drained yet");
        waiting -= EXPIRIES_PER_CALL_MAX as u64;
        assert_eq!(rig.counts(), (waiting, 0, 0));
        assert!(rig.partition.next_deadline().unwrap() <= rig.now);
        effects = rig.advance(0);
    }
    assert_eq!(super::rig::numbers(effects), [backlog as u64 + 1]);
    assert_eq!(rig.counts(), (1, 0, 0));
}
