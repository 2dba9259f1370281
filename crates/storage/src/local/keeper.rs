//! The thread that keeps house off the commit path: prepares segments, seals full ones, frees dead ones, watches
//! the disk's room.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::directory::{Directory, is_full};
use super::format::{SEGMENT_HEADER_BYTES, SegmentHeader};
use super::handover;
use super::hint::{HintBuilder, Subject, is_needed};
use super::manifest::{Listed, Manifest, Seal};
use super::pool::{PREPARED_SEGMENTS, Rolled, SPARE_SEGMENTS_MAX, Spare};
use super::segments::{Ranks, SegmentFile};
use super::shared::Shared;
use super::walk::walk;
use crate::{Error, Pressure};

/// How often the disk is looked at without being asked.
const PATROL_MS: u64 = 1000;
/// The same while the disk is full.
const PATROL_FULL_MS: u64 = 100;
/// Bytes written between two syncs into a new segment or a hint: keeps the disk's queue short for the commits.
const FILL_BYTES: usize = 1 << 20;
/// Filling pauses this long between two writes while nobody waits: commits go first.
const FILL_PAUSE_MS: u64 = 10;
/// Values read by opening are dropped after this long, scanned or not.
const WARM_MS_MAX: u64 = 60_000;

/// Works until told to stop.
pub(super) fn run(shared: &Shared) {
    let started = Instant::now();
    while !shared.is_stopping() {
        let patrol_ms = if shared.is_full() { PATROL_FULL_MS } else { PATROL_MS };
        shared.keeper_bell.wait(Duration::from_millis(patrol_ms));
        tidy(shared);
        if started.elapsed() > Duration::from_millis(WARM_MS_MAX) {
            shared.warm().clear();
        }
    }
}

/// One round, the urgent first and each bounded: what died feeds what is needed next. Errors that kill the handle
/// were announced where they arose; all others are tried again.
fn tidy(shared: &Shared) {
    shared.pool.lock().rounds_begun += 1;
    seal_rolled(shared);
    free_dead(shared);
    recycle(shared);
    let is_supplied = supply(shared);
    write_one_hint(shared);
    if shared.is_stopping() {
        // A supply cut short says nothing about room.
        return;
    }
    let has_room = match shared.directory.filesystem.free_bytes(&shared.directory.path) {
        Ok(bytes) => bytes >= shared.options.reserve_bytes,
        Err(error) => {
            tracing::warn!(%error, "can't learn how much room the disk has");
            true
        }
    };
    if is_supplied && has_room {
        shared.is_write_refused.store(false, Ordering::Release);
        shared.announce(Pressure::Normal);
    } else {
        shared.announce(Pressure::Full);
        shared.cleaner_bell.ring();
    }
}

/// Takes out of the manifest what nothing alive needs.
///
/// A segment whose removals are needed only as long as another one exists goes in the round after that one, or
/// with it: the manifest changes as a whole.
fn free_dead(shared: &Shared) {
    loop {
        let dead = handover::dead_segments(shared);
        if dead.is_empty() {
            return;
        }
        let forget = |manifest: &mut Manifest| manifest.segments.retain(|listed| !dead.contains(&listed.id));
        if let Err(error) = shared.update_manifest(forget) {
            tracing::warn!(%error, "can't free segments yet");
            return;
        }
        handover::forget(shared, &dead).into_iter().for_each(|file| shared.retire(file));
    }
}

/// Turns retired files that nobody reads any more into spares, or deletes them.
fn recycle(shared: &Shared) {
    let mut exchange = shared.pool.lock();
    let idle = handover::take_idle(&mut exchange.retired);
    let spares_kept = exchange.spares.len();
    drop(exchange);
    let mut spares = Vec::new();
    for segment in idle {
        let is_usable = segment.capacity == u64::from(shared.options.segment_bytes);
        let spares_max = if shared.is_full() { PREPARED_SEGMENTS } else { SPARE_SEGMENTS_MAX };
        if !is_usable || spares_kept + spares.len() >= spares_max {
            shared.directory.discard(&segment.path);
            continue;
        }
        let path = shared.directory.spare_path(segment.id);
        match shared.directory.filesystem.rename(&segment.path, &path) {
            Ok(()) => spares.push(Spare { path, capacity: segment.capacity }),
            Err(error) => {
                tracing::warn!(path = %segment.path.display(), %error, "can't keep a spare segment");
            }
        }
    }
    shared.pool.lock().spares.append(&mut spares);
}

/// Prepares a segment if too few are ready, and comes back for the next; false when that fails.
fn supply(shared: &Shared) -> bool {
    let Some((capacity, replaces_queue)) = demand(shared) else {
        starve(shared, None);
        return true;
    };
    if shared.is_stopping() {
        return true;
    }
    // A batch is waiting for a segment of unusual size: it is used once, and at once.
    let zeroed = capacity == u64::from(shared.options.segment_bytes);
    let prepared = prepare(shared, capacity, replaces_queue, zeroed);
    let is_prepared = prepared.is_ok();
    starve(shared, prepared.err().map(|error| error.to_string()));
    if is_prepared {
        shared.keeper_bell.ring();
    }
    is_prepared
}

/// The size of the segment to prepare next, and whether it must come before those that wait.
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

/// Tells a waiting writer whether there is hope.
fn starve(shared: &Shared, reason: Option<String>) {
    let mut exchange = shared.pool.lock();
    exchange.starved = reason;
    exchange.rounds_done = exchange.rounds_begun;
    drop(exchange);
    shared.pool.notify();
}

/// Makes a segment of `capacity` ready and queues it. One that must come before those already queued takes their
/// place: ranks are used in order.
pub(super) fn prepare(
    shared: &Shared,
    capacity: u64,
    replaces_queue: bool,
    zeroed: bool,
) -> Result<(), Error> {
    let id = shared.reserve_id();
    let result = prepare_file(shared, id, capacity, zeroed);
    let segment = result.map_err(|error| match is_full(&error) {
        true => Error::Full { reason: format!("can't prepare a segment: {error}") },
        false => Error::Unavailable { reason: format!("can't prepare a segment: {error}") },
    })?;
    let segment = Arc::new(segment);
    let replaced: Vec<_> = match replaces_queue {
        true => shared.pool.lock().prepared.drain(..).collect(),
        false => Vec::new(),
    };
    let listed = Listed { id, salt: segment.salt, ranks: Ranks::one(id), capacity, seal: None };
    let stored = shared.update_manifest(|manifest| {
        manifest.segments.retain(|listed| replaced.iter().all(|segment| segment.id != listed.id));
        manifest.segments.push(listed);
    });
    if let Err(error) = stored {
        shared.pool.lock().prepared.extend(replaced);
        shared.directory.discard(&segment.path);
        return Err(error);
    }
    for segment in replaced {
        shared.state().segments.remove(segment.id);
        shared.retire(segment);
    }
    shared.state().segments.add(Arc::clone(&segment), Ranks::one(id), None);
    shared.pool.lock().prepared.push_back(segment);
    shared.pool.notify();
    Ok(())
}

fn prepare_file(shared: &Shared, id: u32, capacity: u64, zeroed: bool) -> io::Result<SegmentFile> {
    let directory = &shared.directory;
    let path = directory.segment_path(id);
    let file = match take_spare(shared, capacity) {
        Some(spare) => {
            directory.filesystem.rename(&spare.path, &path)?;
            directory.filesystem.open(&path, true)?
        }
        None => {
            check_size(shared, capacity)?;
            let file = directory.filesystem.create(&path)?;
            let filled = fill(shared, file.as_ref(), capacity, zeroed);
            if let Err(error) = filled {
                directory.discard(&path);
                return Err(error);
            }
            file
        }
    };
    let salt = new_salt(id);
    file.write_all_at(&SegmentHeader { id, salt }.encode(), 0)?;
    file.sync_data()?;
    directory.filesystem.sync_directory(&directory.path)?;
    Ok(SegmentFile { id, salt, capacity, path, file })
}

fn take_spare(shared: &Shared, capacity: u64) -> Option<Spare> {
    let mut exchange = shared.pool.lock();
    let place = exchange.spares.iter().position(|spare| spare.capacity == capacity)?;
    Some(exchange.spares.swap_remove(place))
}

/// Refuses to grow beyond the directory's own limit; one segment's worth stays free for the cleaner.
fn check_size(shared: &Shared, capacity: u64) -> io::Result<()> {
    let Some(size_bytes_max) = shared.options.size_bytes_max else { return Ok(()) };
    let used = used_bytes(shared) + capacity + u64::from(shared.options.segment_bytes);
    if used > size_bytes_max {
        let text = format!("the data directory's limit of {size_bytes_max} bytes is reached");
        return Err(io::Error::new(io::ErrorKind::StorageFull, text));
    }
    Ok(())
}

fn used_bytes(shared: &Shared) -> u64 {
    let segments = shared.state().segments.capacity_bytes();
    let exchange = shared.pool.lock();
    let spares: u64 = exchange.spares.iter().map(|spare| spare.capacity).sum();
    let retired: u64 = exchange.retired.iter().map(|segment| segment.capacity).sum();
    segments + spares + retired
}

/// Gives a new file its blocks. Written blocks are synced faster later (90 µs instead of 130), so zeros are
/// written, in small pieces that leave the disk to the commits in between.
fn fill(shared: &Shared, file: &dyn super::filesystem::File, capacity: u64, zeroed: bool) -> io::Result<()> {
    match file.allocate(capacity) {
        Ok(()) if !zeroed => return Ok(()),
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
        Err(error) => return Err(error),
    }
    let zeros = vec![0; FILL_BYTES];
    let mut offset = 0;
    while offset < capacity {
        let len = usize::try_from(capacity - offset).unwrap_or(FILL_BYTES).min(FILL_BYTES);
        file.write_all_at(zeros.get(..len).unwrap_or_default(), offset)?;
        file.sync_data()?;
        offset += len as u64;
        if shared.is_stopping() {
            return Err(io::Error::other("the store is closing"));
        }
        if shared.pool.lock().wanted_bytes.is_none() && offset < capacity {
            std::thread::sleep(Duration::from_millis(FILL_PAUSE_MS));
        }
    }
    Ok(())
}

/// Random enough that no earlier incarnation of a file, nor anybody's message, carries it by chance.
pub(super) fn new_salt(id: u32) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one((id, std::process::id()))
}

/// Writes down that full segments are complete.
pub(super) fn seal_rolled(shared: &Shared) {
    let rolled: Vec<Rolled> = shared.pool.lock().rolled.iter().copied().collect();
    if rolled.is_empty() {
        return;
    }
    let sealed = shared.update_manifest(|manifest| rolled.iter().for_each(|rolled| seal(manifest, *rolled)));
    if let Err(error) = sealed {
        tracing::warn!(%error, "can't seal segments yet");
        return;
    }
    let mut exchange = shared.pool.lock();
    exchange.rolled.drain(..rolled.len());
    exchange.hints_due.extend(rolled.iter().copied());
    drop(exchange);
    let mut state = shared.state();
    for rolled in rolled {
        if let Some(segment) = state.segments.get_mut(rolled.id) {
            segment.sealed_end = Some(rolled.seal.end);
        }
    }
    drop(state);
    shared.cleaner_bell.ring();
}

/// Writes the hint of one sealed segment and comes back for the next.
fn write_one_hint(shared: &Shared) {
    let Some(due) = shared.pool.lock().hints_due.pop_front() else { return };
    shared.keeper_bell.ring();
    let file = {
        let state = shared.state();
        state
            .segments
            .get(due.id)
            .filter(|segment| segment.live_bytes > 0)
            .map(|segment| Arc::clone(&segment.file))
    };
    if let Some(file) = file
        && let Err(error) = write_hint(shared, &file, due.seal)
    {
        // Only the next opening is slower.
        tracing::warn!(path = %file.path.display(), %error, "can't write a hint");
    }
}

/// Writes the hints still due.
pub(super) fn write_hints(shared: &Shared) {
    while !shared.pool.lock().hints_due.is_empty() {
        write_one_hint(shared);
    }
}

fn seal(manifest: &mut Manifest, rolled: Rolled) {
    if let Some(listed) = manifest.segments.iter_mut().find(|listed| listed.id == rolled.id) {
        listed.seal = Some(rolled.seal);
    }
    manifest.sealed_sequence = manifest.sealed_sequence.max(rolled.seal.next_sequence - 1);
}

/// Writes the hint of a segment that nothing is appended to.
pub(super) fn write_hint(shared: &Shared, segment: &SegmentFile, seal: Seal) -> io::Result<()> {
    let subject = Subject { id: segment.id, salt: segment.salt, end: seal.end };
    let mut hint = HintBuilder::new(subject);
    let end = walk(segment, seal.end, seal.first_sequence, |found| {
        let state = shared.state();
        for found in found {
            if found.record.header.kind == super::format::Kind::Put {
                hint.note_put(found.record.header);
            }
            if is_needed(&state, segment.id, found) {
                hint.push(&found.placed(), found.record.value);
            }
        }
    })?;
    if end.offset != seal.end {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} at {}", end.reason, end.defect)));
    }
    store_hint(&shared.directory, segment.id, &hint.finish())
}

/// Writes a hint's bytes.
pub(super) fn store_hint(directory: &Directory, id: u32, bytes: &[u8]) -> io::Result<()> {
    let file = directory.filesystem.create(&directory.hint_path(id))?;
    let mut offset = 0;
    for piece in bytes.chunks(FILL_BYTES) {
        file.write_all_at(piece, offset)?;
        file.sync_data()?;
        offset += piece.len() as u64;
    }
    Ok(())
}

const _: () = assert!(PREPARED_SEGMENTS >= 2, "one to use next, one as the reserve");
const _: () = assert!(SEGMENT_HEADER_BYTES >= 64, "a seal's end is never 0");
