//! A batch: a JSON array of messages, of which all or none are accepted.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use peeklock_engine::{NewMessage, PropertyValue, RuleProperties};
use peeklock_message::submission::{BATCH_MESSAGES_MAX, RequiredProperties};
use peeklock_wire::Value;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::broker_properties::BrokerProperties;
use super::draft::Draft;
use super::object::Object;
use super::scalar::Scalar;
use crate::error::Error;

/// The content type that makes a body a batch, compared exactly.
pub(super) const CONTENT_TYPE: &str = "application/vnd.microsoft.servicebus.json";

/// Application properties of one message: more would exceed the size limit of its header.
const USER_PROPERTIES_MAX: usize = 16_384;

/// Memory of each message, in bytes, without the text that the body contains: itself, and its envelope.
const MESSAGE_BYTES: usize = size_of::<NewMessage>() + 192;

/// Memory of the message that is being read, in bytes, without its properties.
const READ_BYTES: usize = size_of::<Entry>() + size_of::<BrokerProperties>() + 512;

/// Memory of a name and its value in a message, in bytes, without the text that the body contains.
const PROPERTY_BYTES: usize = 16;

/// Memory of a name and its value in the message that is being read, in bytes, without the text that the body contains:
/// lists of them before and while they are encoded, and two small allocations.
const READ_PROPERTY_BYTES: usize = 2 * size_of::<(String, Value)>() + size_of::<(Value, Value)>() + 2 * 16;

/// Memory of a name and its value for rules, in bytes, with an allocation.
const RULE_PROPERTY_BYTES: usize = size_of::<(Box<str>, PropertyValue)>() + 16;

/// The parts of a batch, counted without allocating any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Parts {
    /// Its messages.
    pub(super) messages: usize,
    /// The names in all objects.
    names: usize,
    /// The names in the message with the most of them.
    names_of_one: usize,
}

impl Parts {
    /// Counts the parts of a body.
    pub(super) fn of(body: &[u8]) -> Self {
        let (mut parts, mut depth, mut names_of_this) = (Self::default(), 0_usize, 0);
        let (mut in_text, mut is_escaped) = (false, false);
        for byte in body {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = in_text,
                b'"' => in_text = !in_text,
                b'{' if !in_text => {
                    if depth == 0 {
                        parts.messages += 1;
                        names_of_this = 0;
                    }
                    depth += 1;
                }
                b'}' if !in_text => depth = depth.saturating_sub(1),
                b':' if !in_text => {
                    parts.names += 1;
                    names_of_this += 1;
                    parts.names_of_one = parts.names_of_one.max(names_of_this);
                }
                _ => {}
            }
        }
        parts
    }

    /// Memory that the batch takes, beyond that of its body.
    pub(super) fn memory_bytes(self, wanted: RequiredProperties) -> u64 {
        let (message, name) = match wanted.rule_properties {
            true => (MESSAGE_BYTES + size_of::<RuleProperties>(), PROPERTY_BYTES + RULE_PROPERTY_BYTES),
            false => (MESSAGE_BYTES, PROPERTY_BYTES),
        };
        let read = READ_BYTES + self.names_of_one * READ_PROPERTY_BYTES;
        (self.messages * message + self.names * name + read) as u64
    }
}

/// Reads the messages of a batch, one after the other, so that only one is in this form at a time.
///
/// # Errors
/// 400 for an invalid batch, with the position of the error; that of `take`, with the position of the message.
pub(super) fn read(body: &[u8], mut take: impl FnMut(Draft) -> Result<(), Error>) -> Result<(), Error> {
    let mut refused = None;
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let messages = Messages { take: &mut take, refused: &mut refused }
        .deserialize(&mut deserializer)
        .and_then(|count| deserializer.end().map(|()| count));
    match (messages, refused) {
        (_, Some(refused)) => Err(refused),
        (Err(error), None) => Err(Error::bad_request(format!("The batch is invalid: {error}."))),
        (Ok(0), None) => Err(Error::bad_request("The batch is empty.")),
        (Ok(_), None) => Ok(()),
    }
}

/// A message of a batch. Other names are ignored.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    #[serde(default)]
    body: Scalar,
    /// In a box, so that an entry without them takes little memory.
    #[serde(default)]
    broker_properties: Option<Box<Object<BrokerProperties>>>,
    #[serde(default)]
    user_properties: Option<UserProperties>,
    /// An extension of ours: for bodies that are not text.
    #[serde(default)]
    is_body_base64_encoded: bool,
}

impl Entry {
    fn into_draft(self) -> Result<Draft, Error> {
        let text = self.body.into_text().unwrap_or_default();
        let body = if self.is_body_base64_encoded {
            STANDARD.decode(text).map_err(|_| Error::bad_request("Body is not valid Base64."))?
        } else {
            text.into_bytes()
        };
        let settings = self
            .broker_properties
            .map(|boxed| {
                let Object(properties) = *boxed;
                properties
            })
            .unwrap_or_default()
            .into_settings()?;
        let user = self.user_properties.map(|UserProperties(user)| user).unwrap_or_default();
        Ok(Draft { settings, user, body: body.into() })
    }
}

/// Passes the messages of an array on; the value is their number.
struct Messages<'a, F> {
    take: &'a mut F,
    /// The error of a message that was refused.
    refused: &'a mut Option<Error>,
}

impl<'de, F: FnMut(Draft) -> Result<(), Error>> DeserializeSeed<'de> for Messages<'_, F> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(Draft) -> Result<(), Error>> Visitor<'de> for Messages<'_, F> {
    type Value = usize;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<usize, A::Error> {
        let mut count = 0;
        while let Some(Object(entry)) = sequence.next_element::<Object<Entry>>()? {
            if count == BATCH_MESSAGES_MAX {
                return Err(A::Error::custom(format!("more than {BATCH_MESSAGES_MAX} messages")));
            }
            if let Err(error) = entry.into_draft().and_then(&mut *self.take) {
                let text = format!("Message {count}: {}", error.text).into();
                *self.refused = Some(Error { text, ..error });
                return Err(A::Error::custom("a message was refused"));
            }
            count += 1;
        }
        Ok(count)
    }
}

#[derive(Debug)]
struct UserProperties(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for UserProperties {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(UserPropertiesVisitor)
    }
}

struct UserPropertiesVisitor;

impl<'de> Visitor<'de> for UserPropertiesVisitor {
    type Value = UserProperties;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<UserProperties, A::Error> {
        let mut user = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, Scalar>()? {
            if user.len() == USER_PROPERTIES_MAX {
                return Err(A::Error::custom(format!("more than {USER_PROPERTIES_MAX} properties")));
            }
            user.push((name, value.into_value()));
        }
        Ok(UserProperties(user))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(body: &[u8]) -> Result<Vec<Draft>, Error> {
        let mut drafts = Vec::new();
        read(body, |draft| {
            drafts.push(draft);
            Ok(())
        })?;
        Ok(drafts)
    }

    #[test]
    fn the_example_of_the_documentation_is_read() {
        let json = r#"[
            {"Body": "first", "BrokerProperties": {"Label": "M1", "TimeToLiveTimeSpan": "0.00:00:40"}},
            {"Body": "second", "UserProperties": {"Priority": "Low"}},
            {"Body": "third", "UserProperties": {"Priority": "Medium", "Customer": 12345, "New": true, "At": 0.5}}]"#;
        let drafts = read_all(json.as_bytes()).expect("sound");
        assert_eq!(
            drafts.iter().map(|draft| &draft.body[..]).collect::<Vec<_>>(),
            [b"first".as_slice(), b"second", b"third"]
        );
        assert_eq!(drafts[0].settings.label.as_deref(), Some("M1"));
        assert_eq!(drafts[0].settings.time_to_live_ms, Some(40_000));
        assert_eq!(
            drafts[2].user,
            [
                ("Priority".to_owned(), Value::String("Medium".into())),
                ("Customer".to_owned(), Value::Int(12345)),
                ("New".to_owned(), Value::Bool(true)),
                ("At".to_owned(), Value::Double(0.5)),
            ]
        );
    }

    #[test]
    fn bytes_may_come_as_base64() {
        let json = br#"[{"Body": "/wA=", "IsBodyBase64Encoded": true}, {}]"#;
        let drafts = read_all(json).expect("sound");
        assert_eq!((&drafts[0].body[..], &drafts[1].body[..]), (b"\xff\0".as_slice(), b"".as_slice()));
        assert!(read_all(br#"[{"Body": "?", "IsBodyBase64Encoded": true}]"#).is_err());
    }

    #[test]
    fn one_bad_entry_refuses_the_batch_and_says_which() {
        let error =
            read_all(br#"[{"Body": "a"}, {"BrokerProperties": {"TimeToLive": 0}}]"#).expect_err("bad");
        assert!(error.text.starts_with("Message 1: TimeToLive"), "{error}");
        for json in
            ["", "[]", "{}", "[1]", r#"[{"Body": ["a"]}]"#, r#"[{"Body": {}}]"#, "[{}", "[{}] x", "[[]]"]
        {
            assert!(read_all(json.as_bytes()).is_err(), "{json}");
        }
    }

    #[test]
    fn counts_are_bounded() {
        let many = |count: usize| format!("[{}{{}}]", "{},".repeat(count - 1));
        assert_eq!(
            read_all(many(BATCH_MESSAGES_MAX).as_bytes()).map(|drafts| drafts.len()),
            Ok(BATCH_MESSAGES_MAX)
        );
        assert!(read_all(many(BATCH_MESSAGES_MAX + 1).as_bytes()).is_err());
        let properties = r#""a":1,"#.repeat(USER_PROPERTIES_MAX);
        assert!(read_all(format!(r#"[{{"UserProperties": {{{properties} "a": 1}}}}]"#).as_bytes()).is_err());
    }

    const NO_RULES: RequiredProperties =
        RequiredProperties { rule_properties: false, key: false, partition_key: false };
    const RULES: RequiredProperties = RequiredProperties { rule_properties: true, ..NO_RULES };

    #[test]
    fn the_reserved_memory_covers_what_a_batch_of_small_parts_becomes() {
        let properties = r#""a":1,"#.repeat(USER_PROPERTIES_MAX - 1);
        let body = format!(r#"[{{"UserProperties":{{{properties}"b":"{{:\":{{"}}}}]"#);
        let user = &read_all(body.as_bytes()).expect("sound")[0].user;
        let lists_bytes =
            user.capacity() * size_of::<(String, Value)>() + user.len() * size_of::<(Value, Value)>();
        let held_bytes = lists_bytes + user.len() * 16;
        let parts = Parts::of(body.as_bytes());
        let reserved_bytes = usize::try_from(parts.memory_bytes(NO_RULES)).expect("small");
        assert!((held_bytes..2 * held_bytes).contains(&reserved_bytes), "{reserved_bytes} for {held_bytes}");
        assert!(reserved_bytes > 10 * body.len(), "far more than the body");
    }

    #[test]
    fn parts_are_counted_outside_of_texts() {
        let parts = |messages, names, names_of_one| Parts { messages, names, names_of_one };
        assert_eq!(Parts::of(b"[{},{}]"), parts(2, 0, 0));
        assert_eq!(Parts::of(br#"[{"Body":"{\"a\":{\"b\":1}}"}]"#), parts(1, 1, 1));
        let nested = br#"[{"UserProperties":{"a":1,"b":2}},{"Body":"x"},{"BrokerProperties":{}}]"#;
        assert_eq!(Parts::of(nested), parts(3, 5, 3));
    }

    /// Four MiB of bodies are possible beside the batch, which is at most as large as a message.
    #[test]
    fn the_largest_batch_fits_into_the_smallest_memory() {
        let entry = r#"{"BrokerProperties":{"MessageId":"x"}}"#;
        let body = format!("[{entry}{}]", format!(",{entry}").repeat(BATCH_MESSAGES_MAX - 1));
        for wanted in [NO_RULES, RULES] {
            let bytes = Parts::of(body.as_bytes()).memory_bytes(wanted);
            assert!(bytes < 28 << 20, "{bytes}");
        }
    }
}
