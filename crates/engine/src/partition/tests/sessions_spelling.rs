//! Session ids that differ only in case are the same session; messages keep their spelling.

use bytes::Bytes;
use peeklock_storage::Space;
use smallvec::smallvec;

use super::rig::{QUEUE, Rig, defer, options};
use super::rig_sessions::{numbers_for, of, of_with_ttl, with_sessions};
use crate::{Command, DeadLetter, QueueId, Refusal, Settlement, SubQueue};

/// The session ids of the main queue's messages, in order.
fn spellings(rig: &Rig) -> Vec<String> {
    let messages = rig.partition.state.entity.messages.get(SubQueue::Main);
    messages
        .range(crate::SequenceNumber(0))
        .map(|(_, record)| record.session_id().unwrap().to_string())
        .collect()
}

#[test]
fn the_holder_of_one_spelling_gets_the_messages_of_all_in_order() {
    let mut rig = Rig::new(with_sessions());
    rig.try_send(vec![of("SessionId", "1"), of("sessionId", "2"), of("other", "3"), of("SESSIONID", "4")])
        .unwrap();
    let holder = rig.accept("sessionId");
    assert_eq!(numbers_for(holder, rig.credit(holder, 9, false)), [1, 2, 4]);
    rig.send(of("sessionid", "5"));
    let refused = Refusal::SessionCannotBeLocked("SessionID".into());
    assert_eq!(rig.try_open(SubQueue::Main, Some("SessionID")).unwrap_err(), refused);
    assert_eq!(spellings(&rig), ["SessionId", "sessionId", "other", "SESSIONID", "sessionid"]);
    rig.close(holder);
    rig.restart();
    assert_eq!(spellings(&rig), ["SessionId", "sessionId", "other", "SESSIONID", "sessionid"]);
    let holder = rig.accept("SESSIONid");
    assert_eq!(numbers_for(holder, rig.credit(holder, 9, false)), [1, 2, 4, 5]);
}

#[test]
fn a_session_is_listed_and_offered_once_as_its_first_message_spells_it() {
    let mut rig = Rig::new(with_sessions());
    rig.try_send(vec![of("SessionId", "1"), of("sessionId", "2")]).unwrap();
    assert_eq!(rig.list(None), ["SessionId"]);
    assert_eq!(rig.next_available().unwrap().1, "SessionId");
    assert_eq!(rig.next_available(), Err(Refusal::NoSessionAvailable));
    assert_eq!(rig.peek_session("sessionID", 0, 9), [1, 2]);
}

#[test]
fn deferred_messages_are_taken_under_any_spelling() {
    let mut rig = Rig::new(with_sessions());
    rig.send(of("A", "1"));
    let (holder, tokens) = rig.accept_and_take("a", 1);
    rig.settle(tokens[0], defer()).unwrap();
    let taken = rig.receive_deferred_for(Some(holder), &[1]).unwrap();
    rig.settle(taken[0].1.unwrap().token, Settlement::Complete).unwrap();
    assert_eq!(rig.counts(), (0, 0, 0));
}

#[test]
fn one_expired_message_expires_the_session_in_every_spelling() {
    let mut rig = Rig::new(with_sessions());
    rig.try_send(vec![of("a", "1"), of_with_ttl("A", "2", 10), of("b", "3")]).unwrap();
    rig.now = rig.now.plus_ms(10);
    let holder = rig.accept("a");
    assert_eq!(numbers_for(holder, rig.credit(holder, 9, false)), [0; 0]);
    assert_eq!(rig.list(None), ["b"]);
}

#[test]
fn a_state_belongs_to_all_spellings() {
    let mut rig = Rig::new(with_sessions());
    let holder = rig.accept("Cart");
    rig.set_state(holder, Some("full")).unwrap();
    rig.close(holder);
    rig.restart();
    let holder = rig.accept("cart");
    assert_eq!(rig.state(holder).unwrap().unwrap(), "full");
    rig.set_state(holder, Some("empty")).unwrap();
    assert_eq!(rig.store.entries(Space::Head).len(), 1);
    rig.set_state(holder, None).unwrap();
    assert_eq!(rig.store.entries(Space::Head), []);
}

#[test]
fn browsing_elsewhere_ignores_case_too() {
    let mut rig = Rig::new(options());
    rig.try_send(vec![of("a", "1"), of("A", "2"), of("b", "3")]).unwrap();
    assert_eq!(rig.peek_session("A", 0, 9), [1, 2]);
}

#[test]
fn messages_that_spell_it_alike_share_one_note_whatever_the_holder_calls_it() {
    let mut rig = Rig::new(with_sessions());
    rig.accept("sessionId");
    rig.try_send(vec![of("SessionId", "1"), of("SessionId", "2")]).unwrap();
    let messages = rig.partition.state.queue(QueueId(QUEUE.0)).unwrap().messages.get(SubQueue::Main);
    let mut notes = messages.range(crate::SequenceNumber(0)).map(|(_, record)| record.extra().unwrap());
    assert!(std::sync::Arc::ptr_eq(notes.next().unwrap(), notes.next().unwrap()));
}

/// Earlier versions stored a session and a state for each spelling.
#[test]
fn of_two_stored_states_the_one_set_last_counts_and_the_other_goes_with_the_next_change() {
    for clears in [false, true] {
        for (first_at, second_at) in [(1_u8, 2_u8), (2, 1)] {
            let mut rig = Rig::new(with_sessions());
            for (number, id, at) in [(1 << 63, b'a', first_at), (1 << 63 | 1, b'A', second_at)] {
                let value = [1, 1, id, at, 1, b'0' + at];
                rig.store.0.insert((Space::Head, number), Bytes::copy_from_slice(&value));
            }
            rig.restart();
            let holder = rig.accept("a");
            assert_eq!(rig.state(holder).unwrap().unwrap(), "2");
            assert_eq!(rig.store.entries(Space::Head).len(), 2, "nothing is lost by reading");
            rig.set_state(holder, (!clears).then_some("3")).unwrap();
            assert_eq!(rig.store.entries(Space::Head).len(), usize::from(!clears));
            rig.restart();
            let holder = rig.accept("A");
            assert_eq!(rig.state(holder).unwrap(), (!clears).then(|| Bytes::from_static(b"3")));
        }
    }
}

#[test]
fn an_undeliverable_message_is_browsed_by_its_session() {
    for options in [with_sessions(), options()] {
        let mut rig = Rig::new(options);
        let messages = smallvec![of("A", "1"), of("other", "2")];
        rig.ask(Command::KeepUndelivered { messages, why: DeadLetter::default().into() });
        rig.restart();
        assert_eq!(rig.peek_session_of(SubQueue::TransferDeadLetter, "a", 0, 9), [1]);
    }
}
