//! `com.microsoft:update-disposition`: settles by lock token, from any link or connection.

use std::sync::Arc;

use peeklock_engine::runtime::Response;
use peeklock_engine::{Command, DeadLetter, Refusal, Settlement, SubQueue};

use super::{Arguments, Context, Prepared};
use crate::servicebus::envelope::{Answer, text};
use crate::servicebus::errors::Fault;
use crate::servicebus::settlement;
use crate::wire::Value;

pub(super) fn prepare(arguments: &Arguments, context: &Context<'_>) -> Result<Prepared, Fault> {
    let tokens = arguments.lock_tokens("lock-tokens")?.into();
    // Only for the holder of its session; the token identifies the message.
    let has_sessions = context.entity.has_sessions();
    let is_session_held = has_sessions && context.holder_if_named(arguments)?.is_some();
    let properties = properties(arguments)?;
    let settlement = match arguments.text("disposition-status")? {
        Some("completed") => Settlement::Complete,
        Some("abandoned") => settlement::abandon(properties)?,
        // "defered" on the wire (P, J, N); the correct spelling is accepted, too.
        Some("defered" | "deferred") => Settlement::Defer { modify: settlement::modified(properties)? },
        Some("suspended") => {
            let reason = arguments.text("deadletter-reason")?;
            let description = arguments.text("deadletter-description")?;
            let why = DeadLetter { reason: given(reason), description: given(description) };
            Settlement::DeadLetter { why: Arc::new(why), modify: settlement::modified(properties)? }
        }
        other => {
            return Err(Fault::Argument(format!(
                "'disposition-status' must be completed, abandoned, defered or suspended, not '{}'.",
                crate::servicebus::authorization::excerpt(other.unwrap_or_default())
            )));
        }
    };
    let command = Command::Settle { queue: context.entity.queue, tokens, settlement };
    let sub_queue = context.entity.address.sub_queue;
    Ok(Prepared::new(command, move |response, _| finish(response, sub_queue, is_session_held)))
}

/// P sends empty strings for values not given.
fn given(text: Option<&str>) -> Option<Arc<str>> {
    text.filter(|text| !text.is_empty()).map(Arc::from)
}

fn properties(arguments: &Arguments) -> Result<Vec<(Box<str>, Value)>, Fault> {
    match arguments.get("properties-to-modify") {
        None => Ok(Vec::new()),
        Some(Value::Map(entries)) => {
            let named = entries.iter().filter_map(|(key, value)| Some((text(key)?.into(), value.clone())));
            Ok(named.collect())
        }
        Some(_) => Err(Fault::Argument("'properties-to-modify' must be a map.".to_owned())),
    }
}

/// One status for all tokens: that of the first that failed. While the session is held, the lost lock is a message's,
/// although the engine, which gets only the token, can't distinguish.
fn finish(response: Response, sub_queue: SubQueue, is_session_held: bool) -> Result<Answer, Fault> {
    match response {
        Response::Settled(failures) => match failures.into_iter().next() {
            None => Ok(Answer::ok(Vec::new())),
            Some(failure) if is_session_held && failure.refusal == Refusal::SessionLockLost => {
                Err(Refusal::MessageLockLost.into())
            }
            Some(failure) => Err(settlement::fault(failure.refusal, sub_queue)),
        },
        _ => Err(Fault::Internal),
    }
}
