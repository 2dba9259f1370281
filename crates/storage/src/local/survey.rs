//! A survey of a damaged data directory: all damage, and all readable contents.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::descriptors::Descriptors;
use super::directory::{Directory, corrupt, is_lost, place, unavailable, unread};
use super::examine::{Examined, Extent, Met, Region, examine};
use super::format::{Kind, Record, SEGMENT_HEADER_BYTES};
use super::hint::{Hint, Subject};
use super::manifest::{Manifest, Seal};
use super::segments::SegmentFile;
use super::state::{Placed, State};
use super::walk::Found;
use crate::index::Location;
use crate::{Error, Key, PartitionId, Space};

mod files;

use files::{ManifestFound, find_manifest, open_segment};

/// One damaged place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// The kind of damage.
    pub kind: DamageKind,
    /// The record's key according to its header, which may itself be damaged; `None` if the damage is not limited to
    /// one record.
    pub key: Option<Key>,
    /// What was expected and what was found.
    pub reason: String,
    /// Whether the state is known nevertheless, because the segment's hint is intact: then only values can be lost.
    pub is_covered: bool,
}

/// What can be damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DamageKind {
    /// The list of segments.
    Manifest,
    /// A listed segment that is missing or shorter than it was.
    Missing,
    /// The header of a segment.
    Header,
    /// A run of bytes with an unknown number of records.
    Frames,
    /// One value: a message's, or metadata of one. Nothing else is affected, and the store opens.
    Value,
    /// One record that removed something, or may have.
    Removal,
}

impl DamageKind {
    /// The name in reports, for people and programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::Missing => "missing file",
            Self::Header => "segment header",
            Self::Frames => "frames",
            Self::Value => "value",
            Self::Removal => "removal",
        }
    }
}

/// A position in the order of replay: the segment's index in the manifest, and the offset.
type Place = (usize, u64);

/// A damaged directory, read as far as possible.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) manifest: Manifest,
    pub(super) state: State,
    pub(super) damage: Vec<Damage>,
    /// One past the last frame, by segment.
    pub(super) ends: HashMap<u32, u64>,
    pub(super) torn: Option<(u32, u64)>,
    pub(super) hints_missing: usize,
    /// Values of damaged segments that their hints contain.
    hinted: BTreeMap<(u32, u32), Bytes>,
    /// The last position at which an unknown removal may be lost.
    last_doubt: Option<Place>,
    order: HashMap<u32, usize>,
    descriptors: Arc<Descriptors>,
}

impl Survey {
    /// Reads all files of `directory`; `None` when it contains no store.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the directory can't be read, or a later version wrote it; also if a file can't be read for a
    /// reason that does not prove the loss of its bytes.
    pub(super) fn take(directory: &Directory) -> Result<Option<Self>, Error> {
        let Some(ManifestFound { manifest, damage, last_doubt }) = find_manifest(directory)? else {
            return Ok(None);
        };
        let mut survey = Self {
            manifest,
            state: State::default(),
            damage: damage.into_iter().collect(),
            ends: HashMap::new(),
            torn: None,
            hints_missing: 0,
            hinted: BTreeMap::new(),
            last_doubt,
            order: HashMap::new(),
            descriptors: Descriptors::new(Arc::clone(&directory.filesystem)),
        };
        let files = survey.open_all(directory)?;
        survey.read_all(directory, &files)?;
        // They are opened again when values are read.
        survey.descriptors.clear();
        Ok(Some(survey))
    }

    /// The value of a live key, or the error if it is damaged.
    pub(super) fn value(&self, key: Key) -> Option<Result<Bytes, Error>> {
        let location = self.state.index.get(key)?;
        let hinted = self.hinted.get(&(location.segment, location.offset));
        let read = self.read(key, location);
        Some(match (read, hinted) {
            (Err(_), Some(value)) => Ok(value.clone()),
            (read, _) => read,
        })
    }

    /// The number of live keys of each partition in `space` that may have been removed by lost records, and the lowest
    /// and highest of them.
    pub(super) fn may_return(&self, space: Space) -> Vec<(PartitionId, u64, u64, u64)> {
        let Some(last) = self.last_doubt else { return Vec::new() };
        let is_in_doubt = |location: &Location| {
            let order = self.order.get(&location.segment).copied().unwrap_or(0);
            (order, u64::from(location.offset)) < last
        };
        let mut partitions: Vec<PartitionId> =
            self.state.index.partitions().filter(|(found, _)| *found == space).map(|(_, id)| id).collect();
        partitions.sort_unstable();
        let of_one = |partition: PartitionId| {
            let mut numbers = self.state.index.range(space, partition, 0);
            let mut doubtful = numbers.by_ref().filter(|(_, at)| is_in_doubt(at)).map(|(number, _)| number);
            let first = doubtful.next()?;
            let (count, last) = doubtful.fold((1, first), |(count, _), number| (count + 1, number));
            Some((partition, count, first, last))
        };
        partitions.into_iter().filter_map(of_one).collect()
    }

    fn read(&self, key: Key, location: Location) -> Result<Bytes, Error> {
        let segment = self.state.segments.get(location.segment);
        let file = &segment.ok_or_else(|| Error::Unavailable { reason: "no segment".to_owned() })?.file;
        let header_bytes = super::format::RECORD_HEADER_BYTES as usize;
        let mut bytes = vec![0; header_bytes + location.value_len() as usize];
        let offset = u64::from(location.offset);
        file.file.read_exact_at(&mut bytes, offset).map_err(|error| unread(&file.path, offset, &error))?;
        let record = Record::decode(&bytes);
        if record.is_none_or(|record| record.header.key != key || record.header.kind != Kind::Put) {
            return Err(corrupt(&file.path, offset, "the record's checksum or key does not match"));
        }
        Ok(Bytes::from(bytes).slice(header_bytes..))
    }

    /// Opens the listed segments, regardless of their headers.
    fn open_all(&mut self, directory: &Directory) -> Result<Vec<Arc<SegmentFile>>, Error> {
        let listed = self.manifest.segments.clone();
        let mut files = Vec::new();
        for (place, listed) in listed.iter().enumerate() {
            let (file, mut damage) = open_segment(directory, &self.descriptors, listed)?;
            if let Some(damage) = &mut damage
                && listed.seal.is_none()
                && self.manifest.closed.is_none()
            {
                // It is unknown how much it contained.
                damage.reason.push_str("; messages that were accepted last may be lost with it");
                self.last_doubt = self.last_doubt.max(Some((place, listed.capacity)));
            }
            self.damage.extend(damage);
            let file = Arc::new(file);
            self.order.insert(listed.id, place);
            let end = listed.seal.map(|seal| seal.end);
            self.state.segments.add(Arc::clone(&file), listed.ranks, end);
            files.push(file);
        }
        Ok(files)
    }

    fn read_all(&mut self, directory: &Directory, files: &[Arc<SegmentFile>]) -> Result<(), Error> {
        let listed = self.manifest.segments.clone();
        let mut sequence = self.manifest.sealed_sequence.saturating_add(1);
        let mut has_ended = false;
        for (listed, file) in listed.iter().zip(files) {
            let closed = self.manifest.closed.filter(|closed| closed.id == listed.id);
            let known = listed.seal.or(closed.map(|closed| closed.seal));
            if let Some(seal) = known {
                self.read_known(directory, file, seal)?;
                has_ended |= closed.is_some();
            } else if !has_ended {
                let extent = Extent::Open(file.capacity);
                let (examined, _) = self.read_segment(file, extent, sequence, None)?;
                self.ends.insert(file.id, examined.offset);
                sequence = examined.next_sequence;
                if examined.is_torn {
                    self.torn = Some((file.id, examined.offset));
                }
            }
        }
        Ok(())
    }

    fn read_known(&mut self, directory: &Directory, file: &SegmentFile, seal: Seal) -> Result<(), Error> {
        let subject = Subject { id: file.id, salt: file.salt, end: seal.end };
        let hint = Hint::load(directory, subject).ok();
        let has_records = seal.end > u64::from(SEGMENT_HEADER_BYTES);
        self.hints_missing += usize::from(hint.is_none() && has_records);
        self.ends.insert(file.id, seal.end);
        let extent = Extent::Known(seal.end);
        let (examined, has_gaps) = self.read_segment(file, extent, seal.first_sequence, hint.as_ref())?;
        if examined.next_sequence != seal.next_sequence && !has_gaps {
            let reason = format!(
                "the frames end with {}, where {} belongs",
                examined.next_sequence, seal.next_sequence
            );
            self.note_region(file, Region { offset: seal.end, end: seal.end, reason }, hint.is_some());
        }
        Ok(())
    }

    /// Reads one segment, and replays it or, if it is damaged, its hint. Also returns whether bytes were skipped.
    fn read_segment(
        &mut self,
        file: &SegmentFile,
        extent: Extent,
        sequence: u64,
        hint: Option<&Hint>,
    ) -> Result<(Examined, bool), Error> {
        let contents = self.examine_segment(file, extent, sequence, hint)?;
        let SegmentContents { replay, mut damaged, regions, examined } = contents;
        let has_gaps = !regions.is_empty();
        let has_lost_removals = damaged.iter().any(|one| one.kind == DamageKind::Removal);
        match hint.filter(|_| has_gaps || !damaged.is_empty()) {
            Some(hint) => self.replay_hint(file.id, hint),
            None => {
                for placed in &replay {
                    self.state.apply(file.id, placed);
                }
            }
        }
        if hint.is_none() && (has_gaps || has_lost_removals) {
            let order = self.order.get(&file.id).copied().unwrap_or(0);
            let removals = damaged.iter().filter(|one| one.kind == DamageKind::Removal).map(|one| one.offset);
            let last = removals.chain(regions.iter().map(|region| region.end)).max().unwrap_or(0);
            self.last_doubt = self.last_doubt.max(Some((order, last)));
        }
        self.damage.append(&mut damaged);
        for region in regions {
            self.note_region(file, region, hint.is_some());
        }
        Ok((examined, has_gaps))
    }

    /// Collects the contents of one segment. A file that can't be read is one region of lost bytes.
    fn examine_segment(
        &self,
        file: &SegmentFile,
        extent: Extent,
        sequence: u64,
        hint: Option<&Hint>,
    ) -> Result<SegmentContents, Error> {
        let (mut replay, mut damaged, mut regions) = (Vec::new(), Vec::new(), Vec::new());
        let examined = examine(file, extent, sequence, |met| match met {
            Met::Record(found) => replay.push(found.placed()),
            Met::Damaged(found) => {
                if found.is_damaged {
                    replay.push(found.placed());
                }
                damaged.push(damaged_record(file, &found, hint.is_some()));
            }
            Met::Region(region) => regions.push(region),
        });
        let examined = match examined {
            Ok(examined) => examined,
            Err(error) if is_lost(&error) => {
                let end = self.ends.get(&file.id).copied().unwrap_or(file.capacity);
                let reason = format!("the file can't be read: {error}");
                regions.push(Region { offset: 0, end, reason });
                Examined { offset: end, next_sequence: sequence, is_torn: false }
            }
            Err(error) => return Err(unavailable(&file.path, &error)),
        };
        Ok(SegmentContents { replay, damaged, regions, examined })
    }

    /// Replays a hint, which contains the live records of a segment, and the values of spaces read at start.
    fn replay_hint(&mut self, id: u32, hint: &Hint) {
        let Self { state, hinted, .. } = self;
        hint.entries(|entry| {
            state.apply(id, &entry.placed);
            let header = entry.placed.header;
            if let Some(value) = entry.value
                && header.kind == Kind::Put
            {
                hinted.insert((id, entry.placed.offset), Bytes::copy_from_slice(value));
            }
        });
        hint.numbers(|space, partition, number| state.index.note_number(space, partition, number));
    }

    fn note_region(&mut self, file: &SegmentFile, region: Region, is_covered: bool) {
        let Region { offset, end, reason } = region;
        // A missing file is reported once.
        if self.damage.iter().any(|one| one.kind == DamageKind::Missing && one.file == file.path) {
            return;
        }
        let reason = format!("{reason}; {} bytes are unreadable", end.saturating_sub(offset));
        let (file, kind) = (file.path.clone(), DamageKind::Frames);
        self.damage.push(Damage { file, offset, kind, key: None, reason, is_covered });
    }
}

/// The contents of one segment.
struct SegmentContents {
    /// The records to be replayed, in order.
    replay: Vec<Placed>,
    damaged: Vec<Damage>,
    /// Ranges of bytes that were skipped.
    regions: Vec<Region>,
    examined: Examined,
}

fn damaged_record(file: &SegmentFile, found: &Found<'_>, is_covered: bool) -> Damage {
    let kind = if found.is_damaged { DamageKind::Value } else { DamageKind::Removal };
    Damage {
        file: file.path.clone(),
        offset: found.offset.into(),
        kind,
        key: Some(found.record.header.key),
        reason: "the checksum of the record does not match".to_owned(),
        is_covered,
    }
}

fn of_error(error: Error, kind: DamageKind) -> Option<Damage> {
    let Error::Corrupt { place, reason } = error else { return None };
    let (file, offset) = (PathBuf::from(place.unit), place.offset);
    Some(Damage { file, offset, kind, key: None, reason, is_covered: false })
}

impl From<&Damage> for Error {
    fn from(damage: &Damage) -> Self {
        Self::Corrupt { place: place(&damage.file, damage.offset), reason: damage.reason.clone() }
    }
}

/// The error for a directory that is not a data directory.
pub(super) fn no_store(directory: &Directory) -> Error {
    let path = directory.path.display();
    let reason = format!("there is no data directory {path}: the directory has no manifest");
    Error::Unavailable { reason }
}
