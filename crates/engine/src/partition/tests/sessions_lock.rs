//! Sessions: renewal and end of their locks.

use super::super::step::TIMERS_PER_CALL_MAX;
use super::rig::{LOCK_MS, Rig, defer, deliveries};
use super::rig_sessions::{closed, of, of_with_ttl, opened, with_sessions};
use crate::{
    Command, CreditLimit, Effect, Event, QueueOptions, ReceiveMode, ReceiverId, Refusal, Reply, Settlement,
    SubQueue, Timestamp,
};

#[test]
fn a_lock_is_renewed_from_now_not_on_top() {
    let mut rig = Rig::new(with_sessions());
    rig.send(of("a", "1"));
    let (receiver, tokens) = rig.accept_and_take("a", 1);
    rig.advance(LOCK_MS / 2);
    let until = rig.now.plus_ms(LOCK_MS);
    assert_eq!(rig.renew_session(receiver), Ok(until));
    assert_eq!(rig.renew_session(receiver), Ok(until));
    assert_eq!(rig.advance(LOCK_MS - 1), []);
    rig.settle(tokens[0], Settlement::Complete).unwrap();
    assert_eq!(closed(&rig.advance(1)), [(receiver, Refusal::SessionLockLost)]);
}

#[test]
fn only_the_holder_renews() {
    let mut rig = Rig::new(with_sessions());
    let (waiter, _) = rig.ask_next(1, LOCK_MS * 2);
    let holder = rig.accept("a");
    let (plain, _) = rig.try_open(SubQueue::DeadLetter, None).unwrap();
    for receiver in [waiter, plain, ReceiverId(999)] {
        assert_eq!(rig.renew_session(receiver), Err(Refusal::SessionLockLost));
    }
    rig.now = rig.now.plus_ms(LOCK_MS);
    assert_eq!(rig.renew_session(holder), Err(Refusal::SessionLockLost), "lapsed");
}

#[test]
fn a_lock_that_ends_by_time_closes_its_receiver_and_counts_a_failure() {
    let mut rig = Rig::new(with_sessions());
    rig.try_send(vec![of("a", "1"), of("a", "2"), of("a", "3")]).unwrap();
    let (receiver, tokens) = rig.accept_and_take("a", 2);
    assert_eq!(rig.partition.next_deadline(), Some(rig.now.plus_ms(LOCK_MS)));
    let effects = rig.advance(LOCK_MS);
    assert_eq!(closed(&effects), [(receiver, Refusal::SessionLockLost)]);
    assert!(rig.events.iter().any(|event| matches!(event, Event::SessionUnlocked { lost: true, .. })));
    assert_eq!(rig.delivery_counts(SubQueue::Main), [(1, 1), (2, 1), (3, 0)]);
    assert_eq!(rig.settle(tokens[0], Settlement::Complete), Err(Refusal::SessionLockLost));
    assert_eq!(rig.credit(receiver, 99, false), [], "it is closed");
    let again = rig.accept("a");
    let numbers: Vec<_> =
        rig.take_in_session(again, 9).iter().map(|(view, _)| view.sequence_number.0).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn who_asks_for_messages_and_has_none_in_hand_keeps_the_session() {
    for mode in [ReceiveMode::PeekLock, ReceiveMode::ReceiveAndDelete] {
        let mut rig = Rig::new(with_sessions());
        let (receiver, _) = rig.try_open_in(mode, SubQueue::Main, Some("a")).unwrap();
        rig.credit(receiver, 2, false);
        for _ in 0..3 {
            assert_eq!(rig.advance(LOCK_MS), []);
        }
        let taken = Refusal::SessionCannotBeLocked("a".into());
        assert_eq!(rig.try_open(SubQueue::Main, Some("a")), Err(taken));
        rig.send(of("a", "1"));
        assert_eq!(closed(&rig.advance(LOCK_MS)), [(receiver, Refusal::SessionLockLost)], "one is in hand");
        let (idle, _) = rig.try_open_in(mode, SubQueue::Main, Some("b")).unwrap();
        assert_eq!(closed(&rig.advance(LOCK_MS)), [(idle, Refusal::SessionLockLost)], "it asks for nothing");
    }
}

#[test]
fn a_lock_given_back_counts_no_failure() {
    let mut rig = Rig::new(with_sessions());
    rig.try_send(vec![of("a", "1"), of("a", "2")]).unwrap();
    let (receiver, tokens) = rig.accept_and_take("a", 2);
    assert_eq!(rig.close(receiver), []);
    assert!(rig.events.iter().any(|event| matches!(event, Event::SessionUnlocked { lost: false, .. })));
    assert_eq!(rig.delivery_counts(SubQueue::Main), [(1, 0), (2, 0)]);
    assert_eq!(rig.settle(tokens[0], Settlement::Complete), Err(Refusal::SessionLockLost));
    assert_eq!(rig.partition.next_deadline(), None);
}

#[test]
fn a_holder_that_closes_too_late_has_lost_its_lock() {
    let mut rig = Rig::new(with_sessions());
    rig.send(of("a", "1"));
    let (receiver, _) = rig.accept_and_take("a", 1);
    rig.now = rig.now.plus_ms(LOCK_MS);
    rig.close(receiver);
    assert_eq!(rig.delivery_counts(SubQueue::Main), [(1, 1)]);
}

#[test]
fn s_6_a_message_that_expired_in_flight_is_gone_when_the_lock_ends() {
    for (flag, lost) in [(false, false), (false, true), (true, false), (true, true)] {
        let options = QueueOptions { dead_lettering_on_message_expiration: flag, ..with_sessions() };
        let mut rig = Rig::new(options);
        rig.try_send(vec![of_with_ttl("a", "1", 10), of("a", "2")]).unwrap();
        let (receiver, _) = rig.accept_and_take("a", 2);
        rig.advance(10);
        assert_eq!(rig.counts(), (2, 0, 0), "S-5: locked");
        if lost {
            rig.advance(LOCK_MS);
        } else {
            rig.close(receiver);
        }
        assert_eq!(rig.counts(), (1, u64::from(flag), 0));
        assert_eq!(rig.delivery_counts(SubQueue::Main), [(2, u32::from(lost))]);
    }
}

#[test]
fn deferred_messages_in_flight_return_to_the_deferred() {
    for lost in [false, true] {
        let mut rig = Rig::new(with_sessions());
        rig.send(of("a", "1"));
        let (receiver, tokens) = rig.accept_and_take("a", 1);
        rig.settle(tokens[0], defer()).unwrap();
        rig.receive_deferred_for(Some(receiver), &[1]).unwrap();
        if lost {
            rig.advance(LOCK_MS);
        } else {
            rig.close(receiver);
        }
        let view = rig.peek(SubQueue::Main).remove(0);
        assert_eq!(view.state, crate::MessageState::Deferred);
        assert_eq!(view.delivery_count, 1 + u32::from(lost));
    }
}

#[test]
fn very_many_in_flight_return_in_portions_and_the_session_waits_for_the_last() {
    let many = TIMERS_PER_CALL_MAX * 4 + 10;
    for lost in [false, true] {
        let mut rig = Rig::new(with_sessions());
        let messages = (0..many).map(|_| of("a", "x")).collect();
        rig.try_send(messages).unwrap();
        let (receiver, tokens) = rig.accept_and_take("a", many as u64);
        let (_, effects) = rig.ask_next(1, LOCK_MS * 9);
        assert_eq!(effects, []);
        if lost {
            rig.advance(LOCK_MS);
        } else {
            rig.close(receiver);
        }
        let refused = Refusal::SessionCannotBeLocked("a".into());
        assert_eq!(rig.try_open(SubQueue::Main, Some("a")).unwrap_err(), refused);
        assert_eq!(rig.settle(tokens[many - 1], Settlement::Complete), Err(Refusal::SessionLockLost));
        let left = |rig: &Rig| rig.partition.state.locks.len();
        assert_eq!(left(&rig), many - 3 * TIMERS_PER_CALL_MAX, "three calls, three portions");
        assert!(rig.partition.next_deadline().is_some_and(|at| at <= rig.now));
        assert_eq!(rig.advance(0), []);
        assert_eq!(opened(&rig.advance(0)), [(1, Ok("a".to_owned()))], "granted to the waiting receiver");
        assert_eq!(left(&rig), 0);
        let counts = rig.delivery_counts(SubQueue::Main);
        assert!(counts.iter().all(|(_, count)| *count == u32::from(lost)));
    }
}

/// Carries out a command without checking the state; returns its effects.
fn handle_unchecked(rig: &mut Rig, command: Command) -> Vec<Effect> {
    let mut random = <rand::rngs::StdRng as rand::SeedableRng>::seed_from_u64(1);
    let mut outputs = super::super::Outputs::default();
    rig.partition.handle(rig.now, &mut random, None, command, &mut outputs);
    outputs.effects
}

/// Accepts many sessions, each by its number, without checking the answers.
fn accept_many(rig: &mut Rig, many: usize) -> Vec<ReceiverId> {
    let accept = |id: usize| {
        let receiver = rig.new_receiver();
        let source = super::rig::path(SubQueue::Main);
        let options = crate::ReceiverOptions { source, mode: ReceiveMode::PeekLock };
        let session = Some(crate::SessionRequest {
            id: Some(id.to_string().into()),
            wait_until: Timestamp(0),
            ..crate::SessionRequest::default()
        });
        handle_unchecked(rig, Command::OpenReceiver { receiver, options, session });
        receiver
    };
    (0..many).map(accept).collect()
}

#[test]
fn very_many_locks_that_end_at_once_end_in_portions() {
    let mut rig = Rig::new(with_sessions());
    accept_many(&mut rig, TIMERS_PER_CALL_MAX + 10);
    assert_eq!(closed(&rig.advance(LOCK_MS)).len(), TIMERS_PER_CALL_MAX);
    assert!(rig.partition.next_deadline().is_some_and(|at| at <= rig.now));
    assert_eq!(closed(&rig.advance(0)).len(), 10);
    assert_eq!(rig.partition.next_deadline(), None);
}

#[test]
fn very_many_late_locks_end_in_portions_when_messages_arrive_for_all_of_them() {
    const SESSIONS: usize = TIMERS_PER_CALL_MAX * 4;
    let mut rig = Rig::new(with_sessions());
    let messages = || Command::Send { messages: (0..SESSIONS).map(|id| of(&id.to_string(), "1")).collect() };
    for receiver in accept_many(&mut rig, SESSIONS) {
        let limit = CreditLimit { messages: 2, bytes: u64::MAX };
        handle_unchecked(&mut rig, Command::Credit { receiver, limit, drain: false });
    }
    assert_eq!(deliveries(handle_unchecked(&mut rig, messages())).len(), SESSIONS, "one in each hand");
    rig.now = rig.now.plus_ms(LOCK_MS);

    let mut ended = vec![closed(&handle_unchecked(&mut rig, messages())).len()];
    while rig.partition.next_deadline().is_some_and(|at| at <= rig.now) {
        ended.push(closed(&handle_unchecked(&mut rig, Command::Tick)).len());
    }

    assert!(ended.iter().all(|ended| *ended <= TIMERS_PER_CALL_MAX * 2), "{ended:?}");
    assert_eq!(ended.iter().sum::<usize>(), SESSIONS);
}

#[test]
fn a_lock_is_over_even_if_its_timer_has_not_fired_yet() {
    for way in ["accept", "close", "settle", "renew", "state"] {
        let mut rig = Rig::new(with_sessions());
        accept_many(&mut rig, TIMERS_PER_CALL_MAX * 2);
        rig.send(of("a", "1"));
        let (receiver, tokens) = rig.accept_and_take("a", 1);
        rig.now = rig.now.plus_ms(LOCK_MS);
        let lost = Refusal::SessionLockLost;
        match way {
            "accept" => {
                let refusals = (rig.try_open(SubQueue::Main, Some("a")).err(), rig.renew_session(receiver));
                assert_eq!(refusals, (None, Err(lost)));
            }
            "close" => assert_eq!(closed(&rig.close(receiver)).len(), TIMERS_PER_CALL_MAX),
            "settle" => assert_eq!(rig.settle(tokens[0], Settlement::Complete), Err(lost)),
            "renew" => assert_eq!(rig.renew_session(receiver), Err(lost)),
            _ => assert_eq!(rig.set_state(receiver, Some("late")), Err(lost)),
        }
        rig.advance(0);
        rig.advance(0);
        assert_eq!(rig.delivery_counts(SubQueue::Main), [(1, 1)], "{way}");
    }
}

#[test]
fn nothing_is_delivered_under_a_lock_that_is_over_even_if_its_timer_has_not_fired_yet() {
    for in_hand in [0, 1] {
        let mut rig = Rig::new(with_sessions());
        accept_many(&mut rig, TIMERS_PER_CALL_MAX * 2);
        for _ in 0..in_hand {
            rig.send(of("a", "1"));
        }
        let (receiver, _) = rig.accept_and_take("a", in_hand as u64);
        rig.credit(receiver, in_hand as u64 + 1, false);
        rig.now = rig.now.plus_ms(LOCK_MS);
        let effects = rig.handle(None, Command::Send { messages: [of("a", "late")].into_iter().collect() });
        let is_lost = closed(&effects).contains(&(receiver, Refusal::SessionLockLost));
        let until =
            deliveries(effects).iter().filter_map(|(_, _, lock)| Some(lock.as_ref()?.locked_until)).next();
        // It asked for messages: it keeps the session if it had none in hand.
        let kept_until = Some(rig.now.plus_ms(LOCK_MS)).filter(|_| in_hand == 0);
        assert_eq!((is_lost, until), (in_hand > 0, kept_until));
        rig.advance(0);
        rig.advance(0);
        assert_eq!(rig.renew_session(receiver).is_ok(), in_hand == 0);
        let counts = rig.delivery_counts(SubQueue::Main);
        assert_eq!(counts.last().map(|(_, count)| *count), Some(0), "it has not failed");
    }
}

/// A command of a receiver, and its name in a failure.
type Way = (&'static str, fn(&mut Rig, ReceiverId, u64) -> Result<(), Refusal>);

const WAYS: [Way; 6] = [
    ("renew", |rig, receiver, _| rig.renew_session(receiver).map(drop)),
    ("get the state", |rig, receiver, _| rig.state(receiver).map(drop)),
    ("set the state", |rig, receiver, _| rig.set_state(receiver, Some("late"))),
    ("delete messages", |rig, receiver, _| {
        let (source, enqueued_until) = (super::rig::path(SubQueue::Main), Timestamp::NEVER);
        let receiver = Some(receiver);
        match rig.ask(Command::DeleteMessages { source, count_max: 1, enqueued_until, receiver }) {
            Reply::Deleted(deleted) => deleted.map(drop),
            other => panic!("{other:?}"),
        }
    }),
    ("stop listening", |rig, receiver, _| {
        let effects = rig.credit(receiver, 1, false);
        assert!(closed(&effects).iter().all(|(other, _)| *other != receiver));
        Ok(())
    }),
    ("receive what is deferred", |rig, receiver, deferred| {
        let received = rig.receive_deferred_for(Some(receiver), &[deferred])?;
        let lock = received[0].1.as_ref().unwrap();
        assert_eq!(lock.locked_until, rig.now.plus_ms(LOCK_MS));
        rig.settle(lock.token, Settlement::Complete)
    }),
];

#[test]
fn a_holder_that_listens_keeps_its_session_in_every_command_although_its_timer_is_late() {
    for (way, act) in WAYS {
        let mut rig = Rig::new(with_sessions());
        accept_many(&mut rig, TIMERS_PER_CALL_MAX * 2);
        let deferred = rig.send(of("a", "1"));
        let (receiver, tokens) = rig.accept_and_take("a", 1);
        rig.settle(tokens[0], defer()).unwrap();
        rig.credit(receiver, 2, false);
        rig.now = rig.now.plus_ms(LOCK_MS);
        assert_eq!(act(&mut rig, receiver, deferred), Ok(()), "{way}");
        rig.advance(0);
        rig.advance(0);
        assert_eq!(rig.renew_session(receiver), Ok(rig.now.plus_ms(LOCK_MS)), "{way}");
    }
}

#[test]
fn credit_that_comes_after_the_end_of_a_lock_keeps_no_session_although_its_timer_is_late() {
    let mut rig = Rig::new(with_sessions());
    accept_many(&mut rig, TIMERS_PER_CALL_MAX * 2);
    let receiver = rig.accept("a");
    rig.now = rig.now.plus_ms(LOCK_MS);
    assert!(closed(&rig.credit(receiver, 1, false)).contains(&(receiver, Refusal::SessionLockLost)));
}
