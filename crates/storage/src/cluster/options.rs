//! Options of a replicated store, for operators and for tests that need small limits.

use std::time::Duration;

use crate::{Error, Limits};

/// Lower limit of a log's `heads_bytes_max`: many small values with their keys fit into a part of a checkpoint.
pub(super) const HEADS_BYTES_MIN: usize = 64 << 10;

/// Sizes and rates of a [`crate::cluster::ClusterStore`]. Start from [`ClusterOptions::default`].
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// Most bytes of a shard in the log, heads and bodies together; beyond that, it is [`crate::Pressure::Full`].
    /// Default none: only the engine's own limit applies.
    pub size_bytes_max: Option<u64>,
    /// Largest single value, in bytes. Default 128 MiB.
    pub value_bytes_max: usize,
    /// Largest sum of the values of one batch, in bytes. Default 256 MiB.
    pub batch_bytes_max: usize,
    /// A record accepts no further batch beyond this many bytes. Default 1 MiB.
    pub record_bytes_max: u64,
    /// Records sent before the first is answered. Default 4.
    pub records_under_way_max: usize,
    /// A checkpoint is due after this many bytes of heads, but at least as many as the last checkpoint had. Default 256
    /// MiB.
    pub checkpoint_bytes: u64,
    /// A checkpoint is due after this many records. Default 1 000 000.
    pub checkpoint_records: u64,
    /// Size of the parts of a checkpoint, in bytes; the writer is blocked while it writes one. Default 256 KiB, at most
    /// 1 MiB.
    pub part_bytes: usize,
    /// Pause between two parts of a checkpoint. Default 10 ms.
    pub part_pause: Duration,
    /// Pause between two rounds of dropping, cleaning and checking whether a checkpoint is due. Default 1 s.
    pub round_pause: Duration,
    /// Most bytes of rows that the cleaner reads in one round. Default 32 MiB.
    pub clean_bytes_per_round: u64,
    /// Bytes of recently written bodies that are kept in memory. Default 64 MiB.
    pub cache_bytes: usize,
    /// A log that can't be written for this long is [`crate::Pressure::Failing`]; until then, everything waits. Default
    /// 30 s.
    pub failing_after: Duration,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            size_bytes_max: None,
            value_bytes_max: 128 << 20,
            batch_bytes_max: 256 << 20,
            record_bytes_max: 1 << 20,
            records_under_way_max: 4,
            checkpoint_bytes: 256 << 20,
            checkpoint_records: 1_000_000,
            part_bytes: 256 << 10,
            part_pause: Duration::from_millis(10),
            round_pause: Duration::from_secs(1),
            clean_bytes_per_round: 32 << 20,
            cache_bytes: 64 << 20,
            failing_after: Duration::from_secs(30),
        }
    }
}

impl ClusterOptions {
    /// The limits for batches.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        Limits { value_bytes_max: self.value_bytes_max, batch_bytes_max: self.batch_bytes_max }
    }

    /// Rejects inconsistent sizes.
    ///
    /// # Errors
    /// [`Error::Unavailable`] naming the option and its limits.
    pub fn check(&self) -> Result<(), Error> {
        /// Frames and their headers must be addressable with 32 bits.
        const BATCH_BYTES_MAX: usize = 1 << 30;
        const PART_BYTES_MAX: usize = 1 << 20;
        let refuse = |reason: String| Err(Error::Unavailable { reason });
        if self.batch_bytes_max > BATCH_BYTES_MAX || self.value_bytes_max > self.batch_bytes_max {
            return refuse(format!(
                "value_bytes_max ({}) must not exceed batch_bytes_max ({}), nor that {BATCH_BYTES_MAX}",
                self.value_bytes_max, self.batch_bytes_max
            ));
        }
        if self.part_bytes == 0 || self.part_bytes > PART_BYTES_MAX {
            return refuse(format!("part_bytes is {}, must be 1 to {PART_BYTES_MAX}", self.part_bytes));
        }
        if self.records_under_way_max == 0 {
            return refuse("records_under_way_max must not be 0".to_owned());
        }
        if self.clean_bytes_per_round == 0 {
            return refuse("clean_bytes_per_round must not be 0".to_owned());
        }
        Ok(())
    }
}
