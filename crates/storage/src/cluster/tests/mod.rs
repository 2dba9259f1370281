//! The store over a simulated engine, stepped in one thread.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::simulated::{SimulatedEngine, Stepper};
use super::{ClusterOptions, ClusterStore, RecordPlace};
use crate::samples::{QUEUE, body, complete, head, send, value};
use crate::{Batch, Commit, Error, Key, Lease, PartitionId, Shard, ShardId, Space, Store};

mod checkpoints;
mod conformance;
mod doubt;
mod keeping;
mod oracle;
mod outages;
mod room;
mod serving;

const SHARD: ShardId = ShardId(0);

/// Small limits, so that few messages reach each of them.
fn options() -> ClusterOptions {
    ClusterOptions {
        record_bytes_max: 1 << 10,
        checkpoint_bytes: 4 << 10,
        checkpoint_records: 1_000,
        part_bytes: 512,
        clean_bytes_per_round: 64 << 10,
        cache_bytes: 4 << 10,
        ..ClusterOptions::default()
    }
}

/// An engine and the nodes that use it.
struct World {
    engine: SimulatedEngine,
    stepper: Stepper,
    options: ClusterOptions,
    /// The stores, kept here because tests hold leases only.
    stores: RefCell<Vec<ClusterStore>>,
}

impl World {
    fn new() -> Self {
        Self::with(options())
    }

    fn with(options: ClusterOptions) -> Self {
        Self::seeded(7, options)
    }

    fn seeded(seed: u64, options: ClusterOptions) -> Self {
        let (engine, stepper) = (SimulatedEngine::new(), Stepper::new(seed));
        Self { engine, stepper, options, stores: RefCell::default() }
    }

    fn node(&self, node: u32) -> ClusterStore {
        ClusterStore::new(self.engine.node(node), self.options.clone(), self.stepper.node(node)).unwrap()
    }

    /// Steps everything until `future` resolves; time advances when nothing else is ready.
    fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let (answer, mut answered) = oneshot::channel();
        let task = async move {
            let _ = answer.send(future.await);
        };
        self.stepper.node(u32::MAX).spawn(task.boxed());
        for _ in 0..1_000_000 {
            if let Ok(answer) = answered.try_recv() {
                return answer;
            }
            let goes_on = self.stepper.step(0, |_| true)
                || self.engine.serve(0, |_| true)
                || self.stepper.pass(|_| true);
            assert!(goes_on, "no progress");
        }
        panic!("never");
    }

    fn acquire(&self, store: &ClusterStore) -> Lease {
        self.try_acquire(store).unwrap()
    }

    /// A lease of a store that lives as long as the `World`.
    fn lease(&self, node: u32) -> Lease {
        let store = self.node(node);
        let lease = self.acquire(&store);
        self.stores.borrow_mut().push(store);
        lease
    }

    fn try_acquire(&self, store: &ClusterStore) -> Result<Lease, Error> {
        let store = store.clone();
        self.run(async move { store.acquire(SHARD).await })
    }

    fn commit(&self, lease: &Lease, batch: Batch) -> Result<(), Error> {
        self.run(lease.submit(batch))
    }

    fn contents(&self, lease: &Lease) -> Result<BTreeMap<Key, Bytes>, Error> {
        let lease = lease.clone();
        self.run(async move { contents(&*lease, &[QUEUE]).await })
    }

    fn read(&self, lease: &Lease, keys: Vec<Key>) -> Result<Vec<Option<Bytes>>, Error> {
        self.run(lease.read(keys))
    }

    /// Runs all ready tasks and calls until time would have to advance.
    fn settle(&self) {
        while self.stepper.step(0, |_| true) || self.engine.serve(0, |_| true) {}
    }

    /// Runs tasks until all wait for the engine or for time.
    fn settle_tasks(&self) {
        while self.stepper.step(0, |_| true) {}
    }

    /// Advances time by this many rounds of the keepers.
    fn rounds(&self, rounds: u32) {
        let until = self.stepper.now() + rounds * self.options.round_pause;
        self.settle();
        while self.stepper.now() < until && self.stepper.pass(|_| true) {
            self.settle();
        }
    }
}

/// Every live entry, by scanning.
async fn contents(shard: &dyn Shard, partitions: &[PartitionId]) -> Result<BTreeMap<Key, Bytes>, Error> {
    let mut found = BTreeMap::new();
    for space in Space::ALL {
        for partition in partitions {
            let mut from = Some(0);
            while let Some(number) = from {
                let page = shard.scan(space, *partition, number).await?;
                assert!(page.damaged.is_empty(), "{:?}", page.damaged);
                from = page.next;
                let key = |number| Key::new(space, *partition, number);
                found.extend(page.entries.into_iter().map(|entry| (key(entry.number), entry.value)));
            }
        }
    }
    Ok(found)
}

/// The answer, if it is ready.
fn answer_of<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}
