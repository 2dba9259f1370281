//! Bytes sent by the SDKs, written by their own encoders (`golden/python.py`, `golden/javascript.js`).

use bytes::{Bytes, BytesMut};

use crate::frame::*;
use crate::message::*;
use crate::performative::*;
use crate::{Fields, Value};

const PYTHON: &str = include_str!("golden/python.txt");
const JAVASCRIPT: &str = include_str!("golden/javascript.txt");
/// Recorded between Azure.Messaging.ServiceBus on Microsoft.Azure.Amqp 2.7.2 and that library's test broker.
const DOTNET: &str = include_str!("golden/dotnet-transactions.txt");

/// `(name, bytes)` of every line.
fn vectors(file: &'static str) -> impl Iterator<Item = (&'static str, Bytes)> {
    file.lines().map(|line| {
        let (name, hex) = line.split_once(' ').unwrap();
        let octet = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (name, (0..hex.len()).step_by(2).map(octet).collect::<Vec<_>>().into())
    })
}

/// Every vector of all SDKs.
pub(super) fn all() -> impl Iterator<Item = (&'static str, Bytes)> {
    vectors(PYTHON).chain(vectors(JAVASCRIPT)).chain(vectors(DOTNET))
}

/// A vector of .NET.
pub(super) fn dotnet(wanted: &str) -> Bytes {
    vector(DOTNET, wanted)
}

fn vector(file: &'static str, wanted: &str) -> Bytes {
    vectors(file).find(|(name, _)| *name == wanted).unwrap().1
}

fn performative(file: &'static str, name: &str) -> Performative {
    decode_body(vector(file, name).slice(8..)).unwrap().unwrap().0
}

fn attach(file: &'static str, name: &str) -> Attach {
    match performative(file, name) {
        Performative::Attach(attach) => *attach,
        other => panic!("{other:?}"),
    }
}

fn state(file: &'static str, name: &str) -> DeliveryState {
    match performative(file, &format!("disposition-{name}")) {
        Performative::Disposition(Disposition { role: Role::Receiver, settled: false, state, .. }) => {
            state.unwrap()
        }
        other => panic!("{other:?}"),
    }
}

fn message(file: &'static str, name: &str) -> Sections {
    Sections::split(&vector(file, &format!("message-{name}"))).unwrap()
}

fn fields(entries: &[(&str, Value)]) -> Fields {
    entries.iter().map(|(key, value)| ((*key).into(), value.clone())).collect()
}

#[test]
fn every_frame_is_read_and_survives_our_encoding() {
    for (name, frame) in all() {
        if name.starts_with("message-") {
            Sections::split(&frame).unwrap_or_else(|error| panic!("{name}: {error}"));
            continue;
        }
        let header = FrameHeader::decode(frame[..8].try_into().unwrap()).unwrap();
        assert_eq!(header.size as usize, frame.len(), "{name}");
        let mut again = BytesMut::new();
        if header.kind == FrameKind::Sasl {
            let decoded = decode_sasl(frame.slice(8..)).unwrap();
            encode_sasl(&decoded, &mut again);
            assert_eq!(decode_sasl(again.freeze().slice(8..)).unwrap(), decoded, "{name}");
        } else {
            let (decoded, payload) = decode_body(frame.slice(8..)).unwrap().unwrap();
            encode_frame(header.channel, &decoded, payload.len(), &mut again);
            again.extend_from_slice(&payload);
            assert_eq!(decode_body(again.freeze().slice(8..)).unwrap(), Some((decoded, payload)), "{name}");
        }
    }
}

#[test]
fn sasl_init() {
    let init = decode_sasl(vector(JAVASCRIPT, "sasl-init").slice(8..)).unwrap();
    let expected = SaslFrame::Init {
        mechanism: "ANONYMOUS".into(),
        initial_response: Some("RootManageSharedAccessKey".into()),
        hostname: Some("localhost".into()),
    };
    assert_eq!(init, expected);
}

#[test]
fn open_and_begin() {
    let Performative::Open(open) = performative(PYTHON, "open") else { panic!("not an open") };
    assert_eq!((open.max_frame_size, open.channel_max), (Some(1_048_576), Some(65_535)));
    assert_eq!(open.properties[1], ("version".into(), "7.15.0".into()));
    let Performative::Open(open) = performative(JAVASCRIPT, "open") else { panic!("not an open") };
    assert_eq!(open.idle_time_out_ms, Some(60_000));
    assert_eq!(*open.desired_capabilities, ["ANONYMOUS-RELAY".into()], "a single symbol, not an array");
    let Performative::Begin(begin) = performative(JAVASCRIPT, "begin") else { panic!("not a begin") };
    let expected = Begin { incoming_window: 2048, outgoing_window: u32::MAX, ..Begin::default() };
    assert_eq!(begin, expected);
}

/// The reply must echo address and filter byte for byte.
#[test]
fn the_session_filter_is_kept_in_its_shape() {
    let filter_of = |file, name| attach(file, name).source.unwrap().filter;
    let filter = |value: Value| fields(&[("com.microsoft:session-filter", value)]);
    assert_eq!(filter_of(PYTHON, "attach-session"), filter("sess".into()));
    assert_eq!(filter_of(PYTHON, "attach-next-session"), filter(Value::Null));
    assert_eq!(filter_of(JAVASCRIPT, "attach-session"), filter("sess".into()));

    for (file, name) in [(PYTHON, "attach-session"), (PYTHON, "attach-next-session")] {
        let sent = vector(file, name);
        let mut echoed = BytesMut::new();
        encode_frame(1, &performative(file, name), 0, &mut echoed);
        for part in [&b"\xa1\x18amqps://localhost:5672/q"[..], filter_bytes(&sent)] {
            assert!(echoed.windows(part.len()).any(|window| window == part), "{name}: {part:02x?}");
        }
    }
}

/// From the filter's map constructor to its end.
fn filter_bytes(attach: &[u8]) -> &[u8] {
    let key = b"\xa3\x1ccom.microsoft:session-filter";
    let start = attach.windows(key.len()).position(|window| window == key).unwrap() - 3;
    assert_eq!(attach[start], 0xc1);
    &attach[start..start + 2 + usize::from(attach[start + 1])]
}

/// Go describes the filter's value (go-amqp, descriptor 0x0000_0013_7000_000c).
#[test]
fn a_described_filter_is_echoed_described() {
    let value = Value::described(Value::ULong(0x13_7000_000c), "sess".into());
    let filter = fields(&[("com.microsoft:session-filter", value)]);
    let source = Terminus { address: Some("q".into()), filter, ..Terminus::default() };
    let attach = Attach { source: Some(source), ..attach(PYTHON, "attach-receiver") };
    let mut output = BytesMut::new();
    encode_frame(1, &Performative::Attach(Box::new(attach.clone())), 0, &mut output);
    let described = b"\x00\x80\x00\x00\x00\x13\x70\x00\x00\x0c\xa1\x04sess";
    assert!(output.windows(described.len()).any(|window| window == described));
    let (decoded, _) = decode_body(output.freeze().slice(8..)).unwrap().unwrap();
    assert_eq!(decoded, Performative::Attach(Box::new(attach)));
}

#[test]
fn attaches() {
    let receiver = attach(PYTHON, "attach-receiver");
    assert_eq!((&*receiver.name, receiver.handle, receiver.role), ("b4a1", 1, Role::Receiver));
    assert_eq!(receiver.snd_settle_mode, SenderSettleMode::Unsettled);
    assert_eq!(receiver.rcv_settle_mode, ReceiverSettleMode::Second);
    assert_eq!(receiver.max_message_size, Some(1_048_576));
    let timeout = ("com.microsoft:timeout".into(), Value::UInt(5000));
    assert_eq!(receiver.properties[1], timeout);
    let sender = attach(PYTHON, "attach-sender");
    let Some(Target::Node(target)) = sender.target else { panic!("no target") };
    assert_eq!(target.address.as_deref(), Some("amqps://localhost:5672/q"));
    assert_eq!(sender.initial_delivery_count, Some(0));
    let cbs = attach(JAVASCRIPT, "attach-cbs-reply");
    assert_eq!(cbs.target, Some(Target::Node(Terminus::default())), "a target without address");
    assert_eq!(cbs.source.unwrap().address.as_deref(), Some("$cbs"));
}

#[test]
fn flows() {
    let Performative::Flow(flow) = performative(PYTHON, "flow") else { panic!("not a flow") };
    assert_eq!((flow.handle, flow.link_credit, flow.drain), (Some(1), Some(300), false));
    for file in [PYTHON, JAVASCRIPT] {
        let name = if file == PYTHON { "flow-drain" } else { "flow" };
        let Performative::Flow(flow) = performative(file, name) else { panic!("not a flow") };
        assert!(flow.drain);
    }
}

#[test]
fn transfers_and_their_messages() {
    let (decoded, payload) = decode_body(vector(PYTHON, "transfer").slice(8..)).unwrap().unwrap();
    let Performative::Transfer(transfer) = decoded else { panic!("not a transfer") };
    assert_eq!(transfer.delivery_tag.as_deref(), Some(&[0, 0, 0, 1][..]));
    assert_eq!((transfer.delivery_id, transfer.settled, transfer.more), (Some(0), Some(false), false));
    let sections = Sections::split(&payload).unwrap();
    let properties = sections.decode_properties().unwrap();
    assert_eq!((properties.message_id, properties.group_id.as_deref()), ("m1".into(), Some("s")));
    let application = Sections::decode_map(&sections.application_properties).unwrap();
    assert!(application.contains(&("double".into(), Value::Double(1.5))), "{application:?}");
    assert!(application.iter().any(|(key, value)| key == &"uuid".into() && matches!(value, Value::Uuid(_))));
    assert_eq!(sections.batch_messages().unwrap(), ["hello"]);

    let (_, payload) = decode_body(vector(JAVASCRIPT, "transfer").slice(8..)).unwrap().unwrap();
    let sections = Sections::split(&payload).unwrap();
    assert_eq!(sections.decode_header().unwrap().ttl_ms, Some(60_000));
    let annotations = Sections::decode_map(&sections.message_annotations).unwrap();
    assert_eq!(annotations, [(Value::symbol("x-opt-partition-key"), "s".into())]);
    assert_eq!(sections.decode_properties().unwrap().content_type.as_deref(), Some("application/json"));
}

#[test]
fn outcomes() {
    for file in [PYTHON, JAVASCRIPT] {
        assert_eq!(state(file, "accepted"), DeliveryState::Accepted);
    }
    let modified = |undeliverable_here| DeliveryState::Modified {
        delivery_failed: true,
        undeliverable_here,
        message_annotations: vec![],
    };
    assert_eq!(state(PYTHON, "modified-abandon"), modified(false));
    assert_eq!(state(PYTHON, "modified-defer"), modified(true));
    let DeliveryState::Modified { message_annotations, .. } = state(JAVASCRIPT, "modified-abandon") else {
        panic!("not modified")
    };
    assert_eq!(message_annotations, fields(&[("colour", "blue".into())]));
}

/// JS writes the keys of `error.info` as strings, where the specification has symbols.
#[test]
fn dead_lettering_with_symbol_and_string_keys() {
    let error = |description: &str, info| Error {
        condition: "com.microsoft:dead-letter".into(),
        description: Some(description.into()),
        info,
    };
    let info = fields(&[("DeadLetterReason", "r".into()), ("DeadLetterErrorDescription", Value::Null)]);
    assert_eq!(state(PYTHON, "rejected-dead-letter"), DeliveryState::Rejected(Some(error("why", info))));
    let DeliveryState::Rejected(Some(error)) = state(JAVASCRIPT, "rejected-dead-letter") else {
        panic!("not rejected")
    };
    assert_eq!(error.info[0], ("DeadLetterReason".into(), "r".into()));
    assert_eq!(&*error.info[2].0, "extra");
}

#[test]
fn management_requests() {
    for file in [PYTHON, JAVASCRIPT] {
        let body = message(file, "peek").body_value().unwrap();
        assert_eq!(body.get("from-sequence-number"), Some(&Value::Long(1)));
        assert_eq!(body.get("message-count"), Some(&Value::Int(10)));
        let body = message(file, "renew-lock").body_value().unwrap();
        let tokens = body.get("lock-tokens").unwrap();
        assert!(matches!(tokens, Value::Array(tokens) if matches!(tokens[0], Value::Uuid([0, 0x11, ..]))));
        let body = message(file, "deferred").body_value().unwrap();
        assert_eq!(body.get("sequence-numbers").unwrap().as_elements().unwrap()[0], Value::Long(1));
        assert_eq!(body.get("receiver-settle-mode"), Some(&Value::UInt(1)));
    }
    let token = message(PYTHON, "put-token");
    assert!(token.body_value().unwrap().as_str().unwrap().starts_with("SharedAccessSignature "));
    assert!(matches!(token.decode_properties().unwrap().message_id, Value::Uuid(_)));
}

#[test]
fn batches() {
    for file in [PYTHON, JAVASCRIPT] {
        let batch = message(file, "batch");
        let messages = batch.batch_messages().unwrap();
        assert_eq!(messages.len(), 2);
        for inner in &messages {
            assert!(!Sections::split(inner).unwrap().body.is_empty());
        }
    }
}

/// Python writes the delivery annotations after body and footer.
#[test]
fn delivery_annotations_at_the_end() {
    let sections = message(PYTHON, "delivery-annotations");
    let annotations = Sections::decode_map(&sections.delivery_annotations).unwrap();
    assert_eq!(annotations, [(Value::symbol("x-opt-hint"), Value::Int(1))]);
    assert_eq!(&sections.body[..7], b"\x00\x53\x75\xa0\x01x\x00", "the body ends before them");
    assert_eq!(sections.decode_header().unwrap().durable, Some(true));
}
