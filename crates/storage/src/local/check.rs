//! Verification of a data directory without serving from it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::directory::Directory;
use super::filesystem::{Filesystem, RealFilesystem};
use super::manifest::Manifest;
use super::recovery::{Loaded, Mode, load};
use super::state::State;
use super::store::lock;
use super::survey::{Damage, Survey, no_store};
use crate::{Error, PartitionId, Space};

/// The contents of a data directory, with every checksum verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// All damage, in the order of replay. Losses without a trace are not included.
    pub damage: Vec<Damage>,
    /// Removed messages that may reappear because their removal may be lost.
    pub may_return: Vec<MayReturn>,
    /// The reason why the next opening will be refused, if it will.
    pub refusal: Option<Error>,
    /// How often the store has been acquired so far.
    pub epoch: u64,
    /// The segments in the order of replay.
    pub segments: Vec<SegmentReport>,
    /// Live keys by space.
    pub keys: BTreeMap<Space, u64>,
    /// Bytes of live records, headers included.
    pub live_bytes: u64,
    /// Bytes of records and headers that are no longer needed.
    pub dead_bytes: u64,
    /// An unfinished write at the end, which the next opening cuts off. Nothing acknowledged is in it.
    pub torn_tail: Option<TornTail>,
    /// Number of missing or damaged hints; the next opening takes longer and rebuilds them.
    pub hints_missing: usize,
    /// Whether the store was closed cleanly.
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
    /// Whether it is complete; otherwise it may still be appended to.
    pub is_sealed: bool,
}

/// Messages of a partition that are older than a place where an unknown removal may be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MayReturn {
    /// The partition.
    pub partition: PartitionId,
    /// Their number.
    pub count: u64,
    /// The lowest of their numbers.
    pub first: u64,
    /// The highest of their numbers.
    pub last: u64,
}

/// Where an unfinished write begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TornTail {
    /// The segment's number.
    pub segment: u32,
    /// Offset in bytes.
    pub offset: u64,
}

/// Verifies the data directory at `path`; changes nothing.
///
/// # Errors
/// [`Error::Fenced`] while a process uses it, [`Error::Unavailable`] when it is not a data directory or can't be read.
/// Damage is not an error: see [`Report::damage`].
pub fn check(path: impl AsRef<Path>) -> Result<Report, Error> {
    check_on(Arc::new(RealFilesystem), path)
}

/// Like [`check`], on another file system.
///
/// # Errors
/// Those of [`check`].
pub fn check_on(filesystem: Arc<dyn Filesystem>, path: impl AsRef<Path>) -> Result<Report, Error> {
    let directory = Directory::new(path.as_ref(), filesystem);
    let _lock = lock(&directory, false)?;
    let survey = Survey::take(&directory)?.ok_or_else(|| no_store(&directory))?;
    Ok(survey_report(&directory, &survey))
}

/// The report for a survey.
pub(super) fn survey_report(directory: &Directory, survey: &Survey) -> Report {
    let may_return = survey.may_return(Space::Head).into_iter();
    Report {
        damage: survey.damage.clone(),
        may_return: may_return
            .map(|(partition, count, first, last)| MayReturn { partition, count, first, last })
            .collect(),
        refusal: load(directory, Mode::Look, 0).err(),
        torn_tail: survey.torn.map(|(segment, offset)| TornTail { segment, offset }),
        hints_missing: survey.hints_missing,
        ..account(&survey.manifest, &survey.state, |id| survey.ends.get(&id).copied())
    }
}

/// Reports segments and keys.
fn account(manifest: &Manifest, state: &State, used_bytes: impl Fn(u32) -> Option<u64>) -> Report {
    let header_bytes = u64::from(super::format::SEGMENT_HEADER_BYTES);
    let segments: Vec<SegmentReport> = state
        .segments
        .in_order()
        .map(|segment| SegmentReport {
            id: segment.file.id,
            file_bytes: segment.file.capacity,
            used_bytes: used_bytes(segment.file.id).unwrap_or(header_bytes),
            live_bytes: segment.live_bytes,
            is_sealed: segment.sealed_end.is_some(),
        })
        .collect();
    let mut keys: BTreeMap<Space, u64> = Space::ALL.into_iter().map(|space| (space, 0)).collect();
    for (space, partition) in state.index.partitions() {
        *keys.entry(space).or_default() += state.index.range(space, partition, 0).count() as u64;
    }
    let live_bytes = segments.iter().map(|segment| segment.live_bytes).sum();
    let used_bytes: u64 = segments.iter().map(|segment| segment.used_bytes).sum();
    Report {
        damage: Vec::new(),
        may_return: Vec::new(),
        refusal: None,
        epoch: manifest.epoch,
        segments,
        keys,
        live_bytes,
        dead_bytes: used_bytes.saturating_sub(live_bytes),
        torn_tail: None,
        hints_missing: 0,
        is_closed: manifest.closed.is_some(),
    }
}

/// The report for files without damage.
pub(super) fn report(loaded: &Loaded) -> Report {
    let used_bytes = |id: u32| {
        let sealed =
            loaded.manifest.segments.iter().find(|listed| listed.id == id)?.seal.map(|seal| seal.end);
        let unsealed = loaded.unsealed.iter().find(|full| full.id == id).map(|full| full.seal.end);
        let active =
            loaded.active.as_ref().filter(|active| active.segment.id == id).map(|active| active.offset);
        sealed.or(unsealed).or(active)
    };
    let torn = loaded.torn.as_ref().map(|torn| TornTail { segment: torn.segment, offset: torn.offset });
    Report {
        torn_tail: torn,
        hints_missing: loaded.hints_rebuilt,
        ..account(&loaded.manifest, &loaded.state, used_bytes)
    }
}
