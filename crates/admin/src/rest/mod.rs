//! The messaging API: messages over HTTP (admin reference §7).
//!
//! Messages are translated between HTTP and their AMQP encoding; the rules for valid messages and for the properties
//! that receivers see are shared with AMQP (`peeklock_message`).

mod batch;
pub(crate) mod body;
pub(crate) mod broker_properties;
mod date;
pub(crate) mod draft;
mod limits;
mod location;
pub(crate) mod locks;
mod object;
mod operation;
pub(crate) mod payload;
pub(crate) mod place;
mod purging;
mod receiving;
pub(crate) mod refusal;
mod scalar;
mod sending;
mod shown;
mod slots;
#[cfg(test)]
mod tests;
mod user_properties;

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::ALLOW;
use axum::response::{IntoResponse, Response};
use peeklock_access::{Access, Denied, Grant};
use peeklock_engine::{ReceiveMode, Settlement};
use peeklock_errors::ErrorKind;
use tokio::time::sleep;

use crate::error::Error;
use crate::{Admin, Admission, Departure};
use operation::Verb;
use place::Place;

pub(crate) use limits::Limits;
pub use limits::Room;
pub(crate) use operation::Operation;

/// The broker's time may be corrected, so expiry of a grant is checked again after this, in milliseconds.
const GRANT_LOOK_MS_MAX: u64 = 60_000;

/// Largest body of a request that needs none; clients send an empty object or form at most.
const UNUSED_BODY_BYTES_MAX: u64 = 4096;

/// Carries an operation out.
pub(crate) async fn answer(admin: Admin, operation: Operation, request: Request) -> Response {
    let methods = operation.verb.methods();
    match carry_out(admin, operation, request).await.map_err(refusal::of_operation) {
        Ok(response) => response,
        // A response with this status names the methods of its path (RFC 9110, 15.5.6).
        Err(error) if error.status == StatusCode::METHOD_NOT_ALLOWED => {
            ([(ALLOW, methods)], error).into_response()
        }
        Err(error) => error.into_response(),
    }
}

async fn carry_out(admin: Admin, operation: Operation, request: Request) -> Result<Response, Error> {
    // Checked first, so that clients without the right learn nothing about existing entities.
    let right = operation.verb.right();
    let (resource, url) = (operation.entity.resource(), request.uri().path());
    let grant = admin.authorize_operation(request.headers(), &resource, url, right)?;
    Admission::tell(request.extensions());
    let place = Place::find(&admin.namespace, &operation)?;
    let namespace = &admin.namespace;
    if matches!(operation.verb, Verb::Send | Verb::PeekLock | Verb::ReceiveAndDelete | Verb::Purge) {
        check_rates(&admin, &operation.entity.name, &grant.principal)?;
    }
    let request = match &operation.verb {
        Verb::Send => request,
        _ => without_body(request, (&admin, &grant)).await?,
    };
    match &operation.verb {
        Verb::Send => sending::send((&admin, &grant), &place, request).await,
        Verb::PeekLock => receive(&admin, &grant, place, ReceiveMode::PeekLock, request).await,
        Verb::ReceiveAndDelete => {
            receive(&admin, &grant, place, ReceiveMode::ReceiveAndDelete, request).await
        }
        Verb::Purge => purging::purge(namespace, &place, &request.into_parts().0).await,
        Verb::Complete(lock) => locks::settle(&place, lock, Settlement::Complete).await,
        Verb::Unlock(lock) => locks::settle(&place, lock, Settlement::Abandon { modify: Vec::new() }).await,
        Verb::Renew(lock) => locks::renew(&place, lock).await,
    }
}

/// Reads the body of a request that needs none. A connection with an unread body is closed after the answer, and its end is
/// not noticed before: a message could be taken for a client that has gone, or that fails because it is still sending.
///
/// # Errors
/// Those of [`body::skip`]; 401 if the grant ended meanwhile.
async fn without_body(request: Request, (admin, grant): (&Admin, &Grant)) -> Result<Request, Error> {
    let (head, unused) = request.into_parts();
    body::skip(unused, UNUSED_BODY_BYTES_MAX).await?;
    admin.access.confirm(grant)?;
    Ok(Request::from_parts(head, Body::empty()))
}

/// Each request counts as one message, including a batch.
pub(crate) fn check_rates(admin: &Admin, entity: &str, principal: &str) -> Result<(), Error> {
    let now_ms = admin.namespace.clock().now().0;
    let buckets = [admin.throttles.entity(entity), admin.throttles.identity(principal)];
    if buckets.iter().flatten().all(|bucket| bucket.take(now_ms, 1)) {
        return Ok(());
    }
    Err(Error::of(
        ErrorKind::Throttled,
        "The request was terminated because the entity is being throttled. Error code : 50009. Please wait 2 seconds and try again.",
    ))
}

async fn receive(
    admin: &Admin,
    grant: &Grant,
    place: Place,
    mode: ReceiveMode,
    request: Request,
) -> Result<Response, Error> {
    let (head, _) = request.into_parts();
    let slot = admin.limits.receive(place.entity.resource(), grant)?;
    let received = receiving::receive(&admin.namespace, (&admin.limits, slot), place, mode, &head);
    tokio::select! {
        biased;
        response = received => response,
        // Messages delivered from now on are released.
        () = Departure::wait(&head.extensions) => {
            Err(Error::bad_request("The client closed the connection before the answer."))
        }
        denied = ended(&admin.access, grant) => Err(denied.into()),
    }
}

/// Resolves when a grant is no longer valid.
async fn ended(access: &Access, grant: &Grant) -> Denied {
    let mut changes = access.changes();
    loop {
        if let Err(denied) = access.confirm(grant) {
            return denied;
        }
        let now = access.now();
        let left_ms = grant.expires_at.map_or(GRANT_LOOK_MS_MAX, |at| at.0.saturating_sub(now.0));
        let look_again = sleep(Duration::from_millis(left_ms.min(GRANT_LOOK_MS_MAX)));
        tokio::select! {
            () = look_again => {}
            changed = changes.changed() => if changed.is_err() { std::future::pending().await },
        }
    }
}
