//! `com.microsoft:get-session-state`: reads the state of a session.

use peeklock_engine::Command;
use peeklock_engine::runtime::Response;

use super::{Arguments, Context, Prepared};
use crate::servicebus::delivery::Encoder;
use crate::servicebus::envelope::Answer;
use crate::servicebus::errors::Fault;
use crate::wire::Value;

/// Estimated size of an outstanding answer, in bytes.
const ANSWER_BYTES_ESTIMATE: usize = 256 << 10;

pub(super) fn prepare(arguments: &Arguments, context: &Context<'_>) -> Result<Prepared, Fault> {
    let receiver = context.holder(arguments)?;
    Ok(Prepared::new(Command::GetSessionState { receiver }, finish).answering(ANSWER_BYTES_ESTIMATE))
}

/// The entry is present without a state, too: null.
fn finish(response: Response, _encoder: &mut Encoder) -> Result<Answer, Fault> {
    match response {
        Response::SessionState(Ok(state)) => {
            // Earlier versions stored empty states.
            let state = state.filter(|state| !state.is_empty()).map_or(Value::Null, Value::Binary);
            Ok(Answer::ok(vec![("session-state", state)]))
        }
        Response::SessionState(Err(refusal)) => Err(refusal.into()),
        _ => Err(Fault::Internal),
    }
}
