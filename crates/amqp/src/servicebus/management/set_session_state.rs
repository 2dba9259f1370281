//! `com.microsoft:set-session-state`: stores or clears the state of a session.

use bytes::Bytes;
use peeklock_engine::Command;

use super::{Arguments, Context, Prepared, arguments, done};
use crate::servicebus::errors::Fault;
use crate::wire::Value;

pub(super) fn prepare(arguments: &Arguments, context: &Context<'_>) -> Result<Prepared, Fault> {
    let receiver = context.holder(arguments)?;
    let state = match arguments.entry("session-state") {
        Some(Value::Null) => None,
        Some(Value::Binary(state)) => Some(state.clone()),
        Some(Value::String(state)) => Some(Bytes::copy_from_slice(state.as_bytes())),
        _ => return Err(arguments::wrong("session-state", "a binary or null")),
    };
    // Go writes nil as an empty binary, and its live test reads nil again.
    let state = state.filter(|state| !state.is_empty());
    Ok(Prepared::new(Command::SetSessionState { receiver, state }, done))
}
