//! Audit log: one line for each administrative change, made or refused.

use peeklock_wire::loggable;

use axum::http::Method;

use crate::answer::{self, Outcome};
use crate::call::Call;

/// Logs an attempt to change entities, rules, many messages or connections. Reading and sending are not audited.
pub(crate) fn note(call: &Call, outcome: &Outcome) {
    let operation = match (&call.method, call.route.as_str()) {
        (&Method::POST, "entities") => "create",
        (&Method::PATCH, "entity") | (&Method::PUT, "rule") => "update",
        (&Method::DELETE, "entity" | "rule") => "delete",
        (&Method::DELETE, "connection") => "close-connection",
        (&Method::POST, "clock") => "advance-clock",
        (&Method::POST, "messages/act") => call.operation.get().copied().unwrap_or("act-on-messages"),
        _ => return,
    };
    let path = call.concerned.get().map(String::as_str).or_else(|| call.text("path")).unwrap_or_default();
    let rule = call.text("name").filter(|_| call.route == "rule");
    let entity = rule.map_or_else(|| path.to_owned(), |rule| format!("{path}/Rules/{rule}"));
    let principal = call.principal.get();
    let status = answer::status(outcome).as_u16();
    let text = match outcome {
        Ok(_) => "ok",
        Err(error) => &*error.text,
    };
    let (principal, text) = (principal.map(|principal| loggable(principal)), &*loggable(text));
    let peer = call.peer.map(tracing::field::display);
    let entity = &*loggable(&entity);
    tracing::info!(target: "peeklock::audit", protocol = "console", principal = principal.as_deref(), peer, operation, entity, status, outcome = text);
}
