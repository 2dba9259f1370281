//! `com.microsoft:peek-message`: browses without locking.

use peeklock_engine::runtime::Response;
use peeklock_engine::{Command, SequenceNumber};

use super::{Arguments, Context, Prepared};
use crate::servicebus::delivery::{DeliveryFormat, Encoder, Origin};
use crate::servicebus::envelope::Answer;
use crate::servicebus::errors::Fault;
use crate::wire::Value;

/// Messages in one response, the limit of Service Bus (azure-sdk-for-python 26643, ServiceBusExplorer 56). Clients request
/// more in further calls.
const MESSAGES_MAX: u32 = 250;

/// Size of the bodies in one response, in bytes: below a link's usual maximum message size, annotations included.
const BYTES_MAX: usize = 768 * 1024;

/// Size of the bodies in one response when the connection has little memory left, in bytes.
const BYTES_MAX_SHORT: usize = 64 * 1024;

pub(super) fn prepare(arguments: &Arguments, context: &Context<'_>) -> Result<Prepared, Fault> {
    let entity = context.entity;
    let bytes_max = BYTES_MAX.min(context.room_bytes / 2).max(BYTES_MAX_SHORT);
    // The first message is returned whatever its size.
    let answer_bytes = bytes_max.max(usize::try_from(entity.max_message_size_bytes).unwrap_or(usize::MAX));
    let from = arguments.integer("from-sequence-number")?;
    let count = arguments.integer("message-count")?;
    if count < 1 {
        return Err(Fault::Argument("'message-count' must be at least 1.".to_owned()));
    }
    let command = Command::Peek {
        from: SequenceNumber(u64::try_from(from).unwrap_or(0)),
        count_max: u32::try_from(count).unwrap_or(MESSAGES_MAX).min(MESSAGES_MAX),
        bytes_max,
        source: entity.source(),
        session: arguments.text("session-id")?.map(Into::into),
    };
    let origin = entity.origin();
    let format = DeliveryFormat::Browsed { omits_body: arguments.flag("omit-message-body")? };
    let prepared = Prepared::new(command, move |response, encoder| finish(response, encoder, format, origin));
    Ok(prepared.answering(answer_bytes))
}

/// 204 without messages: J expects `messages` in a response with any other status.
fn finish(
    response: Response,
    encoder: &mut Encoder,
    format: DeliveryFormat,
    origin: Origin,
) -> Result<Answer, Fault> {
    let messages = match response {
        Response::Received(Ok(messages)) => messages,
        Response::Received(Err(refusal)) => return Err(refusal.into()),
        _ => return Err(Fault::Internal),
    };
    if messages.is_empty() {
        return Ok(Answer::no_content());
    }
    let mut entries = Vec::with_capacity(messages.len());
    for message in &messages {
        let whole = encoder.encode_whole(message, format, origin).map_err(|_| Fault::Internal)?;
        entries.push(Value::Map(vec![(Value::String("message".into()), Value::Binary(whole))]));
    }
    Ok(Answer::ok(vec![("messages", Value::List(entries))]))
}
