//! What a source that reads itself back remembers of its forwarder.

use std::sync::{Arc, Mutex};

use peeklock_engine::runtime::{ManualClock, Namespace, Response};
use peeklock_engine::{Forwarding, QueueOptions, Refusal, SubQueue};
use peeklock_storage::{
    Batch, Commit, CommitNotifier, Error, Key, Limits, MemoryStore, PartitionId, Pressure, Read, Scan, Shard,
    ShardId, Space, Store, commit,
};
use tokio::sync::watch;

use crate::broker::{Broker, QUEUE, START, quiet};
use crate::forwarding::{contents, to};

const TARGET: &str = "target";
const PAUSES_MS: u64 = 60_000;

/// A shard that keeps batches of one partition until it is opened, as if that partition's task were slow.
struct Gate {
    shard: Arc<dyn Shard>,
    shut: Mutex<Option<PartitionId>>,
    kept: Mutex<Vec<(Batch, CommitNotifier)>>,
}

impl Gate {
    fn shut(&self, partition: PartitionId) {
        *self.shut.lock().unwrap() = Some(partition);
    }

    async fn open(&self) {
        self.shut.lock().unwrap().take();
        let kept = std::mem::take(&mut *self.kept.lock().unwrap());
        for (batch, notifier) in kept {
            notifier.resolve(self.shard.submit(batch).await);
        }
    }

    fn kept(&self) -> usize {
        self.kept.lock().unwrap().len()
    }
}

impl Shard for Gate {
    fn submit(&self, batch: Batch) -> Commit {
        let shut = *self.shut.lock().unwrap();
        if shut.is_none_or(|shut| batch.partitions().all(|partition| partition != shut)) {
            return self.shard.submit(batch);
        }
        let (notifier, answer) = commit();
        self.kept.lock().unwrap().push((batch, notifier));
        answer
    }

    fn resume(&self, partition: PartitionId) {
        self.shard.resume(partition);
    }

    fn read(&self, keys: Vec<Key>) -> Read {
        self.shard.read(keys)
    }

    fn scan(&self, space: Space, partition: PartitionId, from: u64) -> Scan {
        self.shard.scan(space, partition, from)
    }

    fn limits(&self) -> Limits {
        self.shard.limits()
    }

    fn pressure(&self) -> watch::Receiver<Pressure> {
        self.shard.pressure()
    }
}

async fn set_forwarding(namespace: &Namespace, forwards: bool) {
    let forwarding = if forwards { to(TARGET) } else { Forwarding::default() };
    namespace.declare(QUEUE, QueueOptions { forwarding, ..QueueOptions::default() }).await.unwrap();
    quiet().await;
}

#[tokio::test]
async fn a_source_that_was_read_back_lets_no_second_forwarder_read_what_the_first_has_in_hand() {
    let store = MemoryStore::new();
    let shard = store.acquire(ShardId(0)).unwrap();
    let gate = Arc::new(Gate { shard, shut: Mutex::default(), kept: Mutex::default() });
    let broker = Broker::over(store, gate.clone(), ManualClock::new(START), 0, 1).await;
    broker.namespace.declare(TARGET, QueueOptions::default()).await.unwrap();
    let mut client = broker.client();
    set_forwarding(&broker.namespace, true).await;
    gate.shut(PartitionId(broker.namespace.entity(TARGET).unwrap().queue.0));
    client.sent("one").await;
    quiet().await;
    assert_eq!(gate.kept(), 1, "the message is on its way");
    broker.store.fail_next(Error::Full { reason: "a test wants it so".to_owned() });
    let lost = client.send("lost");
    assert_eq!(client.response().await, (lost, Response::Sent(Err(Refusal::StorageFull))));
    // The first forwarder is to end as soon as its batch is answered; a second one begins.
    set_forwarding(&broker.namespace, false).await;
    set_forwarding(&broker.namespace, true).await;
    for _ in 0..4 {
        broker.clock.advance(PAUSES_MS);
        quiet().await;
    }
    gate.open().await;
    for _ in 0..4 {
        quiet().await;
        broker.clock.advance(PAUSES_MS);
    }
    assert_eq!(contents(&broker, TARGET, SubQueue::Main).await, ["one"]);
    assert_eq!(contents(&broker, QUEUE, SubQueue::Main).await, [""; 0]);
    client.sent("two").await;
    quiet().await;
    assert_eq!(contents(&broker, TARGET, SubQueue::Main).await, ["one", "two"], "forwarding goes on");
}
