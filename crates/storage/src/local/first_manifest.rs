//! The first change to the manifest of a store that is opened.

use std::io;

use super::directory::{Directory, Name, unavailable};
use super::manifest::{Manifest, NotStored};
use crate::Error;

/// Stores `manifest`, which replaces `was`. A full disk must not prevent opening: optional files are deleted, and if that
/// is not enough, the old manifest stays valid, unless it records the end of the log.
pub(super) fn store(manifest: &Manifest, directory: &Directory, was: Option<&Manifest>) -> Result<(), Error> {
    let path = directory.manifest_path();
    let mut stored = manifest.store(directory);
    // Without hints the next opening takes longer.
    let is_any_hint = |name: Name, _: &Manifest| matches!(name, Name::Hint(_));
    for give_way in [is_cheap_to_lose as fn(Name, &Manifest) -> bool, is_any_hint] {
        if !stored.as_ref().is_err_and(NotStored::is_for_want_of_room) {
            break;
        }
        for name in directory.names()?.into_iter().filter(|name| give_way(*name, manifest)) {
            match name {
                Name::Spare(id) => directory.discard(&directory.spare_path(id)),
                Name::Hint(id) => directory.discard(&directory.hint_path(id)),
                _ => {}
            }
        }
        stored = manifest.store(directory);
        if was.is_some_and(|was| was.closed.is_none()) {
            break;
        }
    }
    if stored.as_ref().is_err_and(NotStored::is_for_want_of_room)
        && was.is_some_and(|was| was.closed.is_none())
    {
        tracing::warn!(path = %path.display(), "no space for a new manifest: the existing one stays in use");
        return renew_name(directory).map_err(|error| unavailable(&path, &error));
    }
    stored.map_err(|not_stored| unavailable(&path, not_stored.error()))
}

/// Makes the manifest durable that an earlier process may have failed to make durable. After a failed sync of the
/// directory, the next one would not write its name, so the name is changed and changed back. A power cut in between
/// leaves the manifest under its new name at most, see [`take_name`].
fn renew_name(directory: &Directory) -> io::Result<()> {
    let (manifest, new) = (directory.manifest_path(), directory.manifest_new_path());
    let names = directory.filesystem.open_directory(&directory.path)?;
    let begun = directory.name_syncs.begin();
    directory.filesystem.rename(&manifest, &new)?;
    directory.filesystem.rename(&new, &manifest)?;
    directory.name_syncs.sync(names.as_ref(), begun)
}

/// Gives the manifest its name back after a power cut, or an error, in the middle of [`renew_name`]. Nothing else leaves
/// the file with the new name alone, except an interrupted first start, where it lists nothing.
pub(super) fn take_name(directory: &Directory) -> Result<(), Error> {
    let (path, new) = (directory.manifest_path(), directory.manifest_new_path());
    let is_missing = match directory.filesystem.identity(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        found => found.map(|_| false).map_err(|error| unavailable(&path, &error))?,
    };
    if is_missing && Manifest::load_new(directory)?.is_some() {
        directory.filesystem.rename(&new, &path).map_err(|error| unavailable(&path, &error))?;
    }
    Ok(())
}

/// Whether the file is a spare, or a hint of a segment that is not sealed.
fn is_cheap_to_lose(name: Name, manifest: &Manifest) -> bool {
    let is_sealed = |id| manifest.segments.iter().any(|listed| listed.id == id && listed.seal.is_some());
    match name {
        Name::Spare(_) => true,
        Name::Hint(id) => !is_sealed(id),
        _ => false,
    }
}
