//! `com.microsoft:get-message-sessions`: lists sessions by id, page by page.

use peeklock_engine::runtime::Response;
use peeklock_engine::{Command, Timestamp};

use super::{Arguments, Prepared, arguments};
use crate::servicebus::entities::Entity;
use crate::servicebus::envelope::Answer;
use crate::servicebus::errors::{Fault, condition};
use crate::wire::Value;

/// A time from the last second of the year 9999 on means "at any time": G sends the last millisecond, P the year 10
/// 000. All sessions with active messages or a state are listed then.
const NO_MATTER_WHEN_MS: u64 = 253_402_300_799_000;

/// Maximum number of ids in one response.
const SESSIONS_MAX: u32 = 1000;

pub(super) fn prepare(arguments: &Arguments, entity: &Entity) -> Result<Prepared, Fault> {
    let updated_since = match arguments.get("last-updated-time") {
        None => None,
        Some(Value::Timestamp(at_ms)) => {
            let at_ms = u64::try_from(*at_ms).unwrap_or(0);
            (at_ms < NO_MATTER_WHEN_MS).then_some(Timestamp(at_ms))
        }
        Some(_) => return Err(arguments::wrong("last-updated-time", "a timestamp")),
    };
    let (skip, top) = arguments.page(SESSIONS_MAX)?;
    let command = Command::ListSessions { queue: entity.queue, updated_since, skip, top };
    Ok(Prepared::new(command, move |response, _| finish(response, skip)))
}

/// `skip` is where the next page begins. An empty page is 204 with a condition (P's own comment).
fn finish(response: Response, skip: u32) -> Result<Answer, Fault> {
    let sessions = match response {
        Response::Sessions(Ok(sessions)) => sessions,
        Response::Sessions(Err(refusal)) => return Err(refusal.into()),
        _ => return Err(Fault::Internal),
    };
    if sessions.is_empty() {
        return Ok(Answer { condition: Some(condition::SESSION_NOT_FOUND), ..Answer::no_content() });
    }
    let next = i64::from(skip).saturating_add(i64::try_from(sessions.len()).unwrap_or(i64::MAX));
    let next = i32::try_from(next).unwrap_or(i32::MAX);
    let ids = sessions.iter().map(|id| Value::String((**id).into())).collect();
    Ok(Answer::ok(vec![("skip", Value::Int(next)), ("sessions-ids", Value::Array(ids))]))
}
