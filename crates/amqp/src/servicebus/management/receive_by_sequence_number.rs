//! `com.microsoft:receive-by-sequence-number`: receives deferred messages.

use peeklock_engine::runtime::Response;
use peeklock_engine::{Command, RECEIVE_DEFERRED_BYTES_MAX, ReceiveMode};

use super::{Arguments, Context, Prepared};
use crate::servicebus::delivery::{DeliveryFormat, Encoder, Origin};
use crate::servicebus::envelope::Answer;
use crate::servicebus::errors::Fault;
use crate::servicebus::lock_token;
use crate::wire::Value;

pub(super) fn prepare(arguments: &Arguments, context: &Context<'_>) -> Result<Prepared, Fault> {
    let mode = match arguments.integer("receiver-settle-mode")? {
        0 => ReceiveMode::ReceiveAndDelete,
        1 => ReceiveMode::PeekLock,
        other => {
            return Err(Fault::Argument(format!("'receiver-settle-mode' must be 0 or 1, not {other}.")));
        }
    };
    let numbers = arguments.sequence_numbers("sequence-numbers")?;
    let receiver = context.holder_if_named(arguments)?;
    let message_bytes = usize::try_from(context.entity.max_message_size_bytes).unwrap_or(usize::MAX);
    // The maximum size of all of them, as far as there is room; a single one is returned whatever its size.
    let most = numbers.len().saturating_mul(message_bytes).min(RECEIVE_DEFERRED_BYTES_MAX);
    let answer_bytes = most.min(context.room_bytes / 2).max(message_bytes);
    let command = Command::ReceiveDeferred {
        numbers,
        source: context.entity.source(),
        mode,
        receiver,
        bytes_max: answer_bytes,
    };
    let origin = context.entity.origin();
    let prepared = Prepared::new(command, move |response, encoder| finish(response, encoder, origin));
    Ok(prepared.answering(answer_bytes))
}

/// An unknown number fails the whole request with 404 (Python's test suite requests one too many).
fn finish(response: Response, encoder: &mut Encoder, origin: Origin) -> Result<Answer, Fault> {
    let messages = match response {
        Response::Received(Ok(messages)) => messages,
        Response::Received(Err(refusal)) => return Err(refusal.into()),
        _ => return Err(Fault::Internal),
    };
    let mut entries = Vec::with_capacity(messages.len());
    for message in &messages {
        let whole =
            encoder.encode_whole(message, DeliveryFormat::Management, origin).map_err(|_| Fault::Internal)?;
        let mut entry = vec![(Value::String("message".into()), Value::Binary(whole))];
        if let Some(lock) = &message.lock {
            let token = Value::Uuid(lock_token::to_uuid(lock.token));
            entry.push((Value::String("lock-token".into()), token));
        }
        entries.push(Value::Map(entry));
    }
    Ok(Answer::ok(vec![("messages", Value::List(entries))]))
}
