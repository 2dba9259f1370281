//! Which segments to clean, and when it is worth it.
//!
//! Nothing is cleaned while all garbage together is small against what lives: young segments mostly die whole, and
//! waiting costs nothing. Survivors of neighbouring segments are gathered in one, and small ones are merged only
//! several at a time, so that a message that stays long is copied a logarithmic number of times.

use super::super::options::LocalOptions;
use super::super::segments::{Ranks, Segment, Segments};
use super::garbage;

/// Garbage is tolerated up to this many segments' worth, or half of what lives if that is more.
const TOLERATED_SEGMENTS: u64 = 4;
/// Neighbouring small segments that are merged at once.
const MERGED_SEGMENTS_MIN: usize = 8;
/// A segment is small below this fraction of the normal size.
const SMALL_FRACTION: u64 = 8;
/// The most segments cleaned at once.
const RUN_SEGMENTS_MAX: usize = 64;

/// A run of neighbours to be replaced by one segment.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) ids: Vec<u32>,
    pub(super) ranks: Ranks,
}

/// What the choice looks at in a segment.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    id: u32,
    ranks: Ranks,
    garbage: u64,
    end: u64,
    is_free: bool,
}

impl Candidate {
    fn kept(self) -> u64 {
        self.end - self.garbage
    }

    /// Whether at least half of it, or on a full disk a tenth, is garbage.
    fn is_worth_it(self, is_eager: bool) -> bool {
        let fraction = if is_eager { 10 } else { 2 };
        self.is_free && self.garbage > 0 && self.garbage >= self.end / fraction
    }
}

/// Picks the next run and marks it as being cleaned.
pub(super) fn choose(segments: &mut Segments, options: &LocalOptions, is_eager: bool) -> Option<Choice> {
    let segment_bytes = u64::from(options.segment_bytes);
    let candidates: Vec<Candidate> =
        segments.in_order().map(|segment| candidate(segments, segment)).collect();
    let garbage: u64 = candidates.iter().filter(|one| one.is_free).map(|one| one.garbage).sum();
    let kept: u64 = candidates.iter().map(|one| one.kept()).sum();
    let is_due = is_eager || garbage > (TOLERATED_SEGMENTS * segment_bytes).max(kept / 2);
    let run = is_due
        .then(|| dirtiest_run(&candidates, segment_bytes, is_eager))
        .flatten()
        .or_else(|| small_run(&candidates, segment_bytes))?;
    let ids: Vec<u32> = run.iter().map(|one| one.id).collect();
    segments.set_cleaning(&ids, true);
    let ranks = Ranks { low: run.first()?.ranks.low, high: run.last()?.ranks.high };
    Some(Choice { ids, ranks })
}

fn candidate(segments: &Segments, segment: &Segment) -> Candidate {
    let (garbage, end) = garbage(segments, segment);
    let is_free = segment.sealed_end.is_some() && !segment.cleaning && !segment.damaged;
    Candidate { id: segment.file.id, ranks: segment.ranks, garbage, end, is_free }
}

/// The segment with the largest share of garbage and those neighbours that are worth cleaning too.
fn dirtiest_run(candidates: &[Candidate], segment_bytes: u64, is_eager: bool) -> Option<&[Candidate]> {
    let worth = |one: &&Candidate| one.is_worth_it(is_eager);
    let dirtiest = candidates.iter().filter(worth).max_by_key(|one| one.garbage * 1000 / one.end.max(1))?;
    let at = candidates.iter().position(|one| one.id == dirtiest.id)?;
    let fits = |run: &[Candidate]| {
        run.len() <= RUN_SEGMENTS_MAX
            && run
                .iter()
                .all(|one| one.is_worth_it(is_eager) || (one.is_free && is_small(one, segment_bytes)))
            && run.iter().map(|one| one.kept()).sum::<u64>() <= segment_bytes
    };
    let mut first = at;
    while let Some(run) = first.checked_sub(1).and_then(|first| candidates.get(first..=at))
        && fits(run)
    {
        first -= 1;
    }
    let mut last = at;
    while let Some(run) = candidates.get(first..=last + 1)
        && fits(run)
    {
        last += 1;
    }
    candidates.get(first..=last)
}

/// Enough small neighbours to be worth merging.
fn small_run(candidates: &[Candidate], segment_bytes: u64) -> Option<&[Candidate]> {
    let is_mergeable = |one: &Candidate| one.is_free && is_small(one, segment_bytes);
    candidates
        .chunk_by(|one, next| is_mergeable(one) && is_mergeable(next))
        .map(|run| run.get(..MERGED_SEGMENTS_MIN).unwrap_or_default())
        .find(|run| !run.is_empty())
}

fn is_small(one: &Candidate, segment_bytes: u64) -> bool {
    one.end <= segment_bytes / SMALL_FRACTION
}
