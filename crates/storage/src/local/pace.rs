//! How many bytes the writer puts into one frame: as many as this disk writes in a bounded time.
//!
//! Who comes while a frame is written waits for that frame and for his own. As long as some have little to write and
//! others much, frames are therefore shorter. They stay long otherwise: each costs a sync.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::PartitionId;
use crate::queue::batch_bytes;
use crate::waiting::Waiting;

/// A frame takes no further batch beyond so many bytes.
const FRAME_BYTES_MAX: u64 = 4 << 20;
/// On a slow disk a frame takes less, but no less than this.
const FRAME_BYTES_MIN: u64 = 512 << 10;
/// How long writing a frame should take, in microseconds.
const FRAME_MICROS: u64 = 12_000;
/// The same while frames are shared by partitions with much to write and partitions with little.
const SHARED_FRAME_MICROS: u64 = 2_000;
/// A partition has little to write if its part of a frame is smaller than the largest part by this factor.
const LIGHT_PART: u64 = 16;
/// Frames count as shared for so long after the last one that was, in milliseconds.
const SHARED_MS: u64 = 1_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Pace {
    frame_bytes_max: u64,
    /// When a frame was last shared.
    shared_at: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { frame_bytes_max: FRAME_BYTES_MAX, shared_at: None }
    }
}

impl Pace {
    /// What the next frame may take, in bytes.
    pub(super) const fn frame_bytes_max(&self) -> u64 {
        self.frame_bytes_max
    }

    /// Learns from a frame that took so long to write.
    pub(super) fn note(&mut self, frame: &[Waiting], took: Duration, now: Instant) {
        let bytes: u64 = frame.iter().map(|one| batch_bytes(&one.batch)).sum();
        if bytes < FRAME_BYTES_MIN {
            return;
        }
        if has_light_part(frame) {
            self.shared_at = Some(now);
        }
        let is_recent = |at| now.saturating_duration_since(at) < Duration::from_millis(SHARED_MS);
        let wanted_micros =
            if self.shared_at.is_some_and(is_recent) { SHARED_FRAME_MICROS } else { FRAME_MICROS };
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let wanted = bytes.saturating_mul(wanted_micros) / micros;
        let smoothed = (3 * self.frame_bytes_max + wanted) / 4;
        self.frame_bytes_max = smoothed.clamp(FRAME_BYTES_MIN, FRAME_BYTES_MAX);
    }
}

/// Whether some partition has little to write beside another. Parts are compared with each other, not with the frame:
/// of many partitions with equally much, each has a small part.
fn has_light_part(frame: &[Waiting]) -> bool {
    let mut parts: BTreeMap<PartitionId, u64> = BTreeMap::new();
    for one in frame {
        if let Some(partition) = one.batch.partitions().next() {
            *parts.entry(partition).or_default() += batch_bytes(&one.batch);
        }
    }
    let largest = parts.values().copied().max().unwrap_or_default();
    parts.values().any(|bytes| bytes * LIGHT_PART < largest)
}
