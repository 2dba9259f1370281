//! Hints of sealed segments: when and how they are written.
//!
//! A hint for small messages has at least a tenth of its segment's bytes. Where messages are consumed as fast as they
//! arrive, a segment is dead soon after its seal. So a hint is delayed until the next segment is sealed, until nothing
//! was sealed for a while, or until the store is closed; segments dead by then get no hint. After a crash, opening
//! reads the segments whose hints were delayed.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::directory::Directory;
use super::super::format::Kind;
use super::super::hint::{HintBuilder, Listing, Subject, choose_needed};
use super::super::manifest::Seal;
use super::super::segments::SegmentFile;
use super::super::shared::Shared;
use super::super::state::Placed;
use super::super::walk::walk;
use super::demand;

/// Bytes written between two syncs to a hint while nothing is committed.
const UNPACED_PIECE_BYTES: usize = 1 << 20;
/// Bytes written between two syncs to a hint that is written concurrently with commits, and the pause after that many
/// bytes. Only the next opening needs the hint.
const HINT_PIECE_BYTES: usize = 256 << 10;
const HINT_PAUSE_MS: u64 = 5;

/// Detects that no segment was sealed for a while; hints are then delayed no longer.
#[derive(Debug)]
pub(super) struct Rest {
    sealed_at: Instant,
    patience: Duration,
}

impl Rest {
    /// Starts measuring now.
    pub(super) fn new(patience: Duration) -> Self {
        Self { sealed_at: Instant::now(), patience }
    }

    /// Whether the store is idle, given whether the current round has sealed a segment.
    pub(super) fn has_come(&mut self, has_sealed: bool) -> bool {
        if has_sealed {
            self.sealed_at = Instant::now();
        }
        !has_sealed && self.sealed_at.elapsed() >= self.patience
    }
}

/// Writes the hint of one sealed segment that is still alive, and rings the bell for the next.
pub(super) fn write_one_hint(shared: &Shared, is_at_rest: bool) {
    let Some((due, listing)) = shared.pool.lock().next_hint(is_at_rest) else { return };
    shared.keeper_wake.wake();
    let file = {
        let state = shared.state();
        let living = state.segments.get(due.id).filter(|segment| segment.live_bytes > 0);
        living.map(|segment| Arc::clone(&segment.file))
    };
    let Some(file) = file else {
        let buffer = listing.map(Listing::into_buffer);
        buffer.into_iter().for_each(|buffer| shared.pool.lock().give_buffer_back(buffer));
        return;
    };
    if let Err(error) = write_hint(shared, &file, due.seal, listing) {
        // Without it, only the next opening is slower.
        tracing::warn!(path = %file.path.display(), %error, "can't write a hint file");
    }
}

/// Writes all pending hints, including delayed ones.
pub(in crate::local) fn write_hints(shared: &Shared) {
    while !shared.pool.lock().hints_due.is_empty() {
        write_one_hint(shared, true);
    }
}

/// Writes the hint of a segment that is no longer appended to, from the listing of its records or, without one, by
/// reading it.
pub(in crate::local) fn write_hint(
    shared: &Shared,
    segment: &SegmentFile,
    seal: Seal,
    listing: Option<Listing>,
) -> io::Result<()> {
    let subject = Subject { id: segment.id, salt: segment.salt, end: seal.end };
    let hint = match listing {
        Some(listing) => {
            let put_bytes = Some(listing.put_bytes());
            // The state is locked for a few records at a time, because commits wait for it.
            HintBuilder::from_listing(listing, subject, |some, needed| {
                choose_needed(&shared.state(), segment.id, put_bytes, some.iter(), needed);
            })?
        }
        None => read_hint(shared, segment, seal, subject)?,
    };
    let bytes = hint.finish();
    let stored = store_hint_in(&shared.directory, segment.id, &bytes, HINT_PIECE_BYTES, || pause(shared));
    shared.pool.lock().give_buffer_back(bytes);
    stored
}

fn read_hint(
    shared: &Shared,
    segment: &SegmentFile,
    seal: Seal,
    subject: Subject,
) -> io::Result<HintBuilder> {
    let mut hint = HintBuilder::in_buffer(shared.pool.lock().take_buffer(), subject);
    let end = walk(segment, seal.end, seal.first_sequence, |found| {
        let some: Vec<_> = found.iter().map(|found| (found.placed(), found.record.value)).collect();
        add_needed(shared, segment.id, &mut hint, &some);
    })?;
    if end.offset != seal.end {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} at {}", end.reason, end.defect)));
    }
    Ok(hint)
}

/// Adds some records of segment `id` to its hint.
fn add_needed(shared: &Shared, id: u32, hint: &mut HintBuilder, some: &[(Placed, &[u8])]) {
    let mut needed = Vec::with_capacity(some.len());
    // The state is locked as briefly as possible: the hint grows by megabytes, and commits wait for the lock.
    choose_needed(&shared.state(), id, None, some.iter().map(|(placed, _)| placed), &mut needed);
    for ((placed, value), is_needed) in some.iter().zip(needed) {
        if placed.header.kind == Kind::Put {
            hint.note_put(placed.header);
        }
        if is_needed {
            hint.push(placed, value);
        }
    }
}

/// Pauses so that commits can use the disk, unless the keeper has urgent work.
fn pause(shared: &Shared) {
    let is_needed = shared.is_stopping() || shared.is_short() || demand(shared).is_some();
    if !is_needed && !shared.stepped.is_stepped() {
        std::thread::sleep(Duration::from_millis(HINT_PAUSE_MS));
    }
}

/// Writes a hint's bytes. After an error the hint does not exist.
pub(in crate::local) fn store_hint(directory: &Directory, id: u32, bytes: &[u8]) -> io::Result<()> {
    store_hint_in(directory, id, bytes, UNPACED_PIECE_BYTES, || {})
}

/// Writes the hint in pieces, each synced and followed by a pause.
fn store_hint_in(
    directory: &Directory,
    id: u32,
    bytes: &[u8],
    piece_bytes: usize,
    pause: impl Fn(),
) -> io::Result<()> {
    let path = directory.hint_path(id);
    let write = || {
        let file = directory.filesystem.create(&path)?;
        let mut offset = 0;
        for piece in bytes.chunks(piece_bytes) {
            file.write_all_at(piece, offset)?;
            file.sync_data()?;
            offset += piece.len() as u64;
            pause();
        }
        Ok(())
    };
    write().inspect_err(|_| directory.discard(&path))
}
