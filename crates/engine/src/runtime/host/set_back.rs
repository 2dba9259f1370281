//! Follows corrections that set time back: the store and the state in memory contain timestamps that are now in the future.

use std::sync::Arc;

use peeklock_storage::Batch;

use crate::Timestamp;
use crate::layout::{CATALOGUE, set_back_key};
use crate::partition::Credible;
use crate::runtime::SetBack;
use crate::runtime::directory::Directory;
use crate::runtime::entity::Spawner;
use crate::stored::write_set_back;

impl SetBack {
    /// Which timestamps in the store are credible when it is opened at `now`.
    pub(in crate::runtime) fn credible(self, now: Timestamp) -> Credible {
        Credible { after: now.max(self.to), until: self.from, counts_as: self.to }
    }

    /// Combines this correction with a later one.
    fn and_then(self, later: Self) -> Self {
        Self { from: self.from.max(later.from), to: later.to }
    }
}

/// Stores each correction, so that the next start knows which timestamps were never valid, and makes every entity read its
/// state back. Never ends.
pub(super) async fn follow_set_backs(spawner: Arc<Spawner>, directory: Arc<Directory>, mut known: SetBack) {
    let clock = Arc::clone(&spawner.shared.clock);
    let mut followed = 0;
    loop {
        let next = clock.next_set_back();
        let set_backs = match clock.reading().1 {
            set_backs if set_backs.count > followed => set_backs,
            _ => next.await,
        };
        followed = set_backs.count;
        known = known.and_then(set_backs.last);
        let mut batch = Batch::new();
        batch.put(set_back_key(), write_set_back(known));
        if let Err(error) = spawner.shared.shard.submit(batch).await {
            spawner.shared.shard.resume(CATALOGUE);
            tracing::error!(%error, "the correction of the clock could not be stored; the next start repeats it");
        }
        for entity in directory.all() {
            entity.check_set_back();
        }
    }
}
