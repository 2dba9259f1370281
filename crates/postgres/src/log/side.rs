//! A session beside the one that appends: made when it is needed, and checked against what was acknowledged.

use std::sync::{Arc, Mutex};

use peeklock_storage::Error;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use super::read::holds;
use super::{Inner, lock};
use crate::Database;
use crate::failure::Failure;
use crate::session::Session;

/// What a session is made for: its statements.
pub(super) trait Purpose: Sized + Send + Sync {
    async fn prepare(session: Session) -> Result<Self, Failure>;

    fn session(&self) -> &Session;
}

/// See the module.
pub(super) struct Side<P> {
    database: Database,
    purpose: String,
    present: Mutex<Option<Arc<P>>>,
    /// Held while connecting, so that one connection is made for all who wait.
    connecting: AsyncMutex<Attempts>,
}

/// What came of connecting so far.
#[derive(Default)]
struct Attempts {
    failed: Option<(Instant, Error)>,
}

impl<P: Purpose> Side<P> {
    pub(super) fn new(database: Database, purpose: String) -> Self {
        Self { database, purpose, present: Mutex::default(), connecting: AsyncMutex::default() }
    }

    /// The next call connects anew.
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
        // An attempt that failed while this call waited is its answer as well: many calls don't wait for one attempt each.
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

    /// A server that was left behind by a fail-over, or lost its end, lacks what was acknowledged last.
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
