use super::*;

const OPERATION: &str = "com.microsoft:batch-delete-messages";

fn delete(path: &str, more: &[(&str, Value)]) -> Result<Prepared, Fault> {
    let body = [("message-count", Value::Int(500)), ("enqueued-time-utc", Value::Timestamp(77))];
    let given = |key: &str| more.iter().any(|(other, _)| *other == key);
    let body: Vec<_> = body.into_iter().filter(|(key, _)| !given(key)).chain(more.iter().cloned()).collect();
    prepare(OPERATION, path, &body)
}

#[test]
fn count_time_and_queue_are_passed_on() {
    let prepared = delete("t/subscriptions/s/$DeadLetterQueue", &[]).unwrap();
    let expected = Command::DeleteMessages {
        source: peeklock_engine::QueuePath { queue: QueueId(2), sub_queue: SubQueue::DeadLetter },
        count_max: 500,
        enqueued_until: Timestamp(77),
        receiver: None,
    };
    assert_eq!(prepared.command, expected);
}

#[test]
fn integers_come_in_every_width() {
    for count in [Value::Int(4), Value::Long(4), Value::UInt(4)] {
        let prepared = delete("q", &[("message-count", count)]).unwrap();
        let Command::DeleteMessages { count_max, .. } = prepared.command else { panic!("a deletion") };
        assert_eq!(count_max, 4);
    }
    let prepared = delete("q", &[("enqueued-time-utc", Value::Timestamp(-5))]).unwrap();
    let Command::DeleteMessages { enqueued_until, .. } = prepared.command else { panic!("a deletion") };
    assert_eq!(enqueued_until, Timestamp(0));
}

#[test]
fn missing_and_ill_typed_arguments_are_refused() {
    let wrong = [
        ("message-count", string("5")),
        ("message-count", Value::Null),
        ("enqueued-time-utc", Value::Null),
        ("enqueued-time-utc", Value::Long(77)),
        ("enqueued-time-utc", string("2026-01-01T00:00:00Z")),
        ("session-id", Value::Int(1)),
    ];
    for (key, value) in wrong {
        assert_eq!(status(delete("q", &[(key, value.clone())])), 400, "{key}: {value:?}");
    }
}

#[test]
fn a_session_must_be_held_and_named_where_there_are_sessions() {
    let prepared = delete("sessions", &[("session-id", string("HELD"))]).unwrap();
    let Command::DeleteMessages { receiver, .. } = prepared.command else { panic!("a deletion") };
    assert_eq!(receiver, Some(HOLDER));
    assert_eq!(status(delete("sessions", &[("session-id", string("other"))])), 410);
    let refused = delete("sessions", &[]).err().unwrap();
    assert_eq!(refused.condition_and_status(), ("amqp:not-allowed", 400));
    assert_eq!(status(delete("q", &[("session-id", string("held"))])), 400);
    assert_eq!(status(delete("sessions/$DeadLetterQueue", &[])), 200, "dead letters have no sessions");
    assert_eq!(status(delete("t", &[])), 400, "a topic has no messages to receive");
}

#[test]
fn the_answer_is_an_int_or_204() {
    let prepared = delete("q", &[]).unwrap();
    let answer = finish(&prepared, Response::Deleted(Ok(7))).unwrap();
    assert_eq!((answer.status, entry(&answer, "message-count")), (200, &Value::Int(7)));
    let nothing = finish(&prepared, Response::Deleted(Ok(0))).unwrap();
    assert_eq!((nothing.status, nothing.condition), (204, Some("com.microsoft:message-not-found")));
    let refused = Refusal::InvalidArgument("0".to_owned());
    let fault = finish(&prepared, Response::Deleted(Err(refused))).unwrap_err();
    assert_eq!(fault.condition_and_status(), ("com.microsoft:argument-error", 400));
}

#[test]
fn it_takes_the_right_to_listen_and_is_no_work_of_a_transaction() {
    let operation = Operation::parse(OPERATION).unwrap();
    assert_eq!(operation.right(), peeklock_engine::Right::Listen);
    assert!(!operation.is_transactional() && !operation.finishes() && !operation.sends());
}

#[test]
fn the_largest_count_depends_on_the_tier() {
    for (tier, most) in [(Tier::Basic, 500), (Tier::Standard, 500), (Tier::Premium, 4_000)] {
        let delete = |count: i64| {
            let body = [("message-count", Value::Long(count)), ("enqueued-time-utc", Value::Timestamp(77))];
            prepare_in(tier, OPERATION, "q", &body)
        };
        assert!(delete(1).is_ok() && delete(most).is_ok(), "{tier:?}");
        for count in [0, -1, most + 1, 1 << 40] {
            let refused = delete(count).err().unwrap();
            assert_eq!(
                refused.condition_and_status(),
                ("com.microsoft:argument-out-of-range", 400),
                "{tier:?}"
            );
            let words = format!("requested {count}. Message count should be between 1 and {most}.");
            assert!(refused.to_string().ends_with(&words), "{refused}");
        }
    }
}
