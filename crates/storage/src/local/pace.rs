//! How many bytes the writer puts into one frame: as many as this disk writes in a bounded time.
//!
//! Who comes while a frame is written waits for that frame and for his own. As long as some have little to write and
//! others much, frames are therefore shorter. They stay long otherwise: each costs a sync.
//!
//! A shorter frame helps only as far as bytes are what takes the time. A sync beside a backup, or of a thread that waits
//! for a processor, takes milliseconds whatever it syncs; short frames would only be more of them, and the log would
//! write less than it is given. So bytes and times of frames are told apart, see [`Cost`].

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use self::cost::Cost;
use crate::PartitionId;
use crate::queue::batch_bytes;
use crate::waiting::Waiting;

mod cost;

/// A frame takes no further batch beyond so many bytes.
const FRAME_BYTES_MAX: u64 = 4 << 20;
/// On a slow disk a frame takes less, but no less than this.
const FRAME_BYTES_MIN: u64 = 512 << 10;
/// How long writing a frame should take, in microseconds.
const FRAME_MICROS: u32 = 12_000;
/// The same while frames are shared by partitions with much to write and partitions with little.
const SHARED_FRAME_MICROS: u32 = 2_000;
/// Behind every so many frames one takes half as much, or twice as much as little: frames that are all alike don't tell what
/// bytes cost.
const PROBE_FRAMES: u32 = 8;
/// A partition has little to write if its part of a frame is smaller than the largest part by this factor.
const LIGHT_PART: u64 = 16;
/// Frames count as shared for so long after the last one that was, in milliseconds.
const SHARED_MS: u64 = 1_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Pace {
    frame_bytes_max: u64,
    cost: Cost,
    /// Since the last frame of another size than the others.
    frames: u32,
    /// When a frame was last shared.
    shared_at: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { frame_bytes_max: FRAME_BYTES_MAX, cost: Cost::default(), frames: 0, shared_at: None }
    }
}

impl Pace {
    /// What the next frame may take, in bytes.
    pub(super) const fn frame_bytes_max(&self) -> u64 {
        match self.frame_bytes_max {
            bytes if self.frames < PROBE_FRAMES => bytes,
            bytes if bytes >= 2 * FRAME_BYTES_MIN => bytes / 2,
            bytes => 2 * bytes,
        }
    }

    /// Learns from a frame that took so long to write.
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
        // A log with little to write has no need of a limit.
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

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// What a log that always has more to write puts into a frame in the end, in KiB, where a frame costs so many
    /// microseconds and so many more for each MiB, give or take a half.
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
        // 100 MiB/s: 12 ms are 1.2 MiB, 2 ms less than the least.
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
        // 5 ms and 5 ms for each MiB: a MiB, although nothing fits into 2 ms.
        let long = settles_at(true, 5_000, 5_000);
        assert!((700..1_700).contains(&long), "{long}");
    }
}
