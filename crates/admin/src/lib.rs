//! HTTP: the management API of Service Bus (`atom`) and its messaging API (`rest`).

mod atom;
mod limits;
mod rest;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use peeklock_access::Access;
use peeklock_engine::Timestamp;
use peeklock_engine::runtime::{Clock, Namespace, SystemClock};

pub use limits::Limits;

/// What both need.
#[derive(Clone)]
pub struct Admin {
    /// The entities.
    pub namespace: Namespace,
    /// Who may do what.
    pub access: Access,
    limits: Limits,
    /// The machine's: tokens are dated by their makers' clocks, however far entities have travelled.
    clock: Arc<dyn Clock>,
    started_at: Timestamp,
}

impl Admin {
    /// Of these entities; `limits` bounds what administrators may ask for.
    #[must_use]
    pub fn new(namespace: Namespace, access: Access, limits: Limits) -> Self {
        let clock = SystemClock::default();
        let started_at = clock.now();
        Self { namespace, access, limits, clock: Arc::new(clock), started_at }
    }

    /// Everything under `/`.
    pub fn router(self) -> Router {
        Router::new().fallback(answer).with_state(self)
    }
}

async fn answer(State(admin): State<Admin>, request: Request) -> Response {
    atom::answer(admin, request).await
}
