//! A message described on the command line.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use clap::Args;
use peeklock_message::annotation::{PARTITION_KEY, SCHEDULED_ENQUEUE_TIME};
use peeklock_wire::Value;
use peeklock_wire::message::{
    Header, MessageProperties, encode_application_properties, encode_body_data, encode_message_annotations,
};

use super::Failure;
use super::properties::{Property, property};
use super::text::time_to_live;

/// Body and properties.
#[derive(Debug, Args)]
pub(super) struct MessageArgs {
    /// The body: a text, @FILE for the contents of a file, @- for standard input; without it the body is empty.
    #[arg(long, value_name = "TEXT|@FILE")]
    body: Option<String>,

    /// An application property: name=value for a string, name:int=5 for another type (int, long, double, bool, uuid,
    /// time). May be repeated.
    #[arg(long = "prop", value_name = "NAME=VALUE", value_parser = property)]
    properties: Vec<Property>,

    /// The message id [default: a new one]; with --repeat, a number is appended.
    #[arg(long, value_name = "ID")]
    pub(super) id: Option<String>,

    /// The subject (label).
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,

    /// The session that the message belongs to.
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    /// The correlation id.
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,

    /// The type of the body, such as application/json.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,

    /// The property `To`.
    #[arg(long, value_name = "TEXT")]
    to: Option<String>,

    /// The address for replies (ReplyTo).
    #[arg(long, value_name = "TEXT")]
    reply_to: Option<String>,

    /// The session for replies (ReplyToSessionId).
    #[arg(long, value_name = "ID")]
    reply_to_session: Option<String>,

    /// The partition key.
    #[arg(long, value_name = "TEXT")]
    partition_key: Option<String>,

    /// How long the message lives, such as 10m or PT1H.
    #[arg(long, value_name = "DURATION", value_parser = time_to_live)]
    ttl: Option<Duration>,
}

impl MessageArgs {
    /// Reads the body from its source.
    pub(super) fn body(&self) -> Result<Bytes, Failure> {
        let Some(text) = &self.body else { return Ok(Bytes::new()) };
        let Some(file) = text.strip_prefix('@') else { return Ok(Bytes::copy_from_slice(text.as_bytes())) };
        let read = if file == "-" {
            let mut all = Vec::new();
            std::io::stdin().read_to_end(&mut all).map(|_| all)
        } else {
            std::fs::read(PathBuf::from(file))
        };
        read.map(Bytes::from)
            .map_err(|error| Failure::usage(format!("the body can't be read from {file}: {error}")))
    }

    /// The message with this body and id, scheduled for a time in milliseconds since 1970 or not.
    pub(super) fn encode(&self, body: &Bytes, id: Option<&str>, scheduled_for: Option<i64>) -> Bytes {
        let mut output = BytesMut::with_capacity(body.len() + 256);
        let ttl_ms = self.ttl.map(|ttl| u32::try_from(ttl.as_millis()).unwrap_or(u32::MAX));
        Header { ttl_ms, ..Header::default() }.encode(&mut output);
        let scheduled =
            scheduled_for.map(|at_ms| (Value::symbol(SCHEDULED_ENQUEUE_TIME), Value::Timestamp(at_ms)));
        let key = self.partition_key.as_deref().map(|key| (Value::symbol(PARTITION_KEY), Value::from(key)));
        let annotations: Vec<_> = scheduled.into_iter().chain(key).collect();
        if !annotations.is_empty() {
            encode_message_annotations(&annotations, &mut output);
        }
        let text = |text: &Option<String>| text.as_deref().map(Into::into);
        let value = |text: Option<&str>| text.map_or(Value::Null, Value::from);
        let properties = MessageProperties {
            message_id: value(id.or(self.id.as_deref())),
            to: text(&self.to),
            subject: text(&self.subject),
            reply_to: text(&self.reply_to),
            correlation_id: value(self.correlation_id.as_deref()),
            content_type: text(&self.content_type),
            group_id: text(&self.session),
            reply_to_group_id: text(&self.reply_to_session),
            ..MessageProperties::default()
        };
        properties.encode(&mut output);
        if !self.properties.is_empty() {
            let entries: Vec<_> = self
                .properties
                .iter()
                .map(|property| (Value::from(property.name.as_str()), property.value.clone()))
                .collect();
            encode_application_properties(&entries, &mut output);
        }
        encode_body_data(body, &mut output);
        output.freeze()
    }
}
