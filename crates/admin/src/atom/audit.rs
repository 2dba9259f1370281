//! Who changed what: one line for each administrative change, made or refused.

use std::net::SocketAddr;

use axum::extract::Request;
use axum::http::Method;

use super::Answer;
use super::call::Call;
use crate::Caller;
use crate::error::Error;

/// Where a request comes from, if the server says so.
pub(super) fn peer(request: &Request) -> Option<SocketAddr> {
    request.extensions().get::<Caller>().map(|caller| caller.address)
}

/// Notes an attempt to change something; looking at things is nobody's business.
pub(super) fn note(
    call: &Call,
    principal: Option<&str>,
    peer: Option<SocketAddr>,
    outcome: &Result<Answer, Error>,
) {
    let operation = match (&call.method, call.is_update()) {
        (&Method::PUT, Ok(true)) => "update",
        (&Method::PUT, _) => "create",
        (&Method::DELETE, _) => "delete",
        _ => return,
    };
    let (status, detail) = match outcome {
        Ok((status, _)) => (status.as_u16(), ""),
        Err(error) => (error.status.as_u16(), &*error.text),
    };
    let who = principal.unwrap_or("unknown");
    let from = peer.map(tracing::field::display);
    let entity = call.target.display();
    tracing::info!(target: "peeklock::audit", who, from, operation, entity, status, detail);
}
