//! The metrics of the log.

use std::fmt;

use peeklock_metrics::{Counter, Durations, Family, Page, Unit};

const SYNC_DURATION: Family = Family::histogram(
    "peeklock_storage_sync_duration_seconds",
    "Time to write a frame of batches and to sync it.",
);
const SYNCS: Family = Family::counter("peeklock_storage_syncs", Unit::None, "Frames written and synced.");
const BATCHES: Family = Family::counter(
    "peeklock_storage_batches",
    Unit::None,
    "Batches made durable; divided by the number of syncs, the batches per sync.",
);
const WRITTEN: Family = Family::counter(
    "peeklock_storage_written_bytes",
    Unit::Bytes,
    "Bytes of the frames written for batches.",
);
const CLEANED: Family = Family::counter(
    "peeklock_storage_cleaned_bytes",
    Unit::Bytes,
    "Bytes that the cleaner copied out of mostly dead segments.",
);
const SCRUBBED: Family = Family::counter(
    "peeklock_storage_scrubbed_bytes",
    Unit::Bytes,
    "Bytes read by the scrubber to find damage.",
);
const SCRUB_DAMAGE: Family = Family::counter(
    "peeklock_storage_scrub_damage",
    Unit::None,
    "Damaged places found by reading sealed segments again.",
);
const SEGMENTS: Family = Family::gauge("peeklock_storage_segments", Unit::None, "Segment files of the log.");
const BYTES: Family = Family::gauge(
    "peeklock_storage_bytes",
    Unit::Bytes,
    "Bytes by kind: live records, dead records in sealed segments, allocated segment files, free in the file system; in a database: live and dead bodies, and allocated with everything else.",
);
const PRESSURE: Family = Family::gauge(
    "peeklock_storage_pressure",
    Unit::None,
    "1 while sends are refused, because only the reserve for removals is left or no segment can be prepared.",
);

/// The counters of a store's threads; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct StorageMetrics {
    /// Frames written and synced.
    pub(crate) syncs: Counter,
    /// Batches in these frames.
    pub(crate) batches: Counter,
    /// Bytes of these frames.
    pub(crate) written_bytes: Counter,
    /// Time to write and sync each frame.
    pub(crate) sync_duration: Durations,
    /// Bytes written by the cleaner.
    pub(crate) cleaned_bytes: Counter,
    /// Bytes read by the scrubber.
    pub(crate) scrubbed_bytes: Counter,
    /// Damaged places found by the scrubber.
    pub(crate) scrub_damage: Counter,
}

/// Storage used by an open store, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageBytes {
    /// Records still needed; in a database, bodies only.
    pub live: u64,
    /// Records in full segments that are no longer needed; in a database, bodies.
    pub dead: u64,
    /// Segment files; in a database, all data of the shard.
    pub allocated: u64,
    /// Free space of the file system, if known.
    pub free: Option<u64>,
}

/// A snapshot of a store's storage use.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figures {
    pub(crate) segments: usize,
    pub(crate) live_bytes: u64,
    pub(crate) dead_bytes: u64,
    pub(crate) allocated_bytes: u64,
    pub(crate) free_bytes: Option<u64>,
    pub(crate) refuses_growth: bool,
}

impl StorageMetrics {
    pub(crate) fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        page.histogram(&SYNC_DURATION, &self.sync_duration.get())?;
        for (family, counter) in [
            (&SYNCS, &self.syncs),
            (&BATCHES, &self.batches),
            (&WRITTEN, &self.written_bytes),
            (&CLEANED, &self.cleaned_bytes),
            (&SCRUBBED, &self.scrubbed_bytes),
            (&SCRUB_DAMAGE, &self.scrub_damage),
        ] {
            page.one(family, counter.get())?;
        }
        Ok(())
    }
}

impl Figures {
    pub(crate) fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        page.one(&SEGMENTS, self.segments)?;
        self.write_bytes(page)
    }

    pub(crate) const fn bytes(&self) -> StorageBytes {
        let Self { live_bytes: live, dead_bytes: dead, allocated_bytes: allocated, free_bytes: free, .. } =
            *self;
        StorageBytes { live, dead, allocated, free }
    }

    /// Writes the values that stores without files have as well.
    pub(crate) fn write_bytes(&self, page: &mut Page<'_>) -> fmt::Result {
        let known = [
            ("live", Some(self.live_bytes)),
            ("dead", Some(self.dead_bytes)),
            ("allocated", Some(self.allocated_bytes)),
            ("free", self.free_bytes),
        ];
        page.each(&BYTES, known.into_iter().filter_map(|(kind, bytes)| Some(([("kind", kind)], bytes?))))?;
        page.one(&PRESSURE, u8::from(self.refuses_growth))
    }
}
