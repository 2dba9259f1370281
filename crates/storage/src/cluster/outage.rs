//! Outages of the log: for a while commits only wait; a long outage is announced, so that sends are refused instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt;

use super::shared::Shared;

/// Counts beginnings and ends, so the count is odd during an outage.
#[derive(Debug, Default)]
pub(super) struct Outages {
    count: AtomicU64,
    /// The count of the latest outage that has lasted long.
    long: AtomicU64,
}

impl Outages {
    /// Counts a beginning, and returns the count; `None` if an outage is under way already.
    fn begin(&self) -> Option<u64> {
        let step = |count: u64| count.is_multiple_of(2).then_some(count + 1);
        self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, step).ok().map(|before| before + 1)
    }

    /// Counts an end, and returns whether there was an outage.
    fn end(&self) -> bool {
        let step = |count: u64| (!count.is_multiple_of(2)).then_some(count + 1);
        self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, step).is_ok()
    }

    /// Whether the outage under way has lasted long.
    pub(super) fn is_long(&self) -> bool {
        let count = self.count.load(Ordering::Acquire);
        !count.is_multiple_of(2) && self.long.load(Ordering::Acquire) == count
    }
}

impl Shared {
    /// Notes that the log can't be written; [`super::ClusterOptions::failing_after`] later that is announced, unless it
    /// has ended.
    pub(super) fn begin_outage(self: &Arc<Self>) {
        let Some(outage) = self.outages.begin() else { return };
        let (shared, pause) = (Arc::downgrade(self), self.environment.pause(self.options.failing_after));
        let announce = async move {
            pause.await;
            if let Some(shared) = shared.upgrade() {
                shared.outages.long.store(outage, Ordering::Release);
                shared.announce();
            }
        };
        self.environment.spawn(announce.boxed());
    }

    /// Notes that the log was written, or that nothing waits for that any more: otherwise sends would be refused until
    /// something else is written.
    pub(super) fn end_outage(&self) {
        if self.outages.end() {
            self.announce();
        }
    }
}
