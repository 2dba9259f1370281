//! The management API in JSON under `/$api/v1`, and the files of the console under `/console`.
//!
//! `call` takes a request apart and `routes` finds its handler: one file for each resource. Rights are checked by
//! [`peeklock_admin::Admin`], as for the Atom API, before anything is looked up. Each request does a bounded amount of work: lists
//! are pages, and a page of messages examines at most `messages::EXAMINED_MAX`.

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

/// Where the API is.
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

/// Tells what the store has on the disk now; `None` where it can't be told.
pub type Disk = Arc<dyn Fn() -> Option<DiskBytes> + Send + Sync>;

/// Bytes of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskBytes {
    /// Of records that are still needed.
    pub live: u64,
    /// Of records that are not, in files that are full.
    pub dead: u64,
    /// Of files.
    pub allocated: u64,
    /// Free in the file system, if that can be told.
    pub free: Option<u64>,
}

/// What the API says about the broker itself.
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

    /// The same with a clock that can be moved.
    #[must_use]
    pub fn moving(self, clock: Option<ClockMover>) -> Self {
        Self { clock, ..self }
    }

    /// The same with the last lines of the log.
    #[must_use]
    pub fn logging(self, log: LogRing) -> Self {
        Self { log, ..self }
    }

    /// The same with the connections that a front end enters.
    #[must_use]
    pub fn watching(self, connections: Register) -> Self {
        Self { connections, ..self }
    }

    /// The same with what the store has on the disk.
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
