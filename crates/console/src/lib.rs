//! The management API in JSON under `/$api/v1`, and the files of the console under `/console`.
//!
//! `call` parses a request and `routes` finds its handler: one file for each resource. Rights are checked by
//! [`peeklock_admin::Admin`], as for the Atom API, before any look-up. The work per request is bounded: lists are
//! paged, and a page of messages examines at most `messages::EXAMINED_MAX`.

mod answer;
mod assets;
mod audit;
mod call;
mod changes;
mod clock;
mod connections;
mod entities;
mod listing;
mod log;
mod messages;
mod options;
mod overview;
mod routes;
mod rules;
mod session;
#[cfg(test)]
mod tests;
mod time;
mod values;

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::any;
use peeklock_admin::Admin;
use peeklock_connections::Register;

pub use assets::router as assets;
pub use clock::ClockMover;
pub use log::{LogKind, LogLine, LogRing};

/// The prefix of the API.
const PREFIX: &str = "/$api/v1/";

/// The management API of a broker; cheap to clone.
#[derive(Clone)]
pub struct Console {
    admin: Admin,
    about: About,
    overview: Arc<Mutex<overview::Cache>>,
    clock: Option<ClockMover>,
    log: LogRing,
    connections: Register,
    disk: Option<Disk>,
}

/// Returns the store's current disk usage; `None` where it is unknown.
pub type Disk = Arc<dyn Fn() -> Option<DiskBytes> + Send + Sync>;

/// Disk usage of the store, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskBytes {
    /// Records that are still needed.
    pub live: u64,
    /// Records that are no longer needed, in sealed files.
    pub dead: u64,
    /// Allocated files.
    pub allocated: u64,
    /// Free space in the file system, if known.
    pub free: Option<u64>,
}

/// Information about the broker itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct About {
    /// Its version.
    pub version: &'static str,
}

impl Console {
    /// The API of the broker that `admin` administers.
    #[must_use]
    pub fn new(admin: Admin, about: About) -> Self {
        let (log, connections) = (LogRing::default(), Register::default());
        Self { admin, about, overview: Arc::default(), clock: None, log, connections, disk: None }
    }

    /// Adds a clock that can be moved.
    #[must_use]
    pub fn moving(self, clock: Option<ClockMover>) -> Self {
        Self { clock, ..self }
    }

    /// Adds the last lines of the log.
    #[must_use]
    pub fn logging(self, log: LogRing) -> Self {
        Self { log, ..self }
    }

    /// Adds the register of AMQP connections.
    #[must_use]
    pub fn watching(self, connections: Register) -> Self {
        Self { connections, ..self }
    }

    /// Adds the store's disk usage.
    #[must_use]
    pub fn stored_on(self, disk: Disk) -> Self {
        Self { disk: Some(disk), ..self }
    }

    /// Everything under `/$api/v1`.
    pub fn router(self) -> Router {
        Router::new().route("/$api/v1/{*path}", any(respond)).with_state(self)
    }
}

async fn respond(State(console): State<Console>, request: Request) -> Response {
    routes::answer(&console, request).await
}
