//! `com.microsoft:renew-session-lock`: renews the lock of a session, and with it those of its messages.

use peeklock_engine::runtime::Response;
use peeklock_engine::{Command, Timestamp};

use super::{Arguments, Context, Prepared};
use crate::servicebus::delivery::Encoder;
use crate::servicebus::envelope::Answer;
use crate::servicebus::errors::Fault;
use crate::wire::Value;

pub(super) fn prepare(arguments: &Arguments, context: &Context<'_>) -> Result<Prepared, Fault> {
    let receiver = context.holder(arguments)?;
    Ok(Prepared::new(Command::RenewSessionLock { receiver }, finish))
}

fn finish(response: Response, _encoder: &mut Encoder) -> Result<Answer, Fault> {
    match response {
        Response::SessionRenewed(Ok(Timestamp(until_ms))) => {
            let until = Value::Timestamp(i64::try_from(until_ms).unwrap_or(i64::MAX));
            Ok(Answer::ok(vec![("expiration", until)]))
        }
        Response::SessionRenewed(Err(refusal)) => Err(refusal.into()),
        _ => Err(Fault::Internal),
    }
}
