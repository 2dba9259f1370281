//! A session in addition to the appending one: created on demand, and checked for the last acknowledged record.

use std::sync::{Arc, Mutex};

use peeklock_storage::Error;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use super::read::holds;
use super::{Inner, lock};
use crate::Database;
use crate::failure::Failure;
use crate::session::Session;

/// The purpose of a session, with its prepared statements.
pub(super) trait Purpose: Sized + Send + Sync {
    async fn prepare(session: Session) -> Result<Self, Failure>;

    fn session(&self) -> &Session;
}

/// The session; see the module.
pub(super) struct AuxiliarySession<P> {
    database: Database,
    purpose: String,
    present: Mutex<Option<Arc<P>>>,
    /// Held while connecting, so that all waiting calls share one connection.
    connecting: AsyncMutex<Attempts>,
}

/// The last failed attempt to connect.
#[derive(Default)]
struct Attempts {
    failed: Option<(Instant, Error)>,
}

impl<P: Purpose> AuxiliarySession<P> {
    pub(super) fn new(database: Database, purpose: String) -> Self {
        Self { database, purpose, present: Mutex::default(), connecting: AsyncMutex::default() }
    }

    /// Closes the session; the next call connects again.
    pub(super) fn close(&self) {
        lock(&self.present).take();
    }

    fn present(&self) -> Option<Arc<P>> {
        lock(&self.present).clone().filter(|present| !present.session().is_closed())
    }

    pub(super) async fn get(&self, log: &Inner) -> Result<Arc<P>, Error> {
        if let Some(present) = self.present() {
            return Ok(present);
        }
        let asked = Instant::now();
        let mut attempts = self.connecting.lock().await;
        if let Some(present) = self.present() {
            return Ok(present);
        }
        // A failed attempt during this call's wait is its answer too, so that waiting calls don't make one attempt
        // each.
        if let Some((_, error)) = attempts.failed.as_ref().filter(|(at, _)| *at >= asked) {
            return Err(error.clone());
        }
        match self.connect(log).await.map_err(Failure::of_reading) {
            Ok(made) => {
                let made = Arc::new(made);
                *lock(&self.present) = Some(Arc::clone(&made));
                Ok(made)
            }
            Err(error) => {
                attempts.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// Connects and checks for the last acknowledged record, which a server lacks that was left behind by a fail-over
    /// or lost its end.
    async fn connect(&self, log: &Inner) -> Result<P, Failure> {
        let session = self.database.connect(&self.purpose).await?;
        let acknowledged = *lock(&log.acknowledged);
        if acknowledged.place.0 > 0 && !holds(log.shard, &session, acknowledged).await? {
            let (server, place) = (session.server(), acknowledged.place.0);
            let reason = format!("{server} does not hold record {place}, which was acknowledged");
            return Err(Failure::Unfit { reason });
        }
        P::prepare(session).await
    }
}
