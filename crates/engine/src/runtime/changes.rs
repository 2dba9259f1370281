//! Notifies tasks whose state depends on entity options: authorization of open links, forwarders.

use std::sync::Arc;

use tokio::sync::watch;

/// Counts changes of entities and subscriptions; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct ChangeCounter(Arc<watch::Sender<u64>>);

impl ChangeCounter {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    /// Records a change.
    pub(super) fn notify(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}
