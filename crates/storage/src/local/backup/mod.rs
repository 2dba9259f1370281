//! Backups: the segments of one commit, in a directory of their own.
//!
//! ```text
//! BACKUP                  the manifest of the backup, written last: without it the backup is incomplete
//! 0000000007.segment      a second name of the data directory's file, or a copy of its part in use
//! ```
//! * **The cut.** The manifest, the segments that wait for their seal and the end of the last durable frame are read
//!   under their three locks together. So a backup contains every batch up to one commit and nothing of a later one.
//!   Every segment in it is sealed; nothing is ever appended to a backup.
//! * **The pin.** Holding the segments' [`Arc`]s keeps their files from being removed or reused, as it does for a
//!   reader. The writer is not involved, and no lock is held while files are linked or copied.
//! * **Links.** Files of sealed segments never change, so they get a second name where the file system supports it. A
//!   file with a second name is removed once its segment is dead and never reused ([`Directory::is_unlinked`]): the
//!   backup keeps the only other name.
//! * **No hints.** A hint written after the cut omits values removed since. Restoring writes hints again.

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::directory::Directory;
use super::fields::{Append, Fields};
use super::filesystem::{Filesystem, Lock, RealFilesystem};
use super::format::SEGMENT_HEADER_BYTES;
use super::manifest::{Closed, Listed, Manifest, Seal};
use super::recovery::{Loaded, Mode, load};
use super::segments::SegmentFile;
use super::shared::Shared;
use super::store::lock;
use super::survey::no_store;
use crate::Error;

mod restore;
mod write;

pub use restore::{RestoreReport, check_backup, check_backup_on, is_backup, restore, restore_on};
pub use write::{BackupOptions, BackupProgress, BackupReport, BackupWatch, write_backup, write_backup_on};

/// How long a cut is retried while the cleaner or the keeper has changed the manifest but not yet the memory.
const CUT_PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two attempts.
const CUT_PAUSE: Duration = Duration::from_millis(1);

/// The segments, and the used part of each, that make up the state after one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupPlan {
    /// Lists every segment as sealed.
    manifest: Manifest,
    /// Segments whose files were still being written when the plan was made.
    open: Vec<u32>,
}

impl BackupPlan {
    /// Encodes the plan, for [`Self::decode`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.append_u32(u32::try_from(self.open.len()).unwrap_or(u32::MAX));
        self.open.iter().for_each(|id| bytes.append_u32(*id));
        bytes.extend_from_slice(&self.manifest.encode());
        bytes
    }

    /// Decodes a plan; `None` if the bytes are not a plan of this program's version.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let count = fields.u32()?;
        let mut open = Vec::new();
        for _ in 0..count {
            open.push(fields.u32()?);
        }
        Some(Self { manifest: Manifest::decode(fields.0).ok()?, open })
    }

    /// Number of segments.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.manifest.segments.len()
    }

    /// Bytes of headers and frames of all segments together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.manifest.segments.iter().map(used_bytes).sum()
    }

    /// The plan for `manifest` and the state known beyond it.
    fn cut(manifest: &Manifest, log_end: Option<Closed>, unsealed: impl Fn(u32) -> Option<Seal>) -> Self {
        let mut plan = Self { manifest: Manifest { closed: None, ..manifest.clone() }, open: Vec::new() };
        if let Some(end) = log_end {
            plan.manifest.sealed_sequence = end.seal.next_sequence - 1;
        }
        plan.manifest.segments.clear();
        for listed in &manifest.segments {
            let known = unsealed(listed.id).or(log_end.filter(|end| end.id == listed.id).map(|end| end.seal));
            let Some(seal) = listed.seal.or(known).filter(|seal| seal.end > u64::from(SEGMENT_HEADER_BYTES))
            else {
                continue;
            };
            plan.open.extend(listed.seal.is_none().then_some(listed.id));
            plan.manifest.segments.push(Listed { seal: Some(seal), ..*listed });
        }
        plan
    }
}

/// Bytes in use of a listed segment.
fn used_bytes(listed: &Listed) -> u64 {
    listed.seal.map_or(0, |seal| seal.end)
}

/// A plan whose segments remain on disk, unchanged, until it is dropped.
#[derive(Debug)]
pub struct PinnedPlan {
    plan: BackupPlan,
    #[expect(dead_code, reason = "held so that no file is removed or filled again")]
    held: PinnedFiles,
}

#[derive(Debug)]
#[expect(dead_code, reason = "held, never looked at")]
enum PinnedFiles {
    Segments(Vec<Arc<SegmentFile>>),
    Directory(Box<dyn Lock>),
}

impl PinnedPlan {
    /// The plan.
    #[must_use]
    pub const fn plan(&self) -> &BackupPlan {
        &self.plan
    }

    /// Makes the cut in an open store: everything acknowledged before is in the plan.
    pub(super) fn of(shared: &Shared) -> Result<Self, Error> {
        let started = Instant::now();
        while started.elapsed() < CUT_PATIENCE && !shared.is_stopping() {
            if let Some(pinned) = try_cut(shared) {
                return Ok(pinned);
            }
            std::thread::sleep(CUT_PAUSE);
        }
        let reason = "the store is closing or too busy for a backup".to_owned();
        Err(shared.fatal_error.get().cloned().unwrap_or(Error::Unavailable { reason }))
    }

    /// Locks the data directory at `path`, which must not be in use, and reads all of it.
    ///
    /// # Errors
    /// [`Error::Fenced`] while a process uses it, [`Error::Corrupt`] when it is damaged, [`Error::Unavailable`]
    /// when it is not a data directory or can't be read.
    pub fn of_stopped(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::of_stopped_on(Arc::new(RealFilesystem), path)
    }

    /// Like [`Self::of_stopped`], on another file system.
    ///
    /// # Errors
    /// Those of [`Self::of_stopped`].
    pub fn of_stopped_on(filesystem: Arc<dyn Filesystem>, path: impl AsRef<Path>) -> Result<Self, Error> {
        let directory = Directory::new(path.as_ref(), filesystem);
        let lock = lock(&directory, false)?;
        let Some(loaded) = load(&directory, Mode::Check, 0)? else {
            return Err(no_store(&directory));
        };
        let Loaded { manifest, active, unsealed, .. } = &loaded;
        let log_end = active.as_ref().map(|active| Closed { id: active.segment.id, seal: active.seal() });
        let unsealed = |id| unsealed.iter().find(|full| full.id == id).map(|full| full.seal);
        Ok(Self { plan: BackupPlan::cut(manifest, log_end, unsealed), held: PinnedFiles::Directory(lock) })
    }
}

/// The cut; `None` while a listed segment is not known in memory yet.
fn try_cut(shared: &Shared) -> Option<PinnedPlan> {
    let manifest = shared.manifest.lock().unwrap_or_else(PoisonError::into_inner);
    let state = shared.state();
    let exchange = shared.pool.lock();
    let unsealed = |id| exchange.unsealed.iter().find(|full| full.id == id).map(|full| full.seal);
    let plan = BackupPlan::cut(&manifest, state.log_end, unsealed);
    let files = plan.manifest.segments.iter().map(|listed| {
        let segment = state.segments.get(listed.id)?;
        Some(Arc::clone(&segment.file))
    });
    let files = files.collect::<Option<Vec<_>>>()?;
    Some(PinnedPlan { plan, held: PinnedFiles::Segments(files) })
}
