//! HTTP: the management API of Service Bus (`atom`) and its messaging API (`rest`).

mod admission;
mod atom;
mod authorize;
mod departure;
mod error;
pub mod exercise;
mod limits;
pub mod messages;
mod rest;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use peeklock_access::Access;
use peeklock_budget::throttle::Throttles;
use peeklock_engine::runtime::Namespace;
use peeklock_engine::{Tier, Timestamp};
use tokio::sync::Mutex;
use tokio::time::Instant;

pub use admission::Admission;
pub use atom::description;
pub use atom::{OptionText, RuleText, Typed, correlation_fields, options_of, typed, untyped};
pub use authorize::token_header;
pub use departure::Departure;
pub use error::Error;
pub use limits::Limits;

/// State shared by both APIs; cheap to clone.
#[derive(Clone)]
pub struct Admin {
    /// The entities.
    pub namespace: Namespace,
    /// Authorization.
    pub access: Access,
    /// The name of the namespace; if missing, it is taken from the client's `Host`.
    name: Option<Arc<str>>,
    limits: rest::Limits,
    throttles: Throttles,
    entity_limits: Limits,
    /// Held by an update from reading the options to replacing them, so that no other one is undone.
    updates: Arc<Mutex<()>>,
    started_at: Timestamp,
    /// The same by the monotonic clock.
    started: Instant,
}

impl Admin {
    /// The HTTP side of a broker; `limits` bounds the options that administrators may set.
    #[must_use]
    pub fn new(namespace: Namespace, access: Access, limits: Limits) -> Self {
        let started_at = access.now();
        let limits_of_requests = rest::Limits::new(namespace.budget().clone());
        Self {
            namespace,
            access,
            name: None,
            limits: limits_of_requests,
            throttles: Throttles::default(),
            entity_limits: limits,
            updates: Arc::default(),
            started_at,
            started: Instant::now(),
        }
    }

    /// Sets the name of the namespace.
    #[must_use]
    pub fn named(self, name: Option<&str>) -> Self {
        Self { name: name.map(Arc::from), ..self }
    }

    /// Adds limits on the rates of messages.
    #[must_use]
    pub fn throttled(self, throttles: Throttles) -> Self {
        Self { throttles, ..self }
    }

    /// The tier whose limits apply to entities.
    #[must_use]
    pub const fn tier(&self) -> Tier {
        self.entity_limits.tier
    }

    /// The name of the namespace, if the configuration sets one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// How long the front end has been running, regardless of corrections of the clock.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Everything under `/`.
    pub fn router(self) -> Router {
        Router::new().fallback(answer).with_state(self)
    }
}

/// Names contain slashes, so no pattern of a router can distinguish the two interfaces: a path that ends in an
/// operation on messages is for `rest`, all others are entities.
async fn answer(State(admin): State<Admin>, request: Request) -> Response {
    match rest::Operation::read(request.method(), request.uri().path()) {
        Some(operation) => rest::answer(admin, operation, request).await,
        None => atom::answer(admin, request).await,
    }
}
