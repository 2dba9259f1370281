//! The files of a damaged directory, and the information in them that replaces a lost list.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::super::directory::{Directory, Name, corrupt, unread};
use super::super::examine::{Extent, examine};
use super::super::filesystem::File;
use super::super::format::{FRAME_HEADER_BYTES, FrameHeader, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::super::manifest::{Listed, Manifest, Seal};
use super::super::segments::{Ranks, SegmentFile};
use super::{Damage, DamageKind, of_error};
use crate::Error;

pub(super) fn holds_segments(directory: &Directory) -> Result<bool, Error> {
    Ok(directory.names()?.iter().any(|name| matches!(name, Name::Segment(_) | Name::Hint(_))))
}

/// Reconstructs the list of segments from their first frames. A copy made by the cleaner does not record which segments
/// it replaced; copies are placed first, so that later removals still apply.
pub(super) fn guess(directory: &Directory) -> Result<Manifest, Error> {
    let mut found = Vec::new();
    let mut next_id = 1;
    for name in directory.names()? {
        let (Name::Segment(id) | Name::Spare(id) | Name::Hint(id)) = name else { continue };
        next_id = next_id.max(id.saturating_add(1));
        if let (Name::Segment(_), Some(segment)) = (name, identify(directory, id))
            && let Some(first) = first_sequence(&segment)
        {
            let extent = Extent::Open(segment.capacity);
            let end = examine(&segment, extent, first, |_| {}).ok();
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
pub(super) fn refuse_later(directory: &Directory) -> Result<(), Error> {
    for name in directory.names()? {
        let Name::Segment(id) = name else { continue };
        let path = directory.segment_path(id);
        let mut bytes = [0; SEGMENT_HEADER_BYTES as usize];
        let read = directory.filesystem.open(&path, false).and_then(|file| file.read_exact_at(&mut bytes, 0));
        if read.is_ok() {
            SegmentHeader::refuse_later(&bytes, &path)?;
        }
    }
    Ok(())
}

/// Identifies a segment by its own header, which must be valid.
fn identify(directory: &Directory, id: u32) -> Option<SegmentFile> {
    let path = directory.segment_path(id);
    let file = directory.filesystem.open(&path, false).ok()?;
    let mut bytes = [0; SEGMENT_HEADER_BYTES as usize];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let header = SegmentHeader::decode(&bytes).ok().filter(|header| header.id == id)?;
    let capacity = file.len().ok()?;
    Some(SegmentFile { id, salt: header.salt, capacity, path, file })
}

fn first_sequence(segment: &SegmentFile) -> Option<u64> {
    let mut bytes = [0; FRAME_HEADER_BYTES as usize];
    segment.file.read_exact_at(&mut bytes, u64::from(SEGMENT_HEADER_BYTES)).ok()?;
    FrameHeader::decode(&bytes, segment.salt).map(|header| header.sequence)
}

/// Opens a segment, and returns the damage of the file as a whole.
pub(super) fn open_segment(directory: &Directory, listed: &Listed) -> (SegmentFile, Option<Damage>) {
    let Listed { id, salt, capacity, .. } = *listed;
    let path = directory.segment_path(id);
    let missing = |error| of_error(error, DamageKind::Missing);
    let (file, damage) = match directory.filesystem.open(&path, false) {
        Ok(file) => {
            let damage = check_file(&*file, &path, listed);
            (file, damage)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            (Arc::new(NoFile) as Arc<_>, missing(corrupt(&path, 0, "the file is missing")))
        }
        Err(error) => (Arc::new(NoFile) as Arc<_>, missing(corrupt(&path, 0, error.to_string()))),
    };
    (SegmentFile { id, salt, capacity, path, file }, damage)
}

fn check_file(file: &dyn File, path: &Path, listed: &Listed) -> Option<Damage> {
    let Listed { id, salt, capacity, .. } = *listed;
    let len = match file.len() {
        Ok(len) => len,
        Err(error) => return of_error(unread(path, 0, &error), DamageKind::Missing),
    };
    if len < capacity {
        let reason = format!("the file ends here, {capacity} bytes belong to it");
        return of_error(corrupt(path, len, reason), DamageKind::Missing);
    }
    let mut bytes = [0; SEGMENT_HEADER_BYTES as usize];
    let header = match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => SegmentHeader::decode(&bytes),
        Err(error) => Err(error.to_string()),
    };
    let reason = match header {
        Ok(header) if header == (SegmentHeader { id, salt }) => return None,
        Ok(_) => "the header is that of another segment".to_owned(),
        Err(reason) => reason,
    };
    of_error(corrupt(path, 0, reason), DamageKind::Header)
}

/// Whether a manifest with a wrong checksum matches the existing segments.
pub(super) fn is_plausible(directory: &Directory, manifest: &Manifest) -> bool {
    let mut rank = 0;
    let mut is_sound = |listed: &Listed| {
        let in_order = rank < listed.ranks.low && listed.ranks.low <= listed.ranks.high;
        rank = listed.ranks.high;
        let (_, damage) = open_segment(directory, listed);
        in_order && damage.is_none() && listed.seal.is_none_or(|seal| seal.end <= listed.capacity)
    };
    let ids: Vec<u32> = manifest.segments.iter().map(|listed| listed.id).collect();
    let mut names = directory.names().unwrap_or_default().into_iter();
    manifest.segments.iter().all(&mut is_sound)
        && names.all(|name| !matches!(name, Name::Segment(id) if !ids.contains(&id)))
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
