//! `com.microsoft:schedule-message`: stores messages for a later time and returns their sequence numbers.

use peeklock_engine::runtime::Response;
use peeklock_engine::{Command, NewMessage, Refusal};
use smallvec::SmallVec;

use super::{Arguments, Context, Prepared};
use crate::servicebus::delivery::Encoder;
use crate::servicebus::envelope::{Answer, lookup};
use crate::servicebus::errors::Fault;
use crate::servicebus::submission::read_message;
use crate::wire::Value;

pub(super) fn prepare(arguments: &Arguments, context: &mut Context<'_>) -> Result<Prepared, Fault> {
    let encoded = arguments.items(
        "messages",
        "a non-empty list of maps with a binary 'message'",
        |value| match value {
            Value::Map(entry) => match lookup(entry, "message") {
                Some(Value::Binary(encoded)) => Some(encoded.clone()),
                _ => None,
            },
            _ => None,
        },
    )?;
    let limit_bytes = context.entity.max_message_size_bytes;
    let mut messages: SmallVec<[NewMessage; 1]> = SmallVec::with_capacity(encoded.len());
    for encoded in &encoded {
        let size_bytes = u64::try_from(encoded.len()).unwrap_or(u64::MAX);
        if size_bytes > limit_bytes {
            return Err(Refusal::MessageTooLarge { size_bytes, limit_bytes }.into());
        }
        let message = read_message(encoded, context.entity.wanted(), context.next_id)?;
        if message.scheduled_enqueue_time.is_none() {
            return Err(Fault::Argument(
                "A scheduled message needs x-opt-scheduled-enqueue-time.".to_owned(),
            ));
        }
        messages.push(message);
    }
    Ok(Prepared::new(Command::Send { messages }, finish))
}

/// `sequence-numbers` is an array of long: G and N read a typed one.
fn finish(response: Response, _encoder: &mut Encoder) -> Result<Answer, Fault> {
    match response {
        Response::Sent(Ok(numbers)) => {
            let numbers =
                numbers.iter().map(|number| Value::Long(i64::try_from(number.0).unwrap_or(i64::MAX)));
            Ok(Answer::ok(vec![("sequence-numbers", Value::Array(numbers.collect()))]))
        }
        Response::Sent(Err(refusal)) => Err(refusal.into()),
        _ => Err(Fault::Internal),
    }
}
