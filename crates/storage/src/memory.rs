//! A store in memory with the same semantics as the durable ones, for tests and temporary brokers.
//!
//! Commits resolve at once, or one by one under a test's control ([`MemoryStore::hold`], [`MemoryStore::release_one`]),
//! and can be made to fail ([`MemoryStore::fail_next`]). Held batches are not durable: [`MemoryStore::crash`] loses
//! them, like a power cut.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::watch;

use crate::waiting::behind;
use crate::{
    Acquiring, Batch, Commit, CommitNotifier, Entry, Epoch, Error, Key, Lease, Limits, Operation, Page,
    PartitionId, Partitions, Pressure, Read, Scan, Shard, ShardId, Space, Store, commit, partitions, read,
    scan,
};

/// Default maximum of entries in one scan page, see [`MemoryStore::set_page_entries_max`].
const PAGE_ENTRIES_MAX: usize = 1024;

/// Default limits of every shard, see [`MemoryStore::set_limits`].
const LIMITS: Limits = Limits { value_bytes_max: 128 << 20, batch_bytes_max: 256 << 20 };

/// A [`Store`] whose shards exist as long as a clone of the store does.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    shards: Arc<Mutex<BTreeMap<ShardId, Arc<Mutex<State>>>>>,
}

/// One acquired shard of a [`MemoryStore`].
#[derive(Debug)]
struct MemoryShard {
    state: Arc<Mutex<State>>,
    epoch: Epoch,
}

/// A shard's contents and settings of the test.
#[derive(Debug)]
struct State {
    values: BTreeMap<Key, Bytes>,
    /// The epoch of the current owner; handles of earlier epochs are fenced.
    epoch: Epoch,
    /// The reason why the current owner has lost the shard, if it has.
    loss: watch::Sender<Option<Error>>,
    holding: bool,
    held: VecDeque<(Batch, CommitNotifier)>,
    failures: VecDeque<Error>,
    /// Partitions that had a batch refused and have not resumed, with the error for later batches.
    halted: BTreeMap<PartitionId, Error>,
    page_entries_max: usize,
    limits: Limits,
    pressure: watch::Sender<Pressure>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            values: BTreeMap::new(),
            epoch: Epoch(0),
            loss: watch::Sender::new(None),
            holding: false,
            held: VecDeque::new(),
            failures: VecDeque::new(),
            halted: BTreeMap::new(),
            page_entries_max: PAGE_ENTRIES_MAX,
            limits: LIMITS,
            pressure: watch::Sender::new(Pressure::Normal),
        }
    }
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Holds back every batch submitted to shard 0 from now on until it is released.
    pub fn hold(&self) {
        self.control(|state| state.holding = true);
    }

    /// Makes the oldest held batch durable and resolves its commit; false when none is held.
    pub fn release_one(&self) -> bool {
        self.control(State::release_one)
    }

    /// Makes all held batches durable, in order, and stops holding.
    pub fn release_all(&self) {
        self.control(|state| {
            while state.release_one() {}
            state.holding = false;
        });
    }

    /// Number of batches held back.
    #[must_use]
    pub fn held(&self) -> usize {
        self.control(|state| state.held.len())
    }

    /// Answers the next batch that would become durable with `error` instead and applies nothing of it.
    ///
    /// An error for which [`Error::is_loss`] is true ends the current lease.
    pub fn fail_next(&self, error: Error) {
        self.control(|state| state.failures.push_back(error));
    }

    /// Ends the current lease for this reason, like a store that detects another owner or fatal damage. Held batches
    /// are answered with the reason and not applied.
    pub fn lose(&self, reason: Error) {
        self.control(|state| state.kill(reason));
    }

    /// Loses all held batches (their commits are in doubt) and ends the current lease, like a power cut. The durable
    /// values are kept for the next [`Store::acquire`]. Ends holding and clears requested failures.
    pub fn crash(&self) {
        self.control(|state| {
            state.kill(Error::InDoubt { reason: "the store crashed".to_owned() });
            state.holding = false;
            state.failures.clear();
        });
    }

    /// Announces `pressure`; unless it is [`Pressure::Normal`], batches that put into [`Space::Body`] are refused.
    pub fn set_pressure(&self, pressure: Pressure) {
        self.control(|state| state.pressure.send_replace(pressure));
    }

    /// Sets the most entries a scan page holds (at least 1).
    pub fn set_page_entries_max(&self, page_entries_max: usize) {
        self.control(|state| state.page_entries_max = page_entries_max.max(1));
    }

    /// Sets the limits for batches.
    pub fn set_limits(&self, limits: Limits) {
        self.control(|state| state.limits = limits);
    }

    /// Everything durable in shard 0, in key order.
    #[must_use]
    pub fn snapshot(&self) -> BTreeMap<Key, Bytes> {
        self.control(|state| state.values.clone())
    }

    fn state(&self, shard: ShardId) -> Arc<Mutex<State>> {
        let mut shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(shards.entry(shard).or_default())
    }

    /// Runs `act` on shard 0, to which the test controls apply.
    fn control<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut lock(&self.state(ShardId(0))))
    }
}

impl Store for MemoryStore {
    fn acquire(&self, shard: ShardId) -> Acquiring<'_> {
        let state = self.state(shard);
        let (epoch, loss) = {
            let mut state = lock(&state);
            state.kill(fenced());
            state.loss = watch::Sender::new(None);
            state.halted.clear();
            state.epoch.0 += 1;
            (state.epoch, state.loss.subscribe())
        };
        let handle = Arc::new(MemoryShard { state, epoch });
        std::future::ready(Ok(Lease::new(shard, handle, epoch, loss))).boxed()
    }
}

impl Shard for MemoryShard {
    fn submit(&self, batch: Batch) -> Commit {
        let (notifier, answer) = commit();
        let mut state = lock(&self.state);
        match state.check_owner(self.epoch) {
            Err(error) => notifier.resolve(Err(error)),
            Ok(()) if state.holding => state.held.push_back((batch, notifier)),
            Ok(()) => state.finish(batch, notifier),
        }
        answer
    }

    fn resume(&self, partition: PartitionId) {
        lock(&self.state).halted.remove(&partition);
    }

    fn read(&self, keys: Vec<Key>) -> Read {
        let (notifier, answer) = read();
        let state = lock(&self.state);
        let values = || keys.iter().map(|key| state.values.get(key).cloned()).collect();
        notifier.resolve(state.check_owner(self.epoch).map(|()| values()));
        answer
    }

    fn scan(&self, space: Space, partition: PartitionId, from: u64) -> Scan {
        let (notifier, answer) = scan();
        let state = lock(&self.state);
        notifier.resolve(state.check_owner(self.epoch).map(|()| state.page(space, partition, from)));
        answer
    }

    fn partitions(&self) -> Partitions {
        let (notifier, answer) = partitions();
        let state = lock(&self.state);
        notifier.resolve(state.check_owner(self.epoch).map(|()| state.partitions()));
        answer
    }

    fn limits(&self) -> Limits {
        lock(&self.state).limits
    }

    fn pressure(&self) -> watch::Receiver<Pressure> {
        lock(&self.state).pressure.subscribe()
    }
}

impl State {
    fn check_owner(&self, epoch: Epoch) -> Result<(), Error> {
        if epoch != self.epoch {
            return Err(fenced());
        }
        self.loss.borrow().clone().map_or(Ok(()), |reason| Err(reason.after_loss()))
    }

    fn release_one(&mut self) -> bool {
        let Some((batch, notifier)) = self.held.pop_front() else { return false };
        self.finish(batch, notifier);
        true
    }

    /// Makes `batch` durable, or answers with an error.
    fn finish(&mut self, batch: Batch, notifier: CommitNotifier) {
        let result = self.check_batch(&batch);
        if let Err(error) = &result
            && error.is_loss()
        {
            self.kill(error.clone());
            notifier.resolve(Err(error.clone()));
            return;
        }
        match &result {
            Ok(()) => self.apply(batch),
            Err(error) => {
                let halted = batch.partitions().map(|partition| (partition, behind(error)));
                self.halted.extend(halted);
            }
        }
        notifier.resolve(result);
    }

    fn check_batch(&mut self, batch: &Batch) -> Result<(), Error> {
        if let Some(error) = self.failures.pop_front() {
            return Err(error);
        }
        batch.check(self.limits)?;
        if !self.halted.is_empty()
            && let Some(error) = batch.partitions().find_map(|partition| self.halted.get(&partition))
        {
            return Err(error.clone());
        }
        let reason = || "the store was told so".to_owned();
        match *self.pressure.borrow() {
            Pressure::Full if batch.grows() => Err(Error::Full { reason: reason() }),
            Pressure::Failing if batch.grows() => Err(Error::Unavailable { reason: reason() }),
            _ => Ok(()),
        }
    }

    fn apply(&mut self, batch: Batch) {
        for operation in batch.into_operations() {
            match operation {
                Operation::Put { key, value } => {
                    self.values.insert(key, value);
                }
                Operation::Delete { key } => {
                    self.values.remove(&key);
                }
                Operation::DeleteRange { space, partition, numbers } => {
                    let (from, to) = numbers.into_inner();
                    if from > to {
                        continue;
                    }
                    let keys = Key::new(space, partition, from)..=Key::new(space, partition, to);
                    let doomed: Vec<Key> = self.values.range(keys).map(|(key, _)| *key).collect();
                    for key in doomed {
                        self.values.remove(&key);
                    }
                }
            }
        }
    }

    fn page(&self, space: Space, partition: PartitionId, from: u64) -> Page {
        let keys = Key::new(space, partition, from)..=Key::new(space, partition, u64::MAX);
        let mut rest = self.values.range(keys);
        let entries = rest
            .by_ref()
            .take(self.page_entries_max)
            .map(|(key, value)| Entry { number: key.number, value: value.clone() })
            .collect();
        Page { entries, damaged: Vec::new(), next: rest.next().map(|(key, _)| key.number) }
    }

    fn partitions(&self) -> Vec<(Space, PartitionId)> {
        let mut all: Vec<_> = self.values.keys().map(|key| (key.space, key.partition)).collect();
        all.dedup();
        all
    }

    /// Answers all held batches with `error` and refuses later ones; only the first reason is kept.
    fn kill(&mut self, error: Error) {
        let answer = error.clone().after_loss();
        self.loss.send_if_modified(|loss| loss.is_none() && loss.replace(error).is_none());
        for (_, notifier) in self.held.drain(..) {
            notifier.resolve(Err(answer.clone()));
        }
    }
}

fn fenced() -> Error {
    Error::Fenced { reason: "the shard was acquired again".to_owned() }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
