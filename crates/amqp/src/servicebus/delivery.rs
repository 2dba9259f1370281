//! From a stored message to the bytes a client reads: a fresh header and annotations, the rest as it was sent.

use bytes::{BufMut, Bytes, BytesMut};
use peeklock_engine::{Lock, MessageState, MessageView, Properties, Received, Timestamp};
use smallvec::SmallVec;

use super::annotation;
use super::envelope::text;
use super::errors::symbol;
use super::lock_token;
use crate::wire::message::{
    Header, Sections, encode_application_properties, encode_delivery_annotations, encode_message_annotations,
};
use crate::wire::{DecodeError, Value};

/// Latest instant the SDKs can show, in milliseconds since 1970 (P and J clamp to the same).
const EXPIRY_MAX_MS: u64 = 253_402_243_199_000;

/// An encoded message, in slices.
pub(crate) type Encoded = SmallVec<[Bytes; 3]>;

/// What differs between the ways a message reaches a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Over a receiver link.
    Link,
    /// Inside a management response: browsed, or taken by number.
    Management,
}

/// Writes messages; keeps the memory for fresh parts between messages.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    fresh: BytesMut,
}

/// Fresh parts are carved from blocks of this size.
const FRESH_BLOCK_BYTES: usize = 16 * 1024;

/// Room one plain delivery's fresh part takes: 5 + 2 + 5 fields of header, 135 bytes of annotations.
const FRESH_PART_BYTES: usize = 192;

impl Encoder {
    /// Encodes a message for a reader.
    ///
    /// # Errors
    /// [`DecodeError`] when the stored content is not a message, which sending had checked.
    pub(crate) fn encode(&mut self, received: &Received, way: Way) -> Result<Encoded, DecodeError> {
        self.fresh.clear();
        let sections = Sections::split_trusted(&received.content)?;
        if self.fresh.capacity() < FRESH_PART_BYTES {
            self.fresh.reserve(FRESH_BLOCK_BYTES);
        }
        let view = &received.view;
        self.header(&sections, view)?;
        if let (Way::Management, Some(lock)) = (way, &received.lock) {
            let token = Value::Uuid(lock_token::to_uuid(lock.token));
            encode_delivery_annotations(&[(symbol(annotation::LOCK_TOKEN), token)], &mut self.fresh);
        }
        self.annotations(&sections, view, received.lock.as_ref())?;
        let mut kept = sections.header.len() + sections.delivery_annotations.len();
        kept += sections.message_annotations.len();
        if view.expires_at != Timestamp::NEVER {
            self.properties(&sections, view)?;
            kept += sections.properties.len();
        }
        if view.dead_letter.is_none() && view.modified.is_none() {
            return Ok(SmallVec::from_iter([self.fresh.split().freeze(), received.content.slice(kept..)]));
        }
        if view.expires_at == Timestamp::NEVER {
            self.fresh.put_slice(&sections.properties);
        }
        self.application_properties(&sections, view)?;
        Ok(SmallVec::from_iter([self.fresh.split().freeze(), sections.body]))
    }

    /// The message in one piece, for a `message` entry of a management response.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub(crate) fn encode_whole(&mut self, received: &Received) -> Result<Bytes, DecodeError> {
        let slices = self.encode(received, Way::Management)?;
        let mut whole = BytesMut::with_capacity(slices.iter().map(Bytes::len).sum());
        for slice in &slices {
            whole.put_slice(slice);
        }
        Ok(whole.freeze())
    }

    /// The delivery count is always explicit: N, G and P read it without a default.
    fn header(&mut self, sections: &Sections, view: &MessageView) -> Result<(), DecodeError> {
        let sent = if sections.header.is_empty() { Header::default() } else { sections.decode_header()? };
        let ttl_ms = view.time_to_live_ms.map(|ttl_ms| u32::try_from(ttl_ms).unwrap_or(u32::MAX));
        Header { ttl_ms, delivery_count: Some(view.delivery_count), ..sent }.encode(&mut self.fresh);
        Ok(())
    }

    fn annotations(
        &mut self,
        sections: &Sections,
        view: &MessageView,
        lock: Option<&Lock>,
    ) -> Result<(), DecodeError> {
        if sections.message_annotations.is_empty() {
            plain_annotations(view, lock, &mut self.fresh);
            return Ok(());
        }
        let mut entries = Sections::decode_map(&sections.message_annotations)?;
        entries.retain(|(key, _)| !text(key).is_some_and(annotation::is_service_owned));
        entries.extend(service_annotations(view, lock).map(|(key, value)| (symbol(key), value)));
        encode_message_annotations(&entries, &mut self.fresh);
        Ok(())
    }

    /// The sender's properties with the instant of expiry, which only the broker knows (D: authoritative).
    fn properties(&mut self, sections: &Sections, view: &MessageView) -> Result<(), DecodeError> {
        let mut properties = sections.decode_properties()?;
        properties.absolute_expiry_time_ms = Some(milliseconds(view.expires_at.0.min(EXPIRY_MAX_MS)));
        properties.encode(&mut self.fresh);
        Ok(())
    }

    /// The sender's application properties, under what receivers changed, under the reason of dead-lettering.
    fn application_properties(&mut self, sections: &Sections, view: &MessageView) -> Result<(), DecodeError> {
        let mut entries = Sections::decode_map(&sections.application_properties)?;
        if let Some(modified) = &view.modified {
            merge_modified(&mut entries, modified)?;
        }
        if let Some(why) = &view.dead_letter {
            let stamps = [(DEAD_LETTER_REASON, &why.reason), (DEAD_LETTER_DESCRIPTION, &why.description)];
            for (key, stamp) in stamps {
                if let Some(stamp) = stamp {
                    merge(&mut entries, key, Value::String(stamp.as_ref().into()));
                }
            }
        }
        encode_application_properties(&entries, &mut self.fresh);
        Ok(())
    }
}

/// Application property under which every SDK looks for the reason.
pub(crate) const DEAD_LETTER_REASON: &str = "DeadLetterReason";
/// Application property under which every SDK looks for the description.
pub(crate) const DEAD_LETTER_DESCRIPTION: &str = "DeadLetterErrorDescription";

fn merge_modified(entries: &mut Vec<(Value, Value)>, modified: &Properties) -> Result<(), DecodeError> {
    for property in modified {
        merge(entries, &property.name, Value::decode(&mut property.value.clone())?);
    }
    Ok(())
}

fn merge(entries: &mut Vec<(Value, Value)>, key: &str, value: Value) {
    match entries.iter_mut().find(|(name, _)| text(name) == Some(key)) {
        Some((_, old)) => *old = value,
        None => entries.push((Value::String(key.into()), value)),
    }
}

/// What the broker says about a message, in the order written.
fn service_annotations(
    view: &MessageView,
    lock: Option<&Lock>,
) -> impl Iterator<Item = (&'static str, Value)> {
    let number = Value::Long(milliseconds(view.sequence_number.0));
    let locked_until = lock.map(|lock| Value::Timestamp(milliseconds(lock.locked_until.0)));
    let state = match view.state {
        MessageState::Active => None,
        MessageState::Deferred => Some(Value::Int(1)),
        MessageState::Scheduled => Some(Value::Int(2)),
    };
    [
        (annotation::ENQUEUED_TIME, Some(Value::Timestamp(milliseconds(view.enqueued_at.0)))),
        (annotation::SEQUENCE_NUMBER, Some(number.clone())),
        (annotation::ENQUEUED_SEQUENCE_NUMBER, Some(number)),
        (annotation::LOCKED_UNTIL, locked_until),
        (annotation::MESSAGE_STATE, state),
    ]
    .into_iter()
    .filter_map(|(key, value)| value.map(|value| (key, value)))
}

/// The service's annotations alone, written straight away: the common case.
fn plain_annotations(view: &MessageView, lock: Option<&Lock>, output: &mut BytesMut) {
    const DESCRIBED_MAP_8: [u8; 4] = [0x00, 0x53, 0x72, 0xc1];
    output.put_slice(&DESCRIBED_MAP_8);
    let size_at = output.len();
    output.put_slice(&[0, 0]);
    let mut count = 6;
    put_eight(annotation::ENQUEUED_TIME, TIMESTAMP, view.enqueued_at.0, output);
    put_eight(annotation::SEQUENCE_NUMBER, LONG, view.sequence_number.0, output);
    put_eight(annotation::ENQUEUED_SEQUENCE_NUMBER, LONG, view.sequence_number.0, output);
    if let Some(lock) = lock {
        put_eight(annotation::LOCKED_UNTIL, TIMESTAMP, lock.locked_until.0, output);
        count += 2;
    }
    if view.state != MessageState::Active {
        put_key(annotation::MESSAGE_STATE, output);
        output.put_slice(&[SMALL_INT, if view.state == MessageState::Deferred { 1 } else { 2 }]);
        count += 2;
    }
    let size = output.len().saturating_sub(size_at + 1);
    if let Some([size_byte, count_byte]) = output.get_mut(size_at..size_at + 2) {
        // At most 5 keys of at most 29 characters and 10 bytes of value: below 255.
        *size_byte = u8::try_from(size).unwrap_or(u8::MAX);
        *count_byte = count;
    }
}

const TIMESTAMP: u8 = 0x83;
const LONG: u8 = 0x81;
const SMALL_INT: u8 = 0x54;
const SYMBOL_8: u8 = 0xa3;

fn put_eight(key: &str, code: u8, value: u64, output: &mut BytesMut) {
    put_key(key, output);
    output.put_u8(code);
    output.put_u64(value);
}

fn put_key(key: &str, output: &mut BytesMut) {
    output.put_slice(&[SYMBOL_8, u8::try_from(key.len()).unwrap_or(u8::MAX)]);
    output.put_slice(key.as_bytes());
}

/// Numbers and instants of the engine fit; saturates all the same.
fn milliseconds(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
