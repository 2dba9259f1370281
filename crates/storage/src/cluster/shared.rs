//! State shared by the tasks of one leased shard.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use tokio::sync::{Notify, watch};

use super::cache::Cache;
use super::log::{RecordId, RecordPlace, ReplicatedLog};
use super::options::ClusterOptions;
use super::outage::Outages;
use super::port::Environment;
use super::record::Commit;
use super::replay::Loaded;
use super::rows::Row;
use super::state::State;
use crate::{Epoch, Error, Place, Pressure, ShardId};

/// A full shard has room again when this fraction (1/16) of its limit is free.
const ROOM_PART: u64 = 16;

/// The last record known to a store as acknowledged, over all leases of a shard.
pub(super) type Known = Arc<Mutex<RecordId>>;

/// Size of the log: bytes of heads since the take-over and since the last checkpoint, and dead bodies.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Heads of all records read and appended.
    pub(super) appended_bytes: u64,
    /// Of these, heads that were trimmed.
    pub(super) trimmed_bytes: u64,
    /// Heads before the last checkpoint began.
    pub(super) checkpoint_at_bytes: u64,
    /// Place of its first record.
    pub(super) checkpoint_at: RecordPlace,
    /// Bytes of the heads of its parts.
    pub(super) checkpoint_bytes: u64,
    /// Records from its first part to its mark.
    pub(super) checkpoint_records: u64,
    /// The last record applied.
    pub(super) applied: RecordPlace,
    /// Bodies without live values, to be dropped.
    pub(super) dead: Vec<Row>,
    pub(super) dead_bytes: u64,
}

/// See the module. Lock order: state before cache and account; none of them is held across an await.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) shard: ShardId,
    pub(super) log: Arc<dyn ReplicatedLog>,
    pub(super) options: ClusterOptions,
    pub(super) environment: Arc<dyn Environment>,
    state: Mutex<State>,
    cache: Mutex<Cache>,
    account: Mutex<Account>,
    known: Known,
    /// The epoch in which the log is owned; it increases when the owner seizes the log again.
    epoch: AtomicU64,
    /// The engine had no room for the last record that grows the log.
    is_refused: AtomicBool,
    pub(super) outages: Outages,
    pub(super) pressure: watch::Sender<Pressure>,
    /// The cause of the lease's loss, once it is lost.
    pub(super) loss: watch::Sender<Option<Error>>,
    dead: OnceLock<Error>,
    pub(super) keeper_bell: Notify,
}

impl std::fmt::Debug for dyn ReplicatedLog {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ReplicatedLog")
    }
}

impl Shared {
    pub(super) fn new(
        shard: ShardId,
        log: Arc<dyn ReplicatedLog>,
        options: ClusterOptions,
        environment: Arc<dyn Environment>,
        known: Known,
        loaded: Loaded,
    ) -> Self {
        let Loaded { owner, state, account } = loaded;
        let cache = Cache::new(options.cache_bytes);
        let shared = Self {
            shard,
            log,
            options,
            environment,
            state: Mutex::new(state),
            cache: Mutex::new(cache),
            account: Mutex::new(account),
            known,
            epoch: AtomicU64::new(owner.epoch.0),
            is_refused: AtomicBool::new(false),
            outages: Outages::default(),
            pressure: watch::Sender::new(Pressure::Normal),
            loss: watch::Sender::new(None),
            dead: OnceLock::new(),
            keeper_bell: Notify::new(),
        };
        shared.acknowledge(owner);
        shared.announce();
        shared
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last record known to be acknowledged.
    pub(super) fn acknowledged(&self) -> RecordId {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an acknowledged record.
    pub(super) fn acknowledge(&self, id: RecordId) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = (*known).max(id);
    }

    /// The epoch in which the log is owned.
    pub(super) fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::Acquire))
    }

    /// Records that the log was seized again.
    pub(super) fn seized(&self, owner: RecordId) {
        self.epoch.store(owner.epoch.0, Ordering::Release);
        self.acknowledge(owner);
    }

    /// Applies a durable record to the state.
    pub(super) fn apply(&self, place: RecordPlace, commit: &Commit, bodies: &Bytes, heads_bytes: u64) {
        let is_tight = {
            let mut state = self.state();
            let mut cache = self.cache();
            if !bodies.is_empty() {
                cache.insert(place, bodies.clone());
            }
            state.apply(place, commit);
            let dead = state.rows.sweep();
            dead.iter().for_each(|row| cache.remove(row.place));
            let mut account = self.account();
            account.applied = place;
            account.appended_bytes += heads_bytes;
            account.dead_bytes += dead.iter().map(|row| row.total_bytes).sum::<u64>();
            account.dead.extend(dead);
            let room = self.options.size_bytes_max.unwrap_or(u64::MAX) / ROOM_PART;
            account.dead_bytes > room
        };
        self.announce();
        if is_tight && self.is_full() {
            self.keeper_bell.notify_one();
        }
    }

    /// Bytes of the shard in the log.
    pub(super) fn stored_bytes(&self) -> u64 {
        let bodies = self.state().rows.total_bytes();
        let account = self.account();
        bodies + account.dead_bytes + account.appended_bytes - account.trimmed_bytes
    }

    pub(super) fn is_full(&self) -> bool {
        *self.pressure.borrow() == Pressure::Full
    }

    /// Sets whether the engine last refused a record for lack of room.
    pub(super) fn set_refused(&self, is_refused: bool) {
        self.is_refused.store(is_refused, Ordering::Release);
        self.announce();
    }

    pub(super) fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Acquire)
    }

    /// Releases the reserve after the engine had no room for a record, so that an owner record and removals can be
    /// appended.
    pub(super) async fn make_room(&self, cause: &Error) {
        if matches!(cause, Error::Full { .. })
            && let Err(error) = self.log.release_reserve().await
        {
            tracing::info!(shard = self.shard.0, %error, "the reserve of the log can't be released yet");
        }
    }

    /// Announces whether there is room, and whether the log can be written, if that has changed.
    pub(super) fn announce(&self) {
        let is_beyond = self.options.size_bytes_max.is_some_and(|most| {
            let bound = if self.is_full() { most - most / ROOM_PART } else { most };
            self.stored_bytes() >= bound
        });
        let pressure = match () {
            () if is_beyond || self.is_refused() => Pressure::Full,
            () if self.outages.is_long() => Pressure::Failing,
            () => Pressure::Normal,
        };
        let is_news =
            self.pressure.send_if_modified(|current| std::mem::replace(current, pressure) != pressure);
        if is_news {
            tracing::warn!(?pressure, shard = self.shard.0, "room in the replicated log");
        }
    }

    /// The cause of the lease's loss, if it is lost, in the form in which requests are answered.
    pub(super) fn cause(&self) -> Option<Error> {
        self.dead.get().map(|cause| cause.clone().after_loss())
    }

    /// Marks the lease as lost: nothing is accepted any more. Only the first cause is kept.
    pub(super) fn fail_handle(&self, cause: Error) {
        let cause = self.dead.get_or_init(|| cause).clone();
        let is_news =
            self.loss.send_if_modified(|loss| loss.is_none() && loss.replace(cause.clone()).is_none());
        if is_news && !matches!(cause, Error::Fenced { .. } | Error::Stopped { .. }) {
            tracing::error!(error = %cause, shard = self.shard.0, "the shard stops");
        }
        self.keeper_bell.notify_one();
    }

    /// The error for a damaged record.
    pub(super) fn corrupt(&self, place: RecordPlace, offset: u32, reason: &str) -> Error {
        corrupt(self.shard, place, offset, reason)
    }
}

/// The error for a damaged record.
pub(super) fn corrupt(shard: ShardId, place: RecordPlace, offset: u32, reason: &str) -> Error {
    let unit = format!("record {} of shard {}", place.0, shard.0);
    Error::Corrupt { place: Place { unit, offset: offset.into() }, reason: reason.to_owned() }
}

/// The error for a log that ends before an acknowledged record, or holds another one there.
pub(super) fn lost_tail(shard: ShardId, known: RecordId, found: RecordId) -> Error {
    let reason = format!(
        "record {} in epoch {} was acknowledged, and the log has lost it: it ends at record {} in epoch {}. The database behind it \
         was replaced by an older state (an asynchronous fail-over, a restored backup)",
        known.place.0, known.epoch.0, found.place.0, found.epoch.0
    );
    corrupt(shard, known.place, 0, &reason)
}

/// The error of a handle whose shard was acquired again.
pub(super) fn fenced(reason: &str) -> Error {
    Error::Fenced { reason: reason.to_owned() }
}
