//! Transactions as the .NET client (Azure.Messaging.ServiceBus on Microsoft.Azure.Amqp 2.7) sends them, and invalid
//! requests.

use bytes::Bytes;
use proptest::prelude::*;

use super::{arbitrary, golden};
use crate::frame::*;
use crate::message::{encode_body_data, encode_body_value};
use crate::performative::*;
use crate::transaction::{Control, TXN_ID_BYTES_MAX};
use crate::{Described, Value};

const TXN_ID: &[u8] = &[1, 0, 0, 0];

/// A recorded frame, without its header, and its payload.
fn frame(name: &str) -> (Performative, Bytes) {
    decode_body(golden::dotnet(name).slice(8..)).unwrap().unwrap()
}

fn transactional(outcome: Option<DeliveryState>) -> DeliveryState {
    DeliveryState::Transactional { txn_id: Bytes::from_static(TXN_ID), outcome: outcome.map(Box::new) }
}

#[test]
fn attach_of_a_transaction_controller() {
    let (performative, _) = frame("attach-coordinator");
    let Performative::Attach(attach) = performative else { panic!("{performative:?}") };
    assert_eq!(attach.target, Some(Target::Coordinator(Vec::new())));
    assert_eq!((attach.role, attach.initial_delivery_count), (Role::Sender, Some(0)));
    assert_eq!(attach.source.unwrap().distribution_mode.as_deref(), Some("move"));
}

#[test]
fn declare_and_discharge() {
    let (performative, body) = frame("transfer-declare");
    assert!(matches!(performative, Performative::Transfer(Transfer { state: None, .. })));
    let declare = Control::Declare { global_id: Value::Null };
    assert_eq!(Control::decode(&body).unwrap(), declare);
    assert_eq!(declare.encode(), body, "byte for byte");
    for (name, fail) in [("transfer-commit", false), ("transfer-roll-back", true)] {
        let (_, body) = frame(name);
        let discharge = Control::Discharge { txn_id: Bytes::from_static(TXN_ID), fail };
        assert_eq!(Control::decode(&body).unwrap(), discharge);
        assert_eq!(discharge.encode(), body, "byte for byte");
    }
}

#[test]
fn state_of_a_transfer() {
    let (performative, payload) = frame("transfer-work");
    let Performative::Transfer(transfer) = performative else { panic!("{performative:?}") };
    assert_eq!(transfer.state, Some(Box::new(transactional(None))));
    assert!(payload.ends_with(b"second"));
}

#[test]
fn states_of_dispositions() {
    let outcome = |name| match frame(name).0 {
        Performative::Disposition(Disposition { settled, state: Some(state), .. }) => (settled, state),
        other => panic!("{other:?}"),
    };
    let declared = DeliveryState::Declared { txn_id: Bytes::from_static(TXN_ID) };
    assert_eq!(outcome("disposition-declared"), (true, declared));
    let complete = transactional(Some(DeliveryState::Accepted));
    assert_eq!(outcome("disposition-complete"), (false, complete.clone()));
    assert_eq!(outcome("disposition-complete-answer"), (false, complete));
    let modified = DeliveryState::Modified {
        delivery_failed: false,
        undeliverable_here: true,
        message_annotations: Vec::new(),
    };
    assert_eq!(outcome("disposition-defer"), (false, transactional(Some(modified))));
    let (_, DeliveryState::Transactional { outcome: Some(outcome), .. }) = outcome("disposition-dead-letter")
    else {
        panic!("transactional")
    };
    let DeliveryState::Rejected(Some(error)) = *outcome else { panic!("rejected") };
    assert_eq!((&*error.condition, error.info.len()), ("com.microsoft:dead-letter", 2));
}

/// Python reads fields by index.
#[test]
fn lists_are_written_in_full_length() {
    let fields = |state: DeliveryState| {
        let disposition = Disposition {
            role: Role::Sender,
            first: 0,
            last: None,
            settled: true,
            state: Some(state),
            batchable: false,
        };
        let mut output = bytes::BytesMut::new();
        encode_frame(0, &Performative::Disposition(disposition), 0, &mut output);
        // After frame header, descriptor and head of the list, four fields, and the descriptor and head of the state.
        let at = 8 + 3 + 3 + 4 + 3 + 2;
        output[at]
    };
    assert_eq!(fields(transactional(None)), 2);
    assert_eq!(fields(transactional(Some(DeliveryState::Accepted))), 2);
    assert_eq!(fields(DeliveryState::Declared { txn_id: Bytes::from_static(TXN_ID) }), 1);
    assert_eq!(Control::Declare { global_id: Value::Null }.encode()[8], 1);
    assert_eq!(Control::Discharge { txn_id: Bytes::new(), fail: false }.encode()[8], 2);
}

/// An `amqp-value` section with a described list8.
fn control(code: u8, count: u8, fields: &[u8]) -> Bytes {
    let size = u8::try_from(fields.len() + 1).unwrap();
    [&[0x00, 0x53, 0x77, 0x00, 0x53, code, 0xc0, size, count][..], fields].concat().into()
}

#[test]
fn fields_left_out_have_their_defaults() {
    let txn_id = Bytes::from_static(TXN_ID);
    let id = [&[0xa0, 4][..], TXN_ID].concat();
    let roll_forward = Control::Discharge { txn_id, fail: false };
    assert_eq!(Control::decode(&control(0x32, 1, &id)).unwrap(), roll_forward);
    assert_eq!(Control::decode(&control(0x32, 2, &[&id[..], &[0x40]].concat())).unwrap(), roll_forward);
    let empty = Bytes::from_static(&[0x00, 0x53, 0x77, 0x00, 0x53, 0x31, 0x45]);
    assert_eq!(Control::decode(&empty).unwrap(), Control::Declare { global_id: Value::Null });
    let symbolic = [&[0x00, 0x53, 0x77, 0x00, 0xa3, 17][..], b"amqp:declare:list", &[0x45]].concat();
    assert_eq!(Control::decode(&symbolic.into()).unwrap(), Control::Declare { global_id: Value::Null });
}

#[test]
fn a_txn_id_has_at_most_32_bytes() {
    let id = |length: u8| [&[0xa0, length][..], &vec![7; length.into()]].concat();
    assert_eq!(TXN_ID_BYTES_MAX, 32);
    Control::decode(&control(0x32, 1, &id(32))).unwrap();
    Control::decode(&control(0x32, 1, &id(33))).unwrap_err();
    // The same in the states of a disposition.
    for code in [0x33, 0x34] {
        let disposition = |length| {
            let id = id(length);
            let (list, outer) = (id.len() + 1, id.len() + 11);
            let sizes = (u8::try_from(list).unwrap(), u8::try_from(outer).unwrap());
            let head = [
                0x00, 0x53, 0x15, 0xc0, sizes.1, 5, 0x41, 0x43, 0x40, 0x40, 0x00, 0x53, code, 0xc0, sizes.0,
                1,
            ];
            Bytes::from([&head[..], &id].concat())
        };
        decode_body(disposition(32)).unwrap();
        decode_body(disposition(33)).unwrap_err();
    }
}

#[test]
fn invalid_control_messages_are_refused() {
    let mut data = bytes::BytesMut::new();
    encode_body_data(b"declare", &mut data);
    let mut text = bytes::BytesMut::new();
    encode_body_value(&Value::String("declare".into()), &mut text);
    let mut nested = Value::Null;
    for _ in 0..40 {
        nested = Value::Described(Box::new(Described { descriptor: Value::ULong(0x31), value: nested }));
    }
    let mut deep = bytes::BytesMut::new();
    encode_body_value(&nested, &mut deep);
    for (what, message) in [
        ("nothing", Bytes::new()),
        ("data", data.freeze()),
        ("a plain value", text.freeze()),
        ("a described value of great depth", deep.freeze()),
        ("a discharge without an id", control(0x32, 1, &[0x40])),
        ("an empty discharge", Bytes::from_static(&[0x00, 0x53, 0x77, 0x00, 0x53, 0x32, 0x45])),
        ("an id that is text", control(0x32, 1, &[0xa1, 1, b'x'])),
        ("a declared, which is an outcome", control(0x33, 1, &[0xa0, 1, 1])),
        ("a list without an end", Bytes::from_static(&[0x00, 0x53, 0x77, 0x00, 0x53, 0x32, 0xc0, 9, 1])),
    ] {
        assert!(Control::decode(&message).is_err(), "{what}");
    }
}

proptest! {
    #[test]
    fn decoding_undoes_encoding(txn_id in arbitrary::txn_id(), fail: bool, global_id in arbitrary::value()) {
        for control in [Control::Declare { global_id }, Control::Discharge { txn_id, fail }] {
            prop_assert_eq!(Control::decode(&control.encode()).unwrap(), control);
        }
    }
}
