//! HTTP: the management API of Service Bus (`atom`) and its messaging API (`rest`).

mod atom;
mod rest;

use axum::Router;
use peeklock_access::Access;
use peeklock_engine::runtime::Namespace;

/// What both need.
#[derive(Clone)]
pub struct Admin {
    /// The entities.
    pub namespace: Namespace,
    /// Who may do what.
    pub access: Access,
}

impl Admin {
    /// Everything under `/`.
    pub fn router(self) -> Router {
        let Self { namespace, access } = &self;
        let _ = (namespace, access);
        Router::new().merge(rest::router()).merge(atom::router()).with_state(self)
    }
}
