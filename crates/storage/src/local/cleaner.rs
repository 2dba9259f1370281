//! The thread that frees room: copies live records out of mostly dead segments, concurrently with the log.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::descriptors::Handle;
use super::directory::{failed, is_full};
use super::filesystem::File;
use super::format::{
    FRAME_ALIGNMENT, FRAME_HEADER_BYTES, Kind, RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader, Shadows,
    align,
};
use super::frame::FrameBuilder;
use super::handover::{self, CopiedSegment, Move};
use super::hint::{HintBuilder, Subject};
use super::keeper::store_hint;
use super::manifest::{Listed, Manifest, Seal};
use super::name_syncs::NamesBegun;
use super::segments::{NO_PUTS, Ranks, Segment, SegmentFile};
use super::shared::Shared;
use super::state::{Placed, State};
use super::walk::{Found, walk};
use crate::index::Location;
use crate::{Error, Key};

mod choice;
mod refresh;
mod self_emptying;

use choice::{Choice, choose};

/// Interval between checks without a request.
const PATROL_MS: u64 = 1000;
/// Bytes copied between two syncs; keeps the disk's queue short for commits.
const SLICE_BYTES: u64 = 1 << 20;
/// Log text while cleaning fails.
const CLEAN: &str = "segments can't be cleaned";

/// Runs until stopped.
pub(super) fn run(shared: &Shared) {
    while !shared.is_stopping() {
        shared.cleaner_wake.wait(Duration::from_millis(PATROL_MS));
        while !shared.is_stopping() && clean_once(shared, shared.is_short()) {}
    }
}

/// Cleans one run of segments; returns false when none is worth it or cleaning failed. `is_eager` is for a full disk,
/// where even little garbage is worth it.
pub(super) fn clean_once(shared: &Shared, is_eager: bool) -> bool {
    let Some(choice) = choose(&mut shared.state().segments, &shared.options, is_eager) else {
        return false;
    };
    let result = Cleaning::begin(shared, &choice).and_then(|cleaning| cleaning.run(&choice));
    match &result {
        Ok(()) => shared.warnings.end(CLEAN),
        // Closing interrupts the copying.
        Err(_) if shared.is_stopping() => {}
        Err(error) => {
            shared.warnings.warn(CLEAN, error);
        }
    }
    if let Err(error) = &result {
        let mut state = shared.state();
        state.segments.set_cleaning(&choice.ids, false);
        if matches!(error, Error::Corrupt { .. }) {
            state.segments.set_damaged(&choice.ids);
        }
    }
    result.is_ok()
}

/// A run of segments being replaced by one segment with the records still needed.
struct Cleaning<'a> {
    shared: &'a Shared,
    id: u32,
    salt: u64,
    ranks: Ranks,
    /// From before the copy got its name.
    names: NamesBegun,
    file: Arc<dyn File>,
    frame: FrameBuilder,
    hint: Vec<(Placed, Bytes)>,
    /// Old and new location of each copied value.
    moves: Vec<Move>,
    offset: u64,
    sequence: u64,
    started: Instant,
}

impl<'a> Cleaning<'a> {
    fn begin(shared: &'a Shared, choice: &Choice) -> Result<Self, Error> {
        let id = shared.reserve_id();
        let salt = shared.directory.filesystem.draw_salt();
        let path = shared.directory.segment_path(id);
        let names = shared.directory.name_syncs.begin();
        let create = || {
            let file = shared.directory.filesystem.create(&path)?;
            file.write_all_at(&SegmentHeader { id, salt }.encode(), 0)?;
            Ok(file)
        };
        let file = create().map_err(|error| {
            shared.directory.discard(&path);
            room_or_trouble(&error)
        })?;
        Ok(Self {
            shared,
            id,
            salt,
            ranks: choice.ranks,
            names,
            file,
            frame: FrameBuilder::default(),
            hint: Vec::new(),
            moves: Vec::new(),
            offset: u64::from(SEGMENT_HEADER_BYTES),
            sequence: 1,
            started: Instant::now(),
        })
    }

    fn run(mut self, choice: &Choice) -> Result<(), Error> {
        let copied = self.copy(choice);
        if let Err(error) = copied {
            self.shared.directory.discard(&self.shared.directory.segment_path(self.id));
            return Err(error);
        }
        self.install(choice)
    }

    fn copy(&mut self, choice: &Choice) -> Result<(), Error> {
        self.frame.clear();
        for (file, seal) in choice.ids.iter().filter_map(|id| source(self.shared, *id)) {
            let mut failure = None;
            let end = walk(&file, seal.end, seal.first_sequence, |found| {
                if failure.is_none() {
                    failure = self.keep(&file, found).err();
                }
            });
            let end = end.map_err(|error| room_or_trouble(&error))?;
            if let Some(error) = failure {
                return Err(room_or_trouble(&error));
            }
            if end.offset != seal.end {
                return Err(super::directory::corrupt(&file.path, end.defect, end.reason));
            }
        }
        self.flush().and_then(|()| self.file.sync_data()).map_err(|error| room_or_trouble(&error))
    }

    /// Copies the records that are still needed.
    fn keep(&mut self, file: &SegmentFile, found: &[Found<'_>]) -> io::Result<()> {
        if self.shared.is_stopping() {
            return Err(io::Error::other("the store is closing"));
        }
        let kept: Vec<Option<Kept>> = {
            let state = self.shared.state();
            found.iter().map(|found| decide(&state, self.ranks, file.id, found)).collect()
        };
        for (found, kept) in found.iter().zip(kept) {
            match kept {
                None => {}
                Some(Kept::AsIs(shadows)) => {
                    let header = RecordHeader { shadows, ..found.record.header };
                    self.push(header, found.record.value, found.last_number);
                    if header.kind == Kind::Put {
                        let from = Location::new(file.id, found.offset, header.value_len);
                        self.moves.push((header.key, from, from));
                    }
                }
                Some(Kept::Ranges(ranges)) => {
                    for (first, last) in ranges {
                        let key = Key { number: first, ..found.record.header.key };
                        self.push(RecordHeader { key, ..found.record.header }, &last.to_le_bytes(), last);
                    }
                }
            }
            if self.frame.len() >= SLICE_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn push(&mut self, header: RecordHeader, value: &[u8], last_number: u64) {
        self.frame.push_copy(header, value, last_number);
        let is_small = header.key.space != crate::Space::Body;
        let value = if is_small { Bytes::copy_from_slice(value) } else { Bytes::new() };
        self.hint.push((Placed { header, offset: 0, last_number }, value));
    }

    /// Writes the collected records as a frame, then pauses to keep to the rate.
    fn flush(&mut self) -> io::Result<()> {
        if self.frame.is_empty() {
            return Ok(());
        }
        self.frame.finish(self.offset, self.sequence, self.salt);
        self.frame.write(self.file.as_ref(), self.offset)?;
        let placed = self.frame.records();
        let first = self.hint.len() - placed.len();
        let puts = placed.iter().filter(|placed| placed.header.kind == Kind::Put);
        let first_move = self.moves.len() - puts.clone().count();
        for (entry, placed) in self.hint.iter_mut().skip(first).zip(placed) {
            entry.0 = *placed;
        }
        for (relocation, placed) in self.moves.iter_mut().skip(first_move).zip(puts) {
            relocation.2 = Location::new(self.id, placed.offset, placed.header.value_len);
        }
        let bytes = align(self.frame.len());
        self.offset += bytes;
        self.sequence += 1;
        self.frame.clear();
        self.file.sync_data()?;
        self.pause();
        Ok(())
    }

    fn pause(&self) {
        let copied = self.offset - u64::from(SEGMENT_HEADER_BYTES);
        let due_ms = copied.saturating_mul(1000) / self.shared.options.clean_bytes_per_second;
        let elapsed = self.started.elapsed();
        if !self.shared.is_short()
            && let Some(rest) = Duration::from_millis(due_ms).checked_sub(elapsed)
        {
            std::thread::sleep(rest);
        }
    }

    /// Replaces the originals by the copy, first durably, then in memory.
    fn install(self, choice: &Choice) -> Result<(), Error> {
        let Self { shared, id, salt, .. } = self;
        let ranks = match self.moves.is_empty() {
            true => Ranks { cutoff: NO_PUTS, ..self.ranks },
            false => self.ranks,
        };
        let path = shared.directory.segment_path(id);
        let is_empty = self.hint.is_empty();
        let seal = Seal { end: self.offset, first_sequence: 1, next_sequence: self.sequence };
        let listed = Listed { id, salt, ranks, capacity: self.offset, seal: Some(seal) };
        let mut stored = Ok(());
        if !is_empty {
            self.write_hint(seal);
            let sync = shared.directory.sync_names(self.names);
            stored = sync.map_err(|error| room_or_trouble(&error));
        }
        let replace = |manifest: &mut Manifest| replace(manifest, choice, (!is_empty).then_some(listed));
        if let Err(error) = stored.and_then(|()| shared.update_manifest(replace)) {
            // If the outcome is in doubt, the manifest may list the copy.
            if !matches!(error, Error::InDoubt { .. }) {
                shared.directory.discard(&path);
                shared.directory.discard(&shared.directory.hint_path(id));
            }
            return Err(error);
        }
        shared.copied_bytes.fetch_add(self.offset, Ordering::Relaxed);
        shared.options.metrics.cleaned_bytes.inc_by(self.offset);
        let file = Handle::keep(&shared.descriptors, id, &path, self.file);
        file.release();
        let segment = SegmentFile { id, salt, capacity: self.offset, path, file };
        let copy = (!is_empty).then(|| CopiedSegment {
            file: Arc::new(segment),
            ranks,
            end: seal.end,
            removals: self.hint.into_iter().map(|(placed, _)| placed).collect(),
            moves: &self.moves,
        });
        let originals = handover::replace(shared, &choice.ids, copy);
        if is_empty {
            shared.directory.discard(&shared.directory.segment_path(id));
        }
        originals.into_iter().for_each(|file| shared.retire(file));
        Ok(())
    }

    fn write_hint(&self, seal: Seal) {
        let mut hint = HintBuilder::new(Subject { id: self.id, salt: self.salt, end: seal.end });
        for (placed, value) in &self.hint {
            if placed.header.kind == Kind::Put {
                hint.note_put(placed.header);
            }
            match placed.header.kind {
                Kind::DeleteRange => hint.push(placed, &placed.last_number.to_le_bytes()),
                Kind::Put | Kind::Delete => hint.push(placed, value),
            }
        }
        if let Err(error) = store_hint(&self.shared.directory, self.id, &hint.finish()) {
            tracing::warn!(id = self.id, %error, "can't write a hint file");
        }
    }
}

/// The part of a record that is copied.
enum Kept {
    AsIs(Shadows),
    /// A removed range, without the numbers that were put again since.
    Ranges(Vec<(u64, u64)>),
}

/// Whether the record at `found` in segment `id` must be kept in a copy with these `ranks`.
///
/// A put is kept while the index points at it. A removal is kept while an older segment outside the copy may contain a
/// record that it removes, and nothing newer is live at its key. Copying a removal moves it towards newer records, so a
/// range must leave out keys that are live now.
fn decide(state: &State, ranks: Ranks, id: u32, found: &Found<'_>) -> Option<Kept> {
    let RecordHeader { kind, key, shadows, .. } = found.record.header;
    // The current rank of its segment is a better estimate of its age than the rank of the copy.
    let written = state.segments.get(id).map_or(ranks.high, |segment| segment.ranks.high);
    let is_alive = state.segments.is_shadow_alive_since(shadows, ranks, written);
    match kind {
        Kind::Put => {
            let location = state.index.get(key)?;
            let is_live = location.segment == id && location.offset == found.offset;
            is_live.then_some(Kept::AsIs(if is_alive { shadows } else { Shadows::Nothing }))
        }
        Kind::Delete => (is_alive && state.index.get(key).is_none()).then_some(Kept::AsIs(shadows)),
        Kind::DeleteRange => is_alive.then(|| Kept::Ranges(gaps(state, key, found.last_number))),
    }
}

/// The parts of `key.number..=last` without live keys.
fn gaps(state: &State, key: Key, last: u64) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    let mut first = Some(key.number);
    let live =
        state.index.range(key.space, key.partition, key.number).take_while(|(number, _)| *number <= last);
    for (number, _) in live {
        if let Some(first) = first.filter(|first| *first < number) {
            ranges.push((first, number - 1));
        }
        first = number.checked_add(1);
    }
    ranges.extend(first.filter(|first| *first <= last).map(|first| (first, last)));
    ranges
}

/// The file of a segment and its seal.
pub(super) fn source(shared: &Shared, id: u32) -> Option<(Arc<SegmentFile>, Seal)> {
    let manifest = shared.manifest.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let seal = manifest.segments.iter().find(|listed| listed.id == id)?.seal?;
    drop(manifest);
    let state = shared.state();
    state.segments.get(id).map(|segment| (Arc::clone(&segment.file), seal))
}

fn replace(manifest: &mut Manifest, choice: &Choice, copy: Option<Listed>) {
    let place = manifest.segments.iter().position(|listed| choice.ids.contains(&listed.id));
    manifest.segments.retain(|listed| !choice.ids.contains(&listed.id));
    if let (Some(place), Some(copy)) = (place, copy) {
        manifest.segments.insert(place, copy);
    }
}

fn room_or_trouble(error: &io::Error) -> Error {
    match is_full(error) {
        true => Error::Full { reason: format!("no room to clean: {error}") },
        false => failed("can't clean", error),
    }
}

/// Bytes that cleaning a segment would free if `kept` bytes must be kept, and the bytes that the segment uses. Headers
/// are not garbage: a copy has them too.
fn garbage(segment: &Segment, kept: u64) -> (u64, u64) {
    let end = segment.sealed_end.unwrap_or(0);
    let frames = kept / SLICE_BYTES + 1;
    let frame_bytes = u64::from(FRAME_HEADER_BYTES + FRAME_ALIGNMENT);
    let copy = kept + u64::from(SEGMENT_HEADER_BYTES) + frames * frame_bytes;
    (end.saturating_sub(copy), end)
}
