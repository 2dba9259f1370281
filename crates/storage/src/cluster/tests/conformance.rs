//! The conformance suite of all stores, on a simulated engine and tokio's tasks.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::*;
use crate::cluster::Environment;
use crate::conformance::Subject;
use crate::{Lease, Limits};

/// Tasks and timers of tokio.
#[derive(Debug)]
struct TokioEnvironment;

impl Environment for TokioEnvironment {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }

    fn pause(&self, duration: Duration) -> BoxFuture<'static, ()> {
        tokio::time::sleep(duration).boxed()
    }

    fn draw(&self) -> u64 {
        use crate::local::{Filesystem, RealFilesystem};
        RealFilesystem.draw_salt()
    }
}

struct ClusterSubject {
    engine: SimulatedEngine,
    options: ClusterOptions,
    store: ClusterStore,
}

impl ClusterSubject {
    fn open(engine: &SimulatedEngine, options: &ClusterOptions) -> ClusterStore {
        ClusterStore::new(engine.node(0), options.clone(), Arc::new(TokioEnvironment)).unwrap()
    }
}

impl Subject for ClusterSubject {
    fn new(limits: Limits) -> Self {
        let Limits { value_bytes_max, batch_bytes_max } = limits;
        let round_pause = Duration::from_millis(2);
        let options = ClusterOptions { value_bytes_max, batch_bytes_max, round_pause, ..options() };
        let engine = SimulatedEngine::new();
        let store = Self::open(&engine, &options);
        Self { engine, options, store }
    }

    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn restart(&mut self) {
        self.store = Self::open(&self.engine, &self.options);
    }

    async fn fill(&self, lease: &Lease) {
        // Nothing with a body fits any more. The keeper asks the engine again from time to time.
        let footprint = self.engine.footprint(SHARD);
        self.engine.set_bytes_max(Some(footprint.bytes() + 200));
        let refused = lease.submit(send(90)).await;
        assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
        lease.resume(QUEUE);
    }

    async fn make_room(&self, _: &Lease) {
        self.engine.set_bytes_max(None);
    }
}

crate::conformance::suite!(ClusterSubject);
