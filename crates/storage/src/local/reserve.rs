//! Room for one more manifest on a full disk: a file of zeros that becomes the new manifest when there is no room for
//! another file. Without it a full store could neither start nor free dead segments.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::directory::Directory;
use super::filesystem::File;

/// The file's name. The file is optional and not part of the format.
const NAME: &str = "RESERVE";
/// Disks allocate at least this much at once.
const BLOCK_BYTES: u64 = 4096;

fn path(directory: &Directory) -> PathBuf {
    directory.path.join(NAME)
}

/// The file's size for a manifest of `manifest_bytes`, which may grow until the file is replaced.
fn wanted_bytes(manifest_bytes: usize) -> u64 {
    (2 * manifest_bytes as u64).next_multiple_of(BLOCK_BYTES)
}

/// Creates the file if it is missing or too small and `free_bytes` allows it.
pub(super) fn ensure(directory: &Directory, manifest_bytes: usize, free_bytes: u64) -> io::Result<()> {
    let wanted = wanted_bytes(manifest_bytes);
    let found = match directory.filesystem.open(&path(directory), false) {
        Ok(file) => file.len()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    if found >= wanted || free_bytes < wanted {
        return Ok(());
    }
    let write = || {
        let file = directory.filesystem.create(&path(directory))?;
        file.write_all_at(&vec![0; usize::try_from(wanted).unwrap_or(0)], 0)?;
        file.sync_data()
    };
    write().inspect_err(|_| directory.discard(&path(directory)))
}

/// Whether a manifest of `manifest_bytes` can be stored without the file, so that the file remains for the next one.
pub(super) fn is_left_over(directory: &Directory, manifest_bytes: usize) -> bool {
    let free_bytes = || directory.filesystem.free_bytes(&directory.path).unwrap_or(0);
    ensure(directory, manifest_bytes, free_bytes()).is_ok()
        && free_bytes() >= wanted_bytes(manifest_bytes)
        && directory.filesystem.open(&path(directory), false).is_ok()
}

/// Renames the file to that of a new manifest and opens it.
pub(super) fn take(directory: &Directory) -> io::Result<Arc<dyn File>> {
    let new = directory.manifest_new_path();
    directory.filesystem.rename(&path(directory), &new)?;
    directory.filesystem.open(&new, true)
}
