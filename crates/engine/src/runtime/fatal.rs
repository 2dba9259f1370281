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
        raised.unwrap_or_else(|| Error::Stopped { reason: "the namespace is gone".to_owned() })
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
            self.0.raise(Error::Stopped { reason: "a partition's actor panicked".to_owned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_under_guard_is_fatal_and_the_first_error_stays() {
        let fatal = Fatal::new();
        let guard = fatal.clone().guard();
        let task = tokio::spawn(async move {
            let _guard = guard;
            panic!("as a test wants");
        });
        assert!(task.await.is_err());
        fatal.raise(Error::Full { reason: "too late".to_owned() });
        assert!(matches!(fatal.raised().await, Error::Stopped { .. }));
    }

    #[tokio::test]
    async fn a_task_that_ends_well_is_not_fatal() {
        let fatal = Fatal::new();
        drop(fatal.clone().guard());
        fatal.raise(Error::Full { reason: "the first".to_owned() });
        assert!(matches!(fatal.raised().await, Error::Full { .. }));
    }
}
