//! Observation of the ends of logs by a node that stands by, so that it refuses a database that has lost them.
//!
//! A record that the primary shows may be on no other machine yet: a server that was started again shows records whose
//! commits still waited for a standby. So the node looks, and then renews its entry in the table of nodes in the same
//! session. When that commit is confirmed by a standby, so is every record seen before, because its commit precedes in
//! the write-ahead log.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use peeklock_storage::cluster::{RecordId, RecordPlace};
use peeklock_storage::{Epoch, ShardId};
use tokio::time::Instant;
use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};

use crate::failure::Failure;
use crate::session::Session;

/// Pause after a refused look. The reason lasts: a missing privilege, a table that is locked.
const PAUSE: Duration = Duration::from_secs(10);

/// Called with the last record of a shard that is known to be durable.
type Note = Box<dyn Fn(ShardId, RecordId) + Send + Sync>;

/// See the module.
pub(crate) struct Observer {
    note: Note,
    looks_at: Mutex<Option<Instant>>,
}

impl fmt::Debug for Observer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Observer").finish_non_exhaustive()
    }
}

/// A table that is locked must not delay the renewal of leases in the same session.
fn query(shards: u32) -> String {
    format!(
        "select set_config('lock_timeout', '200', true);
select s.shard, l.place, l.epoch from generate_series(0, {shards} - 1) as s (shard) cross join lateral
  (select place, epoch from log where log.shard = s.shard order by place desc limit 1) as l"
    )
}

impl Observer {
    pub(crate) fn new(note: impl Fn(ShardId, RecordId) + Send + Sync + 'static) -> Self {
        Self { note: Box::new(note), looks_at: Mutex::default() }
    }

    /// The last records that the server shows; empty if it refuses.
    pub(crate) async fn look(&self, session: &Session, shards: u32) -> Vec<(ShardId, RecordId)> {
        let is_pause = |at: Instant| Instant::now() < at;
        if self.looks_at.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(is_pause) {
            return Vec::new();
        }
        match session.ask(session.client().simple_query(&query(shards))).await {
            Ok(answer) => answer.iter().filter_map(row).filter_map(record).collect(),
            Err(Failure::Lost { .. } | Failure::Unfit { .. }) => Vec::new(),
            Err(failure) => {
                tracing::debug!(%failure, "the end of the log can't be observed");
                *self.looks_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + PAUSE);
                Vec::new()
            }
        }
    }

    /// Reports what [`Self::look`] has seen. A later commit of the same session must have been confirmed.
    pub(crate) fn note(&self, seen: Vec<(ShardId, RecordId)>) {
        for (shard, last) in seen {
            (self.note)(shard, last);
        }
    }
}

fn row(message: &SimpleQueryMessage) -> Option<&SimpleQueryRow> {
    match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    }
}

/// `None` for the row of the setting.
fn record(row: &SimpleQueryRow) -> Option<(ShardId, RecordId)> {
    let place = RecordPlace(row.try_get(1).ok()??.parse().ok()?);
    let epoch = Epoch(row.try_get(2).ok()??.parse().ok()?);
    Some((ShardId(row.try_get(0).ok()??.parse().ok()?), RecordId { place, epoch }))
}
