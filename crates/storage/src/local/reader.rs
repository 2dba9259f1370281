//! The threads that answer reads and scans without blocking the writer; records adjacent on disk are read together.

use std::io;
use std::ops::Range;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::directory::{corrupt, unavailable, unread_now};
use super::format::{Kind, RECORD_HEADER_BYTES, Record};
use super::read_buffers::ReadBuffers;
use super::segments::SegmentFile;
use super::shared::Shared;
use super::state::State;
use crate::index::Location;
use crate::{DamagedEntry, Entry, Error, Key, Page, PartitionId, ReadNotifier, ScanNotifier, Space};

mod retries;

use retries::with_retries;

/// Reader threads.
pub(super) const READERS: usize = 2;
/// Records with a larger gap in between are read separately.
const GAP_BYTES_MAX: u64 = 16 << 10;
/// Most bytes of one read of several records.
const RUN_BYTES_MAX: u64 = 2 << 20;
/// Most entries of one scan page.
const PAGE_ENTRIES_MAX: usize = 4096;
/// Most bytes of the values of one scan page; the first entry always fits.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Most bytes that a caller reads itself, if the system has them in memory; larger reads are left to a reader thread,
/// so that the caller's thread is not blocked for long.
const AT_ONCE_BYTES_MAX: u64 = 256 << 10;
/// Attempts to lock the index: half a microsecond each if a processor is free; otherwise the lock's holder runs.
const LOCK_ATTEMPTS: u32 = 64;
/// Keys looked up before the index is unlocked.
const LOOK_UPS_MAX: usize = 1024;

/// A request to a reader.
#[derive(Debug)]
pub(super) enum Request {
    Read(Vec<Key>, ReadNotifier),
    Scan(Space, PartitionId, u64, ScanNotifier),
    Stop,
}

impl Request {
    /// Answers with an error.
    pub(super) fn refuse(self, cause: Error) {
        match self {
            Self::Read(_, notifier) => notifier.resolve(Err(cause)),
            Self::Scan(_, _, _, notifier) => notifier.resolve(Err(cause)),
            Self::Stop => {}
        }
    }
}

/// The location of a live record to be read.
#[derive(Debug, Clone, Copy)]
struct RecordLookup {
    /// Its index in the answer.
    place: usize,
    key: Key,
    location: Location,
}

/// Answers requests until stopped.
pub(super) fn run(shared: &Shared, requests: &Arc<Mutex<Receiver<Request>>>) {
    loop {
        let request = requests.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match request {
            Ok(Request::Stop) | Err(_) => return,
            Ok(request) => answer(shared, request),
        }
    }
}

/// Answers one request.
pub(super) fn answer(shared: &Shared, request: Request) {
    match request {
        Request::Read(keys, notifier) => notifier.resolve(with_retries(shared, || read(shared, &keys))),
        Request::Scan(space, partition, from, notifier) => {
            notifier.resolve(with_retries(shared, || scan(shared, space, partition, from)));
        }
        Request::Stop => {}
    }
}

fn read(shared: &Shared, keys: &[Key]) -> Result<Vec<Option<Bytes>>, Error> {
    let mut wanted = Wanted::default();
    for keys in keys.chunks(LOOK_UPS_MAX) {
        wanted.look_up(keys, &shared.state());
    }
    sort(&mut wanted.records);
    wanted.values(&shared.read_buffers, Access::Patient)
}

/// The values of some keys, if they are available without waiting for the index or a disk. Reading from the page cache
/// takes less time than waking a reader thread.
pub(super) fn read_at_once(shared: &Shared, keys: &[Key]) -> Option<Vec<Option<Bytes>>> {
    if keys.len() > LOOK_UPS_MAX || shared.fatal_error.get().is_some() {
        return None;
    }
    let mut wanted = Wanted::default();
    wanted.look_up(keys, &*soon(&shared.state)?);
    sort(&mut wanted.records);
    let bytes: u64 = runs(&wanted.records).filter_map(span).map(|span| span.end - span.start).sum();
    if bytes > AT_ONCE_BYTES_MAX {
        return None;
    }
    // On an error, a reader thread repeats the read and handles the error.
    wanted.values(&shared.read_buffers, Access::AtOnce).ok()
}

/// The lock, if it is free soon: it is seldom held for more than 0.1 ms, and a reader thread would wait for it too.
fn soon<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..LOCK_ATTEMPTS {
        match lock.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    None
}

/// Records to be read, and their files.
#[derive(Debug, Default)]
struct Wanted {
    records: Vec<RecordLookup>,
    files: Files,
    /// Number of keys so far, including those without a record.
    looked_up: usize,
}

impl Wanted {
    /// Adds the records of some keys.
    fn look_up(&mut self, keys: &[Key], state: &State) {
        self.records.reserve(keys.len());
        let mut held = None;
        for key in keys {
            if let Some(location) = state.index.get(*key) {
                self.records.push(RecordLookup { place: self.looked_up, key: *key, location });
                if held.replace(location.segment) != Some(location.segment) {
                    hold(&mut self.files, state, location);
                }
            }
            self.looked_up += 1;
        }
    }

    /// The values of all keys that were looked up, in their order. The records must be sorted.
    fn values(self, buffers: &ReadBuffers, access: Access) -> Result<Vec<Option<Bytes>>, Error> {
        let mut values = vec![None; self.looked_up];
        let mut damage = None;
        let source = Source { files: &self.files, buffers, access };
        fetch(&self.records, source, |wanted, value| match (value, values.get_mut(wanted.place)) {
            (Ok(value), Some(answer)) => *answer = Some(value),
            (Ok(_), None) => {}
            (Err(damaged), _) => damage = damage.take().or(Some(damaged.error)),
        })?;
        damage.map_or(Ok(values), Err)
    }
}

fn scan(shared: &Shared, space: Space, partition: PartitionId, from: u64) -> Result<Page, Error> {
    let (wanted, files, next) = page(shared, space, partition, from);
    let mut entries: Vec<Entry> =
        wanted.iter().map(|wanted| Entry { number: wanted.key.number, value: Bytes::new() }).collect();
    let mut cold = Vec::new();
    {
        let mut startup_cache = shared.startup_cache();
        let mut look_up = startup_cache.look_up();
        for (one, entry) in wanted.into_iter().zip(&mut entries) {
            match look_up.get(one.location) {
                Some(value) => entry.value = value,
                None => cold.push(one),
            }
        }
    }
    let mut damaged = Vec::new();
    let source = Source { files: &files, buffers: &shared.read_buffers, access: Access::Patient };
    sort(&mut cold);
    fetch(&cold, source, |wanted, value| match (value, entries.get_mut(wanted.place)) {
        (Ok(value), Some(entry)) => entry.value = value,
        (Ok(_), None) => {}
        (Err(bad), _) => damaged.push(bad),
    })?;
    damaged.sort_unstable_by_key(|one| one.number);
    if !damaged.is_empty() {
        entries.retain(|entry| damaged.binary_search_by_key(&entry.number, |one| one.number).is_err());
    }
    if next.is_none() {
        shared.startup_cache().scanned(space, partition);
    }
    Ok(Page { entries, damaged, next })
}

/// Where and how records are read.
#[derive(Clone, Copy)]
struct Source<'a> {
    files: &'a Files,
    buffers: &'a ReadBuffers,
    access: Access,
}

/// Whether to wait for a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Patient,
    AtOnce,
}

pub(super) type Files = FxHashMap<u32, Arc<SegmentFile>>;

/// The records of a page, their files, and the start of the next page.
fn page(
    shared: &Shared,
    space: Space,
    partition: PartitionId,
    from: u64,
) -> (Vec<RecordLookup>, Files, Option<u64>) {
    let state = shared.state();
    let mut wanted: Vec<RecordLookup> = Vec::new();
    let mut files = Files::default();
    let mut bytes = 0;
    let mut held = None;
    for (number, location) in state.index.range(space, partition, from) {
        bytes += location.value_len() as usize;
        if wanted.len() == PAGE_ENTRIES_MAX || (bytes > PAGE_BYTES_MAX && !wanted.is_empty()) {
            return (wanted, files, Some(number));
        }
        wanted.push(RecordLookup { place: wanted.len(), key: Key::new(space, partition, number), location });
        if held.replace(location.segment) != Some(location.segment) {
            hold(&mut files, &state, location);
        }
    }
    (wanted, files, None)
}

/// Keeps the record's file from being reused while it is read.
pub(super) fn hold(files: &mut Files, state: &State, location: Location) {
    if !files.contains_key(&location.segment)
        && let Some(segment) = state.segments.get(location.segment)
    {
        files.insert(location.segment, Arc::clone(&segment.file));
    }
}

/// A value, or the reason why there is none.
type Value = Result<Bytes, DamagedEntry>;

/// Reads the wanted records, which are sorted, adjacent ones together, and passes each verified value to `found`.
fn fetch(
    wanted: &[RecordLookup],
    source: Source<'_>,
    mut found: impl FnMut(&RecordLookup, Value),
) -> Result<(), Error> {
    for run in runs(wanted) {
        let Some(first) = run.first() else { continue };
        let file = source.files.get(&first.location.segment).ok_or_else(|| Error::Unavailable {
            reason: format!("segment {} of a live record is not open", first.location.segment),
        })?;
        fetch_run(file, run, source, &mut found)?;
    }
    Ok(())
}

/// Sorts by location; stable, and cheap if the records are in order already, which is common.
fn sort(wanted: &mut [RecordLookup]) {
    wanted.sort_by_key(|wanted| (wanted.location.segment, wanted.location.offset));
}

/// Sorted records in groups, each of which is read at once.
fn runs(mut wanted: &[RecordLookup]) -> impl Iterator<Item = &[RecordLookup]> {
    std::iter::from_fn(move || {
        let (run, rest) = wanted.split_at(run_len(wanted));
        wanted = rest;
        (!run.is_empty()).then_some(run)
    })
}

/// The byte range of a group in its segment.
fn span(run: &[RecordLookup]) -> Option<Range<u64>> {
    let start = u64::from(run.first()?.location.offset);
    Some(start..run.iter().map(|wanted| record_end(wanted.location)).max()?)
}

/// Number of the wanted records that are read at once.
fn run_len(wanted: &[RecordLookup]) -> usize {
    let Some(first) = wanted.first() else { return 0 };
    let start = u64::from(first.location.offset);
    let mut end = record_end(first.location);
    let together = wanted.iter().take_while(|next| {
        let next_end = record_end(next.location);
        let is_near = next.location.segment == first.location.segment
            && u64::from(next.location.offset) <= end + GAP_BYTES_MAX
            && (next_end - start <= RUN_BYTES_MAX || next.place == first.place);
        end = end.max(next_end);
        is_near
    });
    together.count().max(1)
}

fn fetch_run(
    file: &SegmentFile,
    run: &[RecordLookup],
    source: Source<'_>,
    found: &mut impl FnMut(&RecordLookup, Value),
) -> Result<(), Error> {
    let Some(Range { start, end }) = span(run) else { return Ok(()) };
    let len = usize::try_from(end - start).unwrap_or(usize::MAX);
    let filled = source.buffers.filled(len, |buffer| match source.access {
        Access::Patient => file.file.read_exact_at(buffer, start),
        Access::AtOnce => file.file.read_cached_at(buffer, start),
    });
    let buffer = match filled {
        Ok(buffer) => buffer,
        Err(error) if source.access == Access::AtOnce => return Err(unavailable(&file.path, &error)),
        Err(error) => return fetch_unreadable(file, run, source, &error, found),
    };
    for wanted in run {
        let at = usize::try_from(u64::from(wanted.location.offset) - start).unwrap_or(usize::MAX);
        let record = buffer.get(at..).and_then(Record::decode);
        let is_right = record.is_some_and(|record| {
            record.header.kind == Kind::Put
                && record.header.key == wanted.key
                && record.header.value_len == wanted.location.value_len()
        });
        let value_at = at + RECORD_HEADER_BYTES as usize;
        let value = buffer.slice(value_at..value_at + wanted.location.value_len() as usize);
        found(wanted, if is_right { Ok(value) } else { Err(damaged(file, wanted, value)) });
    }
    Ok(())
}

/// Reads records individually after a read of the whole group failed.
fn fetch_unreadable(
    file: &SegmentFile,
    run: &[RecordLookup],
    source: Source<'_>,
    error: &io::Error,
    found: &mut impl FnMut(&RecordLookup, Value),
) -> Result<(), Error> {
    let start = run.first().map_or(0, |first| u64::from(first.location.offset));
    let error = unread_now(&file.path, start, error);
    if !matches!(error, Error::Corrupt { .. } | Error::Unreadable { .. }) {
        return Err(error);
    }
    if let [only] = run {
        found(only, Err(DamagedEntry { number: only.key.number, unverified: Bytes::new(), error }));
        return Ok(());
    }
    // The bytes of one record are lost; the others must still be read.
    run.chunks(1).try_for_each(|one| fetch_run(file, one, source, found))
}

fn damaged(file: &SegmentFile, wanted: &RecordLookup, unverified: Bytes) -> DamagedEntry {
    let offset = u64::from(wanted.location.offset);
    let error = corrupt(&file.path, offset, "the record's checksum or key does not match");
    DamagedEntry { number: wanted.key.number, unverified, error }
}

fn record_end(location: Location) -> u64 {
    u64::from(location.offset) + u64::from(RECORD_HEADER_BYTES) + u64::from(location.value_len())
}
