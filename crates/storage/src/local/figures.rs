//! Storage figures of an open store for the metrics page.

use std::fmt;
use std::sync::{PoisonError, Weak};

use peeklock_metrics::{Page, Source};

use super::shared::Shared;
use super::store::LockedDirectory;
use crate::metrics::{Figures, StorageBytes, StorageMetrics};

/// The metrics of a store. Does not keep the store open.
#[derive(Debug)]
pub struct StorageFigures {
    pub(super) metrics: StorageMetrics,
    pub(super) store: Weak<LockedDirectory>,
}

impl StorageFigures {
    /// Bytes on disk; `None` while the store is not open.
    #[must_use]
    pub fn bytes(&self) -> Option<StorageBytes> {
        self.read().map(|figures| figures.bytes())
    }

    fn read(&self) -> Option<Figures> {
        let store = self.store.upgrade()?;
        let current = store.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        current.map(|shard| figures(&shard.shared))
    }
}

impl Source for StorageFigures {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        self.metrics.write(page)?;
        self.read().map_or(Ok(()), |figures| figures.write(page))
    }
}

fn figures(shared: &Shared) -> Figures {
    let free_bytes = shared.directory.filesystem.free_bytes(&shared.directory.path).ok();
    let state = shared.state();
    let segments = || state.segments.in_order();
    let live_bytes = segments().map(|segment| segment.live_bytes).sum();
    let dead = |(end, live): (u64, u64)| end.saturating_sub(live);
    Figures {
        segments: segments().count(),
        live_bytes,
        dead_bytes: segments().filter_map(|one| Some(dead((one.sealed_end?, one.live_bytes)))).sum(),
        allocated_bytes: state.segments.capacity_bytes(),
        free_bytes,
        refuses_growth: shared.is_short(),
    }
}
