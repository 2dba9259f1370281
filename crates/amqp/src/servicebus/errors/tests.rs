//! The error table.

use super::*;

fn tracker() -> Tracker {
    let metrics = RefusalMetrics::default();
    Tracker { tracking_id: 7, at: Timestamp(1_700_000_000_123), metrics }
}

#[test]
fn not_found_carries_the_text_the_sdks_look_for() {
    let fault = Fault::EntityNotFound { uri: "sb://localhost/nope".into() };
    let error = tracker().error(&fault);
    let text = error.description.unwrap();
    assert_eq!(&*error.condition, "amqp:not-found");
    assert!(text.starts_with("The messaging entity 'sb://localhost/nope' could not be found."), "{text}");
    assert!(text.ends_with(
        "TrackingId:00000000000000000000000000000007, SystemTracker:peeklock, Timestamp:2023-11-14T22:13:20Z"
    ));
}

/// Wolverine recognizes a lost lock by this text.
#[test]
fn a_lost_lock_has_the_text_that_wolverine_looks_for() {
    let error = tracker().error(&Fault::Refused(Refusal::MessageLockLost));
    assert_eq!(&*error.condition, "com.microsoft:message-lock-lost");
    assert!(error.description.unwrap().starts_with("The lock supplied is invalid."));
}

#[test]
fn existing_entities_are_reported_in_the_wording_of_service_bus() {
    let error = tracker().error(&Fault::Refused(Refusal::RuleExists("r".into())));
    assert_eq!(&*error.condition, "com.microsoft:entity-already-exists");
    assert!(error.description.unwrap().starts_with("The messaging entity 'r' already exists."));
}

/// The conditions that the SDKs expect with each status.
const ALLOWED: &[(i32, &[&str])] = &[
    (
        400,
        &[
            "com.microsoft:argument-error",
            "com.microsoft:argument-out-of-range",
            "amqp:not-allowed",
            "amqp:decode-error",
            "com.microsoft:entity-disabled",
            "amqp:transaction:unknown-id",
            "amqp:transaction:rollback",
        ],
    ),
    (401, &["amqp:unauthorized-access"]),
    (403, &["amqp:resource-limit-exceeded", "amqp:link:message-size-exceeded"]),
    (404, &["amqp:not-found", "com.microsoft:message-not-found"]),
    (408, &["com.microsoft:timeout", "amqp:transaction:timeout"]),
    (409, &["com.microsoft:entity-already-exists"]),
    (
        410,
        &[
            "com.microsoft:message-lock-lost",
            "com.microsoft:session-lock-lost",
            "com.microsoft:session-cannot-be-locked",
        ],
    ),
    (500, &["amqp:internal-error"]),
    (501, &["amqp:not-implemented"]),
    (503, &["com.microsoft:server-busy"]),
];

#[test]
fn conditions_and_statuses_agree_with_the_sdk_tables() {
    let faults = [
        Fault::Refused(Refusal::MessageLockLost),
        Fault::Refused(Refusal::MessageNotFound(1)),
        Fault::Refused(Refusal::ScheduledNotFound(1)),
        Fault::Refused(Refusal::DeferredNotFound(1)),
        Fault::Refused(Refusal::AlreadyDeadLettered),
        Fault::Refused(Refusal::MessageTooLarge { size_bytes: 2, limit_bytes: 1 }),
        Fault::PropertyTooLarge("it is too large".to_owned()),
        Fault::Refused(Refusal::EntityFull { limit_bytes: 1 }),
        Fault::Refused(Refusal::StorageFull),
        Fault::Refused(Refusal::TooManyEntities(1)),
        Fault::Refused(Refusal::TooManySubscriptions(1)),
        Fault::Refused(Refusal::TooManySqlFilters(1)),
        Fault::Refused(Refusal::TooManyCorrelationFilters(1)),
        Fault::Refused(Refusal::ReceiverNotFound),
        Fault::Refused(Refusal::InvalidArgument("x".into())),
        Fault::Refused(Refusal::Unavailable),
        Fault::Refused(Refusal::MemoryShort),
        Fault::Refused(Refusal::EntityDeleted),
        Fault::Refused(Refusal::SessionNotSupported),
        Fault::Refused(Refusal::SessionRequired),
        Fault::Refused(Refusal::SessionIdMissing),
        Fault::Refused(Refusal::SessionLockLost),
        Fault::Refused(Refusal::SessionCannotBeLocked("s".into())),
        Fault::Refused(Refusal::NoSessionAvailable),
        Fault::Refused(Refusal::NotAllowed("x")),
        Fault::Refused(Refusal::EntityDisabled),
        Fault::Refused(Refusal::EntityDamaged("q".into())),
        Fault::Refused(Refusal::MessageDamaged(1)),
        Fault::Refused(Refusal::SubscriptionExists("s".into())),
        Fault::Refused(Refusal::RuleExists("r".into())),
        Fault::Refused(Refusal::RuleNotFound("r".into())),
        Fault::Unauthorized { right: "Send", uri: "q".into() },
        Fault::Denied(Denied::Signature),
        Fault::MalformedMessage("x".into()),
        Fault::Argument("x".into()),
        Fault::DeleteCount { requested: 501, most: 500 },
        Fault::BatchTooLarge { size_bytes: 2, limit_bytes: 1 },
        Fault::NotAllowed("x"),
        Fault::NoTransactions { namespace: "x".to_owned(), tier: "Basic" },
        Fault::NotImplemented("x".into()),
        Fault::TooMuchWaiting,
        Fault::Throttled,
        Fault::TooMuchUnsettled(1),
        Fault::TransactionUnknown,
        Fault::TransactionTimedOut,
        Fault::TransactionRolledBack("x".into()),
        Fault::TransactionTooLarge(1),
        Fault::TooManyTransactions(1),
        Fault::TooManyCoordinators(1),
        Fault::TooManyHeld(1),
        Fault::Internal,
    ];
    for fault in faults {
        let (condition, status) = fault.condition_and_status();
        let row = ALLOWED.iter().find(|(known, _)| *known == status);
        assert!(row.is_some_and(|(_, conditions)| conditions.contains(&condition)), "{fault:?}");
        assert!(fault.kind().row().amqp.is_some(), "{fault:?}");
    }
}

/// The endpoint does not use the table.
#[test]
fn the_conditions_of_amqp_are_those_of_the_endpoint() {
    use crate::endpoint::condition as endpoint;

    for (one, other) in [
        (condition::DECODE_ERROR, endpoint::DECODE_ERROR),
        (condition::INTERNAL_ERROR, endpoint::INTERNAL_ERROR),
        (condition::INVALID_FIELD, endpoint::INVALID_FIELD),
        (condition::MESSAGE_SIZE_EXCEEDED, endpoint::MESSAGE_SIZE_EXCEEDED),
        (condition::NOT_ALLOWED, endpoint::NOT_ALLOWED),
        (condition::NOT_FOUND, endpoint::NOT_FOUND),
        (condition::NOT_IMPLEMENTED, endpoint::NOT_IMPLEMENTED),
        (condition::RESOURCE_LIMIT_EXCEEDED, endpoint::RESOURCE_LIMIT_EXCEEDED),
        (condition::UNAUTHORIZED_ACCESS, endpoint::UNAUTHORIZED_ACCESS),
    ] {
        assert_eq!(one, other);
    }
}
