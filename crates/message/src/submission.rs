//! Reads encoded messages into the form that the engine stores.

use std::sync::Arc;

use bytes::Bytes;
use peeklock_engine::{EntityOptions, MessageKey, NewMessage, PartitionKey, Timestamp};
use smallvec::SmallVec;

use crate::InvalidMessage;
use crate::annotation::{self, Annotated};
use crate::copy_blocks::CopyBlocks;
use crate::{decimal, rule_properties};
use peeklock_wire::message::{Header, IdView, Places, PropertiesView, Sections, Summary};
use peeklock_wire::{DecodeError, Value};

/// The message-format of a batch: a message whose `data` sections are encoded messages.
pub const BATCH_MESSAGE_FORMAT: u32 = 0x8001_3700;

/// Most messages in one batch; the SDKs limit batches by bytes only.
pub const BATCH_MESSAGES_MAX: usize = 32_768;

/// Largest length of message ids, session ids and partition keys, in characters (S-limits as checked by the SDKs).
pub const ID_CHARACTERS_MAX: usize = 128;

/// Largest value of an application property, in bytes (Service Bus quotas). The service refuses larger ones
/// (NServiceBus.Transport.AzureServiceBus 171, 1460; azure-sdk-for-net 15325).
pub const PROPERTY_BYTES_MAX: usize = 32 * 1024;

/// Bytes before the content of a large string or binary: its type and its length (AMQP 1.0, 1.2.2).
const VALUE_PREFIX_BYTES: usize = 5;

/// The optional parts to be read from messages sent to an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequiredProperties {
    /// Properties for the evaluation of rules.
    pub rule_properties: bool,
    /// The key for duplicate detection.
    pub key: bool,
    /// The key that selects the partition.
    pub partition_key: bool,
}

impl RequiredProperties {
    /// The parts required by an entity with these options; they never change.
    #[must_use]
    pub const fn by(options: &EntityOptions) -> Self {
        let rule_properties = matches!(options, EntityOptions::Topic(_));
        let partition_key = options.is_partitioned();
        Self { rule_properties, key: options.requires_duplicate_detection(), partition_key }
    }
}

/// Reads the payload of one transfer: adds a message, or all messages of a batch, to `messages`; fails as a whole.
///
/// `next_id` generates the id for a message without one: JS refuses to renew the lock of a message without an id, and
/// an id assigned on acceptance is the same for every receiver. Such a message is copied into `blocks`.
///
/// # Errors
/// [`InvalidMessage::Malformed`], [`InvalidMessage::Argument`], [`InvalidMessage::TooLarge`],
/// [`InvalidMessage::NotImplemented`] for unknown formats.
pub fn read_transfer(
    message_format: u32,
    payload: &Bytes,
    wanted: RequiredProperties,
    next_id: &mut dyn FnMut() -> u128,
    blocks: &mut CopyBlocks,
    messages: &mut SmallVec<[NewMessage; 1]>,
) -> Result<(), InvalidMessage> {
    match message_format {
        0 => messages.push(read_one(payload, wanted, next_id, blocks)?),
        BATCH_MESSAGE_FORMAT => *messages = read_batch(payload, wanted, next_id, blocks)?,
        other => {
            let why = format!("The message format {other:#x} is not supported.");
            return Err(InvalidMessage::NotImplemented(why));
        }
    }
    Ok(())
}

fn read_batch(
    payload: &Bytes,
    wanted: RequiredProperties,
    next_id: &mut dyn FnMut() -> u128,
    blocks: &mut CopyBlocks,
) -> Result<SmallVec<[NewMessage; 1]>, InvalidMessage> {
    let messages =
        Sections::split(payload).and_then(|envelope| envelope.batch_messages()).map_err(malformed)?;
    if messages.is_empty() {
        return Err(InvalidMessage::Malformed("a batch without messages".to_owned()));
    }
    if messages.len() > BATCH_MESSAGES_MAX {
        return Err(InvalidMessage::Argument(format!(
            "A batch holds at most {BATCH_MESSAGES_MAX} messages."
        )));
    }
    messages.iter().map(|message| read_one(message, wanted, next_id, blocks)).collect()
}

/// Reads one encoded message.
///
/// # Errors
/// See [`read_transfer`].
pub fn read_message(
    payload: &Bytes,
    wanted: RequiredProperties,
    next_id: &mut dyn FnMut() -> u128,
) -> Result<NewMessage, InvalidMessage> {
    read_message_into(payload, wanted, next_id, &mut CopyBlocks::default())
}

/// [`read_message`] for many messages: one without an id is copied into `blocks`.
///
/// # Errors
/// See [`read_transfer`].
pub fn read_message_into(
    payload: &Bytes,
    wanted: RequiredProperties,
    next_id: &mut dyn FnMut() -> u128,
    blocks: &mut CopyBlocks,
) -> Result<NewMessage, InvalidMessage> {
    read_one(payload, wanted, next_id, blocks)
}

fn read_one(
    payload: &Bytes,
    wanted: RequiredProperties,
    next_id: &mut dyn FnMut() -> u128,
    blocks: &mut CopyBlocks,
) -> Result<NewMessage, InvalidMessage> {
    if payload.is_empty() {
        return Err(InvalidMessage::Malformed("it is empty".to_owned()));
    }
    let kept;
    let mut summary = Summary::default();
    let payload = if summary.read_usual(payload) {
        payload
    } else {
        kept = form_to_keep(payload)?;
        summary = Summary::of_checked(&kept).map_err(malformed)?;
        &kept
    };
    new_message(payload, &summary, wanted, next_id, blocks)
}

/// The engine's form of a message that is checked and in canonical form.
fn new_message(
    payload: &Bytes,
    summary: &Summary<'_>,
    wanted: RequiredProperties,
    next_id: &mut dyn FnMut() -> u128,
    blocks: &mut CopyBlocks,
) -> Result<NewMessage, InvalidMessage> {
    let Summary { header, properties, places } = summary;
    check_ids(properties)?;
    check_property_sizes(payload, places)?;
    let annotated = annotated(payload, places, properties)?;
    let scheduled_enqueue_time = annotated.as_ref().map_or(Ok(None), scheduled_enqueue_time)?;
    let (message_key, partition_key) = keys(properties, annotated.as_ref(), wanted);
    let digits;
    let (content, properties) = if properties.message_id == IdView::Absent {
        digits = hexadecimal(next_id());
        let message_id = IdView::String(std::str::from_utf8(&digits).unwrap_or_default());
        let properties = PropertiesView { message_id, ..*properties };
        (with_properties(payload, places, &properties, blocks), properties)
    } else {
        (payload.clone(), *properties)
    };
    let rule_properties = if wanted.rule_properties {
        let application_properties = payload.slice(places.application_properties.clone());
        let annotated = annotated.unwrap_or_default();
        let read = rule_properties::read(header, &properties, annotated, &application_properties);
        Some(Arc::new(read.map_err(malformed)?))
    } else {
        None
    };
    Ok(NewMessage {
        content,
        time_to_live_ms: time_to_live_ms(header, &properties),
        scheduled_enqueue_time,
        session_id: properties.group_id.map(Into::into),
        header_bytes: u32::try_from(payload.len() - places.body.len()).unwrap_or(u32::MAX),
        rule_properties,
        reserved_number: None,
        origin: None,
        message_key,
        partition_key,
    })
}

/// The message annotations that the broker uses, if there are any.
fn annotated(
    payload: &Bytes,
    places: &Places,
    properties: &PropertiesView<'_>,
) -> Result<Option<Annotated>, InvalidMessage> {
    if places.message_annotations.is_empty() {
        return Ok(None);
    }
    let section = payload.slice(places.message_annotations.clone());
    let annotated = Annotated::read(&section).map_err(malformed)?;
    check_partition_key(&annotated, properties)?;
    Ok(Some(annotated))
}

/// The keys for duplicate detection and for the partition. An id generated here is unique.
fn keys(
    properties: &PropertiesView<'_>,
    annotated: Option<&Annotated>,
    wanted: RequiredProperties,
) -> (Option<MessageKey>, Option<PartitionKey>) {
    let id = if wanted.key { rule_properties::text_of(properties.message_id) } else { None };
    if wanted.partition_key {
        let partition_key = annotated.and_then(|annotated| annotated.partition_key.as_deref());
        PartitionKey::of_message(properties.group_id, partition_key, id.as_deref())
    } else {
        (id.map(|id| MessageKey::of(&id)), None)
    }
}

/// A number as 32 lower-case hexadecimal digits.
fn hexadecimal(number: u128) -> [u8; 32] {
    let mut digits = [0; 32];
    for (pair, octet) in digits.chunks_exact_mut(2).zip(number.to_be_bytes()) {
        let digit = |value: u8| if value < 10 { b'0' + value } else { b'a' - 10 + value };
        pair.copy_from_slice(&[digit(octet >> 4), digit(octet & 0xf)]);
    }
    digits
}

fn malformed(error: DecodeError) -> InvalidMessage {
    InvalidMessage::Malformed(error.into_reason())
}

/// The message in canonical form, with decimals that clients can read; it is copied only if it changes.
fn form_to_keep(payload: &Bytes) -> Result<Bytes, InvalidMessage> {
    let (payload, sections) = Sections::split_canonical(payload).map_err(malformed)?;
    let maps = [
        &sections.delivery_annotations,
        &sections.message_annotations,
        &sections.application_properties,
        &sections.footer,
    ];
    let mut changed = [const { None }; 4];
    for (section, changed) in maps.into_iter().zip(&mut changed) {
        if !section.is_empty() {
            *changed = decimal::with_service_form(section)?;
        }
    }
    if changed.iter().all(Option::is_none) {
        return Ok(payload);
    }
    let [delivery_annotations, message_annotations, application_properties, footer] = changed;
    let before_footer = sections.body.len() - sections.footer.len();
    let parts = [
        sections.header,
        delivery_annotations.unwrap_or(sections.delivery_annotations),
        message_annotations.unwrap_or(sections.message_annotations),
        sections.properties,
        application_properties.unwrap_or(sections.application_properties),
        sections.body.slice(..before_footer),
        footer.unwrap_or(sections.footer),
    ];
    Ok(Bytes::from(parts.concat()))
}

fn check_ids(properties: &PropertiesView<'_>) -> Result<(), InvalidMessage> {
    for (name, id) in [("message-id", properties.message_id), ("correlation-id", properties.correlation_id)] {
        // Part 3.2.11 to 3.2.14.
        if matches!(id, IdView::Other(_)) {
            return Err(InvalidMessage::Malformed(format!(
                "its {name} is not a ulong, uuid, binary or string"
            )));
        }
    }
    let is_id_too_long = match properties.message_id {
        IdView::String(text) => is_too_long(text),
        IdView::Binary(bytes) => bytes.len() > ID_CHARACTERS_MAX,
        _ => false,
    };
    if is_id_too_long {
        return Err(InvalidMessage::Argument(format!(
            "The message id is longer than {ID_CHARACTERS_MAX} characters."
        )));
    }
    // "The length is limited on the service-side": azure-sdk-for-net 32689, which names all of them.
    for (name, id) in
        [("session id", properties.group_id), ("session id to reply to", properties.reply_to_group_id)]
    {
        if id.is_some_and(is_too_long) {
            return Err(InvalidMessage::Argument(format!(
                "The {name} is longer than {ID_CHARACTERS_MAX} characters."
            )));
        }
    }
    Ok(())
}

fn check_property_sizes(payload: &Bytes, places: &Places) -> Result<(), InvalidMessage> {
    if places.application_properties.len() <= PROPERTY_BYTES_MAX {
        return Ok(());
    }
    let section = payload.slice(places.application_properties.clone());
    for entry in Sections::map_entries(&section).map_err(malformed)? {
        let entry = entry.map_err(malformed)?;
        let size_bytes = entry.encoded_value.len().saturating_sub(VALUE_PREFIX_BYTES);
        if size_bytes > PROPERTY_BYTES_MAX {
            return Err(InvalidMessage::TooLarge(format!(
                "The application property '{}' takes {size_bytes} bytes; at most {PROPERTY_BYTES_MAX} are accepted.",
                entry.key.unwrap_or_default()
            )));
        }
    }
    Ok(())
}

fn is_too_long(text: &str) -> bool {
    text.len() > ID_CHARACTERS_MAX && text.chars().count() > ID_CHARACTERS_MAX
}

/// The requested time-to-live. With a saturated `ttl` it is the difference of the two timestamps, of which only the
/// difference is meaningful, because Python shifts both by its time zone. Without a `ttl` the timestamps have no
/// meaning and are returned as they were sent (.NET's test `CanRoundTripAbsoluteExpiryCreationTime`).
fn time_to_live_ms(header: &Header, properties: &PropertiesView<'_>) -> Option<u64> {
    let ttl_ms = header.ttl_ms?;
    if ttl_ms != u32::MAX {
        return Some(u64::from(ttl_ms));
    }
    let (expiry, creation) = (properties.absolute_expiry_time_ms?, properties.creation_time_ms?);
    expiry.checked_sub(creation).and_then(|difference| u64::try_from(difference).ok())
}

/// Messages with a session are partitioned by the session, so the keys must be equal; the empty session is exempt
/// (azure-sdk-for-js 31736 sends `""` with another key, and receives it from the session `""`).
fn check_partition_key(annotated: &Annotated, properties: &PropertiesView<'_>) -> Result<(), InvalidMessage> {
    for (name, key) in
        [("partition key", &annotated.partition_key), ("via partition key", &annotated.via_partition_key)]
    {
        if key.as_deref().is_some_and(is_too_long) {
            return Err(InvalidMessage::Argument(format!(
                "The {name} is longer than {ID_CHARACTERS_MAX} characters."
            )));
        }
    }
    match (annotated.partition_key.as_deref(), properties.group_id) {
        (Some(key), Some(session_id)) if !session_id.is_empty() && key != session_id => {
            Err(InvalidMessage::Argument("The partition key differs from the session id.".to_owned()))
        }
        _ => Ok(()),
    }
}

/// The time when the message becomes available, in the annotation of Service Bus clients or else in that of JMS
/// clients.
fn scheduled_enqueue_time(annotated: &Annotated) -> Result<Option<Timestamp>, InvalidMessage> {
    let instant = |at_ms: i64| u64::try_from(at_ms).ok().map(Timestamp);
    match (&annotated.scheduled_enqueue_time, &annotated.delivery_time) {
        (Value::Null, Value::Null) => Ok(None),
        (Value::Timestamp(at_ms), _) | (Value::Null, Value::Timestamp(at_ms) | Value::Long(at_ms)) => {
            Ok(instant(*at_ms))
        }
        (Value::Null, _) => Err(InvalidMessage::Argument(format!(
            "The annotation {} must be a long or a timestamp.",
            annotation::DELIVERY_TIME
        ))),
        _ => Err(InvalidMessage::Argument(format!(
            "The annotation {} must be a timestamp.",
            annotation::SCHEDULED_ENQUEUE_TIME
        ))),
    }
}

/// The message with other properties, otherwise unchanged.
fn with_properties(
    payload: &Bytes,
    places: &Places,
    properties: &PropertiesView<'_>,
    blocks: &mut CopyBlocks,
) -> Bytes {
    let before = places.header.len() + places.delivery_annotations.len() + places.message_annotations.len();
    let after = before + places.properties.len();
    blocks.write(payload.len() + 64, |content| {
        content.extend_from_slice(payload.get(..before).unwrap_or_default());
        properties.encode(content);
        content.extend_from_slice(payload.get(after..).unwrap_or_default());
    })
}

#[cfg(test)]
mod tests;
