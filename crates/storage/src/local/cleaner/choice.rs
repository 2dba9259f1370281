//! Selection of segments to clean.
//!
//! Nothing is cleaned while all garbage together is small compared with the live data: young segments mostly become
//! empty as a whole, and waiting costs nothing. Live records of adjacent segments are gathered in one segment, and
//! small segments are merged only several at a time, so that a long-lived message is copied a logarithmic number of
//! times.
//!
//! Removals that an older segment still needs are not garbage. Where they outweigh the live data, the segments that
//! keep them alive are copied as well, if that costs at most twice the bytes it frees (see `refresh.rs`). When no such
//! segment is left, live removals take at most as many bytes as live puts: each segment keeps less than half of its own
//! needed bytes alive elsewhere, so `removals < (live + removals) / 2`. Each removal pays for at most one such copy, so
//! the bytes written by the cleaner stay in proportion to those submitted.
//!
//! Segments that become empty without cleaning are left to the keeper, and only the beginning of a run is copied if
//! that frees most of its garbage (see `self_emptying.rs`). A copy of the whole run would also cover the ranks of the emptied
//! segments: it would keep the removals in the segment after it, and thus the next chain.

use std::collections::BTreeSet;

use super::super::options::LocalOptions;
use super::super::segments::{Ranks, Segment, Segments};
use super::garbage;
use super::refresh::pinned_bytes;
use super::self_emptying::self_emptying;

/// Garbage is tolerated up to this many segments' worth, or half of the live data if that is more.
const TOLERATED_SEGMENTS: u64 = 4;
/// A segment is copied to free the removals that it keeps alive when these are at least 1/`PINNED_FRACTION` of its bytes.
const PINNED_FRACTION: u64 = 2;
/// The same fraction on a full disk.
const PINNED_FRACTION_EAGER: u64 = 10;
/// Fewest adjacent small segments that are merged.
const MERGED_SEGMENTS_MIN: usize = 8;
/// A segment is small below this fraction of the normal size.
const SMALL_FRACTION: u64 = 8;
/// Most segments cleaned at once.
const RUN_SEGMENTS_MAX: usize = 64;

/// A run of adjacent segments to be replaced by one segment.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) ids: Vec<u32>,
    pub(super) ranks: Ranks,
}

/// The properties of a segment on which the choice depends.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    id: u32,
    ranks: Ranks,
    garbage: u64,
    /// Bytes of removals that an older segment still needs.
    removals: u64,
    end: u64,
    is_free: bool,
}

impl Candidate {
    fn kept(self) -> u64 {
        self.end - self.garbage
    }

    /// Whether at least half of it, or a tenth on a full disk, is garbage.
    fn is_worth_it(self, is_eager: bool) -> bool {
        let fraction = if is_eager { 10 } else { 2 };
        self.is_free && self.garbage > 0 && self.garbage >= self.end / fraction
    }
}

/// Picks the next run and marks it as being cleaned.
pub(super) fn choose(segments: &mut Segments, options: &LocalOptions, is_eager: bool) -> Option<Choice> {
    let segment_bytes = u64::from(options.segment_bytes);
    let cutoff = segments.first_open_rank();
    let dying = self_emptying(segments, &[], cutoff);
    let candidates: Vec<Candidate> =
        segments.in_order().map(|segment| candidate(segments, segment, &dying)).collect();
    let garbage: u64 = candidates.iter().filter(|one| one.is_free).map(|one| one.garbage).sum();
    let kept: u64 = candidates.iter().map(|one| one.kept()).sum();
    let removals: u64 = candidates.iter().map(|one| one.removals).sum();
    let is_due = |bytes: u64, of: u64| is_eager || bytes > (TOLERATED_SEGMENTS * segment_bytes).max(of / 2);
    let sizes = Sizes { segment_bytes, is_eager };
    let run = is_due(garbage, kept)
        .then(|| dirtiest_run(&candidates, sizes))
        .flatten()
        .map(|run| beginning(segments, &candidates, run, cutoff))
        .or_else(|| {
            let live = kept.saturating_sub(removals);
            is_due(removals, live).then(|| pinning_run(segments, &candidates, sizes)).flatten()
        })
        .or_else(|| small_run(&candidates, segment_bytes))?;
    let ids: Vec<u32> = run.iter().map(|one| one.id).collect();
    segments.set_cleaning(&ids, true);
    let ranks = Ranks { low: run.first()?.ranks.low, high: run.last()?.ranks.high, cutoff };
    Some(Choice { ids, ranks })
}

/// The quantities that decide whether segments are worth cleaning.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    segment_bytes: u64,
    is_eager: bool,
}

fn candidate(segments: &Segments, segment: &Segment, dying: &BTreeSet<u32>) -> Candidate {
    let kept = segments.kept_bytes(segment);
    let (garbage, end) = garbage(segment, kept);
    let is_dying = dying.contains(&segment.file.id);
    let is_free = segment.sealed_end.is_some() && !segment.cleaning && !segment.damaged && !is_dying;
    let removals = kept - segment.live_bytes;
    Candidate { id: segment.file.id, ranks: segment.ranks, garbage, removals, end, is_free }
}

/// The segment with the largest share of garbage and the adjacent ones that are worth cleaning too.
fn dirtiest_run(candidates: &[Candidate], sizes: Sizes) -> Option<&[Candidate]> {
    let worth = |(_, one): &(usize, &Candidate)| one.is_worth_it(sizes.is_eager);
    let dirtiest = candidates.iter().enumerate().filter(worth);
    let (at, _) = dirtiest.max_by_key(|(_, one)| one.garbage * 1000 / one.end.max(1))?;
    run_around(candidates, at, sizes)
}

/// The shortest prefix of `run`, of doubling lengths, whose copy makes the keeper free at least half as many bytes as the
/// run has garbage, and reads at most half as many bytes as that frees; otherwise the whole run.
fn beginning<'a>(
    segments: &Segments,
    candidates: &[Candidate],
    run: &'a [Candidate],
    cutoff: u32,
) -> &'a [Candidate] {
    let wanted = run.iter().map(|one| one.garbage).sum::<u64>() / 2;
    let is_enough = |start: &&[Candidate]| {
        let ids: Vec<u32> = start.iter().map(|one| one.id).collect();
        let dying = self_emptying(segments, &ids, cutoff);
        let freed = candidates.iter().filter(|one| one.is_free && dying.contains(&one.id));
        let freed: u64 = freed.map(|one| one.end).sum();
        let read: u64 = start.iter().map(|one| one.end).sum();
        freed >= wanted && read <= freed / 2
    };
    let lengths = std::iter::successors(Some(1), |length| Some(2 * length));
    let starts = lengths.take_while(|length| *length < run.len()).filter_map(|length| run.get(..length));
    starts.into_iter().find(is_enough).unwrap_or(run)
}

/// The segment that keeps the most removals alive for its size, and the adjacent ones that are worth cleaning.
fn pinning_run<'a>(
    segments: &Segments,
    candidates: &'a [Candidate],
    sizes: Sizes,
) -> Option<&'a [Candidate]> {
    let fraction = if sizes.is_eager { PINNED_FRACTION_EAGER } else { PINNED_FRACTION };
    let pinned = pinned_bytes(segments);
    let pinned_by = |one: &Candidate| pinned.get(&one.id).copied().unwrap_or(0);
    let worth = |(_, one): &(usize, &Candidate)| {
        one.is_free && pinned_by(one) > 0 && pinned_by(one) >= one.kept() / fraction
    };
    let worst = candidates.iter().enumerate().filter(worth);
    let (at, _) = worst.max_by_key(|(_, one)| pinned_by(one) * 1000 / one.kept().max(1))?;
    run_around(candidates, at, sizes)
}

/// The segment at `at` and the adjacent ones that are worth cleaning or small.
fn run_around(candidates: &[Candidate], at: usize, sizes: Sizes) -> Option<&[Candidate]> {
    let fits = |run: &[Candidate], added: usize| {
        let is_added_worth_it = candidates.get(added).is_some_and(|one| {
            one.is_worth_it(sizes.is_eager) || (one.is_free && is_small(one, sizes.segment_bytes))
        });
        is_added_worth_it
            && run.len() <= RUN_SEGMENTS_MAX
            && run.iter().map(|one| one.kept()).sum::<u64>() <= sizes.segment_bytes
    };
    let mut first = at;
    while let Some(run) = first.checked_sub(1).and_then(|first| candidates.get(first..=at))
        && fits(run, first - 1)
    {
        first -= 1;
    }
    let mut last = at;
    while let Some(run) = candidates.get(first..=last + 1)
        && fits(run, last + 1)
    {
        last += 1;
    }
    candidates.get(first..=last)
}

/// Enough adjacent small segments to be worth merging.
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
