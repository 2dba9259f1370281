use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use peeklock_access::ResolvedNode;
use peeklock_engine::runtime::{EntityRef, PartitionHandle, SubscriptionRef};
use peeklock_engine::{
    BodyRef, Lock, LockToken, MessageState, MessageView, QueueId, QueueOptions, ReceiveMode, Received,
    SequenceNumber, SettleFailure, Settlement, SubQueue, SubscriptionOptions, Timestamp, TopicOptions,
};

use super::*;
use crate::servicebus::envelope::lookup;
use crate::servicebus::errors::symbol;
use crate::wire::Value;
use crate::wire::message::{MessageProperties, Sections, encode_body_value, encode_message_annotations};

mod batch_delete;
mod rules;
mod sessions;

/// The receiver that holds the session `held` of the queue `sessions`.
const HOLDER: ReceiverId = ReceiverId(9);

fn entity(path: &str) -> Entity {
    let Ok(ResolvedNode::Entity(address)) = ResolvedNode::of(path) else { panic!("an entity") };
    let (partition, _) = PartitionHandle::new();
    let requires_session = address.name == "sessions";
    let queue = QueueOptions { max_message_size_bytes: 1000, requires_session, ..QueueOptions::default() };
    let topic = TopicOptions { max_message_size_bytes: 1000, ..TopicOptions::default() };
    if address.subscription.is_some() {
        let (options, topic) = (Arc::new(SubscriptionOptions::default()), Arc::new(topic.into()));
        let found = SubscriptionRef { partition, queue: QueueId(2), options, topic };
        return Entity::subscription(address, "u".into(), found);
    }
    let options = if address.name == "t" { Arc::new(topic.into()) } else { Arc::new(queue.into()) };
    Entity::new(address, "u".into(), EntityRef { partition, queue: QueueId(1), options })
}

fn string(text: &str) -> Value {
    Value::String(text.into())
}

fn prepare(operation: &str, path: &str, body: &[(&str, Value)]) -> Result<Prepared, Fault> {
    prepare_in(Tier::Premium, operation, path, body)
}

fn prepare_in(tier: Tier, operation: &str, path: &str, body: &[(&str, Value)]) -> Result<Prepared, Fault> {
    let body = body.iter().map(|(key, value)| (string(key), value.clone())).collect();
    let arguments = Arguments::new(Value::Map(body))?;
    let entity = entity(path);
    let sessions = HashMap::from([((QueueId(1), Arc::from("held")), HOLDER)]);
    let (entity, sessions) = (&entity, &sessions);
    let mut context = Context { entity, sessions, tier, room_bytes: usize::MAX, next_id: &mut || 1 };
    super::prepare(Operation::parse(operation)?, &arguments, &mut context)
}

fn status(result: Result<Prepared, Fault>) -> i32 {
    match result {
        Ok(_) => 200,
        Err(fault) => fault.condition_and_status().1,
    }
}

fn finish(prepared: &Prepared, response: Response) -> Result<Answer, Fault> {
    (prepared.finish)(response, &mut Encoder::default())
}

fn entry<'answer>(answer: &'answer Answer, key: &str) -> &'answer Value {
    match &answer.body {
        Value::Map(entries) => lookup(entries, key).expect(key),
        other => panic!("{other:?}"),
    }
}

fn encoded(scheduled: Option<i64>) -> Bytes {
    let mut output = BytesMut::new();
    if let Some(at) = scheduled {
        let annotations = [(symbol("x-opt-scheduled-enqueue-time"), Value::Timestamp(at))];
        encode_message_annotations(&annotations, &mut output);
    }
    MessageProperties { message_id: string("m"), ..MessageProperties::default() }.encode(&mut output);
    encode_body_value(&string("body"), &mut output);
    output.freeze()
}

fn received(lock: Option<Lock>) -> Received {
    let view = MessageView {
        queue: QueueId(1),
        sequence_number: SequenceNumber(3),
        partition: peeklock_engine::KeyPartition::default(),
        enqueued_at: Timestamp(1),
        expires_at: Timestamp::NEVER,
        time_to_live_ms: None,
        delivery_count: 1,
        state: MessageState::Deferred,
        sub_queue: SubQueue::Main,
        dead_letter: None,
        changes: None,
        modified: None,
        forwarded: None,
        body: BodyRef(3),
        content_bytes: 0,
    };
    Received { view, content: encoded(None), lock }
}

#[test]
fn unknown_operations_never_succeed() {
    assert_eq!(Operation::parse("com.microsoft:purge").unwrap_err().condition_and_status().1, 501);
    assert_eq!(Operation::parse("READ").unwrap_err().condition_and_status().1, 501);
}

#[test]
fn peek_takes_any_integer_width_and_the_sub_queue_of_its_node() {
    let body = [("from-sequence-number", Value::Int(4)), ("message-count", Value::ULong(100_000))];
    let prepared = prepare("com.microsoft:peek-message", "q/$DeadLetterQueue", &body).unwrap();
    let Command::Peek { from, count_max, source, .. } = prepared.command else { panic!("a peek") };
    assert_eq!((from, count_max, source.sub_queue), (SequenceNumber(4), 250, SubQueue::DeadLetter));
}

#[test]
fn a_peek_leaves_bodies_out_when_asked() {
    let body = |omit: Value| {
        let (from, count) = (("from-sequence-number", Value::Long(1)), ("message-count", Value::Int(1)));
        prepare("com.microsoft:peek-message", "q", &[from, count, ("omit-message-body", omit)])
    };
    for (omit, has_body) in [(Value::Bool(true), false), (Value::Bool(false), true), (Value::Null, true)] {
        let answer = finish(&body(omit).unwrap(), Response::Received(Ok(vec![received(None)]))).unwrap();
        let messages = entry(&answer, "messages").as_elements().unwrap();
        let Some(Value::Binary(message)) = messages[0].get("message") else { panic!("a message") };
        let sections = Sections::split(message).unwrap();
        assert_eq!(!sections.body.is_empty(), has_body);
        assert_eq!(sections.decode_properties().unwrap().message_id, string("m"));
    }
    assert_eq!(status(body(string("yes"))), 400);
}

#[test]
fn an_empty_peek_is_204_and_others_list_messages() {
    let body = [("from-sequence-number", Value::Long(1)), ("message-count", Value::Int(1))];
    let prepared = prepare("com.microsoft:peek-message", "q", &body).unwrap();
    assert_eq!(finish(&prepared, Response::Received(Ok(Vec::new()))).unwrap(), Answer::no_content());
    let answer = finish(&prepared, Response::Received(Ok(vec![received(None)]))).unwrap();
    let Value::List(messages) = entry(&answer, "messages") else { panic!("a list") };
    let [Value::Map(message)] = messages.as_slice() else { panic!("one map") };
    let Some(Value::Binary(message)) = lookup(message, "message") else { panic!("a binary") };
    assert!(Sections::split(message).is_ok());
}

#[test]
fn deferred_messages_come_with_their_lock_tokens() {
    let numbers = Value::Array(vec![Value::Long(3)]);
    let body = [("sequence-numbers", numbers), ("receiver-settle-mode", Value::UInt(1))];
    let prepared = prepare("com.microsoft:receive-by-sequence-number", "q", &body).unwrap();
    let Command::ReceiveDeferred { numbers, mode, .. } = &prepared.command else { panic!("a receive") };
    assert_eq!((numbers.as_slice(), *mode), (&[SequenceNumber(3)][..], ReceiveMode::PeekLock));
    let lock = Lock { token: LockToken(7), locked_until: Timestamp(9) };
    let answer = finish(&prepared, Response::Received(Ok(vec![received(Some(lock))]))).unwrap();
    let Value::List(messages) = entry(&answer, "messages") else { panic!("a list") };
    let [Value::Map(message)] = messages.as_slice() else { panic!("one map") };
    assert_eq!(lookup(message, "lock-token"), Some(&Value::Uuid(7_u128.to_be_bytes())));
    let missing = Response::Received(Err(Refusal::DeferredNotFound(3)));
    let fault = finish(&prepared, missing).unwrap_err();
    assert_eq!(fault.condition_and_status(), ("com.microsoft:message-not-found", 404));
    let words = "Failed to lock one or more specified messages. Either the message is already locked or does not exist.";
    assert!(fault.to_string().starts_with(words), "{fault}");
}

#[test]
fn renewals_answer_with_an_array_of_timestamps() {
    let body = [("lock-tokens", Value::Array(vec![Value::Uuid([1; 16])]))];
    let prepared = prepare("com.microsoft:renew-lock", "q", &body).unwrap();
    let answer = finish(&prepared, Response::Renewed(Ok(vec![Timestamp(5)]))).unwrap();
    assert_eq!(entry(&answer, "expirations"), &Value::Array(vec![Value::Timestamp(5)]));
    let fault = finish(&prepared, Response::Renewed(Err(Refusal::MessageLockLost))).unwrap_err();
    assert_eq!(fault.condition_and_status(), ("com.microsoft:message-lock-lost", 410));
}

#[test]
fn dispositions_are_read_with_the_odd_spelling() {
    let settlement = |status: &str, more: &[(&str, Value)]| {
        let mut body = vec![
            ("disposition-status", string(status)),
            ("lock-tokens", Value::Array(vec![Value::Uuid([0; 16])])),
        ];
        body.extend_from_slice(more);
        match prepare("com.microsoft:update-disposition", "q", &body).unwrap().command {
            Command::Settle { settlement, .. } => settlement,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(settlement("completed", &[]), Settlement::Complete);
    assert!(matches!(settlement("defered", &[]), Settlement::Defer { .. }));
    let change = [("properties-to-modify", Value::Map(vec![(string("k"), Value::Int(1))]))];
    assert!(matches!(settlement("abandoned", &change), Settlement::Abandon { modify } if modify.len() == 1));
    let why = [("deadletter-reason", string("r")), ("deadletter-description", string(""))];
    let Settlement::DeadLetter { why, .. } = settlement("suspended", &why) else { panic!("dead-letter") };
    assert_eq!((why.reason.as_deref(), why.description.as_deref()), (Some("r"), None));
}

#[test]
fn a_failed_token_fails_the_disposition() {
    let tokens = Value::Array(vec![Value::Uuid([0; 16]), Value::Uuid([1; 16])]);
    let body = [("disposition-status", string("completed")), ("lock-tokens", tokens)];
    let prepared = prepare("com.microsoft:update-disposition", "q", &body).unwrap();
    let answer = finish(&prepared, Response::Settled(Vec::new())).unwrap();
    assert_eq!((answer.status, answer.body), (200, Value::Map(Vec::new())));
    let failure = SettleFailure { index: 1, refusal: Refusal::MessageLockLost };
    let fault = finish(&prepared, Response::Settled(vec![failure])).unwrap_err();
    assert_eq!(fault.condition_and_status().1, 410);
}

#[test]
fn schedule_answers_with_an_array_of_long() {
    let message = |bytes| Value::Map(vec![(string("message-id"), string("m")), (string("message"), bytes)]);
    let body = [("messages", Value::List(vec![message(Value::Binary(encoded(Some(99))))]))];
    let prepared = prepare("com.microsoft:schedule-message", "q", &body).unwrap();
    let Command::Send { messages } = &prepared.command else { panic!("a send") };
    assert_eq!(messages[0].scheduled_enqueue_time, Some(Timestamp(99)));
    let numbers = smallvec::SmallVec::from_iter([SequenceNumber(4)]);
    let answer = finish(&prepared, Response::Sent(Ok(numbers))).unwrap();
    assert_eq!(entry(&answer, "sequence-numbers"), &Value::Array(vec![Value::Long(4)]));

    for bad in [Value::Binary(encoded(None)), string("x"), Value::Binary(Bytes::new())] {
        let body = [("messages", Value::List(vec![message(bad)]))];
        assert_eq!(status(prepare("com.microsoft:schedule-message", "q", &body)), 400);
    }
    let large = [("messages", Value::List(vec![message(Value::Binary(Bytes::from(vec![0; 1001])))]))];
    assert_eq!(status(prepare("com.microsoft:schedule-message", "q", &large)), 403);
}

#[test]
fn cancelling_a_message_that_is_gone_is_404() {
    let body = [("sequence-numbers", Value::Array(vec![Value::Long(3)]))];
    let prepared = prepare("com.microsoft:cancel-scheduled-message", "q", &body).unwrap();
    assert_eq!(finish(&prepared, Response::Done(Ok(()))).unwrap(), Answer::ok(Vec::new()));
    let gone = Response::Done(Err(Refusal::ScheduledNotFound(3)));
    let fault = finish(&prepared, gone).unwrap_err();
    assert_eq!(fault.condition_and_status(), ("com.microsoft:message-not-found", 404));
    assert_eq!(fault.to_string(), "Messages not found. Missing sequence numbers: 3");
}

#[test]
fn missing_and_ill_typed_arguments_are_400() {
    let empty = Value::Array(Vec::new());
    let cases: &[(&str, &[(&str, Value)])] = &[
        ("peek-message", &[]),
        ("peek-message", &[("from-sequence-number", string("1")), ("message-count", Value::Int(1))]),
        ("peek-message", &[("from-sequence-number", Value::Int(1)), ("message-count", Value::Int(0))]),
        ("renew-lock", &[]),
        ("renew-lock", &[("lock-tokens", empty.clone())]),
        ("renew-lock", &[("lock-tokens", Value::Array(vec![Value::Int(1)]))]),
        ("receive-by-sequence-number", &[("sequence-numbers", Value::Array(vec![Value::Long(1)]))]),
        (
            "receive-by-sequence-number",
            &[
                ("sequence-numbers", Value::Array(vec![Value::Long(-1)])),
                ("receiver-settle-mode", Value::UInt(0)),
            ],
        ),
        (
            "receive-by-sequence-number",
            &[
                ("sequence-numbers", Value::Array(vec![Value::Long(1)])),
                ("receiver-settle-mode", Value::UInt(2)),
            ],
        ),
        ("update-disposition", &[("lock-tokens", Value::Array(vec![Value::Uuid([0; 16])]))]),
        ("schedule-message", &[("messages", Value::List(Vec::new()))]),
        ("cancel-scheduled-message", &[("sequence-numbers", empty)]),
    ];
    for (operation, body) in cases {
        let operation = format!("com.microsoft:{operation}");
        assert_eq!(status(prepare(&operation, "q", body)), 400, "{operation} {body:?}");
    }
    assert!(Arguments::new(Value::Null).is_err());
    let session = [("session-id", string("s"))];
    assert_eq!(status(prepare("com.microsoft:peek-message", "q", &session)), 400);
}
