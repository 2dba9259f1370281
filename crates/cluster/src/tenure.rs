//! Whether a node may hand out anything now.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// The node's elapsed time, from an instant of its own. It never goes back and goes on while the machine sleeps, as Linux'
/// boot clock does.
#[derive(Clone)]
pub struct Elapsed(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Elapsed {
    /// Reads the time by `read`.
    pub fn new(read: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// What time it is.
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

/// The right to hand out what a shard holds, as far as a lease gives it. Cheap to clone and to ask.
#[derive(Debug, Clone)]
pub struct Tenure {
    elapsed: Elapsed,
    /// Up to when; zero when there is no lease.
    until: watch::Receiver<Duration>,
}

impl Tenure {
    pub(crate) const fn new(elapsed: Elapsed, until: watch::Receiver<Duration>) -> Self {
        Self { elapsed, until }
    }

    /// Whether anything may be handed out now. False may become true again: a lease that was not renewed for a while is not
    /// lost before another node takes it.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.elapsed.now() < *self.until.borrow()
    }

    /// Resolves when anything may be handed out; never, if the lease is lost.
    pub async fn returns(&self) {
        let mut until = self.until.clone();
        if until.wait_for(|until| self.elapsed.now() < *until).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
