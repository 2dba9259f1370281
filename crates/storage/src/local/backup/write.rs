//! Writing a backup: links and copies first, then a sync of everything, the manifest last.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::directory::{BACKUP_NEW_NAME, Directory, corrupt, is_full, unavailable};
use super::super::filesystem::{File, Filesystem, RealFilesystem};
use super::super::manifest::{Listed, Manifest};
use super::super::segments::SegmentFile;
use super::super::walk::walk;
use super::{BackupPlan, used_bytes};
use crate::Error;

/// Bytes copied between two syncs; keeps the disk's queue short for the broker's commits.
const SLICE_BYTES: usize = 1 << 20;
/// Longest pause after a slice: a slice that took seconds does not predict the next one.
const REST_MAX: Duration = Duration::from_secs(1);

/// Options of a backup. Start from [`BackupOptions::default`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupOptions {
    /// Whether sealed segments are linked where the file system supports it. Default true.
    pub is_linking: bool,
    /// Rate at which the other segments are copied, in bytes per second. Default 64 MiB/s.
    pub copy_bytes_per_second: u64,
    /// Largest share of the time for which copying may keep the disk busy, in per cent; the rest is left to the broker.
    /// On a slow disk this and not the rate bounds a copy. Default 25; with 100 only the rate applies, which is meant
    /// for a stopped broker.
    pub disk_share_percent: u8,
    /// Free bytes to be left on the target; the backup is aborted when there would be less. Default 0.
    pub free_bytes_min: u64,
}

impl Default for BackupOptions {
    fn default() -> Self {
        Self { is_linking: true, copy_bytes_per_second: 64 << 20, disk_share_percent: 25, free_bytes_min: 0 }
    }
}

/// Progress of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackupProgress {
    /// Number of segments in the backup.
    pub segments_total: usize,
    /// Segments already linked or copied.
    pub segments_done: usize,
    /// Bytes to be copied.
    pub bytes_total: u64,
    /// Bytes copied so far.
    pub bytes_done: u64,
}

/// Result of a finished backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupReport {
    /// Number of segments.
    pub segments: usize,
    /// Segments that share their file with the data directory.
    pub segments_linked: usize,
    /// Bytes of headers and frames of all segments.
    pub bytes: u64,
    /// Bytes copied.
    pub bytes_copied: u64,
}

/// Observes a backup. An error returned by either method aborts it, and the files written are removed.
pub trait BackupWatch {
    /// Called after every step.
    ///
    /// # Errors
    /// Any error; it aborts the backup.
    fn progress(&mut self, progress: BackupProgress) -> Result<(), Error>;

    /// Called once, when everything except the manifest is written, to confirm that the plan is still pinned.
    ///
    /// # Errors
    /// Any error; it aborts the backup.
    fn confirm(&mut self) -> Result<(), Error>;
}

/// Writes a backup of the data directory `source` to `target`, which is created or must be empty. `plan` must be
/// pinned until this returns.
///
/// # Errors
/// [`Error::Unavailable`] when `target` is not empty or can't be written, [`Error::Full`] without room for it,
/// [`Error::Corrupt`] when a copied segment is damaged, and the errors of `watch`. `target` is left empty then.
pub fn write_backup(
    source: &Path,
    target: &Path,
    plan: &BackupPlan,
    options: &BackupOptions,
    watch: &mut dyn BackupWatch,
) -> Result<BackupReport, Error> {
    write_backup_on(Arc::new(RealFilesystem), source, target, plan, options, watch)
}

/// Like [`write_backup`], on another file system.
///
/// # Errors
/// Those of [`write_backup`].
pub fn write_backup_on(
    filesystem: Arc<dyn Filesystem>,
    source: &Path,
    target: &Path,
    plan: &BackupPlan,
    options: &BackupOptions,
    watch: &mut dyn BackupWatch,
) -> Result<BackupReport, Error> {
    let source = Directory::new(source, Arc::clone(&filesystem));
    let target = Directory::new(target, filesystem);
    prepare(&target)?;
    let claim = claim(&target)?;
    let progress = BackupProgress { segments_total: plan.segments(), ..BackupProgress::default() };
    let mut writing = Writing { source, target, plan, options, watch, progress };
    let written = writing.write(claim.as_ref());
    if written.is_err() {
        writing.discard_all();
    }
    written
}

/// Creates the file of the manifest, which no other backup in this directory can create as well. Without it, two
/// backups that both found the directory empty would write to each other's files, some of which are the source's own.
fn claim(target: &Directory) -> Result<Arc<dyn File>, Error> {
    let path = target.backup_new_path();
    let file = target.filesystem.create_new(&path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Error::Unavailable {
            reason: format!(
                "another backup is being written to {}; choose another directory",
                target.path.display()
            ),
        },
        _ => {
            target.discard(&path);
            trouble(target, &path, &error)
        }
    })?;
    // Another backup may have completed since the first look.
    let looked = refuse_others(target, Some(BACKUP_NEW_NAME));
    if looked.is_err() {
        target.discard(&path);
    }
    looked.map(|()| file)
}

/// Ensures that the directory exists and is empty.
pub(super) fn prepare(target: &Directory) -> Result<(), Error> {
    let created = target.filesystem.create_directory(&target.path);
    created.map_err(|error| unavailable(&target.path, &error))?;
    refuse_others(target, None)
}

/// Ensures that the directory has no files but `own`.
pub(super) fn refuse_others(target: &Directory, own: Option<&str>) -> Result<(), Error> {
    let names = target.filesystem.list(&target.path).map_err(|error| unavailable(&target.path, &error))?;
    match names.iter().find(|name| *name != "lost+found" && Some(name.as_str()) != own) {
        None => Ok(()),
        Some(name) => {
            let path = target.path.display();
            let reason =
                format!("the directory {path} is not empty: it holds {name}; choose an empty or a new one");
            Err(Error::Unavailable { reason })
        }
    }
}

struct Writing<'a> {
    source: Directory,
    target: Directory,
    plan: &'a BackupPlan,
    options: &'a BackupOptions,
    watch: &'a mut dyn BackupWatch,
    progress: BackupProgress,
}

impl Writing<'_> {
    fn write(&mut self, claim: &dyn File) -> Result<BackupReport, Error> {
        let mut manifest = self.plan.manifest.clone();
        let rest = self.link(&manifest)?;
        self.progress.bytes_total = rest.iter().map(used_bytes).sum();
        self.check_room(self.progress.bytes_total)?;
        let started = Instant::now();
        for listed in &rest {
            self.copy(listed, started)?;
        }
        for listed in manifest.segments.iter_mut().filter(|listed| rest.contains(listed)) {
            listed.capacity = used_bytes(listed);
        }
        self.finish(&manifest, claim)?;
        Ok(BackupReport {
            segments: self.plan.segments(),
            segments_linked: self.plan.segments() - rest.len(),
            bytes: self.plan.bytes(),
            bytes_copied: self.progress.bytes_done,
        })
    }

    /// Links all segments that can be linked; returns the others.
    fn link(&mut self, manifest: &Manifest) -> Result<Vec<Listed>, Error> {
        let mut rest = Vec::new();
        for listed in &manifest.segments {
            let is_linked = self.options.is_linking && !self.plan.open.contains(&listed.id) && {
                let (from, to) = (self.source.segment_path(listed.id), self.target.segment_path(listed.id));
                self.try_link(&from, &to)?
            };
            match is_linked {
                true => self.step(1, 0)?,
                false => rest.push(*listed),
            }
        }
        Ok(rest)
    }

    /// Returns false where the file system does not support links, or not between these directories.
    fn try_link(&self, from: &Path, to: &Path) -> Result<bool, Error> {
        match self.target.filesystem.link(from, to) {
            Ok(()) => {
                let synced = self.target.filesystem.open(to, false).and_then(|file| file.sync_data());
                synced.map(|()| true).map_err(|error| unavailable(to, &error))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(unavailable(from, &error)),
            Err(error) if is_full(&error) => Err(full(&self.target, &error.to_string())),
            Err(_) => {
                // File systems on a network may report an error although the link was made.
                self.target.discard(to);
                Ok(false)
            }
        }
    }

    fn check_room(&self, bytes: u64) -> Result<(), Error> {
        let free = self.target.filesystem.free_bytes(&self.target.path);
        let free = free.map_err(|error| unavailable(&self.target.path, &error))?;
        let min = self.options.free_bytes_min;
        match free < bytes.saturating_add(min) {
            true => Err(full(
                &self.target,
                &format!(
                    "{bytes} bytes have to be copied and {min} are left free, where {free} bytes are free"
                ),
            )),
            false => Ok(()),
        }
    }

    fn copy(&mut self, listed: &Listed, started: Instant) -> Result<(), Error> {
        let (from, to) = (self.source.segment_path(listed.id), self.target.segment_path(listed.id));
        let original =
            self.source.filesystem.open(&from, false).map_err(|error| unavailable(&from, &error))?;
        // An existing file may be a second name of the source's own.
        let file =
            self.target.filesystem.create_new(&to).map_err(|error| trouble(&self.target, &to, &error))?;
        let end = used_bytes(listed);
        let mut buffer = vec![0; SLICE_BYTES];
        let mut offset = 0;
        while offset < end {
            let len = usize::try_from(end - offset).unwrap_or(SLICE_BYTES).min(SLICE_BYTES);
            let slice = buffer.get_mut(..len).unwrap_or_default();
            let slice_started = Instant::now();
            original.read_exact_at(slice, offset).map_err(|error| unavailable(&from, &error))?;
            let written = file.write_all_at(slice, offset).and_then(|()| file.sync_data());
            written.map_err(|error| trouble(&self.target, &to, &error))?;
            let busy = slice_started.elapsed();
            offset += len as u64;
            self.check_room(0)?;
            self.step(0, len as u64)?;
            self.pause(started, busy);
        }
        let copy = SegmentFile { id: listed.id, salt: listed.salt, capacity: end, path: to, file };
        verify(&copy, listed, &from)?;
        self.step(1, 0)
    }

    fn step(&mut self, segments: usize, bytes: u64) -> Result<(), Error> {
        self.progress.segments_done += segments;
        self.progress.bytes_done += bytes;
        self.watch.progress(self.progress)
    }

    /// Pauses to keep to the rate, and to the share of the disk after a slice that took `busy`.
    fn pause(&self, started: Instant, busy: Duration) {
        let rate = self.options.copy_bytes_per_second.max(1);
        let due = Duration::from_millis(self.progress.bytes_done.saturating_mul(1000) / rate);
        let left = rest_after(busy, self.options.disk_share_percent);
        std::thread::sleep(due.saturating_sub(started.elapsed()).max(left));
    }

    /// Writes the manifest; its rename completes the backup.
    fn finish(&mut self, manifest: &Manifest, claim: &dyn File) -> Result<(), Error> {
        let (new, path) = (self.target.backup_new_path(), self.target.backup_path());
        let write = || {
            claim.write_all_at(&manifest.encode(), 0)?;
            claim.sync_data()?;
            self.target.filesystem.sync_directory(&self.target.path)
        };
        write().map_err(|error| trouble(&self.target, &new, &error))?;
        self.watch.confirm()?;
        let rename = self.target.filesystem.rename(&new, &path);
        rename
            .and_then(|()| self.target.filesystem.sync_directory(&self.target.path))
            .map_err(|error| trouble(&self.target, &path, &error))?;
        self.target.sync_parents()
    }

    /// Removes everything that was written; first the manifest, without which the rest is no backup, and the claim last.
    fn discard_all(&self) {
        self.target.discard(&self.target.backup_path());
        for listed in &self.plan.manifest.segments {
            self.target.discard(&self.target.segment_path(listed.id));
        }
        self.target.discard(&self.target.backup_new_path());
    }
}

/// The error of a failed write to the target.
fn trouble(target: &Directory, path: &Path, error: &io::Error) -> Error {
    if is_full(error) { full(target, &error.to_string()) } else { unavailable(path, error) }
}

fn full(target: &Directory, reason: &str) -> Error {
    Error::Full { reason: format!("{}: {reason}", target.path.display()) }
}

/// The pause after the disk was busy for this long, so that it is busy for this share of the time.
fn rest_after(busy: Duration, share_percent: u8) -> Duration {
    let share = u32::from(share_percent.clamp(1, 100));
    (busy * (100 - share) / share).min(REST_MAX)
}

/// Verifies that a copy has the frames of its seal; damage is reported with the original's path.
pub(super) fn verify(copy: &SegmentFile, listed: &Listed, original: &Path) -> Result<(), Error> {
    let Some(seal) = listed.seal else { return Ok(()) };
    let end = walk(copy, seal.end, seal.first_sequence, |_| {});
    let end = end.map_err(|error| unavailable(&copy.path, &error))?;
    if end.offset != seal.end || end.next_sequence != seal.next_sequence {
        return Err(corrupt(original, end.defect, end.reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_is_left_to_others_for_the_rest_of_the_time() {
        let ms = Duration::from_millis;
        assert_eq!(rest_after(ms(4), 25), ms(12));
        assert_eq!(rest_after(ms(4), 100), ms(0));
        assert_eq!(rest_after(ms(4), 0), ms(396));
        assert_eq!(rest_after(Duration::from_secs(60), 25), REST_MAX);
    }
}
