//! Batches used by the tests of all stores, and a map as the reference model.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{Batch, Key, Operation, PartitionId, Space};

pub(crate) const QUEUE: PartitionId = PartitionId(1);

/// The live entries.
pub(crate) type Model = BTreeMap<Key, Bytes>;

pub(crate) fn head(number: u64) -> Key {
    Key::new(Space::Head, QUEUE, number)
}

pub(crate) fn body(number: u64) -> Key {
    Key::new(Space::Body, QUEUE, number)
}

pub(crate) fn value(number: u64, len: usize) -> Bytes {
    number.to_le_bytes().into_iter().cycle().take(len).collect()
}

/// A message as the broker stores it.
pub(crate) fn send(number: u64) -> Batch {
    let mut batch = Batch::new();
    batch.put(head(number), value(number, 20));
    batch.put(body(number), value(number, 300));
    batch
}

pub(crate) fn complete(number: u64) -> Batch {
    let mut batch = Batch::new();
    batch.delete(head(number));
    batch.delete(body(number));
    batch
}

/// Applies the changes of a durable batch to the model.
pub(crate) fn apply(model: &mut Model, batch: &Batch) {
    for operation in batch.operations() {
        match operation {
            Operation::Put { key, value } => {
                model.insert(*key, value.clone());
            }
            Operation::Delete { key } => {
                model.remove(key);
            }
            Operation::DeleteRange { space, partition, numbers } => {
                model.retain(|key, _| {
                    (key.space, key.partition) != (*space, *partition) || !numbers.contains(&key.number)
                });
            }
        }
    }
}
