//! Heads of messages: version 2 adds the length of the header and the properties for rules, version 3 the forwarding
//! information, version 5 partition keys and an action's changes. Version 4 is a tombstone.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::property::{Changes, Seen, SeenWithPartitionKeys};
use super::{read_fields, unknown, version};
use crate::partition::record::{Extra, Record};
use crate::{BodyRef, DeadLetter, Forwarded, MessageState, Property, SequenceNumber, SubQueue, Timestamp};

/// The version of a tombstone.
const TOMBSTONE: u8 = 4;

#[derive(Deserialize)]
struct Head {
    place: Place,
    state: State,
    enqueued_at_ms: u64,
    time_to_live_ms: Option<u64>,
    body_bytes: u32,
    delivery_count: u32,
    extra: Option<HeadExtra>,
}

#[derive(Deserialize)]
enum Place {
    Main,
    DeadLetter,
    TransferDeadLetter,
}

#[derive(Deserialize)]
enum State {
    Active,
    Deferred,
    Scheduled,
}

#[derive(Deserialize)]
struct HeadExtra {
    modified: Option<Vec<(Box<str>, Vec<u8>)>>,
    dead_letter: Option<Reason>,
    scheduled_enqueue_time_ms: Option<u64>,
    session_id: Option<Box<str>>,
    body: Option<u64>,
}

#[derive(Deserialize)]
struct Reason {
    reason: Option<Arc<str>>,
    description: Option<Arc<str>>,
}

/// Follows the head since version 2.
#[derive(Deserialize)]
struct More {
    header_bytes: u32,
    seen: Option<Seen>,
}

#[derive(Deserialize)]
struct Way {
    enqueued_sequence_number: u64,
    hops: u8,
    dead_letter_source: Option<Arc<str>>,
}

/// Follows the head since version 5.
#[derive(Deserialize)]
struct Rest {
    header_bytes: u32,
    seen: Option<SeenWithPartitionKeys>,
    way: Option<Way>,
    changes: Option<Changes>,
}

#[derive(Deserialize, Serialize)]
struct Trace {
    body: u64,
    body_bytes: u32,
}

impl From<HeadExtra> for Extra {
    fn from(extra: HeadExtra) -> Self {
        let modified = extra.modified.map(|properties| {
            let property = |(name, value): (_, Vec<u8>)| Property { name, value: value.into() };
            Arc::new(properties.into_iter().map(property).collect())
        });
        let dead_letter = |Reason { reason, description }| Arc::new(DeadLetter { reason, description });
        Self {
            modified,
            dead_letter: extra.dead_letter.map(dead_letter),
            scheduled_enqueue_time: extra.scheduled_enqueue_time_ms.map(Timestamp),
            session_id: extra.session_id.map(Into::into),
            body: extra.body.map(BodyRef),
            ..Self::default()
        }
    }
}

impl From<Way> for Forwarded {
    fn from(Way { enqueued_sequence_number, hops, dead_letter_source }: Way) -> Self {
        let enqueued_sequence_number = SequenceNumber(enqueued_sequence_number);
        Self { enqueued_sequence_number, hops, dead_letter_source }
    }
}

impl From<Head> for Record {
    fn from(head: Head) -> Self {
        let mut record = Self::new(Timestamp(head.enqueued_at_ms), head.time_to_live_ms, head.body_bytes);
        let sub_queue = match head.place {
            Place::Main => SubQueue::Main,
            Place::DeadLetter => SubQueue::DeadLetter,
            Place::TransferDeadLetter => SubQueue::TransferDeadLetter,
        };
        let state = match head.state {
            State::Active => MessageState::Active,
            State::Deferred => MessageState::Deferred,
            State::Scheduled => MessageState::Scheduled,
        };
        record.set_place(sub_queue, state);
        record.set_delivery_count(head.delivery_count);
        record.set_extra(head.extra.map(|extra| Arc::new(extra.into())));
        record
    }
}

/// Combines a head with the fields that follow it.
fn with_more(head: Head, more: More, way: Option<Way>) -> Record {
    let mut record = Record::from(head);
    record.edit_extra(|extra| {
        extra.header_bytes = more.header_bytes;
        extra.rule_properties = more.seen.map(|seen| Arc::new(seen.into()));
        extra.forwarded = way.map(|way| Arc::new(way.into()));
    });
    record
}

pub(in crate::stored) fn read_head(bytes: &[u8]) -> Result<Record, String> {
    match version(bytes)? {
        1 => read_fields::<Head>(bytes).map(Into::into),
        2 => {
            let (head, more) = read_fields(bytes)?;
            Ok(with_more(head, more, None))
        }
        3 => {
            let (head, more, way) = read_fields(bytes)?;
            Ok(with_more(head, more, Some(way)))
        }
        5 => {
            let (head, rest): (Head, Rest) = read_fields(bytes)?;
            let mut record = Record::from(head);
            record.edit_extra(|extra| {
                extra.header_bytes = rest.header_bytes;
                extra.rule_properties = rest.seen.map(|seen| Arc::new(seen.into()));
                extra.forwarded = rest.way.map(|way| Arc::new(way.into()));
                extra.changes = rest.changes.map(|changes| Arc::new(changes.into()));
            });
            Ok(record)
        }
        other => unknown(other),
    }
}

/// Appends a tombstone: the body of a topic that is kept without a message, and its length.
#[allow(clippy::expect_used)] // a vector has room for all that there is memory for
pub(crate) fn append_tombstone(body: BodyRef, body_bytes: u32, to: &mut Vec<u8>) {
    to.push(TOMBSTONE);
    postcard::to_io(&Trace { body: body.0, body_bytes }, to).expect("a vector grows");
}

/// Reads a tombstone: of a body that a topic keeps without a message, or of a message that was forwarded by a version up to
/// 0.1 and that its source has not removed yet. Returns the body and its length, `None` for other records.
///
/// # Errors
/// The reason why they can't be decoded.
pub(crate) fn read_tombstone(bytes: &[u8]) -> Result<Option<(BodyRef, u32)>, String> {
    if version(bytes) != Ok(TOMBSTONE) {
        return Ok(None);
    }
    let Trace { body, body_bytes } = read_fields(bytes)?;
    Ok(Some((BodyRef(body), body_bytes)))
}
