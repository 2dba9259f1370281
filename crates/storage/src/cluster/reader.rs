//! Reads and scans: small values from memory, others from the cache or, many at a time, from the log.

use std::sync::Arc;

use bytes::Bytes;

use super::log::{RecordPlace, Slice};
use super::part::PartValue;
use super::record::{FrameRead, read_frame};
use super::shared::Shared;
use super::state::{Found, Stored};
use crate::{DamagedEntry, Entry, Error, Key, Page, PartitionId, Space};

/// Keys looked up before the lock is released.
const LOOK_UPS_MAX: usize = 1024;
/// Most slices of one call, and their total bytes; a single slice may be larger.
const SLICES_MAX: usize = 128;
const SLICES_BYTES_MAX: u64 = 8 << 20;
/// Most entries of one scan page.
const PAGE_ENTRIES_MAX: usize = 4096;
/// Most bytes of the values of one scan page; the first entry always fits.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// A value to be fetched.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    /// Its index in the answer.
    at: usize,
    key: Key,
    stored: Stored,
}

/// A value, or the reason why there is none. `Gone`: the key was removed while it was read.
enum Fetched {
    Value(Bytes),
    Gone,
    Damaged(DamagedEntry),
}

/// The values found without reading the log, and those still to be fetched.
#[derive(Debug)]
pub(super) struct Values {
    values: Vec<Option<Bytes>>,
    wanted: Vec<Wanted>,
}

impl Values {
    pub(super) fn look_up(shared: &Shared, keys: &[Key]) -> Self {
        let mut found = Self { values: vec![None; keys.len()], wanted: Vec::new() };
        let mut at = 0;
        for keys in keys.chunks(LOOK_UPS_MAX) {
            let state = shared.state();
            for key in keys {
                let value = match state.get(*key) {
                    Some(Found::Stored(stored)) => {
                        found.wanted.push(Wanted { at, key: *key, stored });
                        None
                    }
                    Some(Found::Value(value)) => Some(value),
                    None => None,
                };
                if let Some(place) = found.values.get_mut(at) {
                    *place = value;
                }
                at += 1;
            }
        }
        let values = &mut found.values;
        found.wanted.retain(|wanted| match (cached(shared, wanted), values.get_mut(wanted.at)) {
            (Some(value), Some(place)) => {
                *place = Some(value);
                false
            }
            _ => true,
        });
        found
    }

    /// All values, if none is missing.
    pub(super) fn whole(self) -> Result<Vec<Option<Bytes>>, Self> {
        if self.wanted.is_empty() { Ok(self.values) } else { Err(self) }
    }

    /// Fetches the missing values from the log.
    pub(super) async fn fetch(self, shared: &Arc<Shared>) -> Result<Vec<Option<Bytes>>, Error> {
        let Self { mut values, wanted } = self;
        let mut damage = None;
        fetch(shared, wanted, |at, fetched| match (fetched, values.get_mut(at)) {
            (Fetched::Value(value), Some(place)) => *place = Some(value),
            (Fetched::Damaged(damaged), _) => damage = damage.take().or(Some(damaged.error)),
            (Fetched::Gone | Fetched::Value(_), _) => {}
        })
        .await?;
        damage.map_or(Ok(values), Err)
    }
}

/// A page of which some values are missing.
#[derive(Debug)]
pub(super) struct Scanned {
    /// `None`: not fetched yet, or removed.
    entries: Vec<(u64, Option<Bytes>)>,
    wanted: Vec<Wanted>,
    next: Option<u64>,
}

impl Scanned {
    pub(super) fn look_up(shared: &Shared, space: Space, partition: PartitionId, from: u64) -> Self {
        let mut page = Self { entries: Vec::new(), wanted: Vec::new(), next: None };
        let state = shared.state();
        let mut bytes = 0;
        for (number, value) in state.range(space, partition, from) {
            bytes += match &value {
                PartValue::Small(value) => value.len(),
                PartValue::Stored(stored) => stored.len as usize,
            };
            let at = page.entries.len();
            if at == PAGE_ENTRIES_MAX || (bytes > PAGE_BYTES_MAX && at > 0) {
                page.next = Some(number);
                break;
            }
            page.entries.push(match value {
                PartValue::Small(value) => (number, Some(Bytes::copy_from_slice(value))),
                PartValue::Stored(stored) => {
                    page.wanted.push(Wanted { at, key: Key::new(space, partition, number), stored });
                    (number, None)
                }
            });
        }
        page
    }

    /// The page, if nothing is missing.
    pub(super) fn whole(self) -> Result<Page, Self> {
        if self.wanted.is_empty() { Ok(self.finish(Vec::new())) } else { Err(self) }
    }

    /// Fetches the missing values from the log.
    pub(super) async fn fetch(mut self, shared: &Arc<Shared>) -> Result<Page, Error> {
        let mut damaged = Vec::new();
        let entries = &mut self.entries;
        fetch(shared, std::mem::take(&mut self.wanted), |at, fetched| match (fetched, entries.get_mut(at)) {
            (Fetched::Value(value), Some((_, place))) => *place = Some(value),
            (Fetched::Damaged(one), _) => damaged.push(one),
            (Fetched::Gone | Fetched::Value(_), _) => {}
        })
        .await?;
        damaged.sort_unstable_by_key(|one| one.number);
        Ok(self.finish(damaged))
    }

    fn finish(self, damaged: Vec<DamagedEntry>) -> Page {
        let entries = self.entries.into_iter();
        let entries = entries.filter_map(|(number, value)| Some(Entry { number, value: value? })).collect();
        Page { entries, damaged, next: self.next }
    }
}

fn cached(shared: &Shared, wanted: &Wanted) -> Option<Bytes> {
    let frame = shared.cache().get(wanted.stored.position, wanted.stored.frame_len(wanted.key))?;
    verify(wanted, &frame)
}

/// The value of a frame, if it is the one wanted.
fn verify(wanted: &Wanted, frame: &Bytes) -> Option<Bytes> {
    match read_frame(frame) {
        FrameRead::Whole(frame, _) if frame.key == wanted.key => Some(frame.value),
        _ => None,
    }
}

/// Fetches values, adjacent ones together. A value that was moved in the meantime is looked up again.
async fn fetch(
    shared: &Arc<Shared>,
    mut wanted: Vec<Wanted>,
    mut found: impl FnMut(usize, Fetched),
) -> Result<(), Error> {
    while !wanted.is_empty() {
        wanted.sort_unstable_by_key(|one| (one.stored.position.place, one.stored.position.offset));
        let mut again = Vec::new();
        let mut rest: &[Wanted] = &wanted;
        while !rest.is_empty() {
            let (call, after) = rest.split_at(call_len(rest));
            rest = after;
            let slices = call.iter().map(slice).collect();
            let frames = shared.log.bodies(slices).await.map_err(|error| shared.cause().unwrap_or(error))?;
            if let Some(cause) = shared.cause() {
                return Err(cause);
            }
            for (at, one) in call.iter().enumerate() {
                let frame = frames.get(at).cloned().flatten();
                match frame.as_ref().and_then(|frame| verify(one, frame)) {
                    Some(value) => found(one.at, Fetched::Value(value)),
                    None => match look_again(shared, one, frame) {
                        Ok(moved) => again.push(moved),
                        Err(fetched) => {
                            if matches!(fetched, Fetched::Damaged(_)) {
                                check_ownership(shared).await?;
                            }
                            found(one.at, fetched);
                        }
                    },
                }
            }
        }
        wanted = again;
    }
    Ok(())
}

/// Fails if another epoch owns the log: its owner may have dropped the bodies that are missing here. The caller repeats
/// the request until the loss of the lease is known.
async fn check_ownership(shared: &Shared) -> Result<(), Error> {
    // Trims nothing, but is refused like every trim.
    let asked = shared.log.trim(shared.epoch(), RecordPlace(0)).await;
    asked.map_err(|error| shared.cause().unwrap_or(Error::Unavailable { reason: error.to_string() }))
}

fn slice(wanted: &Wanted) -> Slice {
    let Stored { position, .. } = wanted.stored;
    Slice { place: position.place, offset: position.offset, len: wanted.stored.frame_len(wanted.key) }
}

/// How many of the wanted values one call requests.
fn call_len(wanted: &[Wanted]) -> usize {
    let mut bytes = 0;
    let fitting = wanted.iter().take(SLICES_MAX).take_while(|one| {
        bytes += u64::from(one.stored.len);
        bytes <= SLICES_BYTES_MAX
    });
    fitting.count().max(1)
}

/// Handles a value that was not at its position: it was moved or removed in the meantime, or it is damaged.
fn look_again(shared: &Shared, wanted: &Wanted, frame: Option<Bytes>) -> Result<Wanted, Fetched> {
    match shared.state().get(wanted.key) {
        None => Err(Fetched::Gone),
        Some(Found::Value(value)) => Err(Fetched::Value(value)),
        Some(Found::Stored(stored)) if stored.position != wanted.stored.position => {
            Ok(Wanted { stored, ..*wanted })
        }
        Some(Found::Stored(stored)) => {
            let reason = match &frame {
                Some(_) => "the checksum or key of a value does not match",
                None => "the bodies of the record are gone",
            };
            let error = shared.corrupt(stored.position.place, stored.position.offset, reason);
            let unverified = frame.unwrap_or_default();
            Err(Fetched::Damaged(DamagedEntry { number: wanted.key.number, unverified, error }))
        }
    }
}
