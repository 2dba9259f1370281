//! `com.microsoft:renew-lock`: renews message locks.

use peeklock_engine::Command;
use peeklock_engine::runtime::Response;

use super::{Arguments, Prepared};
use crate::servicebus::delivery::Encoder;
use crate::servicebus::entities::Entity;
use crate::servicebus::envelope::Answer;
use crate::servicebus::errors::Fault;
use crate::wire::Value;

pub(super) fn prepare(arguments: &Arguments, entity: &Entity) -> Result<Prepared, Fault> {
    let tokens = arguments.lock_tokens("lock-tokens")?;
    Ok(Prepared::new(Command::RenewLocks { queue: entity.queue, tokens }, finish))
}

/// `expirations` is an array: G and N read a typed one, a list breaks both.
fn finish(response: Response, _encoder: &mut Encoder) -> Result<Answer, Fault> {
    match response {
        Response::Renewed(Ok(ends)) => {
            let ends = ends.iter().map(|end| Value::Timestamp(i64::try_from(end.0).unwrap_or(i64::MAX)));
            Ok(Answer::ok(vec![("expirations", Value::Array(ends.collect()))]))
        }
        Response::Renewed(Err(refusal)) => Err(refusal.into()),
        _ => Err(Fault::Internal),
    }
}
