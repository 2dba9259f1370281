//! The period in which a node may deliver messages of a shard.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// The node's elapsed time since an arbitrary start. It never goes back and continues while the machine sleeps, like
/// Linux's boot clock.
#[derive(Clone)]
pub struct Elapsed(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Elapsed {
    /// A clock that calls `read`.
    pub fn new(read: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// The elapsed time.
    #[must_use]
    pub fn now(&self) -> Duration {
        (self.0)()
    }
}

impl fmt::Debug for Elapsed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Elapsed").field(&self.now()).finish()
    }
}

/// The right to deliver messages of a shard, as far as a lease grants it. Cheap to clone and to check.
#[derive(Debug, Clone)]
pub struct Tenure {
    elapsed: Elapsed,
    /// The end of the period; zero without a lease.
    until: watch::Receiver<Duration>,
}

impl Tenure {
    pub(crate) const fn new(elapsed: Elapsed, until: watch::Receiver<Duration>) -> Self {
        Self { elapsed, until }
    }

    /// Whether messages may be delivered now. False may become true again: a lease that was not renewed for a while is
    /// not lost until another node takes it.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.elapsed.now() < *self.until.borrow()
    }

    /// Resolves when messages may be delivered; never, if the lease is lost.
    pub async fn returns(&self) {
        let mut until = self.until.clone();
        if until.wait_for(|until| self.elapsed.now() < *until).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
