//! The records of one shard, and the effect of each call on them.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::cluster::{NewRecord, RecordId, RecordKind, RecordPlace, Slice, StoredRecord, Tail};
use crate::{Epoch, Error};

/// Records of one page of heads.
const PAGE_RECORDS: usize = 16;

/// Storage used by one shard in an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Number of records without owner records.
    pub records: u64,
    /// Their heads, in bytes.
    pub heads_bytes: u64,
    /// Number of records that have bodies.
    pub rows: u64,
    /// Bodies, in bytes.
    pub bodies_bytes: u64,
}

impl Footprint {
    /// Bytes of heads and bodies.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.heads_bytes + self.bodies_bytes
    }
}

/// A call of a node.
#[derive(Debug, Clone)]
pub(super) enum Call {
    Open,
    Seize(RecordId, Epoch),
    Append(NewRecord),
    Heads(RecordPlace),
    Bodies(Vec<Slice>),
    DropBodies(Epoch, Vec<RecordPlace>),
    Trim(Epoch, RecordPlace),
}

impl Call {
    /// Whether it is a change, so that its outcome may be in doubt.
    pub(super) const fn is_change(&self) -> bool {
        !matches!(self, Self::Open | Self::Heads(_) | Self::Bodies(_))
    }

    /// The place of the record that it appends.
    pub(super) fn appended(&self) -> Option<RecordPlace> {
        match self {
            Self::Seize(after, _) => Some(after.place.next()),
            Self::Append(record) => Some(record.id.place),
            _ => None,
        }
    }
}

/// The result of a call.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    Tail(Tail),
    Done,
    Heads(Vec<StoredRecord>),
    Bodies(Vec<Option<Bytes>>),
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Table {
    log: BTreeMap<RecordPlace, StoredRecord>,
    bodies: BTreeMap<RecordPlace, Bytes>,
    /// The highest place whose append or seizure was answered with success.
    pub(super) acknowledged: RecordPlace,
}

impl Table {
    /// The check of an append before it stores anything: whether its predecessor exists and has the same epoch. The
    /// record is stored later, whatever happens in between, unless its place is taken by then.
    pub(super) fn check(&self, call: &Call) -> Result<(), Error> {
        let Call::Append(NewRecord { id, .. }) = call else { return Ok(()) };
        let before = RecordPlace(id.place.0.saturating_sub(1));
        if self.log.get(&before).is_some_and(|before| before.id.epoch == id.epoch) {
            return Ok(());
        }
        self.check_owner(id.epoch)?;
        Err(Error::Unavailable { reason: "the record before it is not there".to_owned() })
    }

    pub(super) fn carry_out(&mut self, call: &Call, room: u64) -> Result<Outcome, Error> {
        match call {
            Call::Open => Ok(Outcome::Tail(self.tail())),
            Call::Seize(after, epoch) => self.seize(*after, *epoch, room),
            Call::Append(record) => self.append(record, room),
            Call::Heads(from) => {
                let records = self.log.range(*from..).map(|(_, record)| record.clone());
                Ok(Outcome::Heads(records.take(PAGE_RECORDS).collect()))
            }
            Call::Bodies(slices) => {
                Ok(Outcome::Bodies(slices.iter().map(|slice| self.slice(*slice)).collect()))
            }
            Call::DropBodies(epoch, places) => {
                self.check_owner(*epoch)?;
                for place in places {
                    self.bodies.remove(place);
                }
                Ok(Outcome::Done)
            }
            Call::Trim(epoch, before) => {
                self.check_owner(*epoch)?;
                self.log.retain(|place, record| place >= before || record.kind == RecordKind::Owner);
                Ok(Outcome::Done)
            }
        }
    }

    pub(super) fn tail(&self) -> Tail {
        let last = self.log.last_key_value().map_or(RecordId::default(), |(_, record)| record.id);
        let marks = self.log.iter().rev().filter(|(_, record)| record.kind == RecordKind::Mark);
        Tail { last, mark: marks.map(|(place, _)| *place).next() }
    }

    fn seize(&mut self, after: RecordId, epoch: Epoch, room: u64) -> Result<Outcome, Error> {
        let last = self.tail().last;
        if last != after || epoch <= last.epoch {
            return Err(fenced("there is a record behind the one given"));
        }
        if room == 0 {
            return Err(no_room());
        }
        let id = RecordId { place: after.place.next(), epoch };
        self.log.insert(id.place, StoredRecord { id, kind: RecordKind::Owner, heads: Bytes::new() });
        Ok(Outcome::Done)
    }

    fn append(&mut self, record: &NewRecord, room: u64) -> Result<Outcome, Error> {
        let NewRecord { id, kind, heads, bodies } = record;
        if let Some(there) = self.log.get(&id.place) {
            let reason = "the place holds a record of this epoch".to_owned();
            let is_own = there.id.epoch == id.epoch;
            return Err(if is_own { Error::InDoubt { reason } } else { fenced("the place is taken") });
        }
        if (heads.len() + bodies.len()) as u64 > room {
            return Err(no_room());
        }
        self.log.insert(id.place, StoredRecord { id: *id, kind: *kind, heads: heads.clone() });
        if !bodies.is_empty() {
            self.bodies.insert(id.place, bodies.clone());
        }
        Ok(Outcome::Done)
    }

    fn slice(&self, slice: Slice) -> Option<Bytes> {
        let bodies = self.bodies.get(&slice.place)?;
        let start = (slice.offset as usize).min(bodies.len());
        let end = start.saturating_add(slice.len as usize).min(bodies.len());
        Some(bodies.slice(start..end))
    }

    fn check_owner(&self, epoch: Epoch) -> Result<(), Error> {
        match self.tail().last.epoch {
            last if last == epoch => Ok(()),
            _ => Err(fenced("another epoch owns the log")),
        }
    }

    /// Drops all records after `last`.
    pub(super) fn cut_off(&mut self, last: RecordPlace) {
        self.log.retain(|place, _| *place <= last);
        self.bodies.retain(|place, _| *place <= last);
    }

    /// Changes a stored byte; returns false when there is none.
    pub(super) fn damage(&mut self, place: RecordPlace, in_bodies: bool, offset: usize) -> bool {
        let flip = |bytes: &Bytes| {
            let mut bytes = bytes.to_vec();
            bytes.get_mut(offset).map(|byte| *byte ^= 0x40)?;
            Some(Bytes::from(bytes))
        };
        if in_bodies {
            let Some(bodies) = self.bodies.get_mut(&place) else { return false };
            return flip(bodies).map(|damaged| *bodies = damaged).is_some();
        }
        let Some(record) = self.log.get_mut(&place) else { return false };
        flip(&record.heads).map(|damaged| record.heads = damaged).is_some()
    }

    pub(super) fn footprint(&self) -> Footprint {
        let records = self.log.values().filter(|record| record.kind != RecordKind::Owner);
        Footprint {
            records: records.clone().count() as u64,
            heads_bytes: records.map(|record| record.heads.len() as u64).sum(),
            rows: self.bodies.len() as u64,
            bodies_bytes: self.bodies.values().map(|bodies| bodies.len() as u64).sum(),
        }
    }

    /// Places of the bodies stored.
    pub(super) fn body_places(&self) -> Vec<RecordPlace> {
        self.bodies.keys().copied().collect()
    }
}

fn fenced(reason: &str) -> Error {
    Error::Fenced { reason: reason.to_owned() }
}

fn no_room() -> Error {
    Error::Full { reason: "the engine has no room".to_owned() }
}
