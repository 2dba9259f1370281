//! Audit log: one line for each administrative change, made or refused.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Request};
use axum::http::Method;

use peeklock_wire::loggable;

use super::Answer;
use super::call::Call;
use crate::error::Error;

/// The address of the client, if the server provides it.
pub(super) fn peer(request: &Request) -> Option<SocketAddr> {
    request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0)
}

/// Writes an attempt to change something to the audit log; reads are not audited.
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
    let (status, outcome) = match outcome {
        Ok((status, _)) => (status.as_u16(), "ok"),
        Err(error) => (error.status.as_u16(), &*error.text),
    };
    let (principal, outcome) = (principal.map(loggable), &*loggable(outcome));
    let peer = peer.map(tracing::field::display);
    let entity = call.target.display();
    let entity = &*loggable(&entity);
    tracing::info!(target: "peeklock::audit", protocol = "http", principal = principal.as_deref(), peer, operation, entity, status, outcome);
}
