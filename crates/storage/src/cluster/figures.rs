//! Storage figures of a shard for the metrics page.

use std::fmt;
use std::sync::Weak;

use peeklock_metrics::{Family, Page, Source, Unit};

use super::store::Inner;
use crate::ShardId;
use crate::metrics::{Figures, StorageBytes};

const KNOWN: Family = Family::gauge(
    "peeklock_cluster_known_record",
    Unit::None,
    "Number of the last record of the log that this node knows to be durable; a log without it is refused.",
);

/// The metrics of a shard, most of them while this process owns it. Does not keep the store open.
pub struct ClusterFigures {
    store: Weak<Inner>,
    shard: ShardId,
}

impl fmt::Debug for ClusterFigures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClusterFigures").field("shard", &self.shard).finish_non_exhaustive()
    }
}

impl ClusterFigures {
    pub(super) const fn new(store: Weak<Inner>, shard: ShardId) -> Self {
        Self { store, shard }
    }

    /// Bytes of the shard in the log: live bodies, dead bodies and the total; `None` while another process owns the
    /// shard.
    #[must_use]
    pub fn bytes(&self) -> Option<StorageBytes> {
        self.read().map(|figures| figures.bytes())
    }

    fn read(&self) -> Option<Figures> {
        let shard = self.store.upgrade()?.leased(self.shard)?;
        let shared = &shard.shared;
        let (live_bytes, bodies_bytes) = {
            let state = shared.state();
            (state.rows.live_bytes(), state.rows.total_bytes())
        };
        Some(Figures {
            live_bytes,
            dead_bytes: bodies_bytes.saturating_sub(live_bytes),
            allocated_bytes: shared.stored_bytes(),
            refuses_growth: shared.is_full(),
            ..Figures::default()
        })
    }
}

impl Source for ClusterFigures {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        if let Some(known) = self.store.upgrade().and_then(|store| store.known(self.shard)) {
            page.one(&KNOWN, known.place.0)?;
        }
        self.read().map_or(Ok(()), |figures| figures.write_bytes(page))
    }
}
