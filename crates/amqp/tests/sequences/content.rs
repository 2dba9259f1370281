//! The payloads of a script's transfers: messages, tokens, requests, arbitrary values.

use bytes::{Bytes, BytesMut};
use peeklock_amqp::wire::Value;
use peeklock_amqp::wire::message::{
    MessageProperties, encode_application_properties, encode_body_data, encode_body_value,
    encode_message_annotations,
};

use super::script::{ADDRESSES, Script, Seen};

/// Signatures of the emulator's rule for the queue `q` and the topic `t`, valid for an hour from the start of a
/// conversation, and for ten seconds; the last is invalid.
const TOKENS: [&str; 4] = [
    "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%2Fq&sig=aBnbwJRip3IdBhmUXg50tO0x5BaDROH7UNc1GXl2%2F%2BY%3D&se=1700003600&skn=RootManageSharedAccessKey",
    "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%2Ft&sig=lQ8M%2FIefljcn0qYs7LmkNbqaK9M69tDilXkd10gU1qM%3D&se=1700003600&skn=RootManageSharedAccessKey",
    "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%2Fq&sig=kJpmSWKfNNyajMb6D7JiZ2tJUnoswMwU%2BWBmEeFtXuk%3D&se=1700000010&skn=RootManageSharedAccessKey",
    "a.b.c",
];

const OPERATIONS: [&str; 14] = [
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
    "batch-delete-messages",
];

const ARGUMENTS: [&str; 20] = [
    "from-sequence-number",
    "message-count",
    "sequence-numbers",
    "lock-tokens",
    "messages",
    "session-id",
    "session-state",
    "receiver-settle-mode",
    "disposition-status",
    "deadletter-reason",
    "deadletter-description",
    "properties-to-modify",
    "last-updated-time",
    "last-session-id",
    "skip",
    "top",
    "rule-name",
    "rule-description",
    "token",
    "x",
];

impl Script<'_> {
    pub(crate) fn message(&mut self) -> Bytes {
        let kind = self.byte();
        let mut output = BytesMut::new();
        let properties = MessageProperties {
            message_id: if kind & 1 == 0 { Value::Null } else { self.value(1) },
            group_id: (kind & 2 != 0).then(|| self.one_of(&["a", "b", ""]).into()),
            ..MessageProperties::default()
        };
        if kind & 4 != 0 {
            let annotations = [
                (
                    "x-opt-scheduled-enqueue-time",
                    Value::Timestamp(1_700_000_000_000 + i64::from(self.number())),
                ),
                ("x-opt-partition-key", self.value(1)),
            ];
            let entries = annotations.map(|(key, value)| (Value::symbol(key), value));
            encode_message_annotations(&entries, &mut output);
        }
        properties.encode(&mut output);
        match kind >> 3 & 3 {
            0 => encode_body_data(&vec![7; usize::from(self.byte()) * 64], &mut output),
            1 => encode_body_value(&self.value(4), &mut output),
            2 => output.extend_from_slice(self.raw()),
            _ => {
                let inner = output.split().freeze();
                (0..self.byte() % 4).for_each(|_| encode_body_data(&inner, &mut output));
            }
        }
        output.freeze()
    }

    pub(crate) fn put_token(&mut self) -> Bytes {
        let (audience, token) = (self.one_of(&ADDRESSES), self.one_of(&TOKENS));
        let token = if self.byte() < 200 { Value::String(token.into()) } else { self.value(2) };
        self.asks("put-token", &[("name", Value::String(audience.into()))], &token)
    }

    pub(crate) fn request(&mut self, seen: &Seen) -> Bytes {
        let operation = format!("com.microsoft:{}", self.one_of(&OPERATIONS));
        let mut body = Vec::new();
        for _ in 0..self.byte() % 5 {
            let argument = self.one_of(&ARGUMENTS);
            let value = match argument {
                "lock-tokens" if self.flag() => {
                    let token = <[u8; 16]>::try_from(&*seen.tag).unwrap_or([7; 16]);
                    Value::Array(vec![Value::Uuid(token)])
                }
                "sequence-numbers" if self.flag() => Value::array_of_longs(&[1, self.number().into()]),
                "messages" if self.flag() => {
                    let message = Value::Binary(self.message());
                    Value::List(vec![Value::Map(vec![(Value::String("message".into()), message)])])
                }
                _ => self.value(4),
            };
            body.push((Value::String(argument.into()), value));
        }
        self.asks(&operation, &[("associated-link-name", Value::String("link 1".into()))], &Value::Map(body))
    }

    fn asks(&mut self, operation: &str, more: &[(&str, Value)], body: &Value) -> Bytes {
        let mut output = BytesMut::new();
        let message_id = self.value(1);
        MessageProperties { message_id, reply_to: Some("client".into()), ..MessageProperties::default() }
            .encode(&mut output);
        let mut entries = vec![(Value::String("operation".into()), Value::String(operation.into()))];
        entries.extend(more.iter().map(|(key, value)| (Value::String((*key).into()), value.clone())));
        encode_application_properties(&entries, &mut output);
        encode_body_value(body, &mut output);
        output.freeze()
    }

    /// An arbitrary value of limited depth.
    pub(crate) fn value(&mut self, depth: u8) -> Value {
        match self.byte() % if depth == 0 { 14 } else { 18 } {
            0 => Value::Null,
            1 => Value::Bool(self.flag()),
            2 => Value::UInt(self.number()),
            3 => Value::ULong(u64::from(self.number()) << (self.byte() % 33)),
            4 => Value::Int(self.number() as i32),
            5 => Value::Long(i64::from(self.number() as i32) << (self.byte() % 33)),
            6 => Value::Double(f64::from(self.number()) / f64::from(self.byte())),
            7 => Value::Char(char::from(self.byte())),
            8 => Value::Timestamp(i64::from(self.number()) * 1_000),
            9 => Value::Uuid([self.byte(); 16]),
            10 => Value::Binary(Bytes::copy_from_slice(self.raw())),
            11 => Value::String(String::from_utf8_lossy(self.raw()).into()),
            12 => Value::Symbol(self.one_of(&ARGUMENTS).into()),
            13 => Value::String(self.one_of(&["a", "b", "completed", "suspended", "defered", ""]).into()),
            14 => Value::List((0..self.byte() % 5).map(|_| self.value(depth - 1)).collect()),
            15 => Value::Map(
                (0..self.byte() % 5)
                    .map(|_| (Value::String(self.one_of(&ARGUMENTS).into()), self.value(depth - 1)))
                    .collect(),
            ),
            16 => Value::Array((0..self.byte() % 5).map(|_| Value::Long(self.number().into())).collect()),
            _ => {
                let codes = [0x0000_0137_0000_0004, 0x0000_0137_0000_0006, 0x0000_0137_0000_0009];
                Value::described(Value::ULong(self.one_of(&codes)), self.value(depth - 1))
            }
        }
    }
}
