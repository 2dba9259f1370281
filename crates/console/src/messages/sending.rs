//! `POST messages`: sends messages described in JSON.

use axum::body::Body;
use axum::http::StatusCode;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use peeklock_admin::Error;
use peeklock_admin::messages::{Draft, MessageSettings, Place, ask, refused};
use peeklock_engine::runtime::Response as Reply;
use peeklock_engine::{Command, NewMessage, Refusal, Right, SequenceNumber, SubQueue};
use serde::Deserialize;
use serde_json::json;
use smallvec::SmallVec;

use crate::answer::{Answer, Outcome};
use crate::call::{BODY_BYTES_MAX, Call};
use crate::values::Properties;
use crate::{Console, time};

/// Maximum number of messages that one request sends, including repetitions.
const MESSAGES_MAX: usize = 1_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch {
    messages: Vec<AskedMessage>,
    #[serde(default)]
    repeat: Option<usize>,
}

/// A message in a request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AskedMessage {
    body: AskedBody,
    message_id: Option<String>,
    correlation_id: Option<String>,
    session_id: Option<String>,
    reply_to: Option<String>,
    reply_to_session_id: Option<String>,
    to: Option<String>,
    subject: Option<String>,
    content_type: Option<String>,
    partition_key: Option<String>,
    via_partition_key: Option<String>,
    properties: Properties,
    scheduled_for: Option<String>,
    time_to_live_ms: Option<u64>,
}

/// At most one of the three.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AskedBody {
    text: Option<String>,
    base64: Option<String>,
    json: Option<serde_json::Value>,
}

impl AskedBody {
    fn bytes(self) -> Result<Bytes, Error> {
        match (self.text, self.base64, self.json) {
            (None, None, None) => Ok(Bytes::new()),
            (Some(text), None, None) => Ok(text.into()),
            (None, None, Some(json)) => Ok(json.to_string().into()),
            (None, Some(base64), None) => STANDARD
                .decode(base64)
                .map(Bytes::from)
                .map_err(|_| Error::bad_request("The 'base64' of a body is not valid Base64.")),
            _ => Err(Error::bad_request("A body is one of 'text', 'base64' and 'json'.")),
        }
    }
}

impl AskedMessage {
    /// The message before it is encoded.
    ///
    /// # Errors
    /// 400 for values that are invalid in a message.
    pub(crate) fn draft(self) -> Result<Draft, Error> {
        let is_json = self.body.json.is_some();
        let scheduled = self.scheduled_for.filter(|text| !text.is_empty());
        let scheduled = scheduled.map(|text| time::read("scheduled_for", &text)).transpose()?;
        if self.time_to_live_ms == Some(0) {
            return Err(Error::bad_request("'time_to_live_ms' must be at least 1."));
        }
        let properties = self.properties.0.into_iter();
        let user = properties.map(|(name, value)| match value.amqp() {
            Ok(value) => Ok((name, value)),
            Err(reason) => Err(Error::bad_request(format!("The property '{name}' {reason}."))),
        });
        let settings = MessageSettings {
            content_type: self.content_type.or_else(|| is_json.then(|| "application/json".to_owned())),
            correlation_id: self.correlation_id,
            label: self.subject,
            message_id: self.message_id.filter(|id| !id.is_empty()),
            partition_key: self.partition_key,
            reply_to: self.reply_to,
            reply_to_session_id: self.reply_to_session_id,
            scheduled_enqueue_time_ms: scheduled.map(|at| at.0),
            session_id: self.session_id,
            time_to_live_ms: self.time_to_live_ms,
            to: self.to,
            via_partition_key: self.via_partition_key,
        };
        Ok(Draft { settings, user: user.collect::<Result<_, _>>()?, body: self.body.bytes()? })
    }
}

/// Sends messages to a queue or topic; those of one request are accepted in order.
pub(crate) async fn send(console: &Console, call: &Call, body: Body) -> Outcome {
    let (place, grant) = call.place(console, Right::Send)?;
    check_place(&place)?;
    console.admin.check_rates(&place.entity.name, &grant.principal)?;
    // Base64 and escapes make a message longer, in practice at most this much.
    let bytes_max = BODY_BYTES_MAX.max(place.message_bytes_max.saturating_mul(2));
    let (batch, _room) = call.json::<Batch>(console, body, bytes_max).await?;
    let repeat = batch.repeat.unwrap_or(1);
    if batch.messages.is_empty() || repeat == 0 || batch.messages.len().saturating_mul(repeat) > MESSAGES_MAX
    {
        return Err(Error::bad_request(format!(
            "'messages' must hold 1 message at least, and {MESSAGES_MAX} at most together with 'repeat'."
        )));
    }
    let (wanted, now_ms) = (place.wanted, console.admin.namespace.clock().now().0);
    let mut numbers: Vec<String> = Vec::new();
    for _ in 0..repeat {
        let mut waiting: SmallVec<[NewMessage; 1]> = SmallVec::new();
        let mut bytes = 0;
        for message in &batch.messages {
            // Each repetition has its own id unless the request specifies one.
            let message = message.clone().draft()?.into_message(wanted, now_ms)?;
            let size_bytes = message.content.len() as u64;
            if size_bytes > place.message_bytes_max {
                let limit_bytes = place.message_bytes_max;
                return Err(refused(&Refusal::MessageTooLarge { size_bytes, limit_bytes }));
            }
            if bytes + size_bytes > place.message_bytes_max {
                numbers.extend(store(&place, std::mem::take(&mut waiting)).await?);
                bytes = 0;
            }
            bytes += size_bytes;
            waiting.push(message);
        }
        numbers.extend(store(&place, waiting).await?);
    }
    Ok(Answer::Json(StatusCode::CREATED, json!({ "sequence_numbers": numbers })))
}

async fn store(place: &Place, messages: SmallVec<[NewMessage; 1]>) -> Result<Vec<String>, Error> {
    match ask(&place.partition, Command::Send { messages }).await? {
        Reply::Sent(Ok(numbers)) => {
            Ok(numbers.iter().map(|SequenceNumber(number)| number.to_string()).collect())
        }
        Reply::Sent(Err(refusal)) => Err(refused(&refusal)),
        _ => Err(Error::internal()),
    }
}

fn check_place(place: &Place) -> Result<(), Error> {
    if place.origin.copies {
        return Err(Error::bad_request("Messages can't be sent to a subscription: send to its topic."));
    }
    if place.source.sub_queue != SubQueue::Main {
        return Err(Error::bad_request("Messages can't be sent to a dead-letter queue directly."));
    }
    Ok(())
}
