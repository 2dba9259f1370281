//! The message annotations of a delivery: the sender's, as changed by actions, and the broker's own.

use bytes::BytesMut;
use peeklock_engine::{Lock, MessageState, MessageView, PropertyChanges, Received, SubQueue, TextProperty};
use peeklock_wire::message::{MapSection, Sections};
use peeklock_wire::{DecodeError, Str, Value};

use super::{DeliveryFormat, Origin, Stored, signed};
use crate::annotation;

/// The lock's end for "not locked", in milliseconds since 1970: the year 1. Python documents it as the service's value
/// for "not set" (`utc_from_timestamp`), and every SDK accepts it; .NET's tests require the annotation on browsed
/// messages (`CreateFromReceivedMessageCopiesPropertiesTopic`).
const NOT_LOCKED_MS: i64 = -62_135_596_800_000;

/// Writes the section.
pub(super) fn write(
    output: &mut BytesMut,
    stored: &Stored<'_>,
    received: &Received,
    format: DeliveryFormat,
    origin: Origin,
) -> Result<(), DecodeError> {
    let view = &received.view;
    let mut section = MapSection::message_annotations(output);
    let is_own_only =
        stored.places.message_annotations.is_empty() && view.changes.is_none() && !origin.sessions;
    let sent_schedule_ms = match is_own_only {
        true => None,
        false => write_sent(&mut section, stored, view.changes.as_deref(), origin)?,
    };
    write_own(&mut section, view, origin);
    write_lock_end(&mut section, received.lock.as_ref(), format);
    if let Some(state) = state(view, format, sent_schedule_ms, origin) {
        section.int(annotation::MESSAGE_STATE, state);
    }
    section.finish();
    Ok(())
}

/// Writes the sender's annotations, without those owned by the broker, with the changes of actions and with the
/// partition key of a session. Returns the scheduled time that the sender wrote.
fn write_sent(
    section: &mut MapSection<'_>,
    stored: &Stored<'_>,
    changes: Option<&PropertyChanges>,
    origin: Origin,
) -> Result<Option<i64>, DecodeError> {
    let mut sent_schedule_ms = None;
    let changed_key = changes.and_then(|changes| changes.text(TextProperty::PartitionKey));
    let changed_schedule = changes.and_then(|changes| changes.scheduled_enqueue_time_ms);
    let mut needs_key = origin.sessions && !matches!(changed_key, Some(Some(_)));
    let sent = stored.section(&stored.places.message_annotations);
    for entry in Sections::map_entries(&sent)? {
        let entry = entry?;
        let is_changed = match entry.key {
            Some(annotation::PARTITION_KEY) => changed_key.is_some(),
            Some(annotation::SCHEDULED_ENQUEUE_TIME) => {
                sent_schedule_ms = annotation::timestamp_ms(sent.slice_ref(entry.encoded_value));
                changed_schedule.is_some()
            }
            key => key.is_some_and(annotation::is_service_owned),
        };
        if !is_changed {
            needs_key &= entry.key != Some(annotation::PARTITION_KEY);
            section.entry(entry);
        }
    }
    if let Some(Some(key)) = changed_key {
        section.string(annotation::PARTITION_KEY, key);
    }
    if let Some(Some(at_ms)) = changed_schedule {
        section.timestamp(annotation::SCHEDULED_ENQUEUE_TIME, signed(at_ms));
    }
    if needs_key && let Some(session_id) = session_id(stored, changes)? {
        section.string(annotation::PARTITION_KEY, &session_id);
    }
    Ok(sent_schedule_ms)
}

/// Writes time, numbers and source of the message.
fn write_own(section: &mut MapSection<'_>, view: &MessageView, origin: Origin) {
    section.timestamp(annotation::ENQUEUED_TIME, signed(view.enqueued_at.0));
    section.long(annotation::SEQUENCE_NUMBER, signed(view.shown_number().0));
    if origin.partitioned {
        section.value(annotation::PARTITION_ID, &Value::Short(view.partition.index().into()));
    }
    let forwarded = view.forwarded.as_deref();
    // Only if the message has two numbers (G's live test of all annotations).
    let number_of_topic = origin.copies.then(|| view.shown_number_of_topic().0);
    let first_number = forwarded.map(|forwarded| forwarded.enqueued_sequence_number.0).or(number_of_topic);
    if let Some(first_number) = first_number {
        section.long(annotation::ENQUEUED_SEQUENCE_NUMBER, signed(first_number));
    }
    if let Some(source) = forwarded.and_then(|forwarded| forwarded.dead_letter_source.as_deref()) {
        section.string(annotation::DEAD_LETTER_SOURCE, source);
    }
}

fn write_lock_end(section: &mut MapSection<'_>, lock: Option<&Lock>, format: DeliveryFormat) {
    match (lock, format) {
        (Some(lock), _) => section.timestamp(annotation::LOCKED_UNTIL, signed(lock.locked_until.0)),
        (None, DeliveryFormat::Browsed { .. }) => section.timestamp(annotation::LOCKED_UNTIL, NOT_LOCKED_MS),
        (None, _) => {}
    }
}

/// The state to be written; none for an active message, unless it was scheduled before.
fn state(
    view: &MessageView,
    format: DeliveryFormat,
    sent_schedule_ms: Option<i64>,
    origin: Origin,
) -> Option<i32> {
    const DEFERRED: i32 = 1;
    const SCHEDULED: i32 = 2;
    match view.state {
        MessageState::Active => (format == DeliveryFormat::Link
            && was_scheduled(view, sent_schedule_ms, origin))
        .then_some(SCHEDULED),
        MessageState::Deferred => Some(DEFERRED),
        MessageState::Scheduled => Some(SCHEDULED),
    }
}

/// Whether an active message was scheduled before: the service reports that for as long as the message is delivered
/// (azure-sdk-for-js, `sendAndSchedule.spec.ts`, "Schedule single message"). In a queue the body of such a message is
/// stored under another number. For a topic's copies only the time is known, so those sent with a time in the past are
/// reported as scheduled too; the service reports either (azure-sdk-for-js 19357).
fn was_scheduled(view: &MessageView, sent_schedule_ms: Option<i64>, origin: Origin) -> bool {
    sent_schedule_ms.is_some_and(|at_ms| at_ms <= signed(view.enqueued_at.0))
        && (origin.copies || view.body.0 != view.sequence_number.0)
        && view.sub_queue == SubQueue::Main
        && view.forwarded.is_none()
}

/// The session of a message, including a change by a rule's action.
fn session_id(stored: &Stored<'_>, changes: Option<&PropertyChanges>) -> Result<Option<Str>, DecodeError> {
    match changes.and_then(|changes| changes.text(TextProperty::SessionId)) {
        Some(changed) => Ok(changed.map(Into::into)),
        None => Ok(stored.with_properties().view_properties()?.group_id.map(Into::into)),
    }
}
