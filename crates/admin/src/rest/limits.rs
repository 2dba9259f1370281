//! What all requests together may hold.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::Error;

/// Receives that wait for a message, or whose message is being written.
const RECEIVES_MAX: usize = 4096;

/// Memory for bodies of requests, in KiB; further ones wait until there is room, unread.
const BODIES_KIB: u32 = 256 * 1024;

/// How long a peer may send nothing in the middle of a body.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Shared by all requests; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    receives: Arc<Semaphore>,
    bodies_kib: Arc<Semaphore>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            receives: Arc::new(Semaphore::new(RECEIVES_MAX)),
            bodies_kib: Arc::new(Semaphore::new(BODIES_KIB as usize)),
        }
    }
}

impl Limits {
    /// A place for a receive, until the permit is dropped.
    ///
    /// # Errors
    /// 503 when there is none.
    pub(super) fn receive(&self) -> Result<OwnedSemaphorePermit, Error> {
        let permit = Arc::clone(&self.receives).try_acquire_owned();
        permit.map_err(|_| Error::busy("Too many receives are waiting; retry in a while."))
    }

    /// Room for a body, until the permit is dropped.
    ///
    /// # Errors
    /// 500; the semaphore is never closed.
    pub(super) async fn body(&self, bytes: u64) -> Result<OwnedSemaphorePermit, Error> {
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX).min(BODIES_KIB);
        let permit = Arc::clone(&self.bodies_kib).acquire_many_owned(kib).await;
        permit.map_err(|_| Error::internal())
    }
}
