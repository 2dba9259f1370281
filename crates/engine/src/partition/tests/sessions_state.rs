//! Sessions: their states, deferred messages, listing and browsing.

use bytes::Bytes;
use peeklock_storage::Space;

use super::rig::{LOCK_MS, QUEUE, Rig, abandon, defer, message, options};
use super::rig_sessions::{of, of_with_ttl, with_sessions};
use crate::partition::Partition;
use crate::{
    Command, EntityOptions, MessageState, NewMessage, QueueOptions, ReceiverId, Refusal, Settlement,
    SubQueue, Timestamp,
};

#[test]
fn a_state_is_none_until_set_and_after_it_is_cleared() {
    let mut rig = Rig::new(with_sessions());
    let receiver = rig.accept("a");
    assert_eq!(rig.state(receiver), Ok(None));
    rig.set_state(receiver, Some("one")).unwrap();
    rig.set_state(receiver, Some("")).unwrap();
    assert_eq!(rig.state(receiver), Ok(Some(Bytes::new())), "empty is not none");
    rig.set_state(receiver, None).unwrap();
    assert_eq!(rig.state(receiver), Ok(None));
    assert_eq!(rig.store.entries(Space::Head), [], "a cleared state leaves nothing behind");
    rig.set_state(receiver, None).unwrap();
    assert_eq!(rig.events, [], "nothing to clear");
}

#[test]
fn a_state_survives_its_messages_its_holder_and_restarts() {
    let mut rig = Rig::new(with_sessions());
    rig.send(of("a", "1"));
    let (receiver, tokens) = rig.accept_and_take("a", 1);
    rig.set_state(receiver, Some("progress")).unwrap();
    rig.settle(tokens[0], Settlement::Complete).unwrap();
    rig.close(receiver);
    rig.restart();
    let receiver = rig.accept("a");
    assert_eq!(rig.state(receiver).unwrap().unwrap(), "progress");
    rig.set_state(receiver, Some("more")).unwrap();
    rig.close(receiver);
    let other = rig.accept("b");
    rig.set_state(other, Some("other")).unwrap();
    rig.restart();
    let receiver = rig.accept("a");
    assert_eq!(rig.state(receiver).unwrap().unwrap(), "more");
    assert_eq!(rig.store.entries(Space::Head).len(), 2);
}

#[test]
fn a_state_keeps_nothing_of_the_buffer_in_which_it_arrived() {
    let mut rig = Rig::new(with_sessions());
    let receiver = rig.accept("a");
    let buffer = Bytes::from(vec![b'x'; 64 << 10]);
    rig.ask(Command::SetSessionState { receiver, state: Some(buffer.slice(..3)) });
    assert_eq!(rig.state(receiver), Ok(Some(Bytes::from_static(b"xxx"))));
    assert!(buffer.is_unique());
}

#[test]
fn only_the_holder_reads_and_writes_the_state() {
    let mut rig = Rig::new(with_sessions());
    let holder = rig.accept("a");
    rig.set_state(holder, Some("mine")).unwrap();
    let (plain, _) = rig.try_open(SubQueue::DeadLetter, None).unwrap();
    for receiver in [plain, ReceiverId(999)] {
        assert_eq!(rig.state(receiver), Err(Refusal::SessionLockLost));
        assert_eq!(rig.set_state(receiver, None), Err(Refusal::SessionLockLost));
    }
    rig.now = rig.now.plus_ms(LOCK_MS);
    assert_eq!(rig.state(holder), Err(Refusal::SessionLockLost));
    assert_eq!(rig.set_state(holder, Some("late")), Err(Refusal::SessionLockLost));
    let next = rig.accept("a");
    assert_eq!(rig.state(next).unwrap().unwrap(), "mine");
}

#[test]
fn a_state_counts_toward_the_size_and_its_limits() {
    let options = QueueOptions { max_message_size_bytes: 6, max_size_bytes: 10, ..with_sessions() };
    let mut rig = Rig::new(options);
    let receiver = rig.accept("a");
    let too_large = Refusal::MessageTooLarge { size_bytes: 7, limit_bytes: 6 };
    assert_eq!(rig.set_state(receiver, Some("1234567")), Err(too_large));
    rig.set_state(receiver, Some("123456")).unwrap();
    assert_eq!(rig.partition.counts().size_bytes, 6);
    let full = Refusal::EntityFull { limit_bytes: 10 };
    assert_eq!(rig.try_send(vec![of("a", "12345")]), Err(full.clone()));
    rig.send(of("a", "1234"));
    let other = rig.accept("b");
    assert_eq!(rig.set_state(other, Some("1")), Err(full));
    rig.set_state(receiver, Some("654321")).unwrap();
    rig.set_state(receiver, Some("12")).unwrap();
    assert_eq!(rig.partition.counts().size_bytes, 6);
    rig.set_state(receiver, None).unwrap();
    assert_eq!(rig.partition.counts().size_bytes, 4);
}

#[test]
fn listed_are_sessions_with_active_messages_or_a_state() {
    let mut rig = Rig::new(with_sessions());
    let later = Some(rig.now.plus_ms(10));
    rig.send(NewMessage { scheduled_enqueue_time: later, ..of("scheduled", "x") });
    for session in ["locked", "available", "deferred", "dead", ""] {
        rig.send(of(session, "x"));
    }
    rig.accept_and_take("locked", 1);
    let (_, tokens) = rig.accept_and_take("deferred", 1);
    rig.settle(tokens[0], defer()).unwrap();
    let (_, tokens) = rig.accept_and_take("dead", 1);
    rig.settle(tokens[0], super::rig::dead_letter("bad")).unwrap();
    let stated = rig.accept("stated");
    rig.set_state(stated, Some("x")).unwrap();
    rig.accept("empty");
    assert_eq!(rig.list(None), ["", "available", "locked", "stated"]);
    let page: Vec<String> = rig.try_list(None, 1, 2).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(page, ["available", "locked"]);
    assert_eq!(rig.try_list(None, 4, 2).unwrap(), []);
    rig.restart();
    assert_eq!(rig.list(None), ["", "available", "locked", "stated"]);
}

#[test]
fn listed_by_change_are_sessions_whose_state_changed_at_an_instant_or_later() {
    let mut rig = Rig::new(with_sessions());
    rig.send(of("without", "x"));
    let start = rig.now;
    for session in ["c", "b", "a"] {
        rig.advance(10);
        let receiver = rig.accept(session);
        rig.set_state(receiver, Some("x")).unwrap();
        rig.close(receiver);
    }
    assert_eq!(rig.list(Some(start)), ["a", "b", "c"]);
    assert_eq!(rig.list(Some(start.plus_ms(10))), ["a", "b", "c"], "at the instant itself, too");
    assert_eq!(rig.list(Some(start.plus_ms(11))), ["a", "b"]);
    assert_eq!(rig.list(Some(rig.now)), ["a"]);
    assert_eq!(rig.list(Some(rig.now.plus_ms(1))), [""; 0]);
    rig.advance(10);
    let receiver = rig.accept("c");
    rig.set_state(receiver, Some("y")).unwrap();
    rig.restart();
    assert_eq!(rig.list(Some(start.plus_ms(21))), ["a", "c"]);
    let receiver = rig.accept("a");
    rig.set_state(receiver, None).unwrap();
    assert_eq!(rig.list(Some(Timestamp(0))), ["b", "c"], "a cleared state is none");
    assert_eq!(rig.list(Some(Timestamp::NEVER)), [""; 0]);
}

#[test]
fn an_entity_without_sessions_lists_none() {
    assert!(matches!(Rig::new(options()).try_list(None, 0, 9), Err(Refusal::NotAllowed(_))));
}

#[test]
fn deferred_messages_are_for_the_holder_of_their_session() {
    let mut rig = Rig::new(with_sessions());
    rig.try_send(vec![of("a", "1"), of("b", "2"), of("a", "3")]).unwrap();
    let (a, tokens) = rig.accept_and_take("a", 2);
    rig.settle(tokens[0], defer()).unwrap();
    rig.settle(tokens[1], defer()).unwrap();
    let (b, tokens) = rig.accept_and_take("b", 1);
    rig.settle(tokens[0], defer()).unwrap();
    assert_eq!(rig.receive_deferred_for(None, &[1]), Err(Refusal::SessionLockLost));
    assert_eq!(rig.receive_deferred_for(Some(ReceiverId(99)), &[1]), Err(Refusal::SessionLockLost));
    assert_eq!(rig.receive_deferred_for(Some(b), &[1]), Err(Refusal::DeferredNotFound(1)));
    assert_eq!(rig.receive_deferred_for(Some(a), &[1, 2]), Err(Refusal::DeferredNotFound(2)), "all or none");
    let taken = rig.receive_deferred_for(Some(a), &[3, 1]).unwrap();
    let lock = taken[0].1.unwrap();
    assert_eq!(lock.locked_until, rig.now.plus_ms(LOCK_MS));
    assert_eq!(rig.receive_deferred_for(Some(a), &[1]), Err(Refusal::DeferredNotFound(1)), "locked");
    rig.settle(lock.token, abandon()).unwrap();
    let view = rig.peek(SubQueue::Main).pop().unwrap();
    assert_eq!((view.sequence_number.0, view.state, view.delivery_count), (3, MessageState::Deferred, 2));
    rig.now = rig.now.plus_ms(LOCK_MS);
    assert_eq!(rig.receive_deferred_for(Some(a), &[3]), Err(Refusal::SessionLockLost));
}

#[test]
fn deferred_dead_letters_belong_to_no_session() {
    let mut rig = Rig::new(with_sessions());
    rig.send(of("a", "1"));
    let (_, tokens) = rig.accept_and_take("a", 1);
    rig.settle(tokens[0], super::rig::dead_letter("bad")).unwrap();
    let (_, token) = rig.take_one_from(SubQueue::DeadLetter).unwrap();
    rig.settle(token, defer()).unwrap();
    let source = super::rig::path(SubQueue::DeadLetter);
    let (numbers, mode) = (vec![crate::SequenceNumber(1)], crate::ReceiveMode::PeekLock);
    let command =
        crate::Command::ReceiveDeferred { numbers, source, mode, receiver: None, bytes_max: usize::MAX };
    let crate::Reply::Received(Ok(taken)) = rig.ask(command) else { panic!() };
    assert_eq!(taken[0].1.unwrap().locked_until, rig.now.plus_ms(LOCK_MS));
}

#[test]
fn a_session_s_messages_are_browsed_alone_in_every_state() {
    let mut rig = Rig::new(with_sessions());
    let later = Some(rig.now.plus_ms(10));
    rig.try_send(vec![of("a", "1"), of("b", "2"), of_with_ttl("a", "3", 1), of("a", "4")]).unwrap();
    rig.send(NewMessage { scheduled_enqueue_time: later, ..of("a", "5") });
    let (_, tokens) = rig.accept_and_take("a", 3);
    rig.settle(tokens[1], defer()).unwrap();
    rig.settle(tokens[2], Settlement::Release).unwrap();
    assert_eq!(rig.peek_session("a", 0, 99), [1, 3, 4, 5]);
    assert_eq!(rig.peek_session("a", 3, 2), [3, 4]);
    assert_eq!(rig.peek_session("b", 0, 99), [2]);
    assert_eq!(rig.peek_session("c", 0, 99), [0; 0]);
    rig.settle(tokens[0], super::rig::dead_letter("bad")).unwrap();
    assert_eq!(rig.peek_session_of(SubQueue::DeadLetter, "a", 0, 9), [1]);
    assert_eq!(rig.peek_session_of(SubQueue::DeadLetter, "b", 0, 9), [0; 0]);
}

#[test]
fn a_plain_queue_is_browsed_by_session_id_too() {
    let mut rig = Rig::new(options());
    rig.try_send(vec![of("a", "1"), message("2"), of("a", "3")]).unwrap();
    assert_eq!(rig.peek_session("a", 0, 9), [1, 3]);
}

/// The numbers of the records that can't be decoded.
fn unread(rig: &Rig, options: QueueOptions) -> Vec<u64> {
    let options = EntityOptions::from(options);
    let (meta, head) = (rig.store.entries(Space::Meta), rig.store.entries(Space::Head));
    let mut restored = Partition::restore(QUEUE, options, meta, head).unwrap();
    restored.take_unread().into_iter().map(|unread| unread.number).collect()
}

#[test]
fn damaged_states_cost_only_themselves() {
    let mut rig = Rig::new(with_sessions());
    let receiver = rig.accept("a");
    rig.set_state(receiver, Some("x")).unwrap();
    let number = 1 << 63;
    let good = rig.store.0[&(Space::Head, number)].clone();
    let mut damaged: Vec<Vec<u8>> = (0..good.len()).map(|length| good[..length].to_vec()).collect();
    damaged.extend([[&good[..], &[0]].concat(), [&[9], &good[1..]].concat()]);
    for value in damaged {
        rig.store.0.insert((Space::Head, number), value.clone().into());
        assert_eq!(unread(&rig, with_sessions()), [number], "{value:?}");
    }
    rig.store.0.insert((Space::Head, number), good.clone());
    assert_eq!(unread(&rig, with_sessions()), [0; 0]);
    assert_eq!(unread(&rig, options()), [number], "no sessions there");
    rig.store.0.insert((Space::Head, number + 1), good);
    assert_eq!(unread(&rig, with_sessions()), [number + 1], "a second one");
}

#[test]
fn a_stored_message_without_session_is_out_of_delivery_where_sessions_are_required() {
    let mut rig = Rig::new(options());
    rig.send(message("x"));
    assert_eq!(unread(&rig, with_sessions()), [1]);
}

#[test]
fn state_format_version_1_stays_readable() {
    let mut rig = Rig::new(with_sessions());
    // Session "a", updated at 300, three bytes.
    let value = [1, 1, b'a', 0xac, 2, 3, 7, 8, 9];
    rig.store.0.insert((Space::Head, 1 << 63 | 5), Bytes::copy_from_slice(&value));
    rig.restart();
    let receiver = rig.accept("a");
    assert_eq!(rig.state(receiver).unwrap().unwrap(), [7, 8, 9].as_slice());
    assert_eq!(rig.list(Some(Timestamp(300))), ["a"]);
    assert_eq!(rig.list(Some(Timestamp(301))), [""; 0]);
    let other = rig.accept("b");
    rig.set_state(other, Some("y")).unwrap();
    assert!(rig.store.0.contains_key(&(Space::Head, 1 << 63 | 6)), "a number of its own");
}

#[test]
fn a_turn_that_sets_and_clears_a_state_writes_nothing() {
    let mut rig = Rig::new(with_sessions());
    let receiver = rig.accept("a");
    let mut outputs = super::super::Outputs::default();
    let mut random = <rand::rngs::StdRng as rand::SeedableRng>::seed_from_u64(1);
    for state in [Some(Bytes::from_static(b"x")), None] {
        let command = crate::Command::SetSessionState { receiver, state };
        rig.partition.handle(rig.now, &mut random, None, command, &mut outputs);
    }
    let mut batch = peeklock_storage::Batch::new();
    crate::partition::persist(super::rig::ID, &outputs.events, &mut batch);
    assert_eq!(batch.operations().len(), 0);
}
