//! A batch: a JSON array of messages, of which all or none are accepted.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use peeklock_engine::NewMessage;
use peeklock_message::submission::BATCH_MESSAGES_MAX;
use peeklock_wire::Value;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::broker_properties::BrokerProperties;
use super::draft::Draft;
use super::object::Object;
use super::scalar::Scalar;
use crate::error::Error;

/// The content type that makes a body a batch, compared exactly.
pub(super) const CONTENT_TYPE: &str = "application/vnd.microsoft.servicebus.json";

/// Application properties of one message: more would exceed the size limit of its header.
const USER_PROPERTIES_MAX: usize = 16_384;

/// Memory of an object while the batch is read and encoded, in bytes: a growing list of entries may reserve twice its
/// size; an encoded message begins with a buffer of 512 bytes. `BrokerProperties` are an object too.
const OBJECT_BYTES: usize =
    2 * size_of::<Entry>() + size_of::<NewMessage>() + size_of::<BrokerProperties>() + 512;

/// Memory of a name and its value, in bytes, without the text that the body contains: lists of them before and while
/// they are encoded, and two small allocations.
const PROPERTY_BYTES: usize = 2 * size_of::<(String, Value)>() + size_of::<(Value, Value)>() + 2 * 16;

/// Memory that a batch takes while it is read, beyond that of its body. The objects and names are counted, without
/// allocating any.
pub(super) fn memory_bytes(body: &[u8]) -> u64 {
    let (mut objects, mut names) = (0_u64, 0_u64);
    let (mut in_text, mut is_escaped) = (false, false);
    for byte in body {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_text,
            b'"' => in_text = !in_text,
            b'{' if !in_text => objects += 1,
            b':' if !in_text => names += 1,
            _ => {}
        }
    }
    objects * OBJECT_BYTES as u64 + names * PROPERTY_BYTES as u64
}

/// Reads the messages of a batch, one after the other.
///
/// # Errors
/// 400 for an invalid batch, with the position of the error.
pub(super) fn read(body: &[u8]) -> Result<impl Iterator<Item = Result<Draft, Error>> + use<>, Error> {
    let Entries(entries) = serde_json::from_slice(body)
        .map_err(|error| Error::bad_request(format!("The batch is invalid: {error}.")))?;
    if entries.is_empty() {
        return Err(Error::bad_request("The batch is empty."));
    }
    Ok(entries.into_iter().map(Entry::into_draft))
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

#[derive(Debug)]
struct Entries(Vec<Entry>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Entries, A::Error> {
        let mut entries = Vec::new();
        while let Some(Object(entry)) = sequence.next_element()? {
            if entries.len() == BATCH_MESSAGES_MAX {
                return Err(A::Error::custom(format!("more than {BATCH_MESSAGES_MAX} messages")));
            }
            entries.push(entry);
        }
        Ok(Entries(entries))
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
        read(body)?.collect()
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
        assert!(error.text.starts_with("TimeToLive"), "{error}");
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

    #[test]
    fn the_reserved_memory_covers_what_a_batch_of_small_parts_becomes() {
        let properties = r#""a":1,"#.repeat(USER_PROPERTIES_MAX - 1);
        let body = format!(r#"[{{"UserProperties":{{{properties}"b":"{{:\":{{"}}}}]"#);
        let user = &read_all(body.as_bytes()).expect("sound")[0].user;
        let lists_bytes =
            user.capacity() * size_of::<(String, Value)>() + user.len() * size_of::<(Value, Value)>();
        let held_bytes = lists_bytes + user.len() * 16;
        let reserved_bytes = usize::try_from(memory_bytes(body.as_bytes())).expect("small");
        assert!((held_bytes..2 * held_bytes).contains(&reserved_bytes), "{reserved_bytes} for {held_bytes}");
        assert!(reserved_bytes > 10 * body.len(), "far more than the body");
        assert_eq!(memory_bytes(b"[{},{}]"), 2 * OBJECT_BYTES as u64);
        assert_eq!(
            memory_bytes(br#"[{"Body":"{\"a\":{\"b\":1}}"}]"#),
            (OBJECT_BYTES + PROPERTY_BYTES) as u64
        );
    }
}
