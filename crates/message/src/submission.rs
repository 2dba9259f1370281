//! From an encoded message to what the engine stores.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use peeklock_engine::{EntityOptions, MessageKey, NewMessage, PartitionKey, Timestamp};
use smallvec::SmallVec;

use crate::Unfit;
use crate::annotation::{self, Annotated};
use crate::{decimal, rule_properties};
use peeklock_wire::message::{Header, MessageProperties, Sections};
use peeklock_wire::{DecodeError, Value};

/// The message-format of a batch: a message whose `data` sections are encoded messages.
pub const BATCH_MESSAGE_FORMAT: u32 = 0x8001_3700;

/// Messages in one batch; the SDKs bound batches by bytes only.
pub const BATCH_MESSAGES_MAX: usize = 32_768;

/// Length of message ids and session ids, in characters (S-limits as checked by the SDKs).
pub const ID_CHARACTERS_MAX: usize = 128;

/// What an entity wants to know of the messages sent to it, beside what all do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequiredProperties {
    /// Properties that rules evaluate.
    pub rule_properties: bool,
    /// The key of duplicate detection.
    pub key: bool,
    /// The key that chooses the partition.
    pub partition_key: bool,
}

impl RequiredProperties {
    /// What this one wants; it never changes.
    #[must_use]
    pub const fn by(options: &EntityOptions) -> Self {
        let rule_properties = matches!(options, EntityOptions::Topic(_));
        let partition_key = options.is_partitioned();
        Self { rule_properties, key: options.requires_duplicate_detection(), partition_key }
    }
}

/// Reads the payload of one transfer: a message, or all messages of a batch, all or none.
///
/// `next_id` gives the id of a message that has none: JS refuses to renew the lock of a message without an id, and an
/// id given on acceptance stays the same for every reader.
///
/// # Errors
/// [`Unfit::Malformed`], [`Unfit::Argument`], [`Unfit::NotImplemented`] for unknown formats.
pub fn read_transfer(
    message_format: u32,
    payload: &Bytes,
    wanted: RequiredProperties,
    next_id: &mut dyn FnMut() -> u128,
) -> Result<SmallVec<[NewMessage; 1]>, Unfit> {
    match message_format {
        0 => Ok(SmallVec::from_iter([read_message(payload, wanted, next_id)?])),
        BATCH_MESSAGE_FORMAT => read_batch(payload, wanted, next_id),
        other => Err(Unfit::NotImplemented(format!("Messages of format {other:#x} are not understood."))),
    }
}

fn read_batch(
    payload: &Bytes,
    wanted: RequiredProperties,
    next_id: &mut dyn FnMut() -> u128,
) -> Result<SmallVec<[NewMessage; 1]>, Unfit> {
    let messages =
        Sections::split(payload).and_then(|envelope| envelope.batch_messages()).map_err(malformed)?;
    if messages.is_empty() {
        return Err(Unfit::Malformed("a batch without messages".to_owned()));
    }
    if messages.len() > BATCH_MESSAGES_MAX {
        return Err(Unfit::Argument(format!("A batch holds at most {BATCH_MESSAGES_MAX} messages.")));
    }
    messages.iter().map(|message| read_message(message, wanted, next_id)).collect()
}

/// Reads one encoded message.
///
/// # Errors
/// See [`read_transfer`].
pub fn read_message(
    payload: &Bytes,
    wanted: RequiredProperties,
    next_id: &mut dyn FnMut() -> u128,
) -> Result<NewMessage, Unfit> {
    if payload.is_empty() {
        return Err(Unfit::Malformed("it is empty".to_owned()));
    }
    let (payload, sections) = Sections::split_canonical(payload).map_err(malformed)?;
    let (payload, sections) = with_service_decimals(payload, sections)?;
    let header = sections.decode_header().map_err(malformed)?;
    let mut properties = sections.decode_properties().map_err(malformed)?;
    check_ids(&properties)?;
    let time_to_live_ms = time_to_live_ms(&header, &properties);
    let annotated = Annotated::read(&sections.message_annotations).map_err(malformed)?;
    check_partition_key(&annotated, &properties)?;
    let scheduled_enqueue_time = scheduled_enqueue_time(&annotated)?;
    let session_id = properties.group_id.clone();
    let header_bytes = u32::try_from(payload.len() - sections.body.len()).unwrap_or(u32::MAX);
    // An id given here is nobody else's.
    let id = wanted.key.then(|| rule_properties::id_text(&properties.message_id)).flatten();
    let (message_key, partition_key) = if wanted.partition_key {
        PartitionKey::of_message(session_id.as_deref(), annotated.partition_key.as_deref(), id.as_deref())
    } else {
        (id.map(|id| MessageKey::of(&id)), None)
    };
    let content = if properties.message_id == Value::Null {
        properties.message_id = Value::String(format!("{:032x}", next_id()).into());
        with_properties(&payload, &sections, &properties)
    } else {
        payload
    };
    let rule_properties = if wanted.rule_properties {
        let rule_properties =
            rule_properties::read(&header, properties, annotated, &sections.application_properties);
        Some(Arc::new(rule_properties.map_err(malformed)?))
    } else {
        None
    };
    Ok(NewMessage {
        content,
        time_to_live_ms,
        scheduled_enqueue_time,
        session_id,
        header_bytes,
        rule_properties,
        reserved_number: None,
        origin: None,
        message_key,
        partition_key,
    })
}

fn malformed(error: DecodeError) -> Unfit {
    Unfit::Malformed(error.reason)
}

/// The message with decimals that clients can read; nearly every message has none and is not copied.
fn with_service_decimals(payload: Bytes, sections: Sections) -> Result<(Bytes, Sections), Unfit> {
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
        return Ok((payload, sections));
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
    let payload = Bytes::from(parts.concat());
    let sections = Sections::split_trusted(&payload).map_err(malformed)?;
    Ok((payload, sections))
}

fn check_ids(properties: &MessageProperties) -> Result<(), Unfit> {
    for (name, id) in [("message-id", &properties.message_id), ("correlation-id", &properties.correlation_id)]
    {
        // Part 3.2.11 to 3.2.14.
        if !matches!(id, Value::Null | Value::ULong(_) | Value::Uuid(_) | Value::Binary(_) | Value::String(_))
        {
            return Err(Unfit::Malformed(format!("its {name} is no ulong, uuid, binary or string")));
        }
    }
    let too_long = |text: &str| text.len() > ID_CHARACTERS_MAX && text.chars().count() > ID_CHARACTERS_MAX;
    if properties.message_id.as_str().is_some_and(too_long)
        || matches!(&properties.message_id, Value::Binary(bytes) if bytes.len() > ID_CHARACTERS_MAX)
    {
        return Err(Unfit::Argument(format!(
            "The message id is longer than {ID_CHARACTERS_MAX} characters."
        )));
    }
    if properties.group_id.as_deref().is_some_and(too_long) {
        return Err(Unfit::Argument(format!(
            "The session id is longer than {ID_CHARACTERS_MAX} characters."
        )));
    }
    Ok(())
}

/// The requested time-to-live. A saturated `ttl` leaves it to the two timestamps: only their difference means something,
/// Python shifts both by its time zone. Without a `ttl` they mean nothing: they come back as they were sent (.NET's test
/// `CanRoundTripAbsoluteExpiryCreationTime`).
fn time_to_live_ms(header: &Header, properties: &MessageProperties) -> Option<u64> {
    let ttl_ms = header.ttl_ms?;
    if ttl_ms != u32::MAX {
        return Some(u64::from(ttl_ms));
    }
    let (expiry, creation) = (properties.absolute_expiry_time_ms?, properties.creation_time_ms?);
    expiry.checked_sub(creation).and_then(|difference| u64::try_from(difference).ok())
}

/// A session is what messages are partitioned by; the empty one has no part in that (azure-sdk-for-js 31736 sends `""` with
/// another key, and receives it from the session `""`).
fn check_partition_key(annotated: &Annotated, properties: &MessageProperties) -> Result<(), Unfit> {
    match (annotated.partition_key.as_deref(), properties.group_id.as_deref()) {
        (Some(key), Some(session_id)) if !session_id.is_empty() && key != session_id => {
            Err(Unfit::Argument("The partition key differs from the session id.".to_owned()))
        }
        _ => Ok(()),
    }
}

/// When the message shall become available, as Service Bus's clients say it, or else as those for JMS do.
fn scheduled_enqueue_time(annotated: &Annotated) -> Result<Option<Timestamp>, Unfit> {
    let instant = |at_ms: i64| u64::try_from(at_ms).ok().map(Timestamp);
    match (&annotated.scheduled_enqueue_time, &annotated.delivery_time) {
        (Value::Null, Value::Null) => Ok(None),
        (Value::Timestamp(at_ms), _) | (Value::Null, Value::Timestamp(at_ms) | Value::Long(at_ms)) => {
            Ok(instant(*at_ms))
        }
        (Value::Null, _) => Err(Unfit::Argument(format!(
            "The annotation {} must be a long or a timestamp.",
            annotation::DELIVERY_TIME
        ))),
        _ => Err(Unfit::Argument(format!(
            "The annotation {} must be a timestamp.",
            annotation::SCHEDULED_ENQUEUE_TIME
        ))),
    }
}

/// The message with other properties, everything else as it was.
fn with_properties(payload: &Bytes, sections: &Sections, properties: &MessageProperties) -> Bytes {
    let before =
        sections.header.len() + sections.delivery_annotations.len() + sections.message_annotations.len();
    let after = before + sections.properties.len();
    let mut content = BytesMut::with_capacity(payload.len() + 64);
    content.extend_from_slice(payload.get(..before).unwrap_or_default());
    properties.encode(&mut content);
    content.extend_from_slice(payload.get(after..).unwrap_or_default());
    content.freeze()
}

#[cfg(test)]
mod tests;
