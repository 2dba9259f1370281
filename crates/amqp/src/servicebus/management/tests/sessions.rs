//! Operations on sessions, and the entities that operations apply to.

use super::*;
use crate::servicebus::errors::condition;

const ALL: [&str; 13] = [
    "peek-message",
    "renew-lock",
    "receive-by-sequence-number",
    "update-disposition",
    "schedule-message",
    "cancel-scheduled-message",
    "renew-session-lock",
    "get-session-state",
    "set-session-state",
    "get-message-sessions",
    "add-rule",
    "remove-rule",
    "enumerate-rules",
];

/// The operations of [`ALL`] that apply to a node, by position.
fn known_at(path: &str) -> Vec<usize> {
    let entity = entity(path);
    let known = |name: &&str| Operation::parse(name).unwrap().check(&entity).is_ok();
    (0..ALL.len()).filter(|index| known(&ALL[*index])).collect()
}

fn named(id: &str) -> (&'static str, Value) {
    ("session-id", string(id))
}

fn command(operation: &str, body: &[(&str, Value)]) -> Result<Command, Fault> {
    prepare(&format!("com.microsoft:{operation}"), "sessions", body).map(|prepared| prepared.command)
}

#[test]
fn each_operation_belongs_to_some_entities() {
    assert_eq!(known_at("q"), [0, 1, 2, 3, 4, 5]);
    assert_eq!(known_at("q/$DeadLetterQueue"), [0, 1, 2, 3]);
    assert_eq!(known_at("sessions"), [0, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(known_at("sessions/$DeadLetterQueue"), [0, 1, 2, 3], "sessionless");
    assert_eq!(known_at("t"), [0, 4, 5], "scheduled messages can be browsed");
    assert_eq!(known_at("t/Subscriptions/s"), [0, 1, 2, 3, 10, 11, 12]);
    assert_eq!(known_at("t/Subscriptions/s/$DeadLetterQueue"), [0, 1, 2, 3]);
    let fault = Operation::AddRule.check(&entity("q")).unwrap_err();
    assert_eq!(fault.condition_and_status(), (condition::NOT_ALLOWED, 400));
}

#[test]
fn a_session_is_found_by_the_holder_on_this_connection() {
    let receiver = HOLDER;
    assert_eq!(
        command("renew-session-lock", &[named("held")]).unwrap(),
        Command::RenewSessionLock { receiver }
    );
    assert_eq!(
        command("get-session-state", &[named("held")]).unwrap(),
        Command::GetSessionState { receiver }
    );
    let deferred = [
        named("held"),
        ("receiver-settle-mode", Value::UInt(1)),
        ("sequence-numbers", Value::Array(vec![Value::Long(1)])),
    ];
    let Command::ReceiveDeferred { receiver, .. } = command("receive-by-sequence-number", &deferred).unwrap()
    else {
        panic!("a receive")
    };
    assert_eq!(receiver, Some(HOLDER));
    let Command::ReceiveDeferred { receiver, .. } =
        command("receive-by-sequence-number", &deferred[1..]).unwrap()
    else {
        panic!("a receive")
    };
    assert_eq!(receiver, None, "the engine decides the outcome");
}

#[test]
fn a_session_without_a_local_holder_is_lost() {
    let tokens = ("lock-tokens", Value::Array(vec![Value::Uuid([0; 16])]));
    let numbers = ("sequence-numbers", Value::Array(vec![Value::Long(1)]));
    let cases: [(&str, Vec<(&str, Value)>); 5] = [
        ("renew-session-lock", vec![]),
        ("get-session-state", vec![]),
        ("set-session-state", vec![("session-state", Value::Null)]),
        ("update-disposition", vec![("disposition-status", string("completed")), tokens]),
        ("receive-by-sequence-number", vec![("receiver-settle-mode", Value::UInt(1)), numbers]),
    ];
    for (operation, mut body) in cases {
        body.push(named("other"));
        let fault = command(operation, &body).unwrap_err();
        assert_eq!(fault.condition_and_status(), (condition::SESSION_LOCK_LOST, 410), "{operation}");
    }
}

#[test]
fn a_session_need_not_be_held_to_be_browsed() {
    let range = [("from-sequence-number", Value::Long(1)), ("message-count", Value::Int(1))];
    let [from, count] = range;
    for id in ["", "other"] {
        let body = [from.clone(), count.clone(), named(id)];
        let Command::Peek { session, .. } = command("peek-message", &body).unwrap() else { panic!("a peek") };
        assert_eq!(session.as_deref(), Some(id));
    }
    let dead = prepare("com.microsoft:peek-message", "sessions/$DeadLetterQueue", &[from, count, named("s")]);
    assert_eq!(status(dead), 400, "sessionless");
}

#[test]
fn a_renewal_answers_with_one_timestamp() {
    let prepared = prepare("com.microsoft:renew-session-lock", "sessions", &[named("held")]).unwrap();
    let answer = finish(&prepared, Response::SessionRenewed(Ok(Timestamp(7)))).unwrap();
    assert_eq!(entry(&answer, "expiration"), &Value::Timestamp(7));
    let fault = finish(&prepared, Response::SessionRenewed(Err(Refusal::SessionLockLost))).unwrap_err();
    assert_eq!(fault.condition_and_status(), (condition::SESSION_LOCK_LOST, 410));
}

#[test]
fn a_state_is_binary_or_null_both_ways() {
    let prepared = prepare("com.microsoft:get-session-state", "sessions", &[named("held")]).unwrap();
    let state = |state| {
        entry(&finish(&prepared, Response::SessionState(Ok(state))).unwrap(), "session-state").clone()
    };
    assert_eq!(state(None), Value::Null);
    assert_eq!(state(Some(Bytes::from_static(b"x"))), Value::Binary(Bytes::from_static(b"x")));
    assert_eq!(state(Some(Bytes::new())), Value::Null, "stored by an earlier version");

    let set = |value: Value| match command("set-session-state", &[named("held"), ("session-state", value)]) {
        Ok(Command::SetSessionState { receiver: HOLDER, state }) => Ok(state),
        Ok(other) => panic!("{other:?}"),
        Err(fault) => Err(fault.condition_and_status().1),
    };
    assert_eq!(set(Value::Null), Ok(None));
    assert_eq!(set(Value::Binary(Bytes::new())), Ok(None), "so Go writes nil");
    assert_eq!(set(Value::String("".into())), Ok(None));
    assert_eq!(set(Value::Binary(Bytes::from_static(b"x"))), Ok(Some(Bytes::from_static(b"x"))));
    assert_eq!(set(Value::Int(1)), Err(400));
    assert_eq!(status(prepare("com.microsoft:set-session-state", "sessions", &[named("held")])), 400);
}

#[test]
fn sessions_are_listed_in_pages() {
    let list = |at: Value, more: &[(&'static str, Value)]| {
        let mut body = vec![("last-updated-time", at), ("top", Value::Int(100))];
        body.extend_from_slice(more);
        prepare("com.microsoft:get-message-sessions", "sessions", &body).unwrap()
    };
    let Command::ListSessions { queue, updated_since, skip, top } =
        list(Value::Timestamp(5), &[("skip", Value::Int(3))]).command
    else {
        panic!("a list")
    };
    assert_eq!((queue, updated_since, skip, top), (QueueId(1), Some(Timestamp(5)), 3, 100));
    for no_matter_when in [253_402_300_800_000, 253_402_300_799_999, i64::MAX] {
        let Command::ListSessions { updated_since, .. } = list(Value::Timestamp(no_matter_when), &[]).command
        else {
            panic!("a list")
        };
        assert_eq!(updated_since, None);
    }
    let page = list(Value::Timestamp(-1), &[("skip", Value::Int(3))]);
    let answer = finish(&page, Response::Sessions(Ok(vec!["".into(), "b".into()]))).unwrap();
    assert_eq!(entry(&answer, "sessions-ids"), &Value::Array(vec![string(""), string("b")]));
    assert_eq!(entry(&answer, "skip"), &Value::Int(5));
    let answer = finish(&page, Response::Sessions(Ok(Vec::new()))).unwrap();
    assert_eq!((answer.status, answer.condition), (204, Some(condition::SESSION_NOT_FOUND)));
    for bad in [[("top", Value::Int(0))], [("top", Value::Null)], [("top", string("1"))]] {
        assert_eq!(status(prepare("com.microsoft:get-message-sessions", "sessions", &bad)), 400);
    }
    let negative = [("top", Value::Int(1)), ("skip", Value::Int(-1))];
    assert_eq!(status(prepare("com.microsoft:get-message-sessions", "sessions", &negative)), 400);
}

/// Dead letters have no sessions, although the engine, which gets only the token, says that the session's lock is lost.
#[test]
fn a_dead_letter_whose_lock_is_lost_has_lost_its_own() {
    let body = [("lock-tokens", Value::Array(vec![Value::Uuid([1; 16])]))];
    let prepared = prepare("com.microsoft:renew-lock", "sessions/$DeadLetterQueue", &body).unwrap();
    let fault = finish(&prepared, Response::Renewed(Err(Refusal::SessionLockLost))).unwrap_err();
    assert_eq!(fault.condition_and_status().0, condition::MESSAGE_LOCK_LOST);
}

#[test]
fn session_ids_are_strings() {
    let body = [("session-id", Value::Int(1))];
    for operation in ["renew-session-lock", "get-session-state", "peek-message"] {
        assert_eq!(status(prepare(&format!("com.microsoft:{operation}"), "sessions", &body)), 400);
    }
    assert_eq!(status(prepare("com.microsoft:renew-session-lock", "sessions", &[])), 400);
}

#[test]
fn peeked_messages_of_a_session_show_it_as_partition_key() {
    let body = [("from-sequence-number", Value::Long(1)), ("message-count", Value::Int(1))];
    let prepared = prepare("com.microsoft:peek-message", "sessions", &body).unwrap();
    let mut content = BytesMut::new();
    MessageProperties { group_id: Some("s".into()), ..MessageProperties::default() }.encode(&mut content);
    encode_body_value(&Value::Null, &mut content);
    let message = Received { content: content.freeze(), ..received(None) };
    let answer = finish(&prepared, Response::Received(Ok(vec![message]))).unwrap();
    let Value::List(messages) = entry(&answer, "messages") else { panic!("a list") };
    let Some(Value::Binary(whole)) = messages[0].get("message") else { panic!("a binary") };
    let sections = Sections::split(whole).unwrap();
    let annotations = Sections::decode_map(&sections.message_annotations).unwrap();
    assert_eq!(lookup(&annotations, "x-opt-partition-key"), Some(&string("s")));
}
