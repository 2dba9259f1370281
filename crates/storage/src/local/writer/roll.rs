//! Change from one segment to the next.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Active, Writer};
use crate::local::format::SEGMENT_HEADER_BYTES;
use crate::local::hint::Listing;
use crate::local::pool::{FullSegment, Need, PREPARED_SEGMENTS};
use crate::queue::batch_bytes;
use crate::waiting::{Waiting, refuse};
use crate::{Batch, Error};

/// Removals wait this long for the cleaner, or for the system, once the reserve is used up; then they are refused.
const REMOVAL_PATIENCE_MS: u64 = 1000;

/// The capacity of the active segment divided by this is kept for removals while no other segment is prepared.
const REMOVALS_DIVISOR: u64 = 8;

impl Writer {
    /// Whether a frame of `bytes` may go into the active segment. If no other segment is prepared, growth leaves a part
    /// of it: on a disk that is suddenly full there is no other reserve for removals.
    pub(super) fn has_room(&self, bytes: u64, does_grow: impl Fn() -> bool) -> bool {
        let capacity = self.active.segment.capacity;
        let end = self.active.offset + bytes;
        let leaves_part = end <= capacity - capacity / REMOVALS_DIVISOR;
        end <= capacity && (leaves_part || !does_grow() || !self.shared.pool.lock().prepared.is_empty())
    }

    /// Continues in the next segment, which must have room for a frame of `bytes`. The last prepared one is for
    /// removals only, and these may wait until the cleaner has freed room.
    pub(super) fn roll(&mut self, bytes: u64, does_grow: bool, is_for_removals: bool) -> Result<(), Error> {
        let bytes = bytes + u64::from(SEGMENT_HEADER_BYTES);
        let is_large = bytes > u64::from(self.shared.options.segment_bytes);
        let left = usize::from(does_grow && !is_large);
        let patience = Duration::from_millis(if is_for_removals { REMOVAL_PATIENCE_MS } else { 0 });
        let ask = || self.shared.keeper_wake.wake();
        let next = self.shared.pool.take(Need { bytes, left, patience }, ask, &self.shared.stepped);
        let next = next.map_err(|error| self.shared.fatal_error.get().cloned().unwrap_or(error))?;
        let filled = FullSegment { id: self.active.segment.id, seal: self.active.seal() };
        let sequence = self.active.sequence;
        self.active = Active {
            segment: next,
            offset: u64::from(SEGMENT_HEADER_BYTES),
            first_sequence: sequence,
            sequence,
        };
        let mut exchange = self.shared.pool.lock();
        let listing = std::mem::replace(&mut self.listing, Listing::new(exchange.take_buffer()));
        exchange.keep_listing(filled.id, listing);
        exchange.unsealed.push_back(filled);
        drop(exchange);
        self.shared.keeper_wake.wake();
        Ok(())
    }

    /// Refuses batches that need a segment of their own size when there is no room for it; true if there are any. Lack of
    /// that much room says nothing about the room for other batches.
    pub(super) fn refuse_oversized(&mut self, waiting: &mut [Waiting], error: &Error) -> bool {
        let segment_bytes = u64::from(self.shared.options.segment_bytes);
        let is_oversized = |batch: &Batch| batch.grows() && batch_bytes(batch) > segment_bytes;
        let is_refused = |one: &Waiting| one.refusal.is_none() && is_oversized(&one.batch);
        if !matches!(error, Error::Full { .. })
            || self.shared.is_write_refused.load(Ordering::Acquire)
            || !waiting.iter().any(is_refused)
        {
            return false;
        }
        refuse(waiting, error, is_oversized);
        self.halted.spread(waiting);
        // Segments of the normal size may be due, which the keeper does not prepare while a larger one is requested.
        self.shared.keeper_wake.wake();
        true
    }

    /// Requests the next segments in good time, once the active one is in use.
    pub(super) fn ask_for_next_segment(&self) {
        if self.active.offset > self.active.segment.capacity / 8 {
            let mut exchange = self.shared.pool.lock();
            if exchange.prepared_target < PREPARED_SEGMENTS {
                exchange.prepared_target = PREPARED_SEGMENTS;
                drop(exchange);
                self.shared.keeper_wake.wake();
            }
        }
    }
}
