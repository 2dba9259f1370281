//! Whether the broker accepts connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Shared by whoever changes it and whoever reports it; starts as not ready.
#[derive(Debug, Clone, Default)]
pub(super) struct Health(Arc<AtomicBool>);

impl Health {
    /// Connections are accepted from now on, or not any more.
    pub(super) fn set_ready(&self, ready: bool) {
        self.0.store(ready, Ordering::Release);
    }

    /// Whether connections are accepted.
    pub(super) fn is_ready(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
