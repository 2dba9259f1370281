//! Segments that keep removals in other segments alive.
//!
//! A segment that holds dead puts keeps their removals on disk; so does a copy whose cutoff is older than those
//! removals, even if it holds none of the dead puts any more. Copying such a segment gives it a new cutoff, and every
//! removal in a sealed segment that only this segment kept alive becomes garbage.

use std::collections::HashMap;

use super::super::format::Shadows;
use super::super::segments::{Segment, Segments};

/// Bytes of removals that each segment keeps alive, by its id. Removals kept alive by several segments count in equal
/// parts, so that the sum is the number of bytes of all removals in sealed segments.
pub(super) fn pinned_bytes(segments: &Segments) -> HashMap<u32, u64> {
    let mut pinned = HashMap::new();
    for segment in segments.in_order().filter(|segment| segment.sealed_end.is_some()) {
        // Removals that reach back to different ranks share one set, because a precise attribution matters little.
        let mut since: Option<(u32, u64)> = None;
        for (shadows, bytes) in &segment.removals {
            match *shadows {
                Shadows::Nothing => {}
                Shadows::Exact(_) => share(&mut pinned, segments, segment, *shadows, *bytes),
                Shadows::Since(_) if !segments.is_shadow_alive(*shadows, segment.ranks) => {}
                Shadows::Since(rank) => {
                    let (oldest, sum) = since.unwrap_or((rank, 0));
                    since = Some((oldest.min(rank), sum + bytes));
                }
            }
        }
        if let Some((rank, bytes)) = since {
            share(&mut pinned, segments, segment, Shadows::Since(rank), bytes);
        }
    }
    pinned
}

fn share(
    pinned: &mut HashMap<u32, u64>,
    segments: &Segments,
    segment: &Segment,
    shadows: Shadows,
    bytes: u64,
) {
    let holders = || segments.holders(shadows, segment.ranks, segment.ranks.high);
    let count = holders().count() as u64;
    for holder in holders() {
        *pinned.entry(holder.file.id).or_default() += bytes.div_ceil(count.max(1));
    }
}
