//! The failure scope of a shard host: records the first error that loses the shard, and ends the whole host.

use peeklock_storage::{Error, Lease};
use tokio::sync::watch;

/// Shared by all tasks of a host; cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::runtime) struct FailureScope {
    lease: Lease,
    failure: watch::Sender<Option<Error>>,
}

impl FailureScope {
    pub(super) fn of(lease: Lease) -> Self {
        Self { lease, failure: watch::Sender::new(None) }
    }

    /// Records that the shard is lost. Only the first reason is kept; the store's own reason, if it has one, takes
    /// precedence.
    pub(in crate::runtime) fn fail(&self, reason: Error) {
        let reason = self.lease.loss().unwrap_or(reason);
        self.failure.send_if_modified(|failure| {
            let is_first = failure.is_none();
            if is_first {
                *failure = Some(reason);
            }
            is_first
        });
    }

    /// The reason why the shard is lost, if it is.
    pub(super) fn failure(&self) -> Option<Error> {
        self.failure.borrow().clone()
    }

    /// Resolves with the reason when the shard is lost.
    pub(in crate::runtime) async fn failed(&self) -> Error {
        let mut receiver = self.failure.subscribe();
        let failure = receiver.wait_for(Option::is_some).await.ok().and_then(|failure| failure.clone());
        failure.unwrap_or_else(|| Error::Stopped { reason: "the namespace is gone".to_owned() })
    }

    /// Fails the scope when the lease is lost. Resolves with the reason for the loss, whichever it is.
    pub(in crate::runtime) async fn watch(&self) -> Error {
        tokio::select! {
            biased;
            failure = self.failed() => failure,
            reason = self.lease.lost() => {
                self.fail(reason);
                self.failed().await
            }
        }
    }

    /// Fails the scope if the task that holds the guard panics: a partition whose state is in doubt must not leave the rest
    /// of its host running.
    pub(in crate::runtime) fn guard(self) -> PanicGuard {
        PanicGuard(self)
    }
}

/// See [`FailureScope::guard`].
pub(in crate::runtime) struct PanicGuard(FailureScope);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(Error::Stopped { reason: "a task of the shard panicked".to_owned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use peeklock_storage::{MemoryStore, ShardId, Store};

    use super::*;

    async fn scope() -> FailureScope {
        FailureScope::of(MemoryStore::new().acquire(ShardId(0)).await.unwrap())
    }

    #[tokio::test]
    async fn a_panic_under_guard_fails_the_scope_and_the_first_reason_stays() {
        let scope = scope().await;
        let guard = scope.clone().guard();
        let task = tokio::spawn(async move {
            let _guard = guard;
            panic!("as a test wants");
        });
        assert!(task.await.is_err());
        scope.fail(Error::Full { reason: "too late".to_owned() });
        assert!(matches!(scope.failed().await, Error::Stopped { .. }));
        assert_eq!(scope.failure(), Some(scope.failed().await));
    }

    #[tokio::test]
    async fn a_task_that_ends_well_fails_nothing() {
        let scope = scope().await;
        drop(scope.clone().guard());
        assert_eq!(scope.failure(), None);
        scope.fail(Error::Full { reason: "the first".to_owned() });
        assert!(matches!(scope.failed().await, Error::Full { .. }));
    }
}
