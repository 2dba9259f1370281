//! Prepares a segment for the writer: a spare or a new file, its header, its entry in the manifest.

use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::descriptors::Handle;
use super::directory::{failed, is_full};
use super::filesystem::{BLOCK_BYTES, File};
use super::format::{SEGMENT_HEADER_BYTES, SegmentHeader};
use super::manifest::Listed;
use super::pool::Spare;
use super::segments::{Ranks, SegmentFile};
use super::shared::Shared;
use super::writer::Active;
use crate::Error;

/// Bytes of one write of zero-filling: small, because a commit may wait for it on the disk.
const FILL_BYTES: usize = 128 << 10;
/// Zero-filling pauses this long between two writes unless the writer waits, because commits have priority.
const FILL_PAUSE: Duration = Duration::from_micros(1_250);

/// Zeros that can be written past the page cache.
#[repr(align(4096))]
struct Zeros([u8; FILL_BYTES]);

static ZEROS: Zeros = Zeros([0; FILL_BYTES]);
const _: () = assert!(align_of::<Zeros>() == BLOCK_BYTES && FILL_BYTES.is_multiple_of(BLOCK_BYTES));

/// Prepares a segment of `capacity` and queues it. If it must be used before the queued ones, it replaces them, because
/// ranks are used in order. After an error nothing has changed, or the handle is dead.
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
        false => failed("can't prepare a segment", &error),
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
        // If the outcome is in doubt, the manifest may list the file, and the replaced ones no longer.
        if !matches!(error, Error::InDoubt { .. }) {
            shared.pool.lock().prepared.extend(replaced);
            keep_as_spare(shared, &segment);
        }
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

/// Creates a synced file with a header and a durable name. After an error no unknown file is left.
fn prepare_file(shared: &Shared, id: u32, capacity: u64, zeroed: bool) -> io::Result<SegmentFile> {
    let directory = &shared.directory;
    let path = directory.segment_path(id);
    let salt = directory.filesystem.draw_salt();
    let make = || {
        let names = directory.name_syncs.begin();
        let file = match take_unlinked_spare(shared, capacity) {
            Some(spare) => reuse(shared, &spare, &path)?,
            None => {
                check_size(shared, capacity)?;
                let file = directory.filesystem.create(&path)?;
                fill(shared, file.as_ref(), &path, capacity, zeroed)?;
                file
            }
        };
        file.write_all_at(&SegmentHeader { id, salt }.encode(), 0)?;
        file.sync_data()?;
        directory.sync_names(names)?;
        io::Result::Ok(file)
    };
    match make() {
        Ok(file) => {
            let file = Handle::keep(&shared.descriptors, id, &path, file);
            Ok(SegmentFile { id, salt, capacity, path, file })
        }
        Err(error) => {
            // Not kept as a spare: its state after a failed write or sync is unknown.
            directory.discard(&path);
            Err(error)
        }
    }
}

fn reuse(shared: &Shared, spare: &Spare, path: &Path) -> io::Result<Arc<dyn File>> {
    let filesystem = &shared.directory.filesystem;
    if let Err(error) = filesystem.rename(&spare.path, path) {
        shared.directory.discard(&spare.path);
        return Err(error);
    }
    filesystem.open(path, true)
}

/// Keeps the file as a spare, so that the next attempt need not write zeros again.
fn keep_as_spare(shared: &Shared, segment: &SegmentFile) {
    let path = shared.directory.spare_path(segment.id);
    let is_usable = segment.capacity == u64::from(shared.options.segment_bytes);
    if is_usable && shared.directory.filesystem.rename(&segment.path, &path).is_ok() {
        shared.pool.lock().spares.push(Spare { path, capacity: segment.capacity });
    } else {
        shared.directory.discard(&segment.path);
    }
}

/// A spare that is not shared with a backup; shared ones are removed.
fn take_unlinked_spare(shared: &Shared, capacity: u64) -> Option<Spare> {
    loop {
        let spare = take_spare(shared, capacity)?;
        if shared.directory.is_unlinked(&spare.path) {
            return Some(spare);
        }
        shared.directory.discard(&spare.path);
    }
}

fn take_spare(shared: &Shared, capacity: u64) -> Option<Spare> {
    let mut exchange = shared.pool.lock();
    let place = exchange.spares.iter().position(|spare| spare.capacity == capacity)?;
    Some(exchange.spares.swap_remove(place))
}

/// Refuses to grow beyond the directory's size limit; one segment's worth is left for the cleaner.
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

/// Allocates the blocks of a new file. Blocks written before are synced faster (90 µs instead of 130), so zeros are
/// written, in small pieces that leave the disk to commits in between. The writer never waits for zeros, since no batch
/// could be committed meanwhile. The caller syncs the file.
fn fill(shared: &Shared, file: &dyn File, path: &Path, capacity: u64, zeroed: bool) -> io::Result<()> {
    let is_allocated = match file.allocate(capacity) {
        Ok(()) if !zeroed => return Ok(()),
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::Unsupported => false,
        Err(error) => return Err(error),
    };
    let uncached = shared.directory.filesystem.open_uncached(path)?;
    let mut offset = 0;
    while offset < capacity && !(is_allocated && is_needed_soon(shared)) {
        let len = usize::try_from(capacity - offset).unwrap_or(FILL_BYTES).min(FILL_BYTES);
        write_zeros(uncached.as_ref(), file, len, offset)?;
        offset += len as u64;
        if shared.is_stopping() {
            return Err(io::Error::other("the store is closing"));
        }
        if shared.pool.lock().wanted_bytes.is_none() && offset < capacity {
            std::thread::sleep(FILL_PAUSE);
        }
    }
    Ok(())
}

/// Writes zeros past the page cache: a sync of a cached write of 1 MiB delays a commit by up to 3 ms. Disks with larger
/// blocks and lengths that are no multiple of a block take the page cache, and some file systems always do: the disk then
/// begins with each piece at once, so that the sync at the end has little left.
fn write_zeros(uncached: &dyn File, cached: &dyn File, len: usize, offset: u64) -> io::Result<()> {
    let zeros = ZEROS.0.get(..len).unwrap_or(&ZEROS.0);
    match uncached.write_all_at(zeros, offset) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => cached.write_all_at(zeros, offset)?,
        result => result?,
    }
    cached.begin_to_sync(offset, len as u64);
    Ok(())
}

/// Whether the writer needs a segment now or soon: the active one is a quarter full and none is prepared, or half full
/// and one is prepared.
fn is_needed_soon(shared: &Shared) -> bool {
    let exchange = shared.pool.lock();
    let (is_wanted, prepared) = (exchange.wanted_bytes.is_some(), exchange.prepared.len() as u64);
    drop(exchange);
    let filled = shared.state().log_end.as_ref().map_or(0, |end| end.seal.end);
    is_wanted || 4 * filled > (1 + prepared) * u64::from(shared.options.segment_bytes)
}

/// The first segment of an empty store, or of one without live segments. It is not filled with zeros, so that a first
/// start is quick.
pub(super) fn first_active(shared: &Shared) -> Result<Active, Error> {
    prepare(shared, u64::from(shared.options.segment_bytes), false, false)?;
    let segment = shared.pool.lock().prepared.pop_front();
    let segment = segment.ok_or_else(super::shard::closed)?;
    let sequence = shared.manifest.lock().unwrap_or_else(PoisonError::into_inner).sealed_sequence + 1;
    let offset = u64::from(SEGMENT_HEADER_BYTES);
    Ok(Active { segment, offset, first_sequence: sequence, sequence })
}

#[cfg(test)]
mod tests {
    use super::super::filesystem::{Filesystem, RealFilesystem};
    use super::*;

    #[test]
    fn zeros_are_written_in_whole_blocks_and_in_parts_of_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let cached = RealFilesystem.create(&path).unwrap();
        let uncached = RealFilesystem.open_uncached(&path).unwrap();
        write_zeros(uncached.as_ref(), cached.as_ref(), FILL_BYTES, 0).unwrap();
        write_zeros(uncached.as_ref(), cached.as_ref(), 5_000, FILL_BYTES as u64).unwrap();
        let mut read = vec![1; FILL_BYTES + 5_000];
        cached.read_exact_at(&mut read, 0).unwrap();
        assert!(read.iter().all(|byte| *byte == 0) && cached.len().unwrap() == read.len() as u64);
    }
}
