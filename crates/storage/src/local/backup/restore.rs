//! Reading a backup: verified as a whole, then copied into a new data directory.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::super::check::{Report, report};
use super::super::directory::{Directory, LOCK_NAME, unavailable};
use super::super::filesystem::{Filesystem, Lock, RealFilesystem};
use super::super::keeper::store_hint;
use super::super::manifest::{Listed, Manifest};
use super::super::recovery::{Loaded, Mode, load_listed};
use super::super::scan::scan;
use super::super::segments::SegmentFile;
use super::super::state::State;
use super::super::store::lock;
use super::super::walk::Damage;
use super::used_bytes;
use super::write::{prepare, refuse_others, verify};
use crate::{Error, Key};

/// Bytes copied at once.
const SLICE_BYTES: usize = 1 << 20;

/// Result of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoreReport {
    /// Number of segments.
    pub segments: usize,
    /// Bytes of headers and frames.
    pub bytes: u64,
    /// The data directory's epoch: later than any in the backup.
    pub epoch: u64,
}

/// Whether the directory at `path` holds a complete backup.
///
/// # Errors
/// [`Error::Unavailable`] or [`Error::System`] when that can't be determined.
pub fn is_backup(path: impl AsRef<Path>) -> Result<bool, Error> {
    let directory = Directory::new(path.as_ref(), Arc::new(RealFilesystem));
    let manifest = directory.backup_path();
    match directory.filesystem.open(&manifest, false) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(false)
        }
        Err(error) => Err(unavailable(&manifest, &error)),
    }
}

/// Verifies every checksum of the backup at `path` and passes every live key to `visit`; changes nothing.
///
/// # Errors
/// [`Error::Corrupt`] naming file and offset of the first damage, [`Error::Unavailable`] when it is not a complete
/// backup or can't be read.
pub fn check_backup(path: impl AsRef<Path>, visit: &mut dyn FnMut(Key)) -> Result<Report, Error> {
    check_backup_on(Arc::new(RealFilesystem), path, visit)
}

/// Like [`check_backup`], on another file system.
///
/// # Errors
/// Those of [`check_backup`].
pub fn check_backup_on(
    filesystem: Arc<dyn Filesystem>,
    path: impl AsRef<Path>,
    visit: &mut dyn FnMut(Key),
) -> Result<Report, Error> {
    let loaded = load_backup(&Directory::new(path.as_ref(), filesystem))?;
    visit_keys(&loaded.state, visit);
    Ok(Report { hints_missing: 0, is_closed: true, ..report(&loaded) })
}

/// Copies the backup at `backup` into the data directory `path`, which is created or must be empty. Verifies every
/// checksum before writing anything. Passes every live key to `visit`.
///
/// # Errors
/// Those of [`check_backup`]; [`Error::Unavailable`] when `path` is not empty or can't be written; it is left empty
/// then.
pub fn restore(
    backup: impl AsRef<Path>,
    path: impl AsRef<Path>,
    visit: &mut dyn FnMut(Key),
) -> Result<RestoreReport, Error> {
    restore_on(Arc::new(RealFilesystem), backup, path, visit)
}

/// Like [`restore`], on another file system.
///
/// # Errors
/// Those of [`restore`].
pub fn restore_on(
    filesystem: Arc<dyn Filesystem>,
    backup: impl AsRef<Path>,
    path: impl AsRef<Path>,
    visit: &mut dyn FnMut(Key),
) -> Result<RestoreReport, Error> {
    let backup = Directory::new(backup.as_ref(), Arc::clone(&filesystem));
    let target = Directory::new(path.as_ref(), filesystem);
    let loaded = load_backup(&backup)?;
    visit_keys(&loaded.state, visit);
    prepare(&target)?;
    let _lock = take(&target)?;
    let restored = copy_all(&backup, &target, &loaded.manifest);
    if restored.is_err() {
        discard_all(&target, &loaded.manifest);
    }
    restored
}

/// Locks the empty directory; after an error, its lock file is left only if another process holds it.
fn take(target: &Directory) -> Result<Box<dyn Lock>, Error> {
    let locked = lock(target, true).and_then(|lock| {
        // Another restore may have completed since the first look.
        refuse_others(target, Some(LOCK_NAME)).map(|()| lock)
    });
    if locked.as_ref().is_err_and(|error| !matches!(error, Error::Fenced { .. })) {
        target.discard(&target.lock_path());
    }
    locked
}

fn load_backup(directory: &Directory) -> Result<Loaded, Error> {
    let path = directory.backup_path();
    let Some(manifest) = Manifest::load_from(directory, &path)? else {
        let reason = format!(
            "{} holds no complete backup: the file BACKUP, which is written last, is missing",
            directory.path.display()
        );
        return Err(Error::Unavailable { reason });
    };
    load_listed(directory, Mode::Check, manifest, 0)
}

fn visit_keys(state: &State, visit: &mut dyn FnMut(Key)) {
    for (space, partition) in state.index.partitions() {
        for (number, _) in state.index.range(space, partition, 0) {
            visit(Key::new(space, partition, number));
        }
    }
}

fn copy_all(backup: &Directory, target: &Directory, manifest: &Manifest) -> Result<RestoreReport, Error> {
    let mut manifest = manifest.clone();
    for listed in &mut manifest.segments {
        listed.capacity = used_bytes(listed);
        copy(backup, target, listed)?;
    }
    // The epoch must be later than that of the store that was backed up.
    manifest.epoch += 1;
    let stored = manifest.store(target);
    stored.map_err(|not_stored| unavailable(&target.manifest_path(), not_stored.error()))?;
    target.sync_parents()?;
    Ok(RestoreReport {
        segments: manifest.segments.len(),
        bytes: manifest.segments.iter().map(used_bytes).sum(),
        epoch: manifest.epoch,
    })
}

/// Copies one segment, verifies the copy and writes its hint.
fn copy(backup: &Directory, target: &Directory, listed: &Listed) -> Result<(), Error> {
    let (from, to) = (backup.segment_path(listed.id), target.segment_path(listed.id));
    let original = backup.open(&from, false)?;
    let end = used_bytes(listed);
    let write_failed = |error: io::Error| unavailable(&to, &error);
    let write = || {
        let file = target.filesystem.create_new(&to).map_err(write_failed)?;
        let mut buffer = vec![0; SLICE_BYTES];
        let mut offset = 0;
        while offset < end {
            let len = usize::try_from(end - offset).unwrap_or(SLICE_BYTES).min(SLICE_BYTES);
            let slice = buffer.get_mut(..len).unwrap_or_default();
            original.read_exact_at(slice, offset).map_err(|error| unavailable(&from, &error))?;
            file.write_all_at(slice, offset).map_err(write_failed)?;
            offset += len as u64;
        }
        file.sync_data().map_err(write_failed)?;
        Ok::<_, Error>(file)
    };
    let file = write()?;
    let copy = SegmentFile { id: listed.id, salt: listed.salt, capacity: end, path: to.clone(), file };
    verify(&copy, listed, &to)?;
    if let Some(seal) = listed.seal {
        let (hint, ..) = scan(&copy, seal.end, seal.first_sequence, Damage::Refused)?;
        let stored = store_hint(target, listed.id, &hint.bytes);
        stored.map_err(|error| unavailable(&target.hint_path(listed.id), &error))?;
    }
    Ok(())
}

fn discard_all(target: &Directory, manifest: &Manifest) {
    for listed in &manifest.segments {
        target.discard(&target.segment_path(listed.id));
        target.discard(&target.hint_path(listed.id));
    }
    for path in [target.manifest_path(), target.manifest_new_path(), target.lock_path()] {
        target.discard(&path);
    }
}
