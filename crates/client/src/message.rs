//! Messages from a client's point of view.

use bytes::{Bytes, BytesMut};
use peeklock_engine::{Arrival, Filter, PropertyChanges, SqlAction, Subject};
use peeklock_message::annotation::{
    DEAD_LETTER_SOURCE, ENQUEUED_SEQUENCE_NUMBER, ENQUEUED_TIME, LOCKED_UNTIL, MESSAGE_STATE, PARTITION_KEY,
    SCHEDULED_ENQUEUE_TIME, SEQUENCE_NUMBER, is_service_owned,
};
use peeklock_message::rule_properties;
use peeklock_wire::Value;
use peeklock_wire::message::{
    Body, Header, MessageProperties, Sections, encode_application_properties, encode_message_annotations,
    lookup,
};

use crate::ClientError;

/// The application property with the dead-letter reason.
const DEAD_LETTER_REASON: &str = "DeadLetterReason";
/// The application property with its description.
const DEAD_LETTER_DESCRIPTION: &str = "DeadLetterErrorDescription";

/// The state of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageState {
    /// Available, or locked: browsing does not distinguish them.
    Active,
    /// Deferred by a receiver.
    Deferred,
    /// Scheduled for later.
    Scheduled,
}

impl MessageState {
    /// The name of the state in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Deferred => "deferred",
            Self::Scheduled => "scheduled",
        }
    }
}

/// A decoded message.
#[derive(Debug, Clone)]
pub struct Message {
    /// The header section.
    pub header: Header,
    /// The annotations, including the broker's.
    pub annotations: Vec<(Value, Value)>,
    /// The properties section.
    pub properties: MessageProperties,
    /// The application properties.
    pub application: Vec<(Value, Value)>,
    /// The body.
    pub body: Body,
    /// The encoding.
    sections: Sections,
    encoded: Bytes,
}

/// How the message id of a message that is sent again is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readdress {
    /// With a new message id, so that duplicate detection doesn't drop it.
    NewId,
    /// With its own id.
    KeepId,
}

impl Message {
    /// Decodes a message.
    ///
    /// # Errors
    /// Bytes that are no valid message.
    pub fn decode(encoded: &Bytes) -> Result<Self, ClientError> {
        let sections = Sections::split(encoded)?;
        Ok(Self {
            header: sections.decode_header()?,
            annotations: Sections::decode_map(&sections.message_annotations)?,
            properties: sections.decode_properties()?,
            application: Sections::decode_map(&sections.application_properties)?,
            body: sections.decode_body()?,
            sections,
            encoded: encoded.clone(),
        })
    }

    /// The encoding as received.
    #[must_use]
    pub fn encoded(&self) -> &Bytes {
        &self.encoded
    }

    fn annotated(&self, key: &str) -> Option<i64> {
        lookup(&self.annotations, key).and_then(Value::as_i64)
    }

    /// Its sequence number; 0 if the broker sent none.
    #[must_use]
    pub fn sequence_number(&self) -> i64 {
        self.annotated(SEQUENCE_NUMBER).unwrap_or(0)
    }

    /// When it was enqueued, in milliseconds since 1970.
    #[must_use]
    pub fn enqueued_at_ms(&self) -> Option<i64> {
        self.annotated(ENQUEUED_TIME)
    }

    /// When it becomes available, in milliseconds since 1970.
    #[must_use]
    pub fn scheduled_for_ms(&self) -> Option<i64> {
        self.annotated(SCHEDULED_ENQUEUE_TIME)
    }

    /// When its lock expires, in milliseconds since 1970; only for a received message.
    #[must_use]
    pub fn locked_until_ms(&self) -> Option<i64> {
        self.annotated(LOCKED_UNTIL)
    }

    /// Its state.
    #[must_use]
    pub fn state(&self) -> MessageState {
        match self.annotated(MESSAGE_STATE) {
            Some(1) => MessageState::Deferred,
            Some(2) => MessageState::Scheduled,
            _ => MessageState::Active,
        }
    }

    /// The sender's partition key.
    #[must_use]
    pub fn partition_key(&self) -> Option<&str> {
        lookup(&self.annotations, PARTITION_KEY).and_then(Value::as_str)
    }

    /// The entity in which it was dead-lettered, if it was forwarded from there.
    #[must_use]
    pub fn dead_letter_source(&self) -> Option<&str> {
        lookup(&self.annotations, DEAD_LETTER_SOURCE).and_then(Value::as_str)
    }

    /// The reason why it was dead-lettered.
    #[must_use]
    pub fn dead_letter_reason(&self) -> Option<&str> {
        lookup(&self.application, DEAD_LETTER_REASON).and_then(Value::as_str)
    }

    /// The description of why it was dead-lettered.
    #[must_use]
    pub fn dead_letter_description(&self) -> Option<&str> {
        lookup(&self.application, DEAD_LETTER_DESCRIPTION).and_then(Value::as_str)
    }

    /// The message id as text.
    #[must_use]
    pub fn message_id(&self) -> Option<Box<str>> {
        rule_properties::id_text(&self.properties.message_id)
    }

    /// The correlation id as text.
    #[must_use]
    pub fn correlation_id(&self) -> Option<Box<str>> {
        rule_properties::id_text(&self.properties.correlation_id)
    }

    /// Whether the message matches a rule's filter. It does not if the filter can't be evaluated for it.
    ///
    /// # Errors
    /// Invalid application properties.
    pub fn matches(&self, filter: &Filter) -> Result<bool, ClientError> {
        Ok(self.judge(filter)?.unwrap_or(false))
    }

    /// [`Self::matches`] with the reason why a filter can't be evaluated.
    ///
    /// # Errors
    /// Invalid application properties.
    pub fn judge(&self, filter: &Filter) -> Result<Result<bool, String>, ClientError> {
        let rule_properties = rule_properties::of_sections(&self.sections)?;
        let subject = Subject { rule_properties: &rule_properties, arrival: self.arrival() };
        let matches = filter.matches(&subject, &mut || uuid::Uuid::new_v4().as_u128());
        Ok(matches.map_err(|failure| failure.text))
    }

    /// The changes that a rule's action makes to the message, or why it fails.
    ///
    /// # Errors
    /// Invalid application properties.
    pub fn changes(&self, action: &SqlAction) -> Result<Result<PropertyChanges, String>, ClientError> {
        let rule_properties = rule_properties::of_sections(&self.sections)?;
        let subject = Subject { rule_properties: &rule_properties, arrival: self.arrival() };
        let changes = action.changes(&subject, &mut || uuid::Uuid::new_v4().as_u128());
        Ok(changes.map_err(|failure| failure.text))
    }

    /// The properties set by the broker.
    fn arrival(&self) -> Arrival<'_> {
        let unsigned = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
        Arrival {
            sequence_number: unsigned(self.annotated(SEQUENCE_NUMBER)).unwrap_or_default(),
            enqueued_sequence_number: unsigned(self.annotated(ENQUEUED_SEQUENCE_NUMBER)).unwrap_or_default(),
            enqueued_at_ms: unsigned(self.enqueued_at_ms()).unwrap_or_default(),
            time_to_live_ms: self.header.ttl_ms.map(u64::from),
            scheduled_enqueue_time_ms: unsigned(self.scheduled_for_ms()),
            size_bytes: u64::try_from(self.encoded.len()).unwrap_or(u64::MAX),
            dead_letter_source: self.dead_letter_source(),
        }
    }

    /// The encoding for sending the message again: without the broker's additions, its body unchanged. Its life starts
    /// again, with the time to live set by its sender.
    #[must_use]
    pub fn readdressed(&self, how: Readdress) -> Bytes {
        let mut output = BytesMut::with_capacity(self.encoded.len() + 64);
        let Header { durable, priority, ttl_ms, .. } = self.header;
        Header { durable, priority, ttl_ms, first_acquirer: None, delivery_count: None }.encode(&mut output);
        let is_senders = |key: &str| !is_service_owned(key) && key != SCHEDULED_ENQUEUE_TIME;
        let annotations: Vec<_> = self
            .annotations
            .iter()
            .filter(|(key, _)| key.as_str().is_some_and(is_senders))
            .cloned()
            .collect();
        if !annotations.is_empty() {
            encode_message_annotations(&annotations, &mut output);
        }
        let mut properties = MessageProperties {
            absolute_expiry_time_ms: None,
            creation_time_ms: None,
            ..self.properties.clone()
        };
        if how == Readdress::NewId {
            properties.message_id = Value::from(uuid::Uuid::new_v4().to_string().as_str());
        }
        properties.encode(&mut output);
        let is_kept = |key: &str| ![DEAD_LETTER_REASON, DEAD_LETTER_DESCRIPTION].contains(&key);
        let application: Vec<_> =
            self.application.iter().filter(|(key, _)| key.as_str().is_none_or(is_kept)).cloned().collect();
        if !application.is_empty() {
            encode_application_properties(&application, &mut output);
        }
        output.extend_from_slice(&self.sections.body);
        output.freeze()
    }
}

#[cfg(test)]
mod tests {
    use peeklock_wire::message::encode_body_data;

    use super::*;

    fn dead_letter() -> Bytes {
        let mut output = BytesMut::new();
        Header { ttl_ms: Some(5_000), delivery_count: Some(9), ..Header::default() }.encode(&mut output);
        let annotations = [
            (Value::symbol(SEQUENCE_NUMBER), Value::Long(7)),
            (Value::symbol(PARTITION_KEY), Value::from("key")),
            (Value::symbol("x-own"), Value::Int(1)),
        ];
        encode_message_annotations(&annotations, &mut output);
        let properties = MessageProperties {
            message_id: "id".into(),
            subject: Some("order".into()),
            ..MessageProperties::default()
        };
        properties.encode(&mut output);
        let application =
            [(Value::from(DEAD_LETTER_REASON), Value::from("Bad")), (Value::from("amount"), Value::Int(5))];
        encode_application_properties(&application, &mut output);
        encode_body_data(b"body", &mut output);
        output.freeze()
    }

    #[test]
    fn a_message_sent_again_has_no_annotations_of_the_broker() {
        let message = Message::decode(&dead_letter()).unwrap();
        assert_eq!((message.sequence_number(), message.dead_letter_reason()), (7, Some("Bad")));
        let again = Message::decode(&message.readdressed(Readdress::KeepId)).unwrap();
        assert_eq!((again.sequence_number(), again.dead_letter_reason()), (0, None));
        assert_eq!((again.header.ttl_ms, again.header.delivery_count), (Some(5_000), None));
        assert_eq!(again.partition_key(), Some("key"));
        assert_eq!(lookup(&again.annotations, "x-own"), Some(&Value::Int(1)));
        assert_eq!(again.message_id().as_deref(), Some("id"));
        assert_eq!(again.properties.subject.as_deref(), Some("order"));
        assert_eq!(again.application, [(Value::from("amount"), Value::Int(5))]);
        assert_eq!(again.body, Body::Data(Bytes::from_static(b"body")));
        let renamed = Message::decode(&message.readdressed(Readdress::NewId)).unwrap();
        assert_ne!(renamed.message_id().as_deref(), Some("id"));
    }

    #[test]
    fn conditions_see_system_and_user_properties() {
        let message = Message::decode(&dead_letter()).unwrap();
        let matches = |sql: &str| message.matches(&Filter::sql(sql, Vec::new()).unwrap()).unwrap();
        assert!(matches("amount = 5 AND sys.Label = 'order' AND sys.SequenceNumber = 7"));
        assert!(matches("DeadLetterReason = 'Bad'"));
        assert!(!matches("missing > 1"));
    }
}
