//! `[storage]`: the data directory and its sizes.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::size;
use super::table::Table;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const SEGMENT_BYTES: RangeInclusive<u64> = MIB..=GIB;
const RESERVE_BYTES: RangeInclusive<u64> = MIB..=1024 * GIB;
const CLEANING_BYTES_PER_SECOND: RangeInclusive<u64> = MIB..=64 * GIB;
const DAY_MS: u64 = 24 * 3600 * 1000;
const SCRUB_INTERVAL_MS: RangeInclusive<u64> = 0..=365 * DAY_MS;
const SCRUB_BYTES_PER_SECOND: RangeInclusive<u64> = MIB..=GIB;
const BODY_CACHE_BYTES: RangeInclusive<u64> = 0..=1024 * GIB;
/// What the store needs to move live records about: the segment being written, two prepared, some dying.
const SEGMENTS_MIN: u64 = 6;

/// How messages are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StorageConfig {
    /// Size of a segment file.
    pub(crate) segment_bytes: u64,
    /// Largest size of the data directory; `None` leaves the file system as the limit.
    pub(crate) size_bytes_max: Option<u64>,
    /// Free bytes of the file system that are left alone.
    pub(crate) reserve_bytes: u64,
    /// How fast live records are copied out of mostly dead segments.
    pub(crate) clean_bytes_per_second: u64,
    /// How often sealed segments are read again to find damage, in milliseconds; 0: never.
    pub(crate) scrub_interval_ms: u64,
    /// How fast that reads at most.
    pub(crate) scrub_bytes_per_second: u64,
    /// Memory for recently written message bodies, over all queues.
    pub(crate) body_cache_bytes: u64,
}

impl Default for StorageConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 64 * MIB,
            size_bytes_max: None,
            reserve_bytes: 256 * MIB,
            clean_bytes_per_second: 128 * MIB,
            scrub_interval_ms: 7 * DAY_MS,
            scrub_bytes_per_second: 16 * MIB,
            body_cache_bytes: 32 * MIB,
        }
    }
}

/// Reads the section: the data directory, which flags may overrule, and the rest.
pub(crate) fn read(mut table: Table<'_, '_>) -> (Option<PathBuf>, StorageConfig) {
    let data_dir = table.text("data_dir", "\"./data\"", |path| match path {
        "" => Err("is empty; write data_dir = \"./data\"".to_owned()),
        _ => Ok(PathBuf::from(path)),
    });
    let default = StorageConfig::default();
    let segment_bytes = table.size_bytes("segment_size", default.segment_bytes, &SEGMENT_BYTES);
    let size_bytes_min = SEGMENTS_MIN * segment_bytes;
    let size_bytes_max = table.text("size_max", "\"10 GiB\"", |text| {
        if text.eq_ignore_ascii_case("unlimited") {
            return Ok(None);
        }
        let bytes = size::parse_in(text, &(0..=u64::MAX))?;
        if bytes < size_bytes_min {
            let (least, segment) = (size::display(size_bytes_min), size::display(segment_bytes));
            return Err(format!(
                "\"{text}\" is less than {SEGMENTS_MIN} segments of {segment}; write at least \"{least}\", or a smaller segment_size"
            ));
        }
        Ok(Some(bytes))
    });
    let config = StorageConfig {
        segment_bytes,
        size_bytes_max: size_bytes_max.unwrap_or(default.size_bytes_max),
        reserve_bytes: table.size_bytes("reserve", default.reserve_bytes, &RESERVE_BYTES),
        clean_bytes_per_second: table.size_bytes(
            "cleaning_rate",
            default.clean_bytes_per_second,
            &CLEANING_BYTES_PER_SECOND,
        ),
        scrub_interval_ms: table.duration_ms("scrub_interval", default.scrub_interval_ms, &SCRUB_INTERVAL_MS),
        scrub_bytes_per_second: table.size_bytes(
            "scrub_rate",
            default.scrub_bytes_per_second,
            &SCRUB_BYTES_PER_SECOND,
        ),
        body_cache_bytes: table.size_bytes("body_cache", default.body_cache_bytes, &BODY_CACHE_BYTES),
    };
    table.finish();
    (data_dir, config)
}
