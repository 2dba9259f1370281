//! The conformance suite of all stores, on a simulated disk.

use super::*;
use crate::conformance::Subject;
use crate::{Lease, Limits, Pressure, Store};

struct LocalSubject {
    disk: SimulatedDisk,
    options: LocalOptions,
    store: LocalStore,
}

impl Subject for LocalSubject {
    fn new(limits: Limits) -> Self {
        let Limits { value_bytes_max, batch_bytes_max } = limits;
        let options = LocalOptions { value_bytes_max, batch_bytes_max, reserve_bytes: 16 << 10, ..options() };
        let disk = SimulatedDisk::new();
        let store = LocalStore::open_on(disk.mount(), DIRECTORY, options.clone()).unwrap();
        Self { disk, options, store }
    }

    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn restart(&mut self) {
        self.disk.kill();
        self.store = LocalStore::open_on(self.disk.mount(), DIRECTORY, self.options.clone()).unwrap();
    }

    async fn fill(&self, lease: &Lease) {
        self.disk.set_size_bytes_max(Some(self.disk.size_bytes() + (10 << 10)));
        self.store.current().shared().keeper_wake.wake();
        lease.pressure().wait_for(|pressure| *pressure == Pressure::Full).await.unwrap();
    }

    async fn make_room(&self, _: &Lease) {
        self.disk.set_size_bytes_max(None);
        self.store.current().shared().keeper_wake.wake();
    }
}

crate::conformance::suite!(LocalSubject);
