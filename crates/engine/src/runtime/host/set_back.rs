//! Follows corrections that set time back: the store and the state in memory contain timestamps that are now in the future.

use std::sync::Arc;

use peeklock_storage::Batch;

use crate::Timestamp;
use crate::layout::{CATALOGUE, set_back_key};
use crate::partition::Credible;
use crate::runtime::directory::Directory;
use crate::runtime::entity::Spawner;
use crate::runtime::retry_backoff::RetryBackoff;
use crate::runtime::{Clock, SetBack};
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
    let (mut followed, mut unstored) = (0, None);
    loop {
        let next = clock.next_set_back();
        let set_backs = clock.reading().1;
        if set_backs.count == followed {
            tokio::select! {
                _ = next => {}
                () = pause(&*clock, &mut unstored) => unstored = store(&spawner, known, unstored).await,
            }
            continue;
        }
        followed = set_backs.count;
        known = known.and_then(set_backs.last);
        unstored = store(&spawner, known, None).await;
        for entity in directory.all() {
            entity.check_set_back();
        }
    }
}

/// Waits before a refused correction is submitted again; for ever if there is none.
async fn pause(clock: &dyn Clock, unstored: &mut Option<RetryBackoff>) {
    match unstored {
        Some(backoff) => clock.sleep_until(clock.now().plus_ms(backoff.next_pause_ms())).await,
        None => std::future::pending().await,
    }
}

/// Stores the correction; returns the pauses so far if the store refuses it for now.
async fn store(spawner: &Spawner, known: SetBack, earlier: Option<RetryBackoff>) -> Option<RetryBackoff> {
    let mut batch = Batch::new();
    batch.put(set_back_key(), write_set_back(known));
    let Err(error) = spawner.shared.shard.submit(batch).await else { return None };
    spawner.shared.shard.resume(CATALOGUE);
    if error.is_loss() {
        // The host logs the loss and ends this task.
        return None;
    }
    if earlier.is_none() {
        tracing::error!(%error, "the correction of the clock could not be stored yet; until then, a start repeats it");
    }
    Some(earlier.unwrap_or_default())
}
