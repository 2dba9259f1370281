//! HTTP: the management API of Service Bus (`atom`) and its messaging API (`rest`).

mod atom;
mod authorize;
mod error;
pub mod exercise;
mod limits;
mod path;
mod rest;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use peeklock_access::Access;
use peeklock_engine::Timestamp;
use peeklock_engine::runtime::{Clock, Namespace, SystemClock};

pub use limits::Limits;

/// What both need; cheap to clone.
#[derive(Clone)]
pub struct Admin {
    /// The entities.
    pub namespace: Namespace,
    /// Who may do what.
    pub access: Access,
    limits: rest::Limits,
    entity_limits: Limits,
    started_at: Timestamp,
}

impl Admin {
    /// The HTTP side of a broker; `limits` bounds what administrators may ask for.
    #[must_use]
    pub fn new(namespace: Namespace, access: Access, limits: Limits) -> Self {
        let started_at = SystemClock::new().now();
        Self { namespace, access, limits: rest::Limits::default(), entity_limits: limits, started_at }
    }

    /// Everything under `/`.
    pub fn router(self) -> Router {
        Router::new().fallback(answer).with_state(self)
    }
}

/// Names hold slashes, so no pattern of a router can tell the two interfaces apart: a path that ends in what is done with
/// messages is for `rest`, all others are entities.
async fn answer(State(admin): State<Admin>, request: Request) -> Response {
    match rest::Operation::read(request.method(), request.uri().path()) {
        Some(operation) => rest::answer(admin, operation, request).await,
        None => atom::answer(admin, request).await,
    }
}
