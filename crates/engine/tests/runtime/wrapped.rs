//! Shards around another one, which change some of its methods.

/// Implements methods of [`peeklock_storage::Shard`] by those of the shard in a field: `forward!(shard: read, scan)`.
macro_rules! forward {
    ($field:ident: $($method:ident),+) => { $(forward!(@$method $field);)+ };
    (@submit $field:ident) => {
        fn submit(&self, batch: peeklock_storage::Batch) -> peeklock_storage::Commit {
            self.$field.submit(batch)
        }
    };
    (@resume $field:ident) => {
        fn resume(&self, partition: peeklock_storage::PartitionId) {
            self.$field.resume(partition);
        }
    };
    (@read $field:ident) => {
        fn read(&self, keys: Vec<peeklock_storage::Key>) -> peeklock_storage::Read {
            self.$field.read(keys)
        }
    };
    (@scan $field:ident) => {
        fn scan(
            &self,
            space: peeklock_storage::Space,
            partition: peeklock_storage::PartitionId,
            from: u64,
        ) -> peeklock_storage::Scan {
            self.$field.scan(space, partition, from)
        }
    };
    (@partitions $field:ident) => {
        fn partitions(&self) -> peeklock_storage::Partitions {
            self.$field.partitions()
        }
    };
    (@limits $field:ident) => {
        fn limits(&self) -> peeklock_storage::Limits {
            self.$field.limits()
        }
    };
    (@pressure $field:ident) => {
        fn pressure(&self) -> tokio::sync::watch::Receiver<peeklock_storage::Pressure> {
            self.$field.pressure()
        }
    };
}
pub(crate) use forward;
