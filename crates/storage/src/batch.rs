//! The unit of atomicity.

use std::ops::RangeInclusive;

use bytes::Bytes;

use crate::{Error, Key, Limits, PartitionId, Space};

/// One change inside a [`Batch`]. Later operations of a batch see the earlier ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Writes `value` at `key`, replacing any previous value.
    Put {
        /// The key.
        key: Key,
        /// The value; at most [`crate::Limits::value_bytes_max`].
        value: Bytes,
    },
    /// Removes `key`; removing a missing key is not an error.
    Delete {
        /// The key.
        key: Key,
    },
    /// Removes every key of `space` and `partition` whose number is in `numbers`.
    DeleteRange {
        /// The space.
        space: Space,
        /// The partition.
        partition: PartitionId,
        /// The numbers, both ends included.
        numbers: RangeInclusive<u64>,
    },
}

/// A list of operations that become durable and visible together or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    operations: Vec<Operation>,
    value_bytes: usize,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reserves capacity for `operations` more operations, so that adding them does not reallocate.
    pub fn reserve(&mut self, operations: usize) {
        self.operations.reserve(operations);
    }

    /// Adds a [`Operation::Put`].
    pub fn put(&mut self, key: Key, value: Bytes) {
        self.value_bytes += value.len();
        self.operations.push(Operation::Put { key, value });
    }

    /// Adds a [`Operation::Delete`].
    pub fn delete(&mut self, key: Key) {
        self.operations.push(Operation::Delete { key });
    }

    /// Adds a [`Operation::DeleteRange`].
    pub fn delete_range(&mut self, space: Space, partition: PartitionId, numbers: RangeInclusive<u64>) {
        self.operations.push(Operation::DeleteRange { space, partition, numbers });
    }

    /// The operations in order.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Consumes the batch and returns its operations.
    #[must_use]
    pub fn into_operations(self) -> Vec<Operation> {
        self.operations
    }

    /// Sum of the lengths of all values put, in bytes.
    #[must_use]
    pub const fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Number of operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether the batch has no operations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Whether the batch writes message bodies; a full store must refuse it then.
    #[must_use]
    pub fn grows(&self) -> bool {
        self.operations
            .iter()
            .any(|operation| matches!(operation, Operation::Put { key, .. } if key.space == Space::Body))
    }

    /// The partition of each operation. If the batch is refused, these partitions are affected.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> + '_ {
        self.operations.iter().map(|operation| match operation {
            Operation::Put { key, .. } | Operation::Delete { key } => key.partition,
            Operation::DeleteRange { partition, .. } => *partition,
        })
    }

    /// Refuses a batch or value beyond `limits`.
    ///
    /// # Errors
    /// [`Error::TooLarge`] naming the limit and the size.
    pub fn check(&self, limits: Limits) -> Result<(), Error> {
        let too_large = |what: &str, bytes: usize, bytes_max: usize| Error::TooLarge {
            reason: format!("a {what} of {bytes} bytes, where at most {bytes_max} are accepted"),
        };
        if self.value_bytes > limits.batch_bytes_max {
            return Err(too_large("batch", self.value_bytes, limits.batch_bytes_max));
        }
        for operation in &self.operations {
            match operation {
                Operation::Put { value, .. } if value.len() > limits.value_bytes_max => {
                    return Err(too_large("value", value.len(), limits.value_bytes_max));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
