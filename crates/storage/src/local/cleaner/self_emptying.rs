//! Segments that will become empty without being cleaned.
//!
//! A removal keeps its segment as long as the segment of the removed record exists. Where messages are consumed as fast
//! as they arrive, each segment holds some removals for the previous one. So an old segment with one long-lived message
//! keeps a chain of segments whose puts are all dead, and copying that one segment frees the chain without reading it.

use std::collections::BTreeSet;

use super::super::format::Shadows;
use super::super::segments::Segments;

/// The segments that the keeper frees, now or once earlier ones are freed, if the segments `copied` were replaced by a
/// copy with this cutoff.
pub(super) fn self_emptying(segments: &Segments, copied: &[u32], cutoff: u32) -> BTreeSet<u32> {
    let mut self_emptying = BTreeSet::new();
    // A removal depends on older segments only, so one pass in the order of replay finds whole chains.
    for segment in segments.in_order() {
        let (id, written) = (segment.file.id, segment.ranks.high);
        let is_settled = segment.sealed_end.is_some() && !segment.cleaning && !copied.contains(&id);
        let is_needed = |shadows: &Shadows| {
            segments.holders(*shadows, segment.ranks, written).any(|holder| {
                let holder = holder.file.id;
                !self_emptying.contains(&holder) && (!copied.contains(&holder) || cutoff <= written)
            })
        };
        if is_settled && segment.live_bytes == 0 && !segment.removals.keys().any(is_needed) {
            self_emptying.insert(id);
        }
    }
    self_emptying
}
