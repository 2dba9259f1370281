//! The management API: entities as ATOM entries in XML.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};

use crate::Admin;
use crate::error::Error;

/// Answers a request.
pub(crate) async fn answer(admin: Admin, request: Request) -> Response {
    let _ = admin;
    Error::not_found(format!("There is nothing at '{}'.", request.uri().path())).into_response()
}
