//! Sessions: which receiver gets which.

use super::rig::{LOCK_MS, Rig, message, options};
use super::rig_sessions::{of, of_with_ttl, opened, with_sessions};
use crate::{Command, Effect, Event, NewMessage, ReceiverId, Refusal, SessionRequest, SubQueue, Timestamp};

#[test]
fn a_message_without_session_is_refused_with_its_whole_batch() {
    let mut rig = Rig::new(with_sessions());
    assert_eq!(rig.try_send(vec![of("a", "1"), message("2")]), Err(Refusal::SessionIdMissing));
    assert_eq!(rig.counts(), (0, 0, 0));
    assert_eq!(rig.send(of("a", "1")), 1);
}

#[test]
fn a_session_is_asked_for_where_it_must_and_only_there() {
    let mut rig = Rig::new(with_sessions());
    assert_eq!(rig.try_open(SubQueue::Main, None).unwrap_err(), Refusal::SessionRequired);
    assert_eq!(rig.try_open(SubQueue::DeadLetter, Some("a")).unwrap_err(), Refusal::SessionNotSupported);
    assert!(rig.try_open(SubQueue::DeadLetter, None).is_ok());
    assert!(rig.try_open(SubQueue::TransferDeadLetter, None).is_ok());
    let mut plain = Rig::new(options());
    assert_eq!(plain.try_open(SubQueue::Main, Some("a")).unwrap_err(), Refusal::SessionNotSupported);
    assert_eq!(plain.next_available().unwrap_err(), Refusal::SessionNotSupported);
}

#[test]
fn a_named_session_is_granted_even_without_messages() {
    let mut rig = Rig::new(with_sessions());
    rig.accept("nobody wrote to it");
    rig.accept("");
    assert_eq!(rig.list(None), [""; 0], "an accept leaves no trace");
}

#[test]
fn an_id_of_128_characters_is_the_longest() {
    let mut rig = Rig::new(with_sessions());
    rig.accept(&"ü".repeat(128));
    let refusal = rig.try_open(SubQueue::Main, Some(&"ü".repeat(129))).unwrap_err();
    assert!(matches!(&refusal, Refusal::InvalidArgument(text) if text.contains("128")), "{refusal:?}");
}

#[test]
fn a_locked_session_is_refused_to_others_until_it_is_given_back() {
    let mut rig = Rig::new(with_sessions());
    let holder = rig.accept("a");
    let refused = Refusal::SessionCannotBeLocked("a".into());
    assert_eq!(rig.try_open(SubQueue::Main, Some("a")).unwrap_err(), refused);
    rig.close(holder);
    rig.accept("a");
}

#[test]
fn a_session_is_free_at_the_instant_at_which_its_lock_ends() {
    let mut rig = Rig::new(with_sessions());
    rig.accept("a");
    rig.now = rig.now.plus_ms(LOCK_MS - 1);
    assert!(rig.try_open(SubQueue::Main, Some("a")).is_err());
    rig.now = rig.now.plus_ms(1);
    rig.accept("a");
}

#[test]
fn a_receiver_id_is_open_once() {
    let mut rig = Rig::new(with_sessions());
    let receiver = rig.accept("a");
    rig.next_receiver = receiver.0;
    assert!(matches!(rig.try_open(SubQueue::Main, Some("b")), Err(Refusal::InvalidArgument(_))));
}

#[test]
fn the_next_available_session_is_the_one_with_the_lowest_message() {
    let mut rig = Rig::new(with_sessions());
    for session in ["c", "a", "b", "a"] {
        rig.send(of(session, "x"));
    }
    let given: Vec<String> = (0..3).map(|_| rig.next_available().unwrap().1).collect();
    assert_eq!(given, ["c", "a", "b"]);
    assert_eq!(rig.next_available().unwrap_err(), Refusal::NoSessionAvailable);
}

#[test]
fn a_session_with_nothing_available_is_not_the_next() {
    let mut rig = Rig::new(with_sessions());
    let later = rig.now.plus_ms(10);
    rig.send(NewMessage { scheduled_enqueue_time: Some(later), ..of("scheduled", "x") });
    rig.send(of("deferred", "x"));
    let (receiver, tokens) = rig.accept_and_take("deferred", 1);
    rig.settle(tokens[0], super::rig::defer()).unwrap();
    rig.set_state(receiver, Some("state")).unwrap();
    rig.close(receiver);
    assert_eq!(rig.next_available().unwrap_err(), Refusal::NoSessionAvailable);
}

#[test]
fn a_pending_accept_is_answered_by_a_later_send() {
    let mut rig = Rig::new(with_sessions());
    let (first, effects) = rig.ask_next(1, 1000);
    assert_eq!(effects, []);
    let (second, _) = rig.ask_next(2, 1000);
    rig.advance(500);
    let messages = vec![of("a", "x"), of("a", "y")].into();
    let effects = rig.handle(None, Command::Send { messages });
    assert_eq!(opened(&effects), [(1, Ok("a".to_owned()))], "first come, first served");
    assert_eq!(rig.take_in_session(first, 5).len(), 2);
    let effects = rig.handle(None, Command::Send { messages: vec![of("b", "x")].into() });
    assert_eq!(opened(&effects), [(2, Ok("b".to_owned()))]);
    assert_eq!(rig.take_in_session(second, 5).len(), 1);
}

#[test]
fn a_pending_accept_is_answered_by_whatever_makes_a_message_available() {
    for way in ["abandon", "release", "activation", "close", "lock end"] {
        let mut rig = Rig::new(with_sessions());
        let at = rig.now.plus_ms(10);
        let scheduled_enqueue_time = (way == "activation").then_some(at);
        rig.send(NewMessage { scheduled_enqueue_time, ..of("a", "x") });
        let (holder, tokens) = rig.accept_and_take("a", 1);
        let (_, effects) = rig.ask_next(1, LOCK_MS * 2);
        assert_eq!(effects, [], "{way}");
        let effects = match way {
            "abandon" => {
                rig.settle(tokens[0], super::rig::abandon()).unwrap();
                rig.close(holder)
            }
            "release" => {
                rig.settle(tokens[0], crate::Settlement::Release).unwrap();
                rig.close(holder)
            }
            "activation" => {
                rig.close(holder);
                rig.advance(10)
            }
            "close" => rig.close(holder),
            _ => rig.advance(LOCK_MS),
        };
        assert_eq!(opened(&effects), [(1, Ok("a".to_owned()))], "{way}");
    }
}

#[test]
fn a_pending_accept_waits_as_long_as_it_said() {
    let mut rig = Rig::new(with_sessions());
    let (receiver, _) = rig.ask_next(1, 1000);
    assert_eq!(rig.partition.next_deadline(), Some(rig.now.plus_ms(1000)));
    assert_eq!(rig.advance(999), []);
    let effects = rig.advance(1);
    assert_eq!(opened(&effects), [(1, Err(Refusal::NoSessionAvailable))]);
    assert_eq!(rig.send(of("a", "x")), 1);
    assert_eq!(rig.credit(receiver, 5, false), [], "its receiver is closed");
    assert_eq!(rig.next_available().unwrap().1, "a");
}

#[test]
fn the_earlier_receiver_gets_a_message_freed_when_another_arrives() {
    let mut rig = Rig::new(with_sessions());
    rig.send(of("a", "x"));
    rig.accept("a");
    rig.ask_next(1, LOCK_MS * 2);
    rig.now = rig.now.plus_ms(LOCK_MS);
    let (_, effects) = rig.ask_next(2, LOCK_MS * 2);
    assert_eq!(opened(&effects), [(1, Ok("a".to_owned()))]);
}

#[test]
fn closing_calls_a_pending_accept_off() {
    let mut rig = Rig::new(with_sessions());
    let (first, _) = rig.ask_next(1, 1000);
    let (_, _) = rig.ask_next(2, 1000);
    let effects = rig.close(first);
    assert_eq!(opened(&effects), [(1, Err(Refusal::ReceiverNotFound))]);
    let effects = rig.handle(None, Command::Send { messages: vec![of("a", "x")].into() });
    assert_eq!(opened(&effects), [(2, Ok("a".to_owned()))]);
}

#[test]
fn credit_given_while_waiting_counts_from_the_grant() {
    let mut rig = Rig::new(with_sessions());
    let (receiver, _) = rig.ask_next(1, 1000);
    assert_eq!(rig.credit(receiver, 1, true), [], "a drain waits for the session");
    let effects = rig.handle(None, Command::Send { messages: vec![of("a", "x"), of("a", "y")].into() });
    assert_eq!(super::rig_sessions::numbers_for(receiver, effects), [1]);
}

#[test]
fn drains_of_those_who_wait_are_not_looked_at_until_they_have_a_session() {
    let mut rig = Rig::new(with_sessions());
    let [drains, calls_off] = [(1, true), (2, false)].map(|(request, keeps)| {
        let (receiver, answer) = rig.ask_next(request, 1_000);
        assert_eq!(answer, []);
        assert_eq!(rig.credit(receiver, 5, true), []);
        if !keeps {
            assert_eq!(rig.credit(receiver, 5, false), [Effect::Drained { receiver }]);
        }
        receiver
    });
    let receivers = &rig.partition.state.entity.receivers;
    assert_eq!(receivers.next_drained(|_, _| panic!("it waits")), None);
    let drained = |effects: &[Effect]| -> Vec<ReceiverId> {
        let of = |effect: &Effect| match effect {
            Effect::Drained { receiver } => Some(*receiver),
            _ => None,
        };
        effects.iter().filter_map(of).collect()
    };
    let send = |session| Command::Send { messages: vec![of(session, "x")].into() };
    assert_eq!(drained(&rig.handle(None, send("a"))), [drains]);
    assert_eq!(drained(&rig.handle(None, send("b"))), []);
    rig.close(calls_off);
    let receivers = &rig.partition.state.entity.receivers;
    assert_eq!(receivers.next_drained(|_, _| true), None);
}

#[test]
fn an_accept_by_name_takes_nothing_from_those_who_wait() {
    let mut rig = Rig::new(with_sessions());
    let holder = rig.accept("a");
    rig.send(of("a", "x"));
    let (_, effects) = rig.ask_next(1, 1000);
    assert_eq!(effects, []);
    let other = rig.accept("b");
    let effects = rig.close(other);
    assert_eq!(opened(&effects), [], "nothing in it");
    assert_eq!(opened(&rig.close(holder)), [(1, Ok("a".to_owned()))]);
}

#[test]
fn after_a_restart_no_session_is_locked_and_no_receiver_waits() {
    let mut rig = Rig::new(with_sessions());
    rig.send(of("a", "x"));
    rig.accept_and_take("a", 1);
    rig.ask_next(1, 1000);
    rig.restart();
    assert_eq!(rig.partition.next_deadline(), None);
    let receiver = rig.accept("a");
    let taken = rig.take_in_session(receiver, 1);
    assert_eq!((taken[0].0.sequence_number.0, taken[0].0.delivery_count), (1, 0));
}

#[test]
fn a_wish_that_waits_for_no_time_is_answered_at_once() {
    let mut rig = Rig::new(with_sessions());
    let receiver = rig.new_receiver();
    let session = Some(SessionRequest { id: None, wait_until: Timestamp(0), ..SessionRequest::default() });
    let options = crate::ReceiverOptions { source: super::rig::path(SubQueue::Main), ..Default::default() };
    let reply = rig.ask(Command::OpenReceiver { receiver, options, session });
    assert_eq!(reply, crate::Reply::Opened(Err(Refusal::NoSessionAvailable)));
    assert!(!rig.events.iter().any(|event| matches!(event, Event::ReceiverOpened { .. })));
}

#[test]
fn deleted_entities_refuse_waiting_receivers() {
    let options = crate::QueueOptions { auto_delete_on_idle_ms: Some(100), ..with_sessions() };
    let mut rig = Rig::new(options);
    rig.send(of_with_ttl("a", "x", 1));
    rig.accept("a");
    let (_, _) = rig.ask_next(1, 250);
    assert_eq!(rig.advance(200), [], "a receiver waits: it is not idle");
    let effects = rig.advance(50);
    assert_eq!(opened(&effects), [(1, Err(Refusal::NoSessionAvailable))]);
    let effects = rig.advance(100);
    assert!(effects.contains(&crate::Effect::Ended(crate::End::Idle)), "{effects:?}");
}
