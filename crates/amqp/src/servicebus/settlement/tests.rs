use super::*;

fn apply(state: DeliveryState) -> (Settlement, DeliveryState) {
    match read(Some(state), false).unwrap() {
        RequestedSettlement::Apply { settlement, reply } => (settlement, reply),
        RequestedSettlement::Wait => panic!("a final state"),
    }
}

fn modified_state(undeliverable_here: bool, annotations: Vec<(Box<str>, Value)>) -> DeliveryState {
    DeliveryState::Modified { delivery_failed: true, undeliverable_here, message_annotations: annotations }
}

fn rejected(condition: &str, description: Option<&str>, info: &[(&str, Value)]) -> DeliveryState {
    let info = info.iter().map(|(key, value)| ((*key).into(), value.clone())).collect();
    let description = description.map(Into::into);
    DeliveryState::Rejected(Some(Error { condition: condition.into(), description, info }))
}

fn dead_lettered(state: DeliveryState) -> (Option<String>, Option<String>, Vec<Property>) {
    let (settlement, reply) = apply(state);
    assert_eq!(reply, DeliveryState::Rejected(None), "P, J, N: an error would mean failure");
    match settlement {
        Settlement::DeadLetter { why, modify } => {
            (why.reason.as_deref().map(Into::into), why.description.as_deref().map(Into::into), modify)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn outcomes_have_the_meaning_that_the_sdks_give_them_and_are_answered_in_kind() {
    assert_eq!(apply(DeliveryState::Accepted), (Settlement::Complete, DeliveryState::Accepted));
    assert_eq!(apply(DeliveryState::Released), (Settlement::Release, DeliveryState::Released));
    let modify = Vec::new();
    let abandon = modified_state(false, Vec::new());
    assert_eq!(apply(abandon.clone()), (Settlement::Abandon { modify: modify.clone() }, abandon));
    let defer = modified_state(true, Vec::new());
    assert_eq!(apply(defer.clone()), (Settlement::Defer { modify }, defer));
}

#[test]
fn abandoned_properties_are_kept_encoded_and_not_echoed() {
    let (settlement, reply) = apply(modified_state(false, vec![("key".into(), Value::Int(1))]));
    let value = bytes::Bytes::from_static(&[0x54, 1]);
    let modify = vec![Property { name: "key".into(), value }];
    assert_eq!(settlement, Settlement::Abandon { modify });
    assert_eq!(reply, modified_state(false, Vec::new()));
}

fn at(time: Value) -> Vec<(Box<str>, Value)> {
    vec![("x-opt-delivery-time".into(), time)]
}

#[test]
fn a_delivery_time_postpones_an_abandoned_message_and_is_no_property() {
    let postponed = |at_ms| Settlement::Postpone { modify: Vec::new(), until: Timestamp(at_ms) };
    for time in [Value::Timestamp(5), Value::Long(5), Value::ULong(5), Value::Int(5)] {
        assert_eq!(apply(modified_state(false, at(time))).0, postponed(5));
    }
    let both = [at(Value::Timestamp(5)), vec![("key".into(), Value::Int(1))]].concat();
    let Settlement::Postpone { modify, .. } = apply(modified_state(false, both)).0 else {
        panic!("postponed")
    };
    assert_eq!(modify.iter().map(|property| &*property.name).collect::<Vec<_>>(), ["key"]);
    let defer = apply(modified_state(true, at(Value::Timestamp(5)))).0;
    assert!(matches!(defer, Settlement::Defer { modify } if modify.len() == 1), "only of abandoned messages");
}

#[test]
fn a_delivery_time_that_is_none_is_refused() {
    for time in [Value::Timestamp(-1), Value::Long(-1), "2026-01-01".into(), Value::Bool(true), Value::Null] {
        let refused = read(Some(modified_state(false, at(time))), false).unwrap_err();
        assert_eq!(refused.condition_and_status().0, "com.microsoft:argument-error");
    }
}

#[test]
fn s19_dead_letter_reason_and_description_come_from_the_info() {
    let info = [
        ("DeadLetterReason", Value::String("r".into())),
        ("DeadLetterErrorDescription", Value::String("d".into())),
        ("more", Value::Bool(true)),
    ];
    let (reason, description, modify) =
        dead_lettered(rejected("com.microsoft:dead-letter", Some("x"), &info));
    assert_eq!((reason.as_deref(), description.as_deref()), (Some("r"), Some("d")));
    assert_eq!(modify.len(), 1);
    // JS: no description; nulls for values not given.
    let info = [("DeadLetterReason", Value::Null)];
    assert_eq!(dead_lettered(rejected("com.microsoft:dead-letter", None, &info)), (None, None, Vec::new()));
    // .NET without a reason: bare rejected.
    assert_eq!(dead_lettered(DeliveryState::Rejected(None)), (None, None, Vec::new()));
    // A generic client puts the reason in the error.
    let (reason, description, _) = dead_lettered(rejected("app:broken", Some("text"), &[]));
    assert_eq!((reason.as_deref(), description.as_deref()), (Some("app:broken"), Some("text")));
}

#[test]
fn a_reason_that_is_no_text_is_a_property_like_any_other() {
    let info = [
        ("DeadLetterReason", Value::Int(7)),
        ("DeadLetterErrorDescription", Value::Bool(true)),
        ("more", Value::Null),
    ];
    let (reason, description, modify) = dead_lettered(rejected("com.microsoft:dead-letter", None, &info));
    assert_eq!((reason, description), (None, None));
    let kept: Vec<_> = modify.iter().map(|property| (&*property.name, &property.value[..])).collect();
    assert_eq!(
        kept,
        [("DeadLetterReason", &[0x54, 7][..]), ("DeadLetterErrorDescription", &[0x41]), ("more", &[0x40])]
    );
}

#[test]
fn decimals_that_receivers_set_are_kept_as_the_service_writes_them() {
    let sent = Value::Decimal128(((6172_u128 << 113) | 12345).to_be_bytes());
    let kept = Value::Decimal128(((12_u128 << 120) | (28 << 113) | 12345).to_be_bytes());
    let (settlement, _) = apply(modified_state(false, vec![("d".into(), sent)]));
    let modify = vec![Property { name: "d".into(), value: kept.to_bytes() }];
    assert_eq!(settlement, Settlement::Abandon { modify });
    let infinite = Value::Decimal128((0x78_u128 << 120).to_be_bytes());
    let refused = read(Some(modified_state(false, vec![("d".into(), infinite)])), false);
    assert!(matches!(refused, Err(Fault::Argument(_))));
}

#[test]
fn a_property_that_receivers_set_is_no_list_map_or_array() {
    let list = Value::List(vec![Value::Int(1)]);
    let map = Value::Map(vec![(Value::String("k".into()), Value::Int(1))]);
    let described = Value::described(Value::Symbol("d".into()), list.clone());
    for value in [list, map, Value::Array(vec![Value::Int(1)]), described] {
        let properties = || vec![("k".into(), value.clone())];
        for state in [
            modified_state(false, properties()),
            modified_state(true, properties()),
            rejected("com.microsoft:dead-letter", None, &[("k", value.clone())]),
        ] {
            let refused = read(Some(state), false);
            assert!(matches!(&refused, Err(Fault::Argument(text)) if text.contains("'k'")), "{refused:?}");
        }
    }
}

#[test]
fn other_states_are_kept_until_the_peer_settles() {
    assert_eq!(read(None, false), Ok(RequestedSettlement::Wait));
    let received = DeliveryState::Received { section_number: 0, section_offset: 0 };
    assert_eq!(read(Some(received.clone()), false), Ok(RequestedSettlement::Wait));
    for settled in [None, Some(received)] {
        let released =
            RequestedSettlement::Apply { settlement: Settlement::Release, reply: DeliveryState::Released };
        assert_eq!(read(settled, true), Ok(released));
    }
}

#[test]
fn states_of_transactions_are_no_outcomes() {
    let txn_id = bytes::Bytes::new();
    let nested = DeliveryState::Transactional { txn_id: txn_id.clone(), outcome: None };
    for state in [nested, DeliveryState::Declared { txn_id }] {
        assert!(matches!(read(Some(state), false), Err(Fault::Argument(_))));
    }
}

#[test]
fn property_changes_are_bounded() {
    let large = Value::String("x".repeat(MODIFIED_BYTES_MAX).into());
    let refused = read(Some(modified_state(false, vec![("key".into(), large)])), false);
    assert!(matches!(refused, Err(Fault::Argument(_))));
}

#[test]
fn lost_locks_of_dead_letters_are_message_locks() {
    use peeklock_engine::{Refusal, SubQueue};
    for (sub_queue, expected) in [
        (SubQueue::Main, Refusal::SessionLockLost),
        (SubQueue::DeadLetter, Refusal::MessageLockLost),
        (SubQueue::TransferDeadLetter, Refusal::MessageLockLost),
    ] {
        assert_eq!(fault(Refusal::SessionLockLost, sub_queue), Fault::Refused(expected));
    }
    let other = fault(Refusal::AlreadyDeadLettered, SubQueue::DeadLetter);
    assert_eq!(other, Fault::Refused(Refusal::AlreadyDeadLettered));
}
