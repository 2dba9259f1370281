//! Looking at a data directory without serving from it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::directory::Directory;
use super::filesystem::{Filesystem, RealFilesystem};
use super::recovery::{Loaded, Mode, load};
use super::store::lock;
use crate::{Error, Space};

/// What a data directory holds, every checksum verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// How often the store was acquired so far.
    pub epoch: u64,
    /// The segments in the order of replay.
    pub segments: Vec<SegmentReport>,
    /// Live keys by space.
    pub keys: BTreeMap<Space, u64>,
    /// Bytes of live records, headers included.
    pub live_bytes: u64,
    /// Bytes of records and headers that nothing needs any more.
    pub dead_bytes: u64,
    /// An unfinished write at the end, which the next opening cuts off. Nothing acknowledged is in it.
    pub torn_tail: Option<TornTail>,
    /// Hints that are missing or damaged; the next opening takes longer and rebuilds them.
    pub hints_missing: usize,
    /// Whether the store was closed in good order.
    pub is_closed: bool,
}

/// One segment file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentReport {
    /// The number in the file's name.
    pub id: u32,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes in use: header and frames.
    pub used_bytes: u64,
    /// Bytes of live records.
    pub live_bytes: u64,
    /// Whether it is complete; a segment that is not may still be appended to.
    pub is_sealed: bool,
}

/// Where an unfinished write begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TornTail {
    /// The segment's number.
    pub segment: u32,
    /// In bytes.
    pub offset: u64,
}

/// Verifies the data directory at `path`; changes nothing.
///
/// # Errors
/// [`Error::Fenced`] while a process uses it, [`Error::Corrupt`] naming file and offset on the first damage,
/// [`Error::Unavailable`] when it is not a data directory or can't be read.
pub fn check(path: impl AsRef<Path>) -> Result<Report, Error> {
    check_on(Arc::new(RealFilesystem), path)
}

/// Like [`check`], on another file system.
///
/// # Errors
/// As there.
pub fn check_on(filesystem: Arc<dyn Filesystem>, path: impl AsRef<Path>) -> Result<Report, Error> {
    let directory = Directory { path: path.as_ref().to_owned(), filesystem };
    let _lock = lock(&directory, false)?;
    match load(&directory, Mode::Check)? {
        Some(loaded) => Ok(report(&loaded)),
        None => {
            let reason = format!("{} is not a data directory: it has no manifest", directory.path.display());
            Err(Error::Unavailable { reason })
        }
    }
}

pub(super) fn report(loaded: &Loaded) -> Report {
    let used_bytes = |id: u32| {
        let sealed =
            loaded.manifest.segments.iter().find(|listed| listed.id == id)?.seal.map(|seal| seal.end);
        let rolled = loaded.rolled.iter().find(|rolled| rolled.id == id).map(|rolled| rolled.seal.end);
        let active =
            loaded.active.as_ref().filter(|active| active.segment.id == id).map(|active| active.offset);
        sealed.or(rolled).or(active)
    };
    let segments: Vec<SegmentReport> = loaded
        .state
        .segments
        .in_order()
        .map(|segment| SegmentReport {
            id: segment.file.id,
            file_bytes: segment.file.capacity,
            used_bytes: used_bytes(segment.file.id).unwrap_or(u64::from(super::format::SEGMENT_HEADER_BYTES)),
            live_bytes: segment.live_bytes,
            is_sealed: segment.sealed_end.is_some(),
        })
        .collect();
    let mut keys: BTreeMap<Space, u64> = Space::ALL.into_iter().map(|space| (space, 0)).collect();
    for (space, partition) in loaded.state.index.partitions() {
        *keys.entry(space).or_default() += loaded.state.index.range(space, partition, 0).count() as u64;
    }
    let live_bytes = segments.iter().map(|segment| segment.live_bytes).sum();
    let used_bytes: u64 = segments.iter().map(|segment| segment.used_bytes).sum();
    Report {
        epoch: loaded.manifest.epoch,
        segments,
        keys,
        live_bytes,
        dead_bytes: used_bytes.saturating_sub(live_bytes),
        torn_tail: loaded.torn.as_ref().map(|torn| TornTail { segment: torn.segment, offset: torn.offset }),
        hints_missing: loaded.hints_rebuilt,
        is_closed: loaded.manifest.closed.is_some(),
    }
}
