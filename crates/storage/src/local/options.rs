//! Options of a data directory.

use std::time::Duration;

use crate::{Error, Limits, StorageMetrics};

/// Largest segment: offsets inside a segment have 32 bits.
const SEGMENT_BYTES_MAX: u32 = 1 << 30;
/// Smallest segment, used by tests; a segment must hold its header and some frames.
const SEGMENT_BYTES_MIN: u32 = 8 << 10;
/// Largest batch: offsets in a frame and its segment must fit into 32 bits.
const BATCH_BYTES_MAX: usize = 1 << 30;
/// Fewest segments of a directory with a size limit: the active one, two prepared ones, two dead ones and one being
/// cleaned.
const SEGMENTS_MIN: u64 = 6;

/// Sizes and rates of a [`crate::LocalStore`]. Start from [`LocalOptions::default`].
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// Size of a segment file, in bytes. Default 64 MiB, 8 KiB to 1 GiB. Existing segments keep their size.
    pub segment_bytes: u32,
    /// Largest size of the segment files together, in bytes; beyond it the store is [`crate::Pressure::Full`]. The
    /// rest of the data directory (hints, manifest) adds a few per cent. Default none: the file system is the
    /// limit. At least six segments.
    pub size_bytes_max: Option<u64>,
    /// Free bytes to be left on the file system: with less, the store is [`crate::Pressure::Full`]. They leave room for
    /// removals and for cleaning. Default 256 MiB.
    pub reserve_bytes: u64,
    /// Largest single value, in bytes. Default 128 MiB.
    pub value_bytes_max: usize,
    /// Largest sum of the values of one batch, in bytes. Default 256 MiB, at most 1 GiB.
    pub batch_bytes_max: usize,
    /// Rate at which the cleaner copies live records out of mostly dead segments, in bytes per second. Default 128
    /// MiB/s.
    pub clean_bytes_per_second: u64,
    /// Interval in which every sealed segment is read again to find damage; `None`: never. Default 7 days.
    pub scrub_interval: Option<Duration>,
    /// Highest rate of that reading, in bytes per second. Default 16 MiB/s.
    pub scrub_bytes_per_second: u64,
    /// Most bytes of the values that opening keeps for the first scan of each partition; a scan reads other values from
    /// the segments, including everything between them. The values of a waiting message take about 28 bytes. Default
    /// 256 MiB.
    pub startup_cache_bytes_max: usize,
    /// The counters used by its threads.
    pub metrics: StorageMetrics,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            size_bytes_max: None,
            reserve_bytes: 256 << 20,
            value_bytes_max: 128 << 20,
            batch_bytes_max: 256 << 20,
            clean_bytes_per_second: 128 << 20,
            scrub_interval: Some(Duration::from_secs(7 * 24 * 3600)),
            scrub_bytes_per_second: 16 << 20,
            startup_cache_bytes_max: 256 << 20,
            metrics: StorageMetrics::default(),
        }
    }
}

impl LocalOptions {
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
        let refuse = |reason: String| Err(Error::Unavailable { reason });
        if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&self.segment_bytes) {
            return refuse(format!(
                "segment_bytes is {}, must be {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}",
                self.segment_bytes
            ));
        }
        if self.batch_bytes_max > BATCH_BYTES_MAX || self.value_bytes_max > self.batch_bytes_max {
            return refuse(format!(
                "value_bytes_max ({}) must not exceed batch_bytes_max ({}), nor that {BATCH_BYTES_MAX}",
                self.value_bytes_max, self.batch_bytes_max
            ));
        }
        let size_bytes_min = SEGMENTS_MIN * u64::from(self.segment_bytes);
        if self.size_bytes_max.is_some_and(|size_bytes_max| size_bytes_max < size_bytes_min) {
            return refuse(format!(
                "size_bytes_max must be at least {SEGMENTS_MIN} segments, {size_bytes_min} bytes"
            ));
        }
        if self.clean_bytes_per_second == 0 {
            return refuse("clean_bytes_per_second must not be 0".to_owned());
        }
        if self.scrub_bytes_per_second == 0 {
            return refuse(
                "scrub_bytes_per_second must not be 0; without an interval nothing is read".to_owned(),
            );
        }
        Ok(())
    }
}
