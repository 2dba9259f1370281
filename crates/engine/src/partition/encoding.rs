//! How records and counters look in the store: one version byte, then postcard. Records of version 2 are those of
//! version 1 with [`More`] behind them, those of version 5 with [`Rest`], those of version 6 with a time behind that; version 1 is still written where there is
//! nothing more to say.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::record::{Extra, Record};
use crate::{
    BodyRef, Forwarded, MessageState, PropertyChanges, PropertyValue, RuleProperties, SequenceNumber,
    SubQueue, Timestamp,
};

/// Version of all kinds of values. A change of [`Head`], [`Counters`], [`Used`], [`Extra`] or a session's state needs a
/// new one, and the old one stays readable.
const VERSION: u8 = 1;

/// What the `Head` space holds for each message; what few have is borrowed where it is written.
#[derive(Serialize, Deserialize)]
struct Head<E> {
    sub_queue: SubQueue,
    state: MessageState,
    enqueued_at: Timestamp,
    time_to_live_ms: Option<u64>,
    content_bytes: u32,
    delivery_count: u32,
    extra: Option<E>,
}

/// Version of records with [`More`] behind them; read, no longer written.
const VERSION_WITH_MORE: u8 = 2;

/// What few records needed beside [`Head`]; read, no longer written.
#[derive(Deserialize)]
struct More {
    header_bytes: u32,
    rule_properties: Option<RulePropertiesVersion1>,
}

/// What rules saw before they knew partition keys.
#[derive(Deserialize)]
struct RulePropertiesVersion1 {
    correlation_id: Option<Box<str>>,
    message_id: Option<Box<str>>,
    to: Option<Box<str>>,
    reply_to: Option<Box<str>>,
    label: Option<Box<str>>,
    session_id: Option<Box<str>>,
    reply_to_session_id: Option<Box<str>>,
    content_type: Option<Box<str>>,
    user: Vec<(Box<str>, PropertyValue)>,
}

/// Version of records of forwarded messages, with their way behind [`More`]; read, no longer written.
const VERSION_WITH_WAY: u8 = 3;

/// Version of what stands in place of a message that went to another entity.
const VERSION_OF_TRACES: u8 = 4;

/// What stands in place of a message that went to another entity, until its source has removed it: where its content is,
/// and the length of that.
#[derive(Serialize, Deserialize)]
struct Trace {
    body: BodyRef,
    content_bytes: u32,
}

/// Appends a trace, as earlier versions did.
#[cfg(test)]
pub(super) fn append_trace(body: BodyRef, content_bytes: u32, to: Vec<u8>) -> Vec<u8> {
    append_version(VERSION_OF_TRACES, &Trace { body, content_bytes }, to)
}

/// Reads a trace; `None` if something else is there.
pub(super) fn read_trace(bytes: &[u8]) -> Result<Option<(BodyRef, u32)>, String> {
    if bytes.first() != Some(&VERSION_OF_TRACES) {
        return Ok(None);
    }
    let trace: Trace = read_version(VERSION_OF_TRACES, bytes)?;
    Ok(Some((trace.body, trace.content_bytes)))
}

/// Version of records with [`Rest`] behind them.
const VERSION_WITH_REST: u8 = 5;

/// Version of records of messages that are held back, with the time until which behind [`Rest`].
const VERSION_HELD_BACK: u8 = 6;

/// What few records need beside [`Head`].
#[derive(Default, PartialEq, Serialize, Deserialize)]
struct Rest {
    header_bytes: u32,
    /// What rules will see of a message scheduled on a topic.
    rule_properties: Option<Arc<RuleProperties>>,
    /// Its way here, if it was forwarded.
    way: Option<Arc<Forwarded>>,
    /// What the action of a rule changed.
    changes: Option<Arc<PropertyChanges>>,
}

impl Rest {
    /// `None` if there is nothing to say.
    fn of(extra: &Extra) -> Option<Self> {
        let Extra { header_bytes, rule_properties, forwarded, changes, .. } = extra;
        let is_needed =
            *header_bytes > 0 || rule_properties.is_some() || forwarded.is_some() || changes.is_some();
        is_needed.then(|| Self {
            header_bytes: *header_bytes,
            rule_properties: rule_properties.clone(),
            way: forwarded.clone(),
            changes: changes.clone(),
        })
    }
}

impl From<More> for Rest {
    fn from(More { header_bytes, rule_properties }: More) -> Self {
        Self {
            header_bytes,
            rule_properties: rule_properties.map(|rule_properties| Arc::new(rule_properties.into())),
            ..Self::default()
        }
    }
}

impl From<RulePropertiesVersion1> for RuleProperties {
    fn from(rule_properties: RulePropertiesVersion1) -> Self {
        Self {
            correlation_id: rule_properties.correlation_id,
            message_id: rule_properties.message_id,
            to: rule_properties.to,
            reply_to: rule_properties.reply_to,
            label: rule_properties.label,
            session_id: rule_properties.session_id,
            reply_to_session_id: rule_properties.reply_to_session_id,
            content_type: rule_properties.content_type,
            user: rule_properties.user,
            ..Self::default()
        }
    }
}

/// What the `Meta` space holds once.
#[derive(Serialize, Deserialize)]
struct Counters {
    next_number: SequenceNumber,
}

/// What the `Meta` space holds of what is deleted when idle.
#[derive(Serialize, Deserialize)]
struct Used {
    at: Timestamp,
}

/// Appends the stored form of a record.
pub(super) fn append_record(record: &Record, to: Vec<u8>) -> Vec<u8> {
    let extra: Option<&Extra> = record.extra().map(|extra| &**extra);
    let head = Head {
        sub_queue: record.sub_queue(),
        state: record.state(),
        enqueued_at: record.enqueued_at(),
        time_to_live_ms: record.time_to_live_ms(),
        content_bytes: record.content_bytes(),
        delivery_count: record.delivery_count(),
        extra,
    };
    match (extra.and_then(Rest::of), record.held_until()) {
        (None, None) => append(&head, to),
        (Some(rest), None) => append_version(VERSION_WITH_REST, &(head, rest), to),
        (rest, Some(until)) => {
            append_version(VERSION_HELD_BACK, &(head, rest.unwrap_or_default(), until), to)
        }
    }
}

/// Reads the stored form of a record.
pub(super) fn read_record(bytes: &[u8]) -> Result<Record, String> {
    let mut held_until = None;
    let (head, rest) = match bytes.first() {
        Some(&VERSION_HELD_BACK) => {
            let (head, rest, until) =
                read_version::<(Head<Arc<Extra>>, Rest, Timestamp)>(VERSION_HELD_BACK, bytes)?;
            held_until = Some(until);
            (head, rest)
        }
        Some(&VERSION_WITH_REST) => read_version::<(Head<Arc<Extra>>, Rest)>(VERSION_WITH_REST, bytes)?,
        Some(&VERSION_WITH_WAY) => {
            let (head, more, way) =
                read_version::<(Head<Arc<Extra>>, More, Arc<Forwarded>)>(VERSION_WITH_WAY, bytes)?;
            (head, Rest { way: Some(way), ..Rest::from(more) })
        }
        Some(&VERSION_WITH_MORE) => {
            let (head, more) = read_version::<(Head<Arc<Extra>>, More)>(VERSION_WITH_MORE, bytes)?;
            (head, more.into())
        }
        _ => (read::<Head<Arc<Extra>>>(bytes)?, Rest::default()),
    };
    let mut record = Record::new(head.enqueued_at, head.time_to_live_ms, head.content_bytes);
    record.set_place(head.sub_queue, head.state);
    record.set_delivery_count(head.delivery_count);
    record.set_extra(head.extra);
    if rest != Rest::default() {
        record.edit_extra(|extra| {
            extra.header_bytes = rest.header_bytes;
            extra.rule_properties = rest.rule_properties;
            extra.forwarded = rest.way;
            extra.changes = rest.changes;
        });
    }
    record.hold_back(held_until);
    let is_scheduled = head.state == MessageState::Scheduled;
    if is_scheduled != record.scheduled_enqueue_time().is_some() {
        return Err("a message is scheduled if and only if it has a time at which it is enqueued".to_owned());
    }
    if is_scheduled && head.sub_queue != SubQueue::Main {
        return Err("only messages of the main queue can be scheduled".to_owned());
    }
    Ok(record)
}

/// Appends the stored form of the counters.
pub(super) fn append_counters(next_number: SequenceNumber, to: Vec<u8>) -> Vec<u8> {
    append_version(VERSION, &Counters { next_number }, to)
}

/// Reads the stored form of the counters.
pub(super) fn read_counters(bytes: &[u8]) -> Result<SequenceNumber, String> {
    read::<Counters>(bytes).map(|counters| counters.next_number)
}

/// Appends the stored form of the last use.
pub(super) fn append_used(at: Timestamp, to: Vec<u8>) -> Vec<u8> {
    append(&Used { at }, to)
}

/// Reads the stored form of the last use.
pub(super) fn read_used(bytes: &[u8]) -> Result<Timestamp, String> {
    read::<Used>(bytes).map(|used| used.at)
}

/// Appends the stored form of a value.
pub(super) fn append(value: &impl Serialize, to: Vec<u8>) -> Vec<u8> {
    append_version(VERSION, value, to)
}

/// Appends a version byte and a value.
#[allow(clippy::expect_used)] // a growing buffer takes all, and every list knows its length
pub(super) fn append_version(version: u8, value: &impl Serialize, mut to: Vec<u8>) -> Vec<u8> {
    to.push(version);
    postcard::to_extend(value, to).expect("nothing that postcard refuses")
}

/// Reads the stored form of a value, and nothing more.
pub(super) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    read_version(VERSION, bytes)
}

/// Reads a value of this version.
pub(super) fn read_version<'a, T: Deserialize<'a>>(known: u8, bytes: &'a [u8]) -> Result<T, String> {
    let (version, value) = bytes.split_first().ok_or("the value is empty")?;
    if *version != known {
        return Err(format!("version {version} is unknown, this program reads version {known}"));
    }
    let (value, rest) = postcard::take_from_bytes(value).map_err(|error| error.to_string())?;
    if !rest.is_empty() {
        return Err(format!("{} bytes too many", rest.len()));
    }
    Ok(value)
}
