//! Opening a data directory: the manifest lists the segments, hints and frames determine the live records, and any
//! inconsistency is refused with file and offset.

mod closed;

use std::sync::Arc;
use std::thread::Scope;

use super::descriptors::{Descriptors, Handle};
use super::directory::{Directory, Name, corrupt, unavailable};
use super::first_manifest::take_name;
use super::format::{FRAME_HEADER_BYTES, Kind, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::hint::{Hint, Subject};
use super::keeper::store_hint;
use super::manifest::{Listed, Manifest, Seal};
use super::pool::FullSegment;
use super::replay::Replay;
use super::salvage::check_unfinished;
use super::scan::{DamagedPut, scan};
use super::segments::SegmentFile;
use super::startup_cache::{StartupCache, StartupValues};
use super::state::State;
use super::walk::{Damage, End, find_later_frame, rewrite_last_frame};
use super::writer::Active;
use crate::{Error, Space};

/// How thoroughly to read, and whether to repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// For serving: hints are trusted, a torn tail is cut off, files are opened for writing.
    Open,
    /// To determine whether opening would be refused: like `Open`, but nothing is written.
    Look,
    /// For verification: every frame is read, no damage is accepted, nothing is written.
    Check,
}

/// A frame that a crash left unfinished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Torn {
    pub(super) segment: u32,
    pub(super) offset: u64,
}

/// The result of reading the files.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) descriptors: Arc<Descriptors>,
    pub(super) manifest: Manifest,
    pub(super) state: State,
    pub(super) startup_cache: StartupCache,
    /// The segment to continue in, `None` when there is none yet.
    pub(super) active: Option<Active>,
    /// Segments that are full but not recorded as such.
    pub(super) unsealed: Vec<FullSegment>,
    /// Empty segments after the active one.
    pub(super) prepared: Vec<Arc<SegmentFile>>,
    pub(super) torn: Option<Torn>,
    /// Number of hints that were missing or damaged.
    pub(super) hints_rebuilt: usize,
    /// Puts with damaged values; only these values are lost.
    pub(super) damaged_puts: Vec<DamagedPut>,
}

impl Loaded {
    /// The state of an empty directory.
    pub(super) fn empty(directory: &Directory) -> Self {
        Self {
            descriptors: Descriptors::new(Arc::clone(&directory.filesystem)),
            manifest: Manifest { next_id: 1, ..Manifest::default() },
            state: State::default(),
            startup_cache: StartupCache::default(),
            active: None,
            unsealed: Vec::new(),
            prepared: Vec::new(),
            torn: None,
            hints_rebuilt: 0,
            damaged_puts: Vec::new(),
        }
    }
}

/// Reads `directory`; `None` when it contains no store. Keeps at most `startup_cache_bytes_max` of values for the first
/// scan.
pub(super) fn load(
    directory: &Directory,
    mode: Mode,
    startup_cache_bytes_max: usize,
) -> Result<Option<Loaded>, Error> {
    check_unfinished(directory)?;
    if mode == Mode::Open {
        take_name(directory)?;
    }
    let Some(manifest) = Manifest::load(directory)? else {
        let names = directory.names()?;
        if names.iter().any(|name| matches!(name, Name::Segment(_) | Name::Hint(_))) {
            let path = directory.manifest_path();
            return Err(corrupt(&path, 0, missing_manifest(directory)));
        }
        return Ok(None);
    };
    load_listed(directory, mode, manifest, startup_cache_bytes_max).map(Some)
}

fn missing_manifest(directory: &Directory) -> &'static str {
    match directory.filesystem.open(&directory.backup_path(), false) {
        Ok(_) => "this is a backup: `peeklock store restore` makes a data directory of it",
        Err(_) => "the file is missing, although segments are there",
    }
}

/// Reads the segments listed in `manifest`.
pub(super) fn load_listed(
    directory: &Directory,
    mode: Mode,
    manifest: Manifest,
    startup_cache_bytes_max: usize,
) -> Result<Loaded, Error> {
    std::thread::scope(|scope| {
        let mut loader = Loader::open(scope, directory, mode, manifest)?;
        loader.loaded.startup_cache = StartupCache::with_room(startup_cache_bytes_max);
        loader.load_sealed()?;
        loader.load_open()?;
        Ok(loader.finish())
    })
}

/// Loading in progress.
struct Loader<'scope> {
    directory: &'scope Directory,
    mode: Mode,
    files: Vec<Arc<SegmentFile>>,
    /// The replay whose result is merged into the state at the end.
    replay: Replay<'scope>,
    loaded: Loaded,
    /// Buffer for the values of one hint at a time.
    values: StartupValues,
}

impl<'scope> Loader<'scope> {
    /// Opens all files and checks their headers. All segments are added to the state before any record is replayed.
    fn open(
        scope: &'scope Scope<'scope, '_>,
        directory: &'scope Directory,
        mode: Mode,
        manifest: Manifest,
    ) -> Result<Self, Error> {
        let mut state = State::default();
        let mut files = Vec::new();
        let descriptors = Descriptors::new(Arc::clone(&directory.filesystem));
        for listed in &manifest.segments {
            let file = Arc::new(open_segment(directory, &descriptors, listed, mode)?);
            state.segments.add(Arc::clone(&file), listed.ranks, listed.seal.map(|seal| seal.end));
            files.push(file);
        }
        let replay = Replay::start(scope, &state.segments)?;
        let loaded = Loaded { descriptors, manifest, state, ..Loaded::empty(directory) };
        Ok(Self { directory, mode, files, replay, loaded, values: StartupValues::default() })
    }

    fn finish(self) -> Loaded {
        let mut loaded = self.loaded;
        self.replay.finish(&mut loaded.state);
        loaded.startup_cache.expect(loaded.state.index.partitions());
        loaded
    }

    fn load_sealed(&mut self) -> Result<(), Error> {
        let listed = self.loaded.manifest.segments.clone();
        for (listed, file) in listed.iter().zip(self.files.clone()) {
            if let Some(seal) = listed.seal {
                self.load_known(&file, seal, true)?;
            }
        }
        Ok(())
    }

    /// How to treat damage in frames, depending on whether they are known to be synced.
    const fn damage(&self, is_synced: bool) -> Damage {
        match self.mode {
            Mode::Open | Mode::Look => Damage::Passed { is_synced },
            Mode::Check => Damage::Refused,
        }
    }

    /// Replays a segment with a recorded end; returns true if its hint was sufficient.
    fn load_known(&mut self, file: &SegmentFile, seal: Seal, is_sealed: bool) -> Result<bool, Error> {
        let subject = Subject { id: file.id, salt: file.salt, end: seal.end };
        let hint = match Hint::load_into(self.replay.buffer(), self.directory, subject) {
            Ok(hint) if self.mode != Mode::Check => {
                self.replay(file.id, hint, &[]);
                return Ok(true);
            }
            hint => hint,
        };
        let damage = self.damage(true);
        let (rebuilt, end, damaged) = scan(file, seal.end, seal.first_sequence, damage)?;
        if end.offset != seal.end || end.next_sequence != seal.next_sequence {
            return Err(corrupt(&file.path, end.defect, refusal(&end, seal.end)));
        }
        if let Err(reason) = &hint
            && end.offset > u64::from(SEGMENT_HEADER_BYTES)
        {
            self.loaded.hints_rebuilt += 1;
            let path = self.directory.hint_path(file.id);
            tracing::debug!(path = %path.display(), reason, "the hint is rebuilt from its segment");
            // A hint would give damaged bytes a valid checksum, and hide the damage from later openings.
            if self.mode == Mode::Open
                && is_sealed
                && damaged.is_empty()
                && let Err(error) = store_hint(self.directory, file.id, &rebuilt.bytes)
            {
                tracing::debug!(path = %path.display(), %error, "the hint can't be written");
            }
        }
        self.replay(file.id, rebuilt, &damaged);
        self.note_damaged(file, damaged);
        Ok(false)
    }

    /// Replays the segments that were still open, finds the end of the log and verifies it.
    fn load_open(&mut self) -> Result<(), Error> {
        let listed = &self.loaded.manifest.segments;
        let first_open = listed.iter().position(|listed| listed.seal.is_none()).unwrap_or(listed.len());
        if let Some(late) = listed.iter().skip(first_open).find(|listed| listed.seal.is_some()) {
            let path = self.directory.manifest_path();
            return Err(corrupt(&path, 0, format!("sealed segment {} follows an open one", late.id)));
        }
        let open: Vec<_> = self.files.iter().skip(first_open).cloned().collect();
        if let Some(closed) = self.loaded.manifest.closed {
            return self.load_closed(&open, closed.id, closed.seal);
        }
        let mut sequence = self.loaded.manifest.sealed_sequence + 1;
        let mut rest = open.as_slice();
        while let Some((file, later)) = rest.split_first() {
            let damage = self.damage(false);
            let (hint, end, damaged) = scan(file, file.capacity, sequence, damage)?;
            self.replay(file.id, hint, &damaged);
            self.note_damaged(file, damaged);
            let seal = Seal { end: end.offset, first_sequence: sequence, next_sequence: end.next_sequence };
            let Some(next) = position_of(later, end.next_sequence)? else {
                self.check_end(file, &end, later)?;
                self.settle_tail(file, &end)?;
                self.go_on_in(file, seal, later);
                return Ok(());
            };
            self.loaded.unsealed.push(FullSegment { id: file.id, seal });
            // A segment is skipped, and stays without frames, when the next batch is too large for it.
            for passed_over in later.iter().take(next) {
                let seal = Seal {
                    end: u64::from(SEGMENT_HEADER_BYTES),
                    first_sequence: end.next_sequence,
                    next_sequence: end.next_sequence,
                };
                self.loaded.unsealed.push(FullSegment { id: passed_over.id, seal });
            }
            sequence = end.next_sequence;
            rest = later.get(next..).unwrap_or_default();
        }
        Ok(())
    }

    /// Refuses an end that is followed by frames: they were written only after the bytes damaged here were synced.
    fn check_end(&self, file: &SegmentFile, end: &End, later: &[Arc<SegmentFile>]) -> Result<(), Error> {
        let search = |file: &SegmentFile, from, sequence| {
            find_later_frame(file, from, sequence).map_err(|error| unavailable(&file.path, &error))
        };
        if let Some(later) = search(file, end.offset, end.next_sequence)? {
            let reason = format!("{}, yet a later frame stands at byte {later}", end.reason);
            return Err(corrupt(&file.path, end.defect, reason));
        }
        for (at, next) in later.iter().enumerate() {
            // Only the next segment can have lost its first frame and kept others.
            let found = if at == 0 {
                search(next, u64::from(SEGMENT_HEADER_BYTES), end.next_sequence)?
            } else {
                first_sequence(next)?.is_some().then_some(u64::from(SEGMENT_HEADER_BYTES))
            };
            if let Some(found) = found {
                let name = next.path.display();
                let reason = format!("{}, yet later frames follow in {name} at byte {found}", end.reason);
                return Err(corrupt(&file.path, end.defect, reason));
            }
        }
        Ok(())
    }

    /// Blanks the header of a torn frame, and makes the frames before it durable.
    fn settle_tail(&mut self, file: &SegmentFile, end: &End) -> Result<(), Error> {
        if end.is_torn {
            self.loaded.torn = Some(Torn { segment: file.id, offset: end.offset });
            tracing::info!(path = %file.path.display(), offset = end.offset, "an unfinished write is cut off");
        }
        if self.mode != Mode::Open {
            return Ok(());
        }
        let blank = [0; FRAME_HEADER_BYTES as usize];
        let repair = || {
            if end.is_torn {
                file.file.write_all_at(&blank, end.offset)?;
            }
            // Frames that a killed process left in the page cache were treated as durable and must become so.
            rewrite_last_frame(file, end)?;
            file.file.sync_data()
        };
        repair().map_err(|error| unavailable(&file.path, &error))
    }

    fn go_on_in(&mut self, file: &Arc<SegmentFile>, seal: Seal, later: &[Arc<SegmentFile>]) {
        self.loaded.active = Some(Active {
            segment: Arc::clone(file),
            offset: seal.end,
            first_sequence: seal.first_sequence,
            sequence: seal.next_sequence,
        });
        self.loaded.prepared = later.to_vec();
    }

    fn note_damaged(&mut self, file: &SegmentFile, damaged: Vec<DamagedPut>) {
        for put in &damaged {
            let (path, offset) = (file.path.display(), put.offset);
            tracing::error!(path = %path, offset, key = ?put.key, "a stored value is damaged; everything else is served");
        }
        self.loaded.damaged_puts.extend(damaged);
    }

    fn replay(&mut self, id: u32, hint: Hint, damaged: &[DamagedPut]) {
        let hint = self.replay.add(id, hint);
        self.values.clear();
        hint.entries(|entry| {
            let header = entry.placed.header;
            if header.kind == Kind::Put
                && header.key.space != Space::Body
                && let Some(value) = entry.value
                && damaged.iter().all(|put| put.offset != entry.placed.offset)
            {
                self.values.push(entry.placed.offset, value);
            }
        });
        self.loaded.startup_cache.add(id, &self.values);
    }
}

/// Opens a listed segment and checks its header against the manifest.
fn open_segment(
    directory: &Directory,
    descriptors: &Arc<Descriptors>,
    listed: &Listed,
    mode: Mode,
) -> Result<SegmentFile, Error> {
    let Listed { id, salt, capacity, seal, .. } = *listed;
    let path = directory.segment_path(id);
    let file = directory.open(&path, mode == Mode::Open && seal.is_none())?;
    let len = file.len().map_err(|error| unavailable(&path, &error))?;
    if len < capacity {
        return Err(corrupt(&path, len, format!("the file ends here, {capacity} bytes belong to it")));
    }
    let mut bytes = [0; SEGMENT_HEADER_BYTES as usize];
    file.read_exact_at(&mut bytes, 0).map_err(|error| unavailable(&path, &error))?;
    SegmentHeader::refuse_later(&bytes, &path)?;
    let header = SegmentHeader::decode(&bytes).map_err(|reason| corrupt(&path, 0, reason))?;
    if header != (SegmentHeader { id, salt }) {
        return Err(corrupt(&path, 0, "the header is that of another segment"));
    }
    let file = Handle::keep(descriptors, id, &path, file);
    if seal.is_some() {
        file.release();
    }
    Ok(SegmentFile { id, salt, capacity, path, file })
}

/// The index of the segment whose first frame has this sequence.
fn position_of(segments: &[Arc<SegmentFile>], sequence: u64) -> Result<Option<usize>, Error> {
    for (place, segment) in segments.iter().enumerate() {
        if first_sequence(segment)? == Some(sequence) {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

/// The sequence of the first frame, if its header is valid.
fn first_sequence(file: &SegmentFile) -> Result<Option<u64>, Error> {
    let mut bytes = [0; FRAME_HEADER_BYTES as usize];
    let read = file.file.read_exact_at(&mut bytes, u64::from(SEGMENT_HEADER_BYTES));
    read.map_err(|error| unavailable(&file.path, &error))?;
    Ok(super::format::FrameHeader::decode(&bytes, file.salt).map(|header| header.sequence))
}

fn refusal(end: &End, expected: u64) -> String {
    format!("{}; valid frames end at byte {}, the segment was sealed at {expected}", end.reason, end.offset)
}
