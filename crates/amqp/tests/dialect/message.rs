//! Messages as clients send and get them.

use bytes::{Bytes, BytesMut};
use peeklock_amqp::wire::Value;
use peeklock_amqp::wire::message::{
    Body, Header, MessageProperties, Sections, encode_application_properties, encode_body_data,
    encode_message_annotations, lookup,
};

/// The token of a lock, in the byte order of delivery tags.
pub(crate) type Token = [u8; 16];

/// Ids of sessions; two of them differ only in case.
pub(crate) const SESSIONS: [&str; 4] = ["", "one", "ONE", "two"];

/// A message to send.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) id: u32,
    pub(crate) session: Option<&'static str>,
    pub(crate) life_ms: Option<u32>,
    pub(crate) due_ms: Option<u64>,
    /// Its message-id; unique without one.
    pub(crate) key: Option<u8>,
    pub(crate) color: Option<u8>,
    /// Its size as it is sent, in bytes.
    pub(crate) size_bytes: u64,
}

impl Draft {
    /// The message-id.
    pub(crate) fn message_id(&self) -> String {
        self.key.map_or_else(|| format!("only {}", self.id), |key| format!("key {key}"))
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut output = BytesMut::new();
        Header { ttl_ms: self.life_ms, ..Header::default() }.encode(&mut output);
        if let Some(due_ms) = self.due_ms {
            let due = Value::Timestamp(i64::try_from(due_ms).expect("a time"));
            encode_message_annotations(&[(Value::symbol("x-opt-scheduled-enqueue-time"), due)], &mut output);
        }
        let message_id = Value::String(self.message_id().into());
        let group_id = self.session.map(Into::into);
        MessageProperties { message_id, group_id, ..MessageProperties::default() }.encode(&mut output);
        let color = self.color.map(|color| (Value::String("color".into()), Value::Int(color.into())));
        encode_application_properties(color.as_slice(), &mut output);
        encode_body_data(&self.id.to_be_bytes(), &mut output);
        output.freeze()
    }
}

/// What a client can see of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) id: u32,
    pub(crate) number: u64,
    pub(crate) delivery_count: u32,
    /// 0 active, 1 deferred, 2 scheduled.
    pub(crate) state: i64,
    pub(crate) session: Option<String>,
    pub(crate) color: Option<u8>,
    /// The rule whose action made it.
    pub(crate) rule: Option<String>,
    pub(crate) dead_letter_reason: Option<String>,
    /// The end of the lock.
    pub(crate) until_ms: Option<u64>,
}

impl Seen {
    pub(crate) fn decode(payload: &Bytes) -> Self {
        let sections = Sections::split(payload).expect("a message");
        let annotations = Sections::decode_map(&sections.message_annotations).expect("annotations");
        let properties = Sections::decode_map(&sections.application_properties).expect("properties");
        let number = |key: &str| lookup(&annotations, key).and_then(Value::as_i64);
        let until = lookup(&annotations, "x-opt-locked-until").and_then(|value| match value {
            Value::Timestamp(at_ms) => u64::try_from(*at_ms).ok(),
            _ => None,
        });
        let Body::Data(data) = sections.decode_body().expect("a body") else { panic!("no data") };
        let reason = lookup(&properties, "DeadLetterReason").and_then(Value::as_str);
        let color = lookup(&properties, "color").and_then(Value::as_i64);
        let rule = lookup(&properties, "RuleName").and_then(Value::as_str);
        let group_id = sections.decode_properties().expect("properties").group_id;
        Self {
            id: u32::from_be_bytes(*data.first_chunk().expect("an id")),
            number: u64::try_from(number("x-opt-sequence-number").expect("a number")).expect("a number"),
            delivery_count: sections.decode_header().expect("a header").delivery_count.unwrap_or_default(),
            state: number("x-opt-message-state").unwrap_or_default(),
            session: group_id.map(|id| id.to_string()),
            color: color.map(|color| u8::try_from(color).expect("a color")),
            rule: rule.map(str::to_owned),
            dead_letter_reason: reason.map(str::to_owned),
            until_ms: until,
        }
    }
}
