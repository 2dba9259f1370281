//! Stores over the driver: the conformance suite of all stores, and two owners at once.

use std::sync::atomic::{AtomicU64, Ordering};

use peeklock_postgres::Database;
use peeklock_storage::cluster::{ClusterOptions, ClusterStore};
use peeklock_storage::conformance::{Subject, suite};
use peeklock_storage::{Error, Lease, Limits, Store};

use crate::failures::fill;
use crate::harness::{QUEUE, Trio, acquire, messages, send, small, store, store_with};

struct PostgresSubject {
    schema: String,
    database: Database,
    options: ClusterOptions,
    store: ClusterStore,
}

impl Subject for PostgresSubject {
    fn new(limits: Limits) -> Self {
        static SUBJECTS: AtomicU64 = AtomicU64::new(0);
        let schema = format!("subject_{}", SUBJECTS.fetch_add(1, Ordering::Relaxed));
        let Limits { value_bytes_max, batch_bytes_max } = limits;
        let options = ClusterOptions { value_bytes_max, batch_bytes_max, ..small() };
        let database = Trio::shared().unwrap().database(&schema);
        let store = store_with(database.clone(), options.clone());
        Self { schema, database, options, store }
    }

    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn restart(&mut self) {
        self.store = store_with(self.database.clone(), self.options.clone());
    }

    async fn fill(&self, lease: &Lease) {
        Trio::shared().unwrap().primary.sql(&fill(&self.schema));
        let refused = lease.submit(send(90)).await;
        assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
        lease.resume(QUEUE);
    }

    async fn make_room(&self, _: &Lease) {
        Trio::shared().unwrap().primary.sql(&format!("drop trigger no_room on {}.body", self.schema));
    }
}

suite!(PostgresSubject, Trio::shared().is_some());

/// Two nodes take the shard from each other while both submit. Every batch acknowledged to either is applied exactly
/// once.
#[tokio::test]
async fn two_owners_at_once_lose_nothing_that_was_acknowledged() {
    let Some(trio) = Trio::shared() else { return };
    let nodes = [store(trio.database("owners_at_once")), store(trio.database("owners_at_once"))];
    let mut acknowledged = Vec::new();
    let mut earlier: Option<Lease> = None;
    let mut number = 0;
    for turn in 0..12 {
        let lease = acquire(&nodes[turn % 2]).await;
        let mut commits = Vec::new();
        for _ in 0..20 {
            for owner in earlier.iter().chain([&lease]) {
                number += 1;
                commits.push((number, owner.submit(send(number))));
            }
        }
        for (number, commit) in commits {
            match commit.await {
                Ok(()) => acknowledged.push(number),
                Err(error) => assert!(error.is_loss(), "{error}"),
            }
        }
        assert_eq!(lease.loss(), None, "turn {turn}");
        earlier = Some(lease);
    }
    assert!(acknowledged.len() >= 12 * 20, "the last owner of each turn is never refused");
    let last = store(trio.database("owners_at_once"));
    let lease = acquire(&last).await;
    assert_eq!(messages(&lease).await, acknowledged);
}
