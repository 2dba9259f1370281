//! The list of the store's segments. It is replaced as a whole, by renaming; a segment exists exactly as long as the
//! list contains it.

use std::io;
use std::path::Path;

use super::descriptors::is_out_of_descriptors;
use super::directory::{Directory, corrupt, is_full, unavailable, written_later};
use super::fields::{Append, Fields};
use super::filesystem::{File, OpenDirectory};
use super::format::later_version;
use super::reserve;
use super::segments::Ranks;
use crate::{Error, checksum};

const MAGIC: &[u8; 8] = b"PKLKMAN\n";
/// Version of the manifest's format alone. Version 1 has no cutoffs.
const VERSION: u32 = 2;
/// Largest manifest accepted: some ten million segments.
const MANIFEST_BYTES_MAX: u64 = 512 << 20;

/// The durable record of which files belong to the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Manifest {
    /// Incremented each time the store is acquired.
    pub(super) epoch: u64,
    /// The next free segment id.
    pub(super) next_id: u32,
    /// Sequence of the last frame in sealed segments; the first unsealed segment continues from it.
    pub(super) sealed_sequence: u64,
    /// In the order of replay. Open segments are at the end of the list.
    pub(super) segments: Vec<Listed>,
    /// The end of the log if the store was closed cleanly.
    pub(super) closed: Option<Closed>,
}

/// A segment in the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) id: u32,
    pub(super) salt: u64,
    pub(super) ranks: Ranks,
    /// Bytes of the file.
    pub(super) capacity: u64,
    pub(super) seal: Option<Seal>,
}

/// The extent of a sealed segment, which must match exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seal {
    /// One past the last frame.
    pub(super) end: u64,
    pub(super) first_sequence: u64,
    /// The sequence after that of the last frame.
    pub(super) next_sequence: u64,
}

/// The end of the log at a clean close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Closed {
    pub(super) id: u32,
    pub(super) seal: Seal,
}

impl Manifest {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.append_u32(VERSION);
        bytes.append_u32(self.next_id);
        bytes.append_u64(self.epoch);
        bytes.append_u64(self.sealed_sequence);
        bytes.append_u32(self.closed.map_or(0, |closed| closed.id));
        encode_seal(&mut bytes, self.closed.map(|closed| closed.seal));
        bytes.append_u32(u32::try_from(self.segments.len()).unwrap_or(u32::MAX));
        for listed in &self.segments {
            bytes.append_u32(listed.id);
            bytes.append_u32(listed.ranks.low);
            bytes.append_u32(listed.ranks.high);
            bytes.append_u32(listed.ranks.cutoff);
            bytes.append_u64(listed.salt);
            bytes.append_u64(listed.capacity);
            encode_seal(&mut bytes, listed.seal);
        }
        let crc = checksum::of(&bytes);
        bytes.append_u32(crc);
        bytes
    }

    /// Decodes a manifest, or returns offset and description of the damage.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, (u64, String)> {
        let (covered, crc) = bytes.split_last_chunk::<4>().ok_or_else(|| (0, "cut short".to_owned()))?;
        let mut fields = Fields(covered);
        if fields.bytes(MAGIC.len()) != Some(MAGIC) {
            return Err((0, "not a manifest: the magic number is missing".to_owned()));
        }
        if checksum::of(covered) != u32::from_le_bytes(*crc) {
            return Err((covered.len() as u64, "the checksum does not match".to_owned()));
        }
        let Some(version @ 1..=VERSION) = fields.u32() else {
            let reason = format!("an unknown format version, this program reads 1 to {VERSION}");
            return Err((MAGIC.len() as u64, reason));
        };
        Self::decode_fields(&mut fields, version)
            .ok_or_else(|| (covered.len() as u64, "a field is missing".to_owned()))
    }

    fn decode_fields(fields: &mut Fields<'_>, version: u32) -> Option<Self> {
        let next_id = fields.u32()?;
        let epoch = fields.u64()?;
        let sealed_sequence = fields.u64()?;
        let closed_id = fields.u32()?;
        let closed = decode_seal(fields)?.map(|seal| Closed { id: closed_id, seal });
        let count = fields.u32()?;
        let mut segments = Vec::new();
        for _ in 0..count {
            let id = fields.u32()?;
            let (low, high) = (fields.u32()?, fields.u32()?);
            // Puts in a segment are never older than removals at lower ranks.
            let cutoff = if version == 1 { low } else { fields.u32()? };
            let ranks = Ranks { low, high, cutoff };
            let salt = fields.u64()?;
            let capacity = fields.u64()?;
            segments.push(Listed { id, salt, ranks, capacity, seal: decode_seal(fields)? });
        }
        fields.0.is_empty().then_some(Self { epoch, next_id, sealed_sequence, segments, closed })
    }

    /// Reads the manifest of `directory`; `None` when there is none.
    pub(super) fn load(directory: &Directory) -> Result<Option<Self>, Error> {
        match Self::load_from(directory, &directory.manifest_path())? {
            Some(manifest) => Ok(Some(manifest)),
            // See `first_manifest::take_name`.
            None => Self::load_new(directory),
        }
    }

    /// Reads the file of a new manifest; `None` when there is none or it is not complete.
    pub(super) fn load_new(directory: &Directory) -> Result<Option<Self>, Error> {
        match Self::load_from(directory, &directory.manifest_new_path()) {
            Err(Error::Corrupt { .. }) => Ok(None),
            loaded => loaded,
        }
    }

    /// Reads the manifest in the file at `path`; `None` when there is none.
    pub(super) fn load_from(directory: &Directory, path: &Path) -> Result<Option<Self>, Error> {
        let file = match directory.filesystem.open(path, false) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unavailable(path, &error)),
        };
        let len = file.len().map_err(|error| unavailable(path, &error))?;
        if len > MANIFEST_BYTES_MAX {
            return Err(corrupt(path, 0, format!("{len} bytes are too many for a manifest")));
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        file.read_exact_at(&mut bytes, 0).map_err(|error| unavailable(path, &error))?;
        if let Some(version) = later_version(&bytes, MAGIC, VERSION) {
            return Err(written_later(path, version, VERSION));
        }
        Self::decode(&bytes).map(Some).map_err(|(offset, reason)| corrupt(path, offset, reason))
    }

    /// Decodes a damaged manifest as far as possible, for callers that verify it against the segments.
    pub(super) fn load_unverified(directory: &Directory) -> Option<Self> {
        let file = directory.filesystem.open(&directory.manifest_path(), false).ok()?;
        let len = file.len().ok().filter(|len| *len <= MANIFEST_BYTES_MAX)?;
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        file.read_exact_at(&mut bytes, 0).ok()?;
        let (covered, _) = bytes.split_last_chunk::<4>()?;
        let mut fields = Fields(covered);
        fields.bytes(MAGIC.len())?;
        let version = fields.u32()?;
        Self::decode_fields(&mut fields, version)
    }

    /// Makes this the manifest of `directory`, durably.
    pub(super) fn store(&self, directory: &Directory) -> Result<(), NotStored> {
        let names = self.store_beside(directory).map_err(NotStored::Unchanged)?;
        let new = directory.manifest_new_path();
        let begun = directory.name_syncs.begin();
        let renamed = directory.filesystem.rename(&new, &directory.manifest_path());
        // File systems on a network may report an error although the file was renamed.
        let is_unchanged =
            |error: &io::Error| is_definite(error) && directory.filesystem.identity(&new).is_ok();
        renamed.map_err(|error| match is_unchanged(&error) {
            true => NotStored::Unchanged(error),
            false => NotStored::InDoubt(error),
        })?;
        directory.name_syncs.sync(names.as_ref(), begun).map_err(NotStored::InDoubt)
    }

    /// Does everything that can fail while the old manifest is still valid. Syncing the returned directory needs no
    /// further descriptor.
    fn store_beside(&self, directory: &Directory) -> io::Result<Box<dyn OpenDirectory>> {
        let names = directory.filesystem.open_directory(&directory.path)?;
        let new = directory.manifest_new_path();
        let bytes = self.encode();
        let write = |file: &dyn File| {
            file.write_all_at(&bytes, 0)?;
            file.set_len(bytes.len() as u64)?;
            file.sync_data()
        };
        let mut written = directory.filesystem.create(&new).and_then(|file| write(file.as_ref()));
        if written.as_ref().is_err_and(is_full) {
            directory.discard(&new);
            written = reserve::take(directory).and_then(|file| write(file.as_ref())).or(written);
        }
        if written.is_err() {
            directory.discard(&new);
        }
        written.map(|()| names)
    }
}

/// Decodes the content of a manifest, from its version on, with the right checksum; a decoded manifest can be encoded, and
/// decodes to the same again.
pub(crate) fn exercise(content: &[u8]) {
    let mut bytes = [MAGIC, content].concat();
    let crc = checksum::of(&bytes);
    bytes.append_u32(crc);
    if let Ok(manifest) = Manifest::decode(&bytes) {
        assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
    }
}

/// The error when a manifest was not stored.
#[derive(Debug)]
pub(super) enum NotStored {
    /// The old manifest is valid; nothing has changed.
    Unchanged(io::Error),
    /// Either the old manifest or this one is valid; a power cut may restore either.
    InDoubt(io::Error),
}

impl NotStored {
    pub(super) const fn error(&self) -> &io::Error {
        match self {
            Self::Unchanged(error) | Self::InDoubt(error) => error,
        }
    }

    pub(super) fn is_for_want_of_room(&self) -> bool {
        matches!(self, Self::Unchanged(error) if is_full(error))
    }
}

/// Whether an error of a rename means that the names are unchanged.
fn is_definite(error: &io::Error) -> bool {
    use io::ErrorKind::{NotFound, OutOfMemory, PermissionDenied, ReadOnlyFilesystem};
    let is_refused = matches!(error.kind(), NotFound | OutOfMemory | PermissionDenied | ReadOnlyFilesystem);
    is_refused || is_full(error) || is_out_of_descriptors(error)
}

fn encode_seal(bytes: &mut Vec<u8>, seal: Option<Seal>) {
    bytes.append_u64(seal.map_or(0, |seal| seal.end));
    bytes.append_u64(seal.map_or(0, |seal| seal.first_sequence));
    bytes.append_u64(seal.map_or(0, |seal| seal.next_sequence));
}

/// End 0 means no seal, because a real end is after the segment's header.
fn decode_seal(fields: &mut Fields<'_>) -> Option<Option<Seal>> {
    let seal = Seal { end: fields.u64()?, first_sequence: fields.u64()?, next_sequence: fields.u64()? };
    Some((seal.end != 0).then_some(seal))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Manifest {
        let seal = Seal { end: 900, first_sequence: 3, next_sequence: 9 };
        let ranks = Ranks { low: 2, high: 5, cutoff: 7 };
        let sealed = Listed { id: 8, salt: 77, ranks, capacity: 4096, seal: Some(seal) };
        let open = Listed { id: 9, ranks: Ranks::one(9), seal: None, ..sealed };
        let closed = Some(Closed { id: 9, seal });
        Manifest { epoch: 4, next_id: 10, sealed_sequence: 8, segments: vec![sealed, open], closed }
    }

    #[test]
    fn a_manifest_survives() {
        assert_eq!(Manifest::decode(&example().encode()), Ok(example()));
    }

    #[test]
    fn any_flipped_bit_and_any_cut_of_a_manifest_is_seen() {
        let bytes = example().encode();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Manifest::decode(&damaged).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(Manifest::decode(&bytes[..len]).is_err(), "length {len}");
        }
    }
}
