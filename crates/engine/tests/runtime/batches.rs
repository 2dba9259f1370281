//! Size of the batches that a partition submits to the store.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use peeklock_engine::{SubscriptionOptions, TopicOptions};
use peeklock_storage::{Batch, Commit, Error, Lease, MemoryStore, Shard, ShardId, Space, Store};

use crate::broker::{Broker, START, TestClock, quiet, send};
use crate::wrapped::forward;

/// A shard that records the sizes of the batches.
pub(crate) struct Sizes {
    shard: Arc<dyn Shard>,
    value_bytes: Mutex<Vec<usize>>,
}

impl Sizes {
    pub(crate) fn of(lease: &Lease) -> Arc<Self> {
        Arc::new(Self { shard: Arc::clone(lease.shard()), value_bytes: Mutex::default() })
    }

    /// Number of batches so far.
    pub(crate) fn batches(&self) -> usize {
        self.value_bytes.lock().unwrap().len()
    }
}

impl Shard for Sizes {
    forward!(shard: resume, read, scan, partitions, limits, pressure);

    fn submit(&self, batch: Batch) -> Commit {
        self.value_bytes.lock().unwrap().push(batch.value_bytes());
        self.shard.submit(batch)
    }
}

#[tokio::test]
async fn large_messages_of_one_turn_are_several_batches() {
    let store = MemoryStore::new();
    let lease = store.acquire(ShardId(0)).await.unwrap();
    let sizes = Sizes::of(&lease);
    let broker = Broker::over(store, lease.over(sizes.clone()), TestClock::new(START), 0, 1).await;
    let mut client = broker.client();
    for _ in 0..12 {
        client.submit(send(&"x".repeat(300 << 10)));
    }
    quiet().await;
    let sizes = sizes.value_bytes.lock().unwrap();
    assert!(sizes.iter().sum::<usize>() >= 12 * (300 << 10), "everything is stored: {sizes:?}");
    assert!(sizes.iter().all(|bytes| *bytes <= 1 << 20), "{sizes:?}");
}

/// A shard that records how many partitions each batch touches, and refuses all batches for a while.
struct Touched {
    shard: Arc<dyn Shard>,
    partitions: Mutex<Vec<usize>>,
    refuses: AtomicBool,
}

impl Shard for Touched {
    forward!(shard: resume, read, scan, partitions, limits, pressure);

    fn submit(&self, batch: Batch) -> Commit {
        if self.refuses.load(Relaxed) {
            let (notifier, refused) = peeklock_storage::commit();
            notifier.resolve(Err(Error::Full { reason: "a test wants it so".to_owned() }));
            return refused;
        }
        self.partitions.lock().unwrap().push(batch.partitions().collect::<BTreeSet<_>>().len());
        self.shard.submit(batch)
    }
}

/// Many large topics whose deletion the store refused are deleted in several batches, before the next change.
#[tokio::test]
async fn refused_deletions_are_made_up_for_in_several_batches() {
    const TOPICS: usize = 8;
    const SUBSCRIPTIONS: usize = 300;
    let store = MemoryStore::new();
    let lease = store.acquire(ShardId(0)).await.unwrap();
    let shard = Arc::clone(lease.shard());
    let touched = Arc::new(Touched { shard, partitions: Mutex::default(), refuses: AtomicBool::new(false) });
    let lease = lease.over(touched.clone());
    let broker = Broker::over(store.clone(), lease, TestClock::new(START), 0, 1).await;
    let namespace = &broker.namespace;
    let topics: Vec<String> = (0..TOPICS).map(|topic| format!("topic{topic}")).collect();
    for topic in &topics {
        namespace.declare(topic, TopicOptions::default()).await.unwrap();
        let subscription = |number| (format!("s{number}"), SubscriptionOptions::default(), Vec::new());
        let subscriptions = (0..SUBSCRIPTIONS).map(subscription).collect();
        namespace.declare_subscriptions(topic, subscriptions).await.unwrap();
    }
    touched.refuses.store(true, Relaxed);
    for topic in &topics {
        assert!(namespace.delete(topic).await.is_err());
    }
    assert!(namespace.declare("new", TopicOptions::default()).await.is_err());
    touched.refuses.store(false, Relaxed);
    touched.partitions.lock().unwrap().clear();
    namespace.declare("new", TopicOptions::default()).await.unwrap();
    let partitions = touched.partitions.lock().unwrap().clone();
    assert!(partitions.iter().sum::<usize>() > TOPICS * SUBSCRIPTIONS, "{partitions:?}");
    // One more for the catalogue.
    assert!(partitions.iter().all(|count| *count <= 1025), "{partitions:?}");
    let meta = store.snapshot().into_keys().filter(|key| key.space == Space::Meta);
    let owners: Vec<u64> = meta.filter(|key| key.partition.0 > 0).map(|key| key.partition.0).collect();
    assert_eq!(owners, [0_u64; 0], "nothing is left");
}
