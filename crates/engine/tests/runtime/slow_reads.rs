//! A shard whose reads the tests control.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use peeklock_storage::{Error, Key, Lease, Place, Read, ReadNotifier, Shard, read};

use crate::wrapped::forward;

/// A shard whose reads wait until a test releases them, and can report damage.
pub(crate) struct SlowReads {
    shard: Arc<dyn Shard>,
    held: Mutex<Vec<(Vec<Key>, ReadNotifier)>>,
    /// Numbers of the bodies that can't be read.
    pub(crate) damaged: Mutex<HashSet<u64>>,
}

impl SlowReads {
    /// Wraps a leased shard; the returned lease is over the wrapper.
    pub(crate) fn over(lease: Lease) -> (Arc<Self>, Lease) {
        let shard = Arc::clone(lease.shard());
        let slow = Arc::new(Self { shard, held: Mutex::default(), damaged: Mutex::default() });
        (Arc::clone(&slow), lease.over(slow))
    }

    pub(crate) fn held(&self) -> usize {
        self.held.lock().unwrap().len()
    }

    /// Completes held reads, again and again until no more are requested.
    pub(crate) async fn release(&self) {
        loop {
            crate::broker::quiet().await;
            let held = std::mem::take(&mut *self.held.lock().unwrap());
            if held.is_empty() {
                return;
            }
            for (keys, notifier) in held {
                let bad = keys.iter().any(|key| self.damaged.lock().unwrap().contains(&key.number));
                let place = Place { unit: "log".to_owned(), offset: 7 };
                let damage = || Error::Corrupt { place: place.clone(), reason: "test".to_owned() };
                notifier.resolve(if bad { Err(damage()) } else { self.shard.read(keys).await });
            }
        }
    }
}

impl Shard for SlowReads {
    forward!(shard: submit, resume, scan, partitions, limits, pressure);

    fn read(&self, keys: Vec<Key>) -> Read {
        let (notifier, answer) = read();
        self.held.lock().unwrap().push((keys, notifier));
        answer
    }
}
