//! The housekeeping thread, off the commit path: prepares segments, seals full ones, frees dead ones, monitors free
//! disk space.

use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::filesystem::FileIdentity;
use super::format::SEGMENT_HEADER_BYTES;
use super::handover;
use super::manifest::Manifest;
use super::pool::{FullSegment, PREPARED_SEGMENTS, SPARE_SEGMENTS_MAX, Spare};
use super::prepare::{Order, prepare};
use super::shared::Shared;
use crate::{Error, Pressure};

mod hints;

use hints::{Rest, write_one_hint};
pub(super) use hints::{store_hint, write_hint, write_hints};

/// Interval between checks of the disk without a request.
const PATROL_MS: u64 = 1000;
/// The same interval while the disk is full or no segment can be prepared.
const PATROL_FULL_MS: u64 = 100;
/// Chunks of keys of removed partitions counted in a round: about two million keys.
const DEPARTED_CHUNKS_PER_ROUND: usize = 8 << 10;
/// The first pause after a segment could not be prepared; each further failure in a row doubles it, up to
/// `RETRY_DOUBLINGS_MAX` times.
const RETRY_MS: u64 = 100;
const RETRY_DOUBLINGS_MAX: u32 = 5;
/// Log texts while an operation keeps failing.
const SUPPLY: &str = "no segment can be prepared; messages are refused once the prepared ones are used";
const SEAL: &str = "full segments can't be sealed yet";
const FREE: &str = "dead segments can't be freed yet";
const RESERVE: &str = "no room can be reserved for the next manifest";
const ROOM: &str = "the free space of the disk can't be determined";
/// Values kept by opening are dropped when no scan has used any for this long.
const STARTUP_CACHE_MS_MAX: u64 = 60_000;

/// The supply of segments after a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Supply {
    /// Enough are ready, or one was prepared.
    Good,
    /// There is no room.
    Full,
    /// There is no room for a segment of unusual size, which a single batch needs.
    Oversized,
    /// Preparing failed for another reason.
    Failing,
}

/// Runs until stopped.
pub(super) fn run(shared: &Shared) {
    let mut cache_used = Instant::now();
    let mut supplier = Supplier::default();
    let mut rest = Rest::new(Duration::from_millis(PATROL_MS));
    while !shared.is_stopping() {
        let patrol_ms = if shared.is_short() { PATROL_FULL_MS } else { PATROL_MS };
        if !shared.keeper_wake.wait(Duration::from_millis(patrol_ms)) {
            shared.pool.lock().drop_buffers();
            shared.read_buffers.clear();
        }
        tidy(shared, &mut supplier, &mut rest);
        let mut startup_cache = shared.startup_cache();
        if startup_cache.take_used() {
            cache_used = Instant::now();
        } else if cache_used.elapsed() > Duration::from_millis(STARTUP_CACHE_MS_MAX) {
            startup_cache.clear();
        }
    }
}

/// One round of a store that is stepped by a test: without pauses after failures, and a round that seals nothing counts
/// as idle.
#[cfg(any(test, feature = "testing"))]
pub(super) fn round(shared: &Shared) {
    tidy(shared, &mut Supplier::default(), &mut Rest::new(Duration::ZERO));
}

/// One round: the urgent steps first, each of bounded length; freed segments supply the preparation of new ones. Fatal
/// errors were announced where they occurred; all others are retried.
fn tidy(shared: &Shared, supplier: &mut Supplier, rest: &mut Rest) {
    shared.pool.lock().rounds_begun += 1;
    notice_removal(shared);
    if shared.fatal_error.get().is_some() {
        return;
    }
    let has_sealed = seal_full(shared);
    count_departed(shared);
    free_dead(shared);
    recycle(shared);
    let supply = supplier.supply(shared);
    write_one_hint(shared, rest.has_come(has_sealed));
    if shared.is_stopping() {
        // An interrupted supply says nothing about free space.
        return;
    }
    let free_bytes = free_bytes(shared);
    if let Some(bytes) = free_bytes {
        reserve_for_manifest(shared, bytes);
    }
    announce_room(shared, supply, leaves_reserve(shared, free_bytes));
}

fn announce_room(shared: &Shared, supply: Supply, leaves_reserve: bool) {
    if supply == Supply::Full || !leaves_reserve {
        shared.announce(Pressure::Full);
        shared.cleaner_wake.wake();
        return;
    }
    if supply == Supply::Oversized {
        // Only the batch that needs it has no room.
        return shared.cleaner_wake.wake();
    }
    if supply == Supply::Failing {
        // The active segment may have room for long: the writer announces when it gets no other.
        if shared.is_short() {
            shared.announce(Pressure::Failing);
            shared.cleaner_wake.wake();
        }
        return;
    }
    shared.is_write_refused.store(false, Ordering::Release);
    // A single prepared segment is the reserve for removals; messages are accepted again when there are two.
    if !shared.is_short() || demand(shared).is_none() {
        shared.announce(Pressure::Normal);
    }
}

/// Ends the store if its directory was removed, moved or replaced: no file of the store has a name there then, and all
/// writes would be lost. A missing lock file has the same effect, because another process could use the directory.
fn notice_removal(shared: &Shared) {
    let directory = &shared.directory;
    let (lock, manifest) = (directory.lock_path(), directory.manifest_path());
    let (lock_found, manifest_found) =
        (directory.filesystem.identity(&lock), directory.filesystem.identity(&manifest));
    let is_missing = |found: &io::Result<FileIdentity>| {
        found.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    let what = if is_missing(&lock_found) {
        format!("removed or moved while it was in use: {} is missing", lock.display())
    } else if is_missing(&manifest_found) {
        format!("removed or moved while it was in use: {} is missing", manifest.display())
    } else if lock_found.is_ok_and(|found| found != shared.lock_identity) {
        format!("replaced by another one while it was in use: {} is another file", lock.display())
    } else {
        return;
    };
    let reason = format!("the data directory was {what}; messages that were accepted last may be lost");
    shared.fail_handle(Error::InDoubt { reason });
}

/// Determines whether there is room before anything can be appended; the first round ends later.
pub(super) fn check_space_first(shared: &Shared) {
    if !leaves_reserve(shared, free_bytes(shared)) {
        shared.announce(Pressure::Full);
    }
}

/// Free bytes of the file system, if they can be read.
fn free_bytes(shared: &Shared) -> Option<u64> {
    match shared.directory.filesystem.free_bytes(&shared.directory.path) {
        Ok(bytes) => {
            shared.warnings.end(ROOM);
            Some(bytes)
        }
        Err(error) => {
            shared.warnings.warn(ROOM, &error);
            None
        }
    }
}

fn leaves_reserve(shared: &Shared, free_bytes: Option<u64>) -> bool {
    free_bytes.is_none_or(|bytes| bytes >= shared.options.reserve_bytes)
}

fn reserve_for_manifest(shared: &Shared, free_bytes: u64) {
    let manifest_bytes = shared.manifest.lock().unwrap_or_else(PoisonError::into_inner).encode().len();
    match super::reserve::ensure(&shared.directory, manifest_bytes, free_bytes) {
        Ok(()) => shared.warnings.end(RESERVE),
        Err(error) => {
            shared.warnings.warn(RESERVE, &error);
        }
    }
}

/// Counts values of removed partitions as dead: without the lock, and a bounded number, since a partition may have had
/// a hundred million.
fn count_departed(shared: &Shared) {
    let Some(mut departed) = shared.state().next_departed() else { return };
    let counted = departed.count_some(DEPARTED_CHUNKS_PER_ROUND);
    if shared.state().counted(&counted, departed) {
        shared.keeper_wake.wake();
    }
}

/// Removes segments from the manifest that contain nothing needed.
///
/// A segment whose removals are needed only as long as another segment exists is removed together with that one or in
/// the next round: the manifest changes as a whole.
fn free_dead(shared: &Shared) {
    loop {
        let dead = handover::dead_segments(shared);
        if dead.is_empty() {
            return;
        }
        let forget = |manifest: &mut Manifest| manifest.segments.retain(|listed| !dead.contains(&listed.id));
        if let Err(error) = shared.update_manifest(forget) {
            shared.warnings.warn(FREE, &error);
            return;
        }
        shared.warnings.end(FREE);
        handover::forget(shared, &dead).into_iter().for_each(|file| shared.retire(file));
    }
}

/// Turns retired files without readers into spares, or deletes them.
fn recycle(shared: &Shared) {
    let mut exchange = shared.pool.lock();
    let idle = handover::take_idle(&mut exchange.retired);
    let spares_kept = exchange.spares.len();
    drop(exchange);
    let mut spares = Vec::new();
    for segment in idle {
        let is_usable = segment.capacity == u64::from(shared.options.segment_bytes)
            && shared.directory.is_unlinked(&segment.path);
        let spares_max = if shared.is_short() { PREPARED_SEGMENTS } else { SPARE_SEGMENTS_MAX };
        if !is_usable || spares_kept + spares.len() >= spares_max {
            shared.directory.discard(&segment.path);
            continue;
        }
        let path = shared.directory.spare_path(segment.id);
        match shared.directory.filesystem.rename(&segment.path, &path) {
            Ok(()) => spares.push(Spare { path, capacity: segment.capacity }),
            Err(error) => {
                tracing::warn!(path = %segment.path.display(), %error, "can't keep a spare segment");
                shared.directory.discard(&segment.path);
            }
        }
    }
    shared.pool.lock().spares.append(&mut spares);
}

/// Prepares segments; after a failure other than lack of space, pauses for increasing times.
#[derive(Debug, Default)]
struct Supplier {
    /// Failures since the last success.
    failures: u32,
    retry_at: Option<Instant>,
}

impl Supplier {
    /// Prepares a segment if too few are ready, and rings the bell for the next one.
    fn supply(&mut self, shared: &Shared) -> Supply {
        let Some((capacity, replaces_queue)) = demand(shared) else {
            report_supply(shared, None);
            return Supply::Good;
        };
        if shared.is_stopping() {
            return Supply::Good;
        }
        if self.retry_at.is_some_and(|retry_at| Instant::now() < retry_at) {
            let error = shared.pool.lock().supply_error.clone();
            report_supply(shared, error);
            return Supply::Failing;
        }
        // A batch waits for a segment of unusual size, which will be used only once and immediately, so zeros are not
        // worth the time.
        let is_zeroed = capacity == u64::from(shared.options.segment_bytes);
        let prepared = prepare(shared, Order { capacity, replaces_queue, is_zeroed });
        self.note(shared, prepared.as_ref().err());
        let supply = match &prepared {
            Ok(()) => Supply::Good,
            Err(Error::Full { .. }) if !is_zeroed => Supply::Oversized,
            Err(Error::Full { .. }) => Supply::Full,
            Err(_) => Supply::Failing,
        };
        report_supply(shared, prepared.err());
        if supply == Supply::Good {
            shared.keeper_wake.wake();
        }
        supply
    }

    fn note(&mut self, shared: &Shared, error: Option<&Error>) {
        match error {
            // Closing interrupts the zero-filling of a file.
            Some(_) if shared.is_stopping() => {}
            Some(error) => {
                shared.warnings.warn(SUPPLY, error);
                // Space may become free at any time, and checking costs little.
                let is_full = matches!(error, Error::Full { .. });
                let pause_ms = RETRY_MS.saturating_mul(1 << self.failures.min(RETRY_DOUBLINGS_MAX));
                self.retry_at = (!is_full).then(|| Instant::now() + Duration::from_millis(pause_ms));
                self.failures += 1;
            }
            None => {
                shared.warnings.end(SUPPLY);
                *self = Self::default();
            }
        }
    }
}

/// The size of the segment to prepare next, and whether it must be used before the queued ones.
fn demand(shared: &Shared) -> Option<(u64, bool)> {
    let exchange = shared.pool.lock();
    let normal = u64::from(shared.options.segment_bytes);
    let front = exchange.prepared.front().map(|segment| segment.capacity);
    match (exchange.wanted_bytes, front) {
        (Some(bytes), Some(front)) if front < bytes => Some((bytes.max(normal), true)),
        (Some(bytes), None) => Some((bytes.max(normal), false)),
        _ => (exchange.prepared.len() < exchange.prepared_target).then_some((normal, false)),
    }
}

/// Informs a waiting writer whether segments can currently be prepared.
fn report_supply(shared: &Shared, error: Option<Error>) {
    let mut exchange = shared.pool.lock();
    exchange.supply_error = error;
    exchange.rounds_done = exchange.rounds_begun;
    drop(exchange);
    shared.pool.notify();
}

/// Records full segments as sealed in the manifest; returns true if there were any.
pub(super) fn seal_full(shared: &Shared) -> bool {
    let unsealed: Vec<FullSegment> = shared.pool.lock().unsealed.iter().copied().collect();
    if unsealed.is_empty() {
        return false;
    }
    let sealed = shared.update_manifest(|manifest| unsealed.iter().for_each(|full| seal(manifest, *full)));
    if let Err(error) = sealed {
        shared.warnings.warn(SEAL, &error);
        return false;
    }
    shared.warnings.end(SEAL);
    let mut exchange = shared.pool.lock();
    exchange.unsealed.drain(..unsealed.len());
    exchange.hints_due.extend(unsealed.iter().copied());
    drop(exchange);
    let mut state = shared.state();
    for full in unsealed {
        if let Some(segment) = state.segments.get_mut(full.id) {
            segment.sealed_end = Some(full.seal.end);
            segment.file.file.release();
        }
    }
    drop(state);
    shared.cleaner_wake.wake();
    true
}

fn seal(manifest: &mut Manifest, full: FullSegment) {
    if let Some(listed) = manifest.segments.iter_mut().find(|listed| listed.id == full.id) {
        listed.seal = Some(full.seal);
    }
    manifest.sealed_sequence = manifest.sealed_sequence.max(full.seal.next_sequence - 1);
}

const _: () = assert!(PREPARED_SEGMENTS >= 2, "one to use next, one as the reserve");
const _: () = assert!(SEGMENT_HEADER_BYTES >= 64, "a seal's end is never 0");
