//! How segments change hands: from the originals to their copy, and from the log to the pool of files to reuse.
//!
//! The cleaner, the keeper and the readers take the state's lock in several short steps, so others act between any
//! two of them. What keeps that correct is here, apart from files and manifest, so that `tests/schedules.rs` can run
//! it under every order of steps:
//!
//! * A copy takes the place of its originals in one step: what they covered stays covered.
//! * A copy is marked as `cleaning` from the moment when it is listed until the index points at it. Before that it
//!   looks dead, and the keeper must not free it.
//! * A reader takes hold of a file in the same step in which it finds the record's place. A file leaves the state
//!   before it is offered for reuse, so nobody takes hold of it later, and it is reused only when nobody else holds it.

use std::sync::Arc;

use super::format::{Kind, RECORD_HEADER_BYTES};
use super::segments::{Ranks, Segment, SegmentFile};
use super::shared::Shared;
use super::state::{Placed, State};
use crate::Key;
use crate::index::Location;

/// Relocations under one lock.
const RELOCATIONS_MAX: usize = 256;

/// Gives access to the state, one step at a time.
pub(super) trait Steps {
    /// Does something with the state while nobody else does.
    fn step<T>(&self, act: impl FnOnce(&mut State) -> T) -> T;
}

impl Steps for Shared {
    fn step<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state())
    }
}

/// A record's key, where it was and where its copy is.
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

/// Puts a copy, or nothing, in the place of `originals`, and returns their files. The manifest says so already.
pub(super) fn replace(
    steps: &impl Steps,
    originals: &[u32],
    copy: Option<CopiedSegment<'_>>,
) -> Vec<Arc<SegmentFile>> {
    let id = copy.as_ref().map(|copy| copy.file.id);
    // In one step: the ranks are never without a segment that covers them.
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
    // Nothing points at it yet: it must not be taken for dead.
    state.segments.set_cleaning(&[id], true);
    for placed in copy.removals.iter().filter(|placed| placed.header.kind != Kind::Put) {
        if state.segments.is_shadow_alive(placed.header.shadows, copy.ranks) {
            let bytes = RECORD_HEADER_BYTES + placed.header.value_len;
            state.segments.removal(id, placed.header.shadows, bytes);
        }
    }
}

/// Segments that nothing alive needs and nobody works on.
pub(super) fn dead_segments(steps: &impl Steps) -> Vec<u32> {
    steps.step(|state| {
        let is_dead = |segment: &&Segment| {
            segment.sealed_end.is_some() && !segment.cleaning && state.segments.kept_bytes(segment) == 0
        };
        state.segments.in_order().filter(is_dead).map(|segment| segment.file.id).collect()
    })
}

/// Takes segments out of the state; the manifest lists them no more.
pub(super) fn forget(steps: &impl Steps, ids: &[u32]) -> Vec<Arc<SegmentFile>> {
    let removed = ids.iter().filter_map(|id| steps.step(|state| state.segments.remove(*id)));
    removed.map(|segment| segment.file).collect()
}

/// Takes those files that nobody else holds out of `retired`.
pub(super) fn take_idle(retired: &mut Vec<Arc<SegmentFile>>) -> Vec<Arc<SegmentFile>> {
    let (idle, busy) = retired.drain(..).partition(|segment| Arc::strong_count(segment) == 1);
    *retired = busy;
    idle
}

impl State {
    /// Points the index at copies of records, where it still points at the originals.
    fn relocate(&mut self, moves: &[Move]) {
        for (key, from, to) in moves {
            if self.index.relocate(*key, *from, *to) {
                let bytes = RECORD_HEADER_BYTES + to.value_len();
                self.segments.dead(from.segment, bytes);
                self.segments.live(to.segment, bytes);
            }
        }
    }
}
