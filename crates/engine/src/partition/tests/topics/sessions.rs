//! Sessions of subscriptions: each subscription has its own, although they share bodies.

use bytes::Bytes;

use super::rig::{LOCK_MS, Rig, TOPIC, with_sessions};
use crate::{
    Command, Effect, NewMessage, QueueId, QueuePath, ReceiveMode, ReceiverId, ReceiverOptions, Refusal,
    Reply, RequestId, SessionRequest, Settlement, SubQueue, Timestamp,
};

fn of(session: &str) -> NewMessage {
    NewMessage {
        content: Bytes::from_static(b"x"),
        session_id: Some(session.into()),
        rule_properties: Some(crate::RuleProperties::default().into()),
        ..NewMessage::default()
    }
}

fn accept(rig: &mut Rig, queue: QueueId, receiver: u64, session: Option<&str>) -> Result<(), Refusal> {
    let options = ReceiverOptions { source: QueuePath::main(queue), ..ReceiverOptions::default() };
    let session = session.map(|id| SessionRequest {
        id: Some(id.into()),
        wait_until: Timestamp(0),
        ..SessionRequest::default()
    });
    match rig.ask(Command::OpenReceiver { receiver: ReceiverId(receiver), options, session }) {
        Reply::Opened(opened) => opened.map(|_| ()),
        other => panic!("{other:?}"),
    }
}

fn set_state(rig: &mut Rig, receiver: u64, state: &'static [u8]) {
    let state = Some(Bytes::from_static(state));
    rig.done(Command::SetSessionState { receiver: ReceiverId(receiver), state }).unwrap();
}

fn state(rig: &mut Rig, receiver: u64) -> Option<Bytes> {
    match rig.ask(Command::GetSessionState { receiver: ReceiverId(receiver) }) {
        Reply::SessionState(state) => state.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn list(rig: &mut Rig, queue: QueueId) -> Result<Vec<String>, Refusal> {
    match rig.ask(Command::ListSessions { queue, updated_since: None, skip: 0, top: 9 }) {
        Reply::Sessions(sessions) => sessions.map(|ids| ids.iter().map(ToString::to_string).collect()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_subscription_has_sessions_of_its_own() {
    let mut rig = Rig::plain();
    let one = rig.try_subscribe("one", with_sessions(), Vec::new()).unwrap();
    let other = rig.try_subscribe("other", with_sessions(), Vec::new()).unwrap();
    let plain = rig.subscribe("plain");
    rig.try_send(vec![of("a"), of("s"), of("a")]).unwrap();
    accept(&mut rig, one, 101, Some("a")).unwrap();
    accept(&mut rig, other, 102, Some("a")).unwrap();
    let taken = Refusal::SessionCannotBeLocked("a".into());
    assert_eq!(accept(&mut rig, one, 103, Some("a")), Err(taken));
    assert_eq!(accept(&mut rig, one, 103, None), Err(Refusal::SessionRequired));
    assert_eq!(accept(&mut rig, plain, 103, Some("a")), Err(Refusal::SessionNotSupported));
    accept(&mut rig, plain, 103, None).unwrap();
    let got = super::super::rig::numbers(rig.credit(ReceiverId(101), 9, false));
    assert_eq!(got, [1, 3]);
    let (view, _) = rig.take(other, SubQueue::Main, ReceiveMode::ReceiveAndDelete).unwrap();
    assert_eq!(view.sequence_number.0, 2, "session s is the other one");
    assert_eq!(list(&mut rig, one).unwrap(), ["a", "s"]);
    assert_eq!(list(&mut rig, other).unwrap(), ["a"]);
    assert!(matches!(list(&mut rig, plain), Err(Refusal::NotAllowed(_))));
    assert!(matches!(list(&mut rig, TOPIC), Err(Refusal::NotAllowed(_))));
}

#[test]
fn a_subscription_s_session_locks_end_on_time() {
    let mut rig = Rig::plain();
    let queue = rig.try_subscribe("s", with_sessions(), Vec::new()).unwrap();
    rig.send(of("a"));
    accept(&mut rig, queue, 101, Some("a")).unwrap();
    let token = super::super::rig::deliveries(rig.credit(ReceiverId(101), 1, false))[0].2.unwrap().token;
    assert_eq!(rig.partition.next_deadline(), Some(rig.now.plus_ms(LOCK_MS)));
    let effects = rig.advance(LOCK_MS);
    let refusal = Refusal::SessionLockLost;
    assert_eq!(effects, [Effect::ReceiverClosed { receiver: ReceiverId(101), refusal: refusal.clone() }]);
    assert_eq!(rig.settle(queue, token, Settlement::Complete), Err(refusal));
    assert_eq!(rig.peek(queue, SubQueue::Main)[0].delivery_count, 1);
    assert_eq!(rig.partition.next_deadline(), None);
}

#[test]
fn states_are_stored_with_their_subscription_and_go_with_it() {
    let mut rig = Rig::plain();
    let one = rig.try_subscribe("one", with_sessions(), Vec::new()).unwrap();
    let other = rig.try_subscribe("other", with_sessions(), Vec::new()).unwrap();
    accept(&mut rig, one, 101, Some("a")).unwrap();
    accept(&mut rig, other, 102, Some("a")).unwrap();
    set_state(&mut rig, 101, b"one");
    set_state(&mut rig, 102, b"other");
    assert_eq!(rig.partition.counts().size_bytes, 8);
    rig.restart();
    accept(&mut rig, one, 103, Some("a")).unwrap();
    accept(&mut rig, other, 104, Some("a")).unwrap();
    assert_eq!(state(&mut rig, 103).unwrap(), "one");
    assert_eq!(state(&mut rig, 104).unwrap(), "other");
    rig.done(Command::DeleteSubscription { queue: one }).unwrap();
    assert_eq!(rig.partition.counts().size_bytes, 5);
    assert_eq!(state(&mut rig, 104).unwrap(), "other");
}

#[test]
fn an_accept_of_a_session_of_a_deleted_subscription_is_refused_once() {
    let mut rig = Rig::plain();
    let queue = rig.try_subscribe("s", with_sessions(), Vec::new()).unwrap();
    accept(&mut rig, queue, 101, Some("a")).unwrap();
    let options = ReceiverOptions { source: QueuePath::main(queue), ..ReceiverOptions::default() };
    let session =
        Some(SessionRequest { id: None, wait_until: rig.now.plus_ms(1000), ..SessionRequest::default() });
    let receiver = ReceiverId(102);
    let command = Command::OpenReceiver { receiver, options, session };
    assert_eq!(rig.handle(Some(RequestId(5)), command), []);
    let (_, effects) = rig.ask_all(Command::DeleteSubscription { queue });
    let refusal = Refusal::EntityDeleted;
    let reply = Reply::Opened(Err(refusal.clone()));
    let told = [
        Effect::Reply { request: RequestId(5), reply },
        Effect::ReceiverClosed { receiver: ReceiverId(101), refusal },
    ];
    assert_eq!(effects, told);
    assert_eq!(rig.advance(2000), []);
}

#[test]
fn a_message_without_session_reaches_no_session() {
    let mut rig = Rig::plain();
    let queue = rig.try_subscribe("s", with_sessions(), Vec::new()).unwrap();
    rig.subscribe("plain");
    rig.send(NewMessage { session_id: None, ..of("") });
    assert_eq!(list(&mut rig, queue).unwrap(), [""; 0]);
    assert_eq!(rig.peek(queue, SubQueue::DeadLetter).len(), 1);
    rig.restart();
    assert_eq!(rig.peek(queue, SubQueue::DeadLetter).len(), 1);
}
