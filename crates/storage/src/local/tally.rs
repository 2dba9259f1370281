//! Counts of the records of a frame, which are added to those of the segments together: records in a row mostly
//! concern the same segments.

use super::format::Shadows;
use super::segments::{Ranks, Segments, record_bytes};
use crate::index::Location;

/// What some records of one segment change, in their order.
#[derive(Debug)]
pub(super) struct Tally<'a> {
    segments: &'a mut Segments,
    /// The segment of the records.
    id: u32,
    ranks: Ranks,
    /// Bytes of its puts that are not counted yet.
    live_bytes: u64,
    /// The segment of the last put that has become dead, 0 at first, and the bytes there that are not counted yet.
    dead: (u32, u64),
    /// The shadows of the last removal, and the bytes of those with the same that are not counted yet.
    removals: (Shadows, u32),
    /// Whether a segment has lost its last live value.
    has_emptied: bool,
}

impl<'a> Tally<'a> {
    pub(super) const fn new(segments: &'a mut Segments, id: u32, ranks: Ranks) -> Self {
        let removals = (Shadows::Nothing, 0);
        Self { segments, id, ranks, live_bytes: 0, dead: (0, 0), removals, has_emptied: false }
    }

    /// Counts a put record as live.
    pub(super) fn live(&mut self, bytes: u32) {
        if self.dead.0 == self.id {
            self.settle_dead();
        }
        self.live_bytes += u64::from(bytes);
    }

    /// Counts a put record as dead.
    pub(super) fn dead(&mut self, before: Location) {
        if before.segment != self.dead.0 {
            self.settle_dead();
            self.dead.0 = before.segment;
        }
        if before.segment == self.id {
            self.settle_live();
        }
        self.dead.1 += record_bytes(before);
    }

    /// Counts a removal record.
    pub(super) fn removal(&mut self, shadows: Shadows, bytes: u32) {
        if shadows != self.removals.0 {
            self.settle_removals();
            self.removals.0 = shadows;
        }
        self.removals.1 += bytes;
    }

    /// Adds everything to the counts of the segments; returns whether one lost its last live value meanwhile.
    pub(super) fn settle(mut self) -> bool {
        self.settle_live();
        self.settle_dead();
        self.settle_removals();
        self.has_emptied
    }

    fn settle_live(&mut self) {
        if self.live_bytes > 0 {
            self.segments.live(self.id, std::mem::take(&mut self.live_bytes));
        }
    }

    fn settle_dead(&mut self) {
        let (segment, bytes) = (self.dead.0, std::mem::take(&mut self.dead.1));
        self.has_emptied |= bytes > 0 && self.segments.dead(segment, bytes);
    }

    fn settle_removals(&mut self) {
        let (shadows, bytes) = (self.removals.0, std::mem::take(&mut self.removals.1));
        self.segments.note_removal(self.id, self.ranks, shadows, bytes);
    }
}
