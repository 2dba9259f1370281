//! Transfer of segments: from the originals to their copy, and from the log to the pool of reusable files.
//!
//! The cleaner, the keeper and the readers lock the state in several short steps, so other threads can act between any
//! two of them. The rules that keep this correct are here, separate from files and manifest, so that
//! `tests/schedules.rs` can run them with every order of steps:
//!
//! * A copy replaces its originals in one step, so that their ranks are always covered.
//! * A copy is marked as `cleaning` from the moment it is listed until the index points at it. Before that it looks
//!   dead, and the keeper must not free it.
//! * A reader takes a reference to a file in the same step in which it looks up the record's location. A file is
//!   removed from the state before it is offered for reuse, so no new references appear, and it is reused only when no
//!   other reference is left.

use std::sync::Arc;

use super::format::{Kind, RECORD_HEADER_BYTES};
use super::segments::{Ranks, Segment, SegmentFile, record_bytes};
use super::shared::Shared;
use super::state::{Placed, State};
use crate::Key;
use crate::index::Location;

/// Most relocations in one step.
const RELOCATIONS_MAX: usize = 256;

/// Access to the state, one step at a time.
pub(super) trait Steps {
    /// Calls `act` with exclusive access to the state.
    fn step<T>(&self, act: impl FnOnce(&mut State) -> T) -> T;
}

impl Steps for Shared {
    fn step<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state())
    }
}

/// A record's key, its old location and that of its copy.
pub(super) type Move = (Key, Location, Location);

/// A finished copy.
#[derive(Debug)]
pub(super) struct CopiedSegment<'a> {
    pub(super) file: Arc<SegmentFile>,
    pub(super) ranks: Ranks,
    /// One past the last frame.
    pub(super) end: u64,
    pub(super) removals: Vec<Placed>,
    pub(super) moves: &'a [Move],
}

/// Replaces `originals` by a copy, or removes them without one, and returns their files. The manifest must already
/// contain the change.
pub(super) fn replace(
    steps: &impl Steps,
    originals: &[u32],
    copy: Option<CopiedSegment<'_>>,
) -> Vec<Arc<SegmentFile>> {
    let id = copy.as_ref().map(|copy| copy.file.id);
    // In one step, so that the ranks are always covered by a segment.
    steps.step(|state| {
        state.segments.unrank(originals);
        if let Some(copy) = &copy {
            list(state, copy);
        }
    });
    for moves in copy.iter().flat_map(|copy| copy.moves.chunks(RELOCATIONS_MAX)) {
        steps.step(|state| state.relocate(moves));
    }
    if let Some(id) = id {
        steps.step(|state| state.segments.set_cleaning(&[id], false));
    }
    forget(steps, originals)
}

fn list(state: &mut State, copy: &CopiedSegment<'_>) {
    let id = copy.file.id;
    state.segments.add(Arc::clone(&copy.file), copy.ranks, Some(copy.end));
    // The index does not point at the copy yet, so it must not be considered dead.
    state.segments.set_cleaning(&[id], true);
    for placed in copy.removals.iter().filter(|placed| placed.header.kind != Kind::Put) {
        let bytes = RECORD_HEADER_BYTES + placed.header.value_len;
        state.segments.note_removal(id, copy.ranks, placed.header.shadows, bytes);
    }
}

/// Segments that contain nothing needed and that no thread is working on.
pub(super) fn dead_segments(steps: &impl Steps) -> Vec<u32> {
    steps.step(|state| {
        let is_dead = |segment: &&Segment| {
            segment.sealed_end.is_some() && !segment.cleaning && state.segments.kept_bytes(segment) == 0
        };
        state.segments.in_order().filter(is_dead).map(|segment| segment.file.id).collect()
    })
}

/// Removes segments from the state; the manifest must not list them any more.
pub(super) fn forget(steps: &impl Steps, ids: &[u32]) -> Vec<Arc<SegmentFile>> {
    let removed = ids.iter().filter_map(|id| steps.step(|state| state.segments.remove(*id)));
    removed.map(|segment| segment.file).collect()
}

/// Removes the files without other references from `retired` and returns them.
pub(super) fn take_idle(retired: &mut Vec<Arc<SegmentFile>>) -> Vec<Arc<SegmentFile>> {
    let (idle, busy) = retired.drain(..).partition(|segment| Arc::strong_count(segment) == 1);
    *retired = busy;
    idle
}

impl State {
    /// Points the index at the copies of records, where it still points at the originals.
    fn relocate(&mut self, moves: &[Move]) {
        for (key, from, to) in moves {
            if self.index.relocate(*key, *from, *to) {
                self.segments.dead(from.segment, record_bytes(*to));
                self.segments.live(to.segment, record_bytes(*to));
            }
        }
    }
}
