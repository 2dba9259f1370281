//! The messaging API: messages over HTTP.

mod locks;
mod operation;
mod place;
mod refusal;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use peeklock_engine::Settlement;

use crate::Admin;
use crate::error::Error;
use operation::Verb;
use place::Place;

pub(crate) use operation::Operation;

/// Carries an operation out.
pub(crate) async fn answer(admin: Admin, operation: Operation, request: Request) -> Response {
    carry_out(admin, operation, request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn carry_out(admin: Admin, operation: Operation, request: Request) -> Result<Response, Error> {
    // First of all, so that nobody without the right learns what there is.
    admin.authorize(request.headers(), &operation.entity.resource(), operation.verb.right())?;
    let place = Place::find(&admin.namespace, &operation)?;
    match &operation.verb {
        Verb::Complete(lock) => locks::settle(&place, lock, Settlement::Complete).await,
        Verb::Unlock(lock) => locks::settle(&place, lock, Settlement::Abandon { modify: Vec::new() }).await,
        Verb::Renew(lock) => locks::renew(&place, lock).await,
        Verb::Send | Verb::PeekLock | Verb::ReceiveAndDelete => {
            let text = format!("{:?} is not there yet.", operation.verb);
            Err(Error::new(StatusCode::NOT_IMPLEMENTED, 50100, text))
        }
    }
}
