//! Messages abandoned with a delay: they are not delivered before it ends.

use super::rig::{LOCK_MS, QUEUE, Rig, defer, message, options, with_ttl};
use super::rig_sessions::{numbers_for, of, with_sessions};
use crate::{
    Command, MessageState, Property, QueueOptions, ReceiveMode, Refusal, Reply, Settlement, SubQueue,
    Timestamp,
};

const DELAY_MS: u64 = 5_000;

impl Rig {
    fn postponed(&self, delay_ms: u64) -> Settlement {
        Settlement::Postpone { modify: Vec::new(), until: self.now.plus_ms(delay_ms) }
    }

    /// Receives a message of the main queue and abandons it with a delay.
    fn postpone_one(&mut self) -> u64 {
        let (view, token) = self.take_one().unwrap();
        self.settle(token, self.postponed(DELAY_MS)).unwrap();
        view.sequence_number.0
    }
}

#[test]
fn it_comes_again_at_its_time_and_not_before() {
    let mut rig = Rig::new(options());
    rig.try_send(vec![message("a"), message("b")]).unwrap();
    assert_eq!(rig.postpone_one(), 1);
    assert_eq!(rig.take_one().unwrap().0.sequence_number.0, 2, "others pass it");
    assert!(rig.take_one().is_none());
    assert_eq!(rig.partition.next_deadline(), Some(rig.now.plus_ms(DELAY_MS)));
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    rig.credit(receiver, 1, false);
    assert_eq!(rig.advance(DELAY_MS - 1), []);
    let effects = rig.advance(1);
    assert_eq!(numbers_for(receiver, effects), [1]);
    assert_eq!(rig.peek(SubQueue::Main)[0].delivery_count, 1);
}

#[test]
fn it_is_browsed_as_active_and_counted() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    rig.postpone_one();
    assert_eq!(rig.peek(SubQueue::Main)[0].state, MessageState::Active);
    assert_eq!(rig.counts(), (1, 0, 0));
}

#[test]
fn a_restart_keeps_the_time() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    rig.postpone_one();
    rig.restart();
    rig.advance(DELAY_MS - 1);
    assert!(rig.take_one().is_none());
    rig.restart();
    rig.now = rig.now.plus_ms(1);
    assert!(rig.take_one().is_some(), "the time was over before anybody looked");
    rig.restart();
    assert_eq!(rig.partition.next_deadline(), None, "nothing is held back any more");
}

#[test]
fn a_time_that_is_over_is_no_delay() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, Settlement::Postpone { modify: Vec::new(), until: Timestamp(0) }).unwrap();
    assert_eq!(rig.take_one().unwrap().0.delivery_count, 1);
}

#[test]
fn it_counts_as_a_failure_and_the_last_one_dead_letters_at_once() {
    let mut rig = Rig::new(QueueOptions { max_delivery_count: 1, ..options() });
    rig.send(message("a"));
    rig.postpone_one();
    assert_eq!(rig.counts(), (0, 1, 0));
    let (_, token) = rig.take_one_from(SubQueue::DeadLetter).unwrap();
    rig.settle(token, rig.postponed(DELAY_MS)).unwrap();
    assert!(rig.take_one_from(SubQueue::DeadLetter).is_none(), "a dead letter can wait as well");
    rig.advance(DELAY_MS);
    assert!(rig.take_one_from(SubQueue::DeadLetter).is_some());
}

#[test]
fn a_message_whose_life_ends_meanwhile_expires_when_the_delay_is_over() {
    let mut rig = Rig::new(QueueOptions { dead_lettering_on_message_expiration: true, ..options() });
    rig.send(with_ttl("a", DELAY_MS / 2));
    rig.postpone_one();
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    rig.credit(receiver, 1, false);
    rig.advance(DELAY_MS / 2);
    assert_eq!(rig.counts(), (1, 0, 0));
    rig.advance(DELAY_MS / 2);
    assert_eq!(rig.counts(), (0, 1, 0));
    rig.restart();
    assert_eq!(rig.partition.next_deadline(), None);
}

#[test]
fn properties_change_with_it() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    let (_, token) = rig.take_one().unwrap();
    let modify = vec![Property { name: "p".into(), value: "v".into() }];
    let until = rig.now.plus_ms(DELAY_MS);
    rig.settle(token, Settlement::Postpone { modify: modify.clone(), until }).unwrap();
    rig.restart();
    rig.advance(DELAY_MS);
    assert_eq!(*rig.take_one().unwrap().0.modified.unwrap(), modify);
}

#[test]
fn a_deferred_message_is_received_by_its_number_all_the_same() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, defer()).unwrap();
    let token = rig.receive_deferred(&[1], ReceiveMode::PeekLock).unwrap()[0].1.unwrap().token;
    rig.settle(token, rig.postponed(DELAY_MS)).unwrap();
    assert_eq!(rig.receive_deferred(&[1], ReceiveMode::PeekLock).unwrap()[0].0.delivery_count, 2);
}

#[test]
fn in_a_session_later_messages_wait_too() {
    let mut rig = Rig::new(with_sessions());
    rig.try_send(vec![of("s", "1"), of("s", "2"), of("t", "3")]).unwrap();
    let (holder, tokens) = rig.accept_and_take("s", 1);
    rig.settle(tokens[0], rig.postponed(DELAY_MS)).unwrap();
    assert_eq!(rig.credit(holder, 5, false), []);
    rig.close(holder);
    assert_eq!(rig.next_available().unwrap().1, "t", "nothing is available in the other");
    assert_eq!(rig.next_available(), Err(Refusal::NoSessionAvailable));
    rig.advance(DELAY_MS);
    let (holder, session) = rig.next_available().unwrap();
    assert_eq!(session, "s");
    assert_eq!(numbers_for(holder, rig.credit(holder, 5, false)), [1, 2]);
}

#[test]
fn the_end_of_a_lock_does_not_shorten_it() {
    let mut rig = Rig::new(with_sessions());
    rig.send(of("s", "1"));
    let (_, tokens) = rig.accept_and_take("s", 1);
    rig.settle(tokens[0], rig.postponed(2 * LOCK_MS)).unwrap();
    rig.advance(LOCK_MS);
    assert_eq!(rig.next_available(), Err(Refusal::NoSessionAvailable));
    rig.advance(LOCK_MS);
    assert_eq!(rig.next_available().unwrap().1, "s");
}

#[test]
fn deleting_messages_leaves_it() {
    let mut rig = Rig::new(options());
    rig.try_send(vec![message("a"), message("b")]).unwrap();
    rig.postpone_one();
    let source = crate::QueuePath::main(QUEUE);
    let delete =
        Command::DeleteMessages { source, count_max: 9, enqueued_until: Timestamp::NEVER, receiver: None };
    assert_eq!(rig.ask(delete), Reply::Deleted(Ok(1)));
    assert_eq!(rig.peek(SubQueue::Main).len(), 1);
}

#[test]
fn the_stored_form_stays_readable() {
    let mut rig = Rig::new(options());
    rig.send(message("abc"));
    rig.postpone_one();
    let stored = rig.store.entries(peeklock_storage::Space::Head)[0].value.clone();
    // Enqueued at 1 000 000, 3 bytes, 1 delivery; a rare field: held back until 1 005 000.
    let expected = b"\x10\x0e\x08\xc0\x84\x3d\x10\x03\x20\x01\x5a\x04\x30\xc8\xab\x3d";
    assert_eq!(stored[..], expected[..]);
}
