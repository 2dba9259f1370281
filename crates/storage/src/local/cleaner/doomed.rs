//! Which segments die by themselves.
//!
//! A removal keeps its segment as long as the segment of what it removed exists. Where messages are consumed as fast as
//! they come, each segment holds some removals of the one before it. So an old segment with one message that stays keeps a
//! chain of segments whose puts are all dead, and the copy of that one frees them all, unread.

use std::collections::BTreeSet;

use super::super::format::Shadows;
use super::super::segments::Segments;

/// The segments that the keeper frees, now or once those before them are freed, if segments `copied` were replaced by a
/// copy with this cutoff.
pub(super) fn doomed(segments: &Segments, copied: &[u32], cutoff: u32) -> BTreeSet<u32> {
    let mut doomed = BTreeSet::new();
    // What a removal needs is older: one pass in the order of replay finds whole chains.
    for segment in segments.in_order() {
        let (id, written) = (segment.file.id, segment.ranks.high);
        let is_settled = segment.sealed_end.is_some() && !segment.cleaning && !copied.contains(&id);
        let is_needed = |shadows: &Shadows| {
            segments.holders(*shadows, segment.ranks, written).any(|holder| {
                let holder = holder.file.id;
                !doomed.contains(&holder) && (!copied.contains(&holder) || cutoff <= written)
            })
        };
        if is_settled && segment.live_bytes == 0 && !segment.removals.keys().any(is_needed) {
            doomed.insert(id);
        }
    }
    doomed
}
