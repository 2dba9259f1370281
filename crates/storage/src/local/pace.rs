//! Limits the bytes of a frame to those that this disk writes in a bounded time.
//!
//! A batch submitted while a frame is written waits for that frame and for its own. Frames are therefore shorter as
//! long as some partitions have little to write and others much. Otherwise they stay long, because each one costs a
//! sync.
//!
//! A shorter frame helps only if the time depends on the bytes. A sync concurrent with a backup, or of a thread that
//! waits for a processor, takes milliseconds regardless of the size; shorter frames would only be more of them, and the
//! log's throughput would fall below its load. So the fixed time and the time per byte are estimated separately, see
//! [`Cost`].

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use self::cost::Cost;
use crate::PartitionId;
use crate::queue::batch_bytes;
use crate::waiting::Waiting;

mod cost;

/// A frame accepts no further batch beyond this many bytes.
const FRAME_BYTES_MAX: u64 = 4 << 20;
/// On a slow disk the limit is lower, but at least this.
const FRAME_BYTES_MIN: u64 = 512 << 10;
/// Target time for writing a frame, in microseconds.
const FRAME_MICROS: u32 = 12_000;
/// Target time while partitions with much and with little to write share frames.
const SHARED_FRAME_MICROS: u32 = 2_000;
/// After this many frames, the limit of one frame is halved, or doubled at the minimum: frames of equal size do not
/// reveal the cost per byte.
const PROBE_FRAMES: u32 = 8;
/// A partition has little to write if its part of a frame is smaller than the largest part by at least this factor.
const LIGHT_PART: u64 = 16;
/// Frames count as shared for this long after the last shared one, in milliseconds.
const SHARED_MS: u64 = 1_000;

/// State of the limit; see the module.
#[derive(Debug)]
pub(super) struct Pace {
    frame_bytes_max: u64,
    cost: Cost,
    /// Frames since the last one with a different limit.
    frames: u32,
    /// Time of the last shared frame.
    shared_at: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { frame_bytes_max: FRAME_BYTES_MAX, cost: Cost::default(), frames: 0, shared_at: None }
    }
}

impl Pace {
    /// The limit of the next frame, in bytes.
    pub(super) const fn frame_bytes_max(&self) -> u64 {
        match self.frame_bytes_max {
            bytes if self.frames < PROBE_FRAMES => bytes,
            bytes if bytes >= 2 * FRAME_BYTES_MIN => bytes / 2,
            bytes => 2 * bytes,
        }
    }

    /// Updates the estimate with a frame that took this long to write.
    pub(super) fn note(&mut self, frame: &[Waiting], took: Duration, now: Instant) {
        let bytes: u64 = frame.iter().map(|one| batch_bytes(&one.batch)).sum();
        if bytes >= FRAME_BYTES_MIN && has_light_part(frame) {
            self.shared_at = Some(now);
        }
        self.learn(bytes, took, now);
    }

    fn learn(&mut self, bytes: u64, took: Duration, now: Instant) {
        self.frames = if self.frames == PROBE_FRAMES { 0 } else { self.frames + 1 };
        self.cost.note(bytes, took);
        // Small frames need no limit.
        if bytes < FRAME_BYTES_MIN {
            return;
        }
        let is_recent = |at| now.saturating_duration_since(at) < Duration::from_millis(SHARED_MS);
        let micros = if self.shared_at.is_some_and(is_recent) { SHARED_FRAME_MICROS } else { FRAME_MICROS };
        let wanted = self.cost.bytes_within(micros).min(FRAME_BYTES_MAX);
        let smoothed = (3 * self.frame_bytes_max + wanted) / 4;
        self.frame_bytes_max = smoothed.clamp(FRAME_BYTES_MIN, FRAME_BYTES_MAX);
    }
}

/// Whether some partition has little to write compared with another one. Parts are compared with each other, not with
/// the frame: among many partitions with equal parts, each has a small part.
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

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// The frame size, in KiB, that a log with unlimited load converges to, where a frame costs `fixed_micros` plus
    /// `micros_per_mib` for each MiB, with up to half of random variation.
    fn settles_at(is_shared: bool, fixed_micros: u64, micros_per_mib: u64) -> u64 {
        let (mut pace, now) = (Pace::default(), Instant::now());
        let mut random = StdRng::seed_from_u64(11);
        let mut last = Vec::new();
        for frame in 0..4_000 {
            pace.shared_at = is_shared.then_some(now);
            let bytes = pace.frame_bytes_max() - random.random_range(0..64 << 10);
            let micros = fixed_micros + ((bytes * micros_per_mib) >> 20);
            let micros = random.random_range(micros / 2..=3 * micros / 2);
            pace.learn(bytes, Duration::from_micros(micros), now);
            if frame >= 2_000 {
                last.push(pace.frame_bytes_max >> 10);
            }
        }
        last.iter().sum::<u64>() / last.len() as u64
    }

    #[test]
    fn frames_are_short_where_bytes_take_the_time() {
        // 100 MiB/s: 12 ms are 1.2 MiB; 2 ms are below the minimum.
        let long = settles_at(false, 100, 10_000);
        assert!((900..1_800).contains(&long), "{long}");
        let short = settles_at(true, 100, 10_000);
        assert!(short < 700, "{short}");
        // 1 GiB/s: 2 ms are nearly 2 MiB.
        let fast = settles_at(true, 100, 1_000);
        assert!((1_300..2_600).contains(&fast), "{fast}");
    }

    #[test]
    fn frames_stay_long_where_each_sync_takes_long_whatever_it_syncs() {
        for (is_shared, fixed_micros) in [(true, 4_000), (false, 4_000), (true, 20_000), (false, 20_000)] {
            let long = settles_at(is_shared, fixed_micros, 800);
            assert!(long > 3_000, "{fixed_micros} µs: {long}");
        }
    }

    #[test]
    fn bytes_take_no_more_than_the_sync_itself_where_that_is_slow() {
        // 5 ms plus 5 ms for each MiB: converges to a MiB, although nothing fits into 2 ms.
        let long = settles_at(true, 5_000, 5_000);
        assert!((700..1_700).contains(&long), "{long}");
    }
}
