//! Size of the batches that a partition submits to the store.

use std::sync::{Arc, Mutex};

use peeklock_storage::{Batch, Commit, MemoryStore, Shard, ShardId, Store};

use crate::broker::{Broker, START, TestClock, quiet, send};
use crate::wrapped::forward;

/// A shard that records the sizes of the batches.
struct Sizes {
    shard: Arc<dyn Shard>,
    value_bytes: Mutex<Vec<usize>>,
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
    let sizes = Arc::new(Sizes { shard: Arc::clone(lease.shard()), value_bytes: Mutex::default() });
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
