//! A batch: a JSON array of messages, of which all or none are accepted.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
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

/// Reads the messages of a batch.
///
/// # Errors
/// 400 for an invalid batch, with the position of the error.
pub(super) fn read(body: &[u8]) -> Result<Vec<Draft>, Error> {
    let Entries(entries) = serde_json::from_slice(body)
        .map_err(|error| Error::bad_request(format!("The batch is invalid: {error}.")))?;
    if entries.is_empty() {
        return Err(Error::bad_request("The batch is empty."));
    }
    let drafts = entries.into_iter().enumerate().map(|(index, entry)| {
        let at = |error: Error| Error { text: format!("Message {index}: {}", error.text).into(), ..error };
        entry.into_draft().map_err(at)
    });
    drafts.collect()
}

/// A message of a batch. Other names are ignored.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    #[serde(default)]
    body: Scalar,
    #[serde(default)]
    broker_properties: Option<Object<BrokerProperties>>,
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
            .map(|Object(properties)| properties)
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

    #[test]
    fn the_example_of_the_documentation_is_read() {
        let json = r#"[
            {"Body": "first", "BrokerProperties": {"Label": "M1", "TimeToLiveTimeSpan": "0.00:00:40"}},
            {"Body": "second", "UserProperties": {"Priority": "Low"}},
            {"Body": "third", "UserProperties": {"Priority": "Medium", "Customer": 12345, "New": true, "At": 0.5}}]"#;
        let drafts = read(json.as_bytes()).expect("sound");
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
        let drafts = read(json).expect("sound");
        assert_eq!((&drafts[0].body[..], &drafts[1].body[..]), (b"\xff\0".as_slice(), b"".as_slice()));
        assert!(read(br#"[{"Body": "?", "IsBodyBase64Encoded": true}]"#).is_err());
    }

    #[test]
    fn one_bad_entry_refuses_the_batch_and_says_which() {
        let error = read(br#"[{"Body": "a"}, {"BrokerProperties": {"TimeToLive": 0}}]"#).expect_err("bad");
        assert!(error.text.starts_with("Message 1: TimeToLive"), "{error}");
        for json in
            ["", "[]", "{}", "[1]", r#"[{"Body": ["a"]}]"#, r#"[{"Body": {}}]"#, "[{}", "[{}] x", "[[]]"]
        {
            assert!(read(json.as_bytes()).is_err(), "{json}");
        }
    }

    #[test]
    fn counts_are_bounded() {
        let many = |count: usize| format!("[{}{{}}]", "{},".repeat(count - 1));
        assert_eq!(
            read(many(BATCH_MESSAGES_MAX).as_bytes()).map(|drafts| drafts.len()),
            Ok(BATCH_MESSAGES_MAX)
        );
        assert!(read(many(BATCH_MESSAGES_MAX + 1).as_bytes()).is_err());
        let properties = r#""a":1,"#.repeat(USER_PROPERTIES_MAX);
        assert!(read(format!(r#"[{{"UserProperties": {{{properties} "a": 1}}}}]"#).as_bytes()).is_err());
    }
}
