//! The messaging API: messages over HTTP (admin reference §7).
//!
//! HTTP is translated to and from a message's AMQP encoding; what a message may be and what is shown of it is decided where
//! AMQP has it decided as well (`peeklock_message`).

mod batch;
mod body;
mod broker_properties;
mod date;
mod draft;
mod limits;
mod location;
mod locks;
mod object;
mod operation;
mod payload;
mod place;
mod receiving;
mod refusal;
mod scalar;
mod sending;
mod shown;
mod user_properties;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use peeklock_engine::{ReceiveMode, Settlement};

use crate::Admin;
use crate::error::Error;
use operation::Verb;
use place::Place;

pub(crate) use limits::Limits;
pub(crate) use operation::Operation;

/// Carries an operation out.
pub(crate) async fn answer(admin: Admin, operation: Operation, request: Request) -> Response {
    carry_out(admin, operation, request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn carry_out(admin: Admin, operation: Operation, request: Request) -> Result<Response, Error> {
    // First of all, so that nobody without the right learns what there is.
    admin.authorize(request.headers(), &operation.entity.resource(), operation.verb.right())?;
    let place = Place::find(&admin.namespace, &operation)?;
    let Admin { namespace, limits, .. } = &admin;
    match &operation.verb {
        Verb::Send => sending::send(namespace, limits, &place, request).await,
        Verb::PeekLock => receive(&admin, place, ReceiveMode::PeekLock, request).await,
        Verb::ReceiveAndDelete => receive(&admin, place, ReceiveMode::ReceiveAndDelete, request).await,
        Verb::Complete(lock) => locks::settle(&place, lock, Settlement::Complete).await,
        Verb::Unlock(lock) => locks::settle(&place, lock, Settlement::Abandon { modify: Vec::new() }).await,
        Verb::Renew(lock) => locks::renew(&place, lock).await,
    }
}

async fn receive(
    admin: &Admin,
    place: Place,
    mode: ReceiveMode,
    request: Request,
) -> Result<Response, Error> {
    let (head, _) = request.into_parts();
    receiving::receive(&admin.namespace, &admin.limits, place, mode, &head).await
}
