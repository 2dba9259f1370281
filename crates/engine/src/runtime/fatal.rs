//! The signal that the broker can't go on.

use peeklock_storage::Error;
use tokio::sync::watch;

/// Raised once, by whoever meets the end first; awaited by the process.
#[derive(Debug, Clone)]
pub(super) struct Fatal(watch::Sender<Option<Error>>);

impl Fatal {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// Raises the signal; only the first error is kept.
    pub(super) fn raise(&self, error: Error) {
        self.0.send_if_modified(|raised| {
            let first = raised.is_none();
            if first {
                *raised = Some(error);
            }
            first
        });
    }

    /// Resolves when the signal is raised.
    pub(super) async fn raised(&self) -> Error {
        let mut receiver = self.0.subscribe();
        let raised = receiver.wait_for(Option::is_some).await.ok().and_then(|raised| raised.clone());
        raised.unwrap_or_else(|| Error::Unavailable { reason: "the namespace is gone".to_owned() })
    }

    /// Raises the signal if the task that holds the guard panics: a partition whose state is in doubt must not leave
    /// the rest of the broker running as if nothing had happened.
    pub(super) fn guard(self) -> PanicGuard {
        PanicGuard(self)
    }
}

/// See [`Fatal::guard`].
pub(super) struct PanicGuard(Fatal);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.raise(Error::Unavailable { reason: "a partition's actor panicked".to_owned() });
        }
    }
}
