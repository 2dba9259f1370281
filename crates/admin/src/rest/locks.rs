//! Operations on a locked message: complete, unlock, renew.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use peeklock_engine::runtime::{Mailbox, Output, PartitionHandle, Request, Response as Answer};
use peeklock_engine::{Command, LockToken, Refusal, Settlement};
use uuid::Uuid;

use super::place::Place;
use super::refusal;
use crate::error::Error;

/// Settles the message under a lock, even if another client received it.
///
/// # Errors
/// 404 for an expired or unknown lock.
pub(super) async fn settle(place: &Place, lock: &str, settlement: Settlement) -> Result<Response, Error> {
    let tokens = [token(lock)?].into_iter().collect();
    let command = Command::Settle { queue: place.source.queue, tokens, settlement };
    match ask(&place.partition, command).await? {
        Answer::Settled(failures) => match failures.first() {
            None => Ok(StatusCode::OK.into_response()),
            Some(failure) => Err(refusal::error(&failure.refusal)),
        },
        _ => Err(Error::internal()),
    }
}

/// Renews a lock.
///
/// # Errors
/// See [`settle`].
pub(super) async fn renew(place: &Place, lock: &str) -> Result<Response, Error> {
    let command = Command::RenewLocks { queue: place.source.queue, tokens: vec![token(lock)?] };
    match ask(&place.partition, command).await? {
        Answer::Renewed(Ok(_)) => Ok(StatusCode::OK.into_response()),
        Answer::Renewed(Err(refused)) => Err(refusal::error(&refused)),
        _ => Err(Error::internal()),
    }
}

/// A text that is no UUID was never a lock token.
fn token(text: &str) -> Result<LockToken, Error> {
    let uuid = Uuid::parse_str(text).map_err(|_| refusal::error(&Refusal::MessageLockLost))?;
    Ok(LockToken(uuid.as_u128()))
}

/// Sends a command to a partition and waits for its answer.
///
/// # Errors
/// The partition ended without an answer.
pub async fn ask(partition: &PartitionHandle, command: Command) -> Result<Answer, Error> {
    let (mailbox, mut outputs) = Mailbox::new();
    partition.submit(Request { mailbox, tag: Some(0), command });
    while let Some(output) = outputs.recv().await {
        if let Output::Response { response, .. } = output {
            return Ok(response);
        }
    }
    Err(refusal::error(&Refusal::Unavailable))
}
