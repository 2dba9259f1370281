//! `com.microsoft:batch-delete-messages`: deletes the oldest messages without delivering them. "Purge" of the SDKs
//! repeats it with one time until the answer is 0 or 204.

use peeklock_engine::runtime::Response;
use peeklock_engine::{Command, Refusal, Tier, Timestamp};

use super::{Arguments, Context, Prepared, arguments};
use crate::servicebus::envelope::Answer;
use crate::servicebus::errors::{Fault, condition};
use crate::wire::Value;

pub(super) fn prepare(arguments: &Arguments, context: &Context<'_>) -> Result<Prepared, Fault> {
    let count = arguments.integer("message-count")?;
    let at_ms = match arguments.get("enqueued-time-utc") {
        Some(Value::Timestamp(at_ms)) => *at_ms,
        _ => return Err(arguments::wrong("enqueued-time-utc", "a timestamp")),
    };
    let receiver = context.holder_if_named(arguments)?;
    // As for a receiver: a client can only delete messages of a session that it holds.
    if receiver.is_none() && context.entity.has_sessions() {
        return Err(Fault::Refused(Refusal::SessionRequired));
    }
    let command = Command::DeleteMessages {
        source: context.entity.source(),
        count_max: check_count(count, context.tier)?,
        enqueued_until: Timestamp(u64::try_from(at_ms).unwrap_or(0)),
        receiver,
    };
    Ok(Prepared::new(command, |response, _| finish(response)))
}

/// Checks the number of messages against the limit of the tier.
fn check_count(count: i64, tier: Tier) -> Result<u32, Fault> {
    let most = tier.delete_count_max();
    let in_range = u32::try_from(count).ok().filter(|count| (1..=most).contains(count));
    in_range.ok_or(Fault::DeleteCount { requested: count, most })
}

/// 204 with a condition when nothing was deleted: J 7.10.0-beta.2 accepts no other 204 as 0.
fn finish(response: Response) -> Result<Answer, Fault> {
    match response {
        Response::Deleted(Ok(0)) => {
            Ok(Answer { condition: Some(condition::MESSAGE_NOT_FOUND), ..Answer::no_content() })
        }
        // N and G accept only an int.
        Response::Deleted(Ok(count)) => {
            Ok(Answer::ok(vec![("message-count", Value::Int(i32::try_from(count).unwrap_or(i32::MAX)))]))
        }
        Response::Deleted(Err(refusal)) => Err(refusal.into()),
        _ => Err(Fault::Internal),
    }
}
