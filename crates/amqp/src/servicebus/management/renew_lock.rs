//! `com.microsoft:renew-lock`: renews message locks.

use peeklock_engine::runtime::Response;
use peeklock_engine::{Command, SubQueue};

use super::{Arguments, Prepared};
use crate::servicebus::entities::Entity;
use crate::servicebus::envelope::Answer;
use crate::servicebus::errors::Fault;
use crate::servicebus::settlement;
use crate::wire::Value;

pub(super) fn prepare(arguments: &Arguments, entity: &Entity) -> Result<Prepared, Fault> {
    let tokens = arguments.lock_tokens("lock-tokens")?;
    let command = Command::RenewLocks { queue: entity.queue, tokens };
    let sub_queue = entity.address.sub_queue;
    Ok(Prepared::new(command, move |response, _| finish(response, sub_queue)))
}

/// `expirations` is an array: G and N read a typed one, a list breaks both.
fn finish(response: Response, sub_queue: SubQueue) -> Result<Answer, Fault> {
    match response {
        Response::Renewed(Ok(ends)) => {
            let ends = ends.iter().map(|end| Value::Timestamp(i64::try_from(end.0).unwrap_or(i64::MAX)));
            Ok(Answer::ok(vec![("expirations", Value::Array(ends.collect()))]))
        }
        Response::Renewed(Err(refusal)) => Err(settlement::fault(refusal, sub_queue)),
        _ => Err(Fault::Internal),
    }
}
