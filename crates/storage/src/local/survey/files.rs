//! The files of a damaged directory, and the information in them that replaces a lost list.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::super::descriptors::{Descriptors, Handle};
use super::super::directory::{Directory, Name, corrupt, is_lost, unavailable, unread};
use super::super::examine::{Extent, examine};
use super::super::filesystem::File;
use super::super::format::{FRAME_HEADER_BYTES, FrameHeader, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::super::manifest::{Listed, Manifest, Seal};
use super::super::segments::{Ranks, SegmentFile};
use super::{Damage, DamageKind, Place, of_error};
use crate::Error;

/// A manifest to begin with, and the doubts about it.
pub(super) struct ManifestFound {
    pub(super) manifest: Manifest,
    /// The damage of the manifest's file.
    pub(super) damage: Option<Damage>,
    /// See [`super::Survey::last_doubt`].
    pub(super) last_doubt: Option<Place>,
}

/// Reads the manifest. If it is damaged or missing, its unverified contents are used where the segments agree with them,
/// otherwise a guess from the segments. `None` for a directory without a store.
pub(super) fn find_manifest(directory: &Directory) -> Result<Option<ManifestFound>, Error> {
    let loaded = match Manifest::load(directory) {
        Ok(None) if !holds_segments(directory)? => return Ok(None),
        Ok(None) => {
            let reason = "the file is missing, although segments are there";
            Err(corrupt(&directory.manifest_path(), 0, reason))
        }
        Ok(Some(manifest)) => Ok(manifest),
        Err(error @ Error::Corrupt { .. }) => Err(error),
        Err(error) => return Err(error),
    };
    refuse_later(directory)?;
    let damage = match loaded {
        Ok(manifest) => return Ok(Some(ManifestFound { manifest, damage: None, last_doubt: None })),
        Err(error) => of_error(error, DamageKind::Manifest),
    };
    Ok(Some(match Manifest::load_unverified(directory) {
        Some(manifest) if is_plausible(directory, &manifest)? => {
            ManifestFound { manifest, damage, last_doubt: None }
        }
        _ => ManifestFound { manifest: guess(directory)?, damage, last_doubt: Some((usize::MAX, 0)) },
    }))
}

fn holds_segments(directory: &Directory) -> Result<bool, Error> {
    Ok(directory.names()?.iter().any(|name| matches!(name, Name::Segment(_) | Name::Hint(_))))
}

/// Reconstructs the list of segments from their first frames. A copy made by the cleaner does not record which segments
/// it replaced; copies are placed first, so that later removals still apply.
fn guess(directory: &Directory) -> Result<Manifest, Error> {
    let mut found = Vec::new();
    let mut next_id = 1;
    for name in directory.names()? {
        let (Name::Segment(id) | Name::Spare(id) | Name::Hint(id)) = name else { continue };
        next_id = next_id.max(id.saturating_add(1));
        if let (Name::Segment(_), Some(segment)) = (name, identify(directory, id)?)
            && let Some(first) = read_or_lost(&segment.path, first_sequence(&segment))?.flatten()
        {
            let extent = Extent::Open(segment.capacity);
            let end = read_or_lost(&segment.path, examine(&segment, extent, first, |_| {}))?;
            let seal = end.map(|end| Seal {
                end: end.offset,
                first_sequence: first,
                next_sequence: end.next_sequence,
            });
            found.push((
                first,
                Listed { id, salt: segment.salt, ranks: Ranks::one(id), capacity: segment.capacity, seal },
            ));
        }
    }
    found.sort_by_key(|(first, listed)| (*first, listed.id));
    let sealed_sequence = found.iter().filter_map(|(_, listed)| Some(listed.seal?.next_sequence)).max();
    let mut segments: Vec<Listed> = found.into_iter().map(|(_, listed)| listed).collect();
    for (rank, listed) in (1..).zip(&mut segments) {
        listed.ranks = Ranks::one(rank);
    }
    let sealed_sequence = sealed_sequence.unwrap_or(1).saturating_sub(1);
    Ok(Manifest { epoch: 0, next_id, sealed_sequence, segments, closed: None })
}

/// Refuses a directory with segments of a later version, which would all look damaged to this one.
fn refuse_later(directory: &Directory) -> Result<(), Error> {
    for name in directory.names()? {
        let Name::Segment(id) = name else { continue };
        let path = directory.segment_path(id);
        let mut bytes = [0; SEGMENT_HEADER_BYTES as usize];
        let read = directory.filesystem.open(&path, false).and_then(|file| file.read_exact_at(&mut bytes, 0));
        if read_or_lost(&path, read)?.is_some() {
            SegmentHeader::refuse_later(&bytes, &path)?;
        }
    }
    Ok(())
}

/// Identifies a segment by its own header, which must be valid.
fn identify(directory: &Directory, id: u32) -> Result<Option<SegmentFile>, Error> {
    let path = directory.segment_path(id);
    let read = directory.filesystem.open(&path, false).and_then(|file| {
        let mut bytes = [0; SEGMENT_HEADER_BYTES as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok((SegmentHeader::decode(&bytes).ok(), file.len()?, file))
    });
    let Some((header, capacity, file)) = read_or_lost(&path, read)? else { return Ok(None) };
    let header = header.filter(|header| header.id == id);
    Ok(header.map(|header| SegmentFile { id, salt: header.salt, capacity, path, file }))
}

fn first_sequence(segment: &SegmentFile) -> io::Result<Option<u64>> {
    let mut bytes = [0; FRAME_HEADER_BYTES as usize];
    segment.file.read_exact_at(&mut bytes, u64::from(SEGMENT_HEADER_BYTES))?;
    Ok(FrameHeader::decode(&bytes, segment.salt).map(|header| header.sequence))
}

/// What was read, `None` if the disk lost it. Any other error is none of the segment's: a salvage that treated it as damage
/// would leave out intact messages.
fn read_or_lost<T>(path: &Path, read: io::Result<T>) -> Result<Option<T>, Error> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_lost(&error) => Ok(None),
        Err(error) => Err(unavailable(path, &error)),
    }
}

/// Opens a segment, and returns the damage of the file as a whole.
///
/// # Errors
/// Errors that don't prove that bytes are lost, such as missing permissions or descriptors.
pub(super) fn open_segment(
    directory: &Directory,
    descriptors: &Arc<Descriptors>,
    listed: &Listed,
) -> Result<(SegmentFile, Option<Damage>), Error> {
    let Listed { id, salt, capacity, .. } = *listed;
    let path = directory.segment_path(id);
    let missing = |error| of_error(error, DamageKind::Missing);
    let (file, damage) = match directory.filesystem.open(&path, false) {
        Ok(file) => {
            let damage = check_file(&*file, &path, listed)?;
            let file = Handle::keep(descriptors, id, &path, file);
            // It is opened again when it is read: descriptors don't grow with the log.
            file.release();
            (file, damage)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            (Arc::new(NoFile) as Arc<_>, missing(corrupt(&path, 0, "the file is missing")))
        }
        Err(error) if is_lost(&error) => {
            (Arc::new(NoFile) as Arc<_>, missing(corrupt(&path, 0, error.to_string())))
        }
        Err(error) => return Err(unavailable(&path, &error)),
    };
    Ok((SegmentFile { id, salt, capacity, path, file }, damage))
}

fn check_file(file: &dyn File, path: &Path, listed: &Listed) -> Result<Option<Damage>, Error> {
    let Listed { id, salt, capacity, .. } = *listed;
    let len = match file.len() {
        Ok(len) => len,
        Err(error) if is_lost(&error) => {
            return Ok(of_error(unread(path, 0, &error), DamageKind::Missing));
        }
        Err(error) => return Err(unavailable(path, &error)),
    };
    if len < capacity {
        let reason = format!("the file ends here, {capacity} bytes belong to it");
        return Ok(of_error(corrupt(path, len, reason), DamageKind::Missing));
    }
    let mut bytes = [0; SEGMENT_HEADER_BYTES as usize];
    let header = match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => SegmentHeader::decode(&bytes),
        Err(error) if is_lost(&error) => Err(error.to_string()),
        Err(error) => return Err(unavailable(path, &error)),
    };
    let reason = match header {
        Ok(header) if header == (SegmentHeader { id, salt }) => return Ok(None),
        Ok(_) => "the header is that of another segment".to_owned(),
        Err(reason) => reason,
    };
    Ok(of_error(corrupt(path, 0, reason), DamageKind::Header))
}

/// Whether a manifest with a wrong checksum matches the existing segments.
fn is_plausible(directory: &Directory, manifest: &Manifest) -> Result<bool, Error> {
    let mut rank = 0;
    let descriptors = Descriptors::new(Arc::clone(&directory.filesystem));
    for listed in &manifest.segments {
        let in_order = rank < listed.ranks.low && listed.ranks.low <= listed.ranks.high;
        rank = listed.ranks.high;
        let (_, damage) = open_segment(directory, &descriptors, listed)?;
        let is_sound = in_order && damage.is_none();
        if !is_sound || listed.seal.is_some_and(|seal| seal.end > listed.capacity) {
            return Ok(false);
        }
    }
    let ids: Vec<u32> = manifest.segments.iter().map(|listed| listed.id).collect();
    let mut names = directory.names()?.into_iter();
    Ok(names.all(|name| !matches!(name, Name::Segment(id) if !ids.contains(&id))))
}

/// Replaces a missing file.
#[derive(Debug)]
struct NoFile;

impl File for NoFile {
    fn read_exact_at(&self, _buffer: &mut [u8], _offset: u64) -> io::Result<()> {
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    fn write_all_at(&self, _bytes: &[u8], _offset: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, _bytes: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_len(&self, _bytes: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn drop_cached(&self, _offset: u64, _bytes: u64) {}

    fn len(&self) -> io::Result<u64> {
        Ok(0)
    }
}
