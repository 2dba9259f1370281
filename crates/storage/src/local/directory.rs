//! A data directory: its file names, its file system, and errors with the file's name.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use super::descriptors::is_out_of_descriptors;
use super::filesystem::{File, FileIdentity, Filesystem};
use super::name_syncs::{NameSyncs, NamesBegun};
use crate::{Error, Place};

/// The lock's file name.
pub(super) const LOCK_NAME: &str = "LOCK";
/// The manifest's file name.
const MANIFEST_NAME: &str = "MANIFEST";
/// The name of a backup's list of segments. It differs from `MANIFEST` so that no broker opens a backup as a data
/// directory.
const BACKUP_NAME: &str = "BACKUP";
/// The name of that list until the backup is complete.
pub(super) const BACKUP_NEW_NAME: &str = "BACKUP.new";

/// Errors of Linux for bytes that the medium lost: EIO, ENODATA, EBADMSG, EUCLEAN, EREMOTEIO.
const LOST_BYTES_ERRNOS: [i32; 5] = [5, 61, 74, 117, 121];

/// Those that do not prove the loss of the bytes, because a cable, a controller or a network may be at fault: EIO,
/// EREMOTEIO. The others come from the medium or from the file system's checksums.
const DEVICE_ERRNOS: [i32; 2] = [5, 121];

/// The directory's path and its file system.
#[derive(Debug, Clone)]
pub(super) struct Directory {
    pub(super) path: PathBuf,
    pub(super) filesystem: Arc<dyn Filesystem>,
    pub(super) name_syncs: Arc<NameSyncs>,
}

/// A parsed file name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Segment(u32),
    Hint(u32),
    /// A file of a former segment, kept for reuse.
    Spare(u32),
    /// A file not completely written.
    Temporary,
    Lock,
    Manifest,
    /// Not a file of the store.
    Foreign,
}

impl Name {
    pub(super) fn parse(name: &str) -> Self {
        match name {
            LOCK_NAME => return Self::Lock,
            MANIFEST_NAME => return Self::Manifest,
            _ => {}
        }
        let Some((stem, kind)) = name.rsplit_once('.') else { return Self::Foreign };
        match (stem.parse(), kind) {
            (Ok(id), "segment") => Self::Segment(id),
            (Ok(id), "hint") => Self::Hint(id),
            (Ok(id), "spare") => Self::Spare(id),
            (_, "new") if stem == MANIFEST_NAME => Self::Temporary,
            _ => Self::Foreign,
        }
    }
}

impl Directory {
    pub(super) fn new(path: impl Into<PathBuf>, filesystem: Arc<dyn Filesystem>) -> Self {
        Self { path: path.into(), filesystem, name_syncs: Arc::default() }
    }

    /// Makes the names durable that were changed since `begun`, see [`NameSyncs`].
    pub(super) fn sync_names(&self, begun: NamesBegun) -> io::Result<()> {
        let open = self.filesystem.open_directory(&self.path)?;
        self.name_syncs.sync(open.as_ref(), begun)
    }

    pub(super) fn segment_path(&self, id: u32) -> PathBuf {
        self.path.join(format!("{id:010}.segment"))
    }

    pub(super) fn hint_path(&self, id: u32) -> PathBuf {
        self.path.join(format!("{id:010}.hint"))
    }

    pub(super) fn spare_path(&self, id: u32) -> PathBuf {
        self.path.join(format!("{id:010}.spare"))
    }

    pub(super) fn lock_path(&self) -> PathBuf {
        self.path.join(LOCK_NAME)
    }

    pub(super) fn manifest_path(&self) -> PathBuf {
        self.path.join(MANIFEST_NAME)
    }

    pub(super) fn manifest_new_path(&self) -> PathBuf {
        self.path.join(format!("{MANIFEST_NAME}.new"))
    }

    pub(super) fn backup_path(&self) -> PathBuf {
        self.path.join(BACKUP_NAME)
    }

    pub(super) fn backup_new_path(&self) -> PathBuf {
        self.path.join(BACKUP_NEW_NAME)
    }

    pub(super) fn names(&self) -> Result<Vec<Name>, Error> {
        let names = self.filesystem.list(&self.path).map_err(|error| unavailable(&self.path, &error))?;
        Ok(names.iter().map(|name| Name::parse(name)).collect())
    }

    /// Opens a file that must exist.
    pub(super) fn open(&self, path: &Path, write: bool) -> Result<Arc<dyn File>, Error> {
        self.filesystem.open(path, write).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => corrupt(path, 0, "the file is missing"),
            _ => unavailable(path, &error),
        })
    }

    /// The identity of the lock's file.
    pub(super) fn lock_identity(&self) -> Result<FileIdentity, Error> {
        let path = self.lock_path();
        self.filesystem.identity(&path).map_err(|error| unavailable(&path, &error))
    }

    /// Whether a file has no second name, such as one in a backup; only then may it be overwritten.
    pub(super) fn is_unlinked(&self, path: &Path) -> bool {
        self.filesystem.links(path).is_ok_and(|links| links == 1)
    }

    /// Makes the names of the directory and of its parents durable: an earlier process may have created them. A parent is
    /// left out if this user may not read it, or if its file system can't sync directories: it existed before.
    ///
    /// # Errors
    /// Errors of the operating system: with the name of the directory, a power cut would lose everything in it.
    pub(super) fn sync_parents(&self) -> Result<(), Error> {
        for parent in self.path.ancestors().skip(1) {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            match self.filesystem.sync_directory(parent) {
                Ok(()) => {}
                Err(error) if can_not_be_synced(error.kind()) => {
                    tracing::debug!(path = %parent.display(), %error, "a parent directory can't be synced");
                }
                Err(error) => return Err(unavailable(parent, &error)),
            }
        }
        Ok(())
    }

    /// Removes a file that is no longer needed; a failure is harmless.
    pub(super) fn discard(&self, path: &Path) {
        if let Err(error) = self.filesystem.remove(path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "can't remove a file that is no longer needed");
        }
    }
}

/// Whether a directory can't be synced by this user, or not on its file system.
const fn can_not_be_synced(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    matches!(kind, InvalidInput | PermissionDenied | ReadOnlyFilesystem | Unsupported)
}

/// The location of a byte of a file, for errors.
pub(super) fn place(path: &Path, offset: u64) -> Place {
    Place { unit: path.display().to_string(), offset }
}

/// Damage at `offset` of `path`.
pub(super) fn corrupt(path: &Path, offset: u64, reason: impl Into<String>) -> Error {
    Error::Corrupt { place: place(path, offset), reason: reason.into() }
}

/// Whether the disk lost the bytes. Others, such as missing permissions or descriptors, prove nothing about them.
pub(super) fn is_lost(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::NotFound)
        || error.raw_os_error().is_some_and(|code| LOST_BYTES_ERRNOS.contains(&code))
}

/// The error of a failed read: bytes lost by the disk are damage, all other failures may be transient.
pub(super) fn unread(path: &Path, offset: u64, error: &io::Error) -> Error {
    match is_lost(error) {
        true => corrupt(path, offset, format!("the bytes can't be read: {error}")),
        false => unavailable(path, error),
    }
}

/// Like [`unread`], while the store is in use: errors of the device may be transient, and do not prove that the bytes
/// are lost. A lack of descriptors or memory concerns all files, other errors only this one.
pub(super) fn unread_now(path: &Path, offset: u64, error: &io::Error) -> Error {
    if error.raw_os_error().is_some_and(|code| DEVICE_ERRNOS.contains(&code)) {
        return Error::Unreadable { place: place(path, offset), reason: error.to_string() };
    }
    let is_shortage = is_out_of_descriptors(error) || error.kind() == io::ErrorKind::OutOfMemory;
    match unread(path, offset, error) {
        Error::System { reason } if !is_shortage => Error::Unavailable { reason },
        unread => unread,
    }
}

/// The error for a file that can't be used for a reason other than its contents.
pub(super) fn unavailable(path: &Path, error: &io::Error) -> Error {
    failed(path.display(), error)
}

/// The error for an operation that failed for a reason other than stored contents.
pub(super) fn failed(what: impl fmt::Display, error: &io::Error) -> Error {
    let reason = format!("{what}: {error}");
    match is_fault_of_setup(error.kind()) {
        true => Error::Unavailable { reason },
        false => Error::System { reason },
    }
}

/// Whether the path, its permissions or the limit of the size of files are at fault, which only an operator can change. All
/// other errors, such as those of a device or of a full disk, may pass.
const fn is_fault_of_setup(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{
        FileTooLarge, IsADirectory, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem,
    };
    matches!(
        kind,
        FileTooLarge | IsADirectory | NotADirectory | NotFound | PermissionDenied | ReadOnlyFilesystem
    )
}

/// The error for a file in a format of a later version.
pub(super) fn written_later(path: &Path, version: u32, known: u32) -> Error {
    let reason = format!(
        "{} has format {version}, and this version of Peeklock reads formats up to {known}: a later version wrote it and nothing is damaged; start that version, or restore a backup made before the upgrade",
        path.display()
    );
    Error::Unavailable { reason }
}

/// Whether an error means that there is no room.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
