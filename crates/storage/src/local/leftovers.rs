//! Files in a data directory that the manifest does not list.

use super::directory::{Directory, Name};
use super::manifest::Manifest;
use super::pool::Spare;
use crate::Error;

/// Finds unlisted files of the directory: returns reusable spares and removes leftovers of an interrupted change.
pub(super) fn tidy_leftovers(
    directory: &Directory,
    manifest: &Manifest,
    capacity: u64,
) -> Result<Leftovers, Error> {
    let mut leftovers = Leftovers { next_id: manifest.next_id, spares: Vec::new() };
    for name in directory.names()? {
        let listed = |id: u32| manifest.segments.iter().find(|listed| listed.id == id);
        match name {
            Name::Segment(id) if listed(id).is_none() => {
                leftovers.next_id = leftovers.next_id.max(id + 1);
                directory.discard(&directory.segment_path(id));
            }
            Name::Hint(id) if listed(id).is_none_or(|listed| listed.seal.is_none()) => {
                directory.discard(&directory.hint_path(id));
            }
            Name::Spare(id) => {
                leftovers.next_id = leftovers.next_id.max(id + 1);
                let path = directory.spare_path(id);
                let len = directory.filesystem.open(&path, true).and_then(|file| file.len());
                let is_usable = len.is_ok_and(|len| len == capacity);
                if is_usable && leftovers.spares.len() < super::pool::SPARE_SEGMENTS_MAX {
                    leftovers.spares.push(Spare { path, capacity });
                } else {
                    directory.discard(&path);
                }
            }
            Name::Temporary => directory.discard(&directory.manifest_new_path()),
            Name::Segment(_) | Name::Hint(_) | Name::Lock | Name::Manifest | Name::Foreign => {}
        }
    }
    Ok(leftovers)
}

/// See [`tidy_leftovers`].
#[derive(Debug)]
pub(super) struct Leftovers {
    pub(super) next_id: u32,
    pub(super) spares: Vec<Spare>,
}
