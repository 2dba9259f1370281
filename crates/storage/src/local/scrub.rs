//! The thread that slowly rereads sealed segments, to find damage while intact backups still exist.
//!
//! Every sealed byte is read once per interval, from the disk and not from the page cache, one slice at a time with
//! pauses in between. Between two slices nothing is held: a segment that becomes dead is abandoned at once. The
//! position is not stored; after a restart, reading begins at a random segment.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::cleaner::source;
use super::directory::unread_now;
use super::format::{
    FRAME_ALIGNMENT, FRAME_HEADER_BYTES, FrameHeader, Kind, RECORD_HEADER_BYTES, Record, RecordHeader,
    SEGMENT_HEADER_BYTES,
};
use super::manifest::Seal;
use super::segments::SegmentFile;
use super::shared::Shared;
use super::walk::find_later_frame;
use crate::{Error, Key, checksum};

/// Bytes read between two pauses; at least one frame.
const SLICE_BYTES: u64 = 1 << 20;
/// Pause while there is nothing to read.
const IDLE_PAUSE: Duration = Duration::from_secs(1);
/// Reads of a place on which the device fails before that counts as damage, with [`IDLE_PAUSE`] in between.
const READS_MAX: u32 = 3;
/// Log text while reads fail.
const UNREAD: &str = "sealed segments can't be scrubbed";
/// Longest pause, even if there is little to read.
const PAUSE_MAX: Duration = Duration::from_secs(3600);
/// Damaged places that are kept for [`super::LocalStore::scrub_damage`]; further ones are only logged.
const DAMAGE_KEPT_MAX: usize = 1000;

/// Damage that the scrubber found in a sealed segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScrubDamage {
    /// The segment's file.
    pub file: PathBuf,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// The key of the live value at this place; `None` if there is no value there, it is not needed, or its key is
    /// damaged.
    pub key: Option<Key>,
    /// What was expected and what was found.
    pub reason: String,
}

/// Runs until stopped; returns at once if scrubbing is off.
pub(super) fn run(shared: &Shared) {
    let Some(interval) = shared.options.scrub_interval else { return };
    let mut scrubber = Scrubber::default();
    while !shared.is_stopping() {
        let bytes = scrubber.step(shared);
        let pause = if bytes == 0 { IDLE_PAUSE } else { pause(shared, interval, bytes) };
        shared.scrub_wake.wait(pause);
    }
}

/// The pause after `bytes`: long enough to spread the reading over the interval, and to keep below the rate.
fn pause(shared: &Shared, interval: Duration, bytes: u64) -> Duration {
    let sealed: u64 = shared.state().segments.in_order().filter_map(|segment| segment.sealed_end).sum();
    let share = bytes as f64 / sealed.max(bytes) as f64;
    let least = Duration::from_secs_f64(bytes as f64 / shared.options.scrub_bytes_per_second as f64);
    interval.mul_f64(share).min(PAUSE_MAX).max(least)
}

/// The position at which reading continues.
#[derive(Debug, Clone, Copy)]
struct Place {
    id: u32,
    offset: u64,
    /// Sequence of the next frame; 0 before the first.
    sequence: u64,
}

/// Reads one slice at a time.
#[derive(Debug, Default)]
pub(super) struct Scrubber {
    place: Option<Place>,
    /// The rank of the last segment read; `None` before the first.
    last_rank: Option<u32>,
    /// Failed reads since the last success.
    failures: u32,
    /// Reported damage, by segment and offset.
    reported: BTreeSet<(u32, u64)>,
}

impl Scrubber {
    /// Reads a slice; returns its length in bytes, 0 when there is nothing to read, or it can't be read now.
    pub(super) fn step(&mut self, shared: &Shared) -> u64 {
        let Some(place) = self.place.take().or_else(|| self.next(shared)) else { return 0 };
        let Some((file, seal)) = source(shared, place.id) else {
            // The segment is gone; the next step selects another one.
            return 1;
        };
        let place =
            if place.sequence == 0 { Place { sequence: seal.first_sequence, ..place } } else { place };
        let mut reading = Reading { shared, file: &file, seal, place, found: Vec::new() };
        let read = reading.slice();
        let Reading { place: reached, mut found, .. } = reading;
        let is_retried = match &read {
            Ok(()) => {
                self.failures = 0;
                shared.warnings.end(UNREAD);
                false
            }
            Err(error) => self.is_retried(shared, &file, reached, error),
        };
        if let (Err(error), false) = (&read, is_retried) {
            found.push((reached.offset, None, format!("can't be read: {error}")));
        }
        self.report(shared, &file, found);
        shared.options.metrics.scrubbed_bytes.inc_by(reached.offset - place.offset);
        let is_at_end = reached.offset >= seal.end || (read.is_err() && !is_retried);
        self.place = (!is_at_end).then_some(reached);
        if is_retried { 0 } else { (reached.offset - place.offset).max(1) }
    }

    /// Whether a failed read is repeated, because it does not prove damage: the device may have failed only this time, and without a
    /// descriptor no file can be read.
    fn is_retried(&mut self, shared: &Shared, file: &SegmentFile, at: Place, error: &io::Error) -> bool {
        self.failures += 1;
        let error = unread_now(&file.path, at.offset, error);
        let is_retried = match &error {
            Error::Unreadable { .. } => self.failures < READS_MAX,
            Error::Corrupt { .. } => false,
            _ => true,
        };
        if is_retried {
            shared.warnings.warn(UNREAD, &error);
        } else {
            self.failures = 0;
        }
        is_retried
    }

    /// The next sealed segment in the order of replay, beginning with a random one.
    fn next(&mut self, shared: &Shared) -> Option<Place> {
        let state = shared.state();
        let sealed: Vec<_> =
            state.segments.in_order().filter(|segment| segment.sealed_end.is_some()).collect();
        let after = |rank: u32| sealed.iter().find(|segment| segment.ranks.low > rank);
        let next = match self.last_rank {
            Some(rank) => after(rank).or(sealed.first()),
            None => {
                let draw = RandomState::new().hash_one(sealed.len());
                let count = sealed.len().max(1) as u64;
                sealed.get(usize::try_from(draw % count).unwrap_or_default())
            }
        };
        let segment = next?;
        self.last_rank = Some(segment.ranks.low);
        let id = segment.file.id;
        self.reported.retain(|(id, _)| state.segments.get(*id).is_some());
        Some(Place { id, offset: u64::from(SEGMENT_HEADER_BYTES), sequence: 0 })
    }

    /// Reports damage that was not reported before.
    fn report(&mut self, shared: &Shared, file: &SegmentFile, found: Vec<Found>) {
        for (offset, header, reason) in found {
            let key = {
                let state = shared.state();
                if state.segments.get(file.id).is_none() {
                    return;
                }
                let is_there = |key: &Key| {
                    let location = state.index.get(*key);
                    location.is_some_and(|at| at.segment == file.id && u64::from(at.offset) == offset)
                };
                header.filter(|header| header.kind == Kind::Put).map(|header| header.key).filter(is_there)
            };
            if !self.reported.insert((file.id, offset)) {
                continue;
            }
            shared.options.metrics.scrub_damage.inc();
            let damage = ScrubDamage { file: file.path.clone(), offset, key, reason };
            tracing::error!(
                file = %damage.file.display(),
                offset,
                key = ?damage.key,
                reason = damage.reason,
                "damage in a sealed segment"
            );
            shared.scrub_damage.send_if_modified(|all| {
                let is_kept = all.len() < DAMAGE_KEPT_MAX;
                all.extend(is_kept.then_some(damage));
                is_kept
            });
        }
    }
}

/// Offset, header of the record there if it looks like one, and description of the damage.
type Found = (u64, Option<RecordHeader>, String);

struct Reading<'a> {
    shared: &'a Shared,
    file: &'a SegmentFile,
    seal: Seal,
    place: Place,
    found: Vec<Found>,
}

impl Reading<'_> {
    /// Verifies frames until a slice is full or the segment ends.
    fn slice(&mut self) -> io::Result<()> {
        let start = self.place.offset;
        self.file.file.drop_cached(start, SLICE_BYTES);
        while self.place.offset < self.seal.end
            && self.place.offset - start < SLICE_BYTES
            && !self.shared.is_stopping()
        {
            self.frame()?;
        }
        Ok(())
    }

    fn frame(&mut self) -> io::Result<()> {
        let Place { offset, sequence, .. } = self.place;
        let mut bytes = [0; FRAME_HEADER_BYTES as usize];
        let is_whole = offset + u64::from(FRAME_HEADER_BYTES) <= self.seal.end;
        if is_whole {
            self.file.file.read_exact_at(&mut bytes, offset)?;
        }
        let header = FrameHeader::decode(&bytes, self.file.salt)
            .filter(|header| header.sequence == sequence && offset + header.frame_bytes() <= self.seal.end);
        let Some(header) = header else { return self.skip() };
        let payload_start = offset + u64::from(FRAME_HEADER_BYTES);
        let mut payload = vec![0; usize::try_from(header.payload_len).unwrap_or(usize::MAX)];
        self.file.file.read_exact_at(&mut payload, payload_start)?;
        self.records(header, &payload, payload_start);
        self.place.offset += header.frame_bytes();
        self.place.sequence += 1;
        Ok(())
    }

    /// Verifies every record whose boundaries can be determined.
    fn records(&mut self, header: FrameHeader, payload: &[u8], payload_start: u64) {
        let found_before = self.found.len();
        let mut rest = payload;
        let (mut count, mut records_crc) = (0_u32, 0);
        while !rest.is_empty() {
            let offset = payload_start + (payload.len() - rest.len()) as u64;
            let len = match Record::decode(rest) {
                Some(record) => {
                    records_crc = checksum::append(records_crc, &record.crc.to_le_bytes());
                    count += 1;
                    record.encoded_len()
                }
                None => {
                    let header = RecordHeader::decode(rest).map(|(header, _)| header);
                    let reason = "the checksum of the record does not match".to_owned();
                    self.found.push((offset, header, reason));
                    let value_len = header.map_or(u32::MAX, |header| header.value_len);
                    RECORD_HEADER_BYTES.saturating_add(value_len)
                }
            };
            // After a damaged length, the rest of the frame is not checked.
            rest = rest.get(len as usize..).unwrap_or_default();
        }
        let is_bound = (count, records_crc) == (header.record_count, header.records_crc);
        if self.found.len() == found_before && !is_bound {
            let reason = "the frame's records do not belong together".to_owned();
            self.found.push((payload_start, None, reason));
        }
    }

    /// Reports a missing frame and continues with the next one found.
    fn skip(&mut self) -> io::Result<()> {
        let Place { offset, sequence, .. } = self.place;
        self.found.push((offset, None, format!("frame {sequence} does not begin here")));
        let from = offset + u64::from(FRAME_ALIGNMENT);
        let later = find_later_frame(self.file, from, sequence)?.filter(|later| *later < self.seal.end);
        let Some(later) = later else {
            self.place.offset = self.seal.end;
            return Ok(());
        };
        let mut bytes = [0; FRAME_HEADER_BYTES as usize];
        self.file.file.read_exact_at(&mut bytes, later)?;
        let header = FrameHeader::decode(&bytes, self.file.salt);
        self.place.sequence = header.map_or(sequence + 1, |header| header.sequence);
        self.place.offset = later;
        Ok(())
    }
}
