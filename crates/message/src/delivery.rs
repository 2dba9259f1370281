//! From a stored message to the bytes a client reads: a fresh header and annotations, and over what was sent lie, one
//! over the other, what actions of rules changed, what receivers changed and why it was dead-lettered.

mod changed;
mod overlay;

use bytes::{BufMut, Bytes, BytesMut};
use peeklock_engine::{Changes, Lock, MessageState, MessageView, Received, TextProperty, Timestamp};
use smallvec::SmallVec;

use crate::annotation;
use overlay::Overlay;
use peeklock_wire::message::{Header, MapSection, MessageProperties, Sections};
use peeklock_wire::{DecodeError, Str, Value};

/// Latest instant the SDKs can show, in milliseconds since 1970 (P and J clamp to the same).
const EXPIRY_MAX_MS: u64 = 253_402_243_199_000;

/// An encoded message, in slices.
pub type Encoded = SmallVec<[Bytes; 3]>;

/// What differs between the ways a message reaches a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Over a receiver link.
    Link,
    /// Inside a management response: browsed, or taken by number.
    Management,
}

/// What is particular about messages of an entity, as far as it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Origin {
    /// Messages belong to sessions: each shows its session's id as partition key (P's own test suite).
    pub sessions: bool,
    /// Messages are copies of a topic's: each shows the number it had there as well (semantics §3).
    pub copies: bool,
}

/// Writes messages; keeps the memory for fresh parts between messages.
#[derive(Debug, Default)]
pub struct Encoder {
    fresh: BytesMut,
}

/// Fresh parts are carved from blocks of this size.
const FRESH_BLOCK_BYTES: usize = 16 * 1024;

/// Room one plain delivery's fresh part takes: 5 + 2 + 5 fields of header, 47 and 135 bytes of annotations.
const FRESH_PART_BYTES: usize = 256;

impl Encoder {
    /// Encodes a message for a reader.
    ///
    /// # Errors
    /// [`DecodeError`] when the stored content is not a message, which sending had checked.
    pub fn encode(&mut self, received: &Received, way: Way, origin: Origin) -> Result<Encoded, DecodeError> {
        self.fresh.clear();
        let sections = Sections::split_trusted(&received.content)?;
        if self.fresh.capacity() < FRESH_PART_BYTES {
            self.fresh.reserve(FRESH_BLOCK_BYTES);
        }
        let view = &received.view;
        self.header(&sections, view)?;
        self.delivery_annotations(&sections, received.lock.as_ref(), way)?;
        self.annotations(&sections, received, origin)?;
        let mut kept = sections.header.len() + sections.delivery_annotations.len();
        kept += sections.message_annotations.len();
        let changes = view.changes.as_deref();
        let is_rewritten =
            view.expires_at != Timestamp::NEVER || changes.is_some_and(changed::concerns_properties);
        if is_rewritten {
            self.properties(&sections, view)?;
            kept += sections.properties.len();
        }
        let overlay = Overlay::of(view);
        if overlay.is_empty() {
            return Ok(SmallVec::from_iter([self.fresh.split().freeze(), received.content.slice(kept..)]));
        }
        if !is_rewritten {
            self.fresh.put_slice(&sections.properties);
        }
        self.application_properties(&sections, overlay)?;
        Ok(SmallVec::from_iter([self.fresh.split().freeze(), sections.body]))
    }

    /// The message in one piece, for a `message` entry of a management response.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn encode_whole(&mut self, received: &Received, origin: Origin) -> Result<Bytes, DecodeError> {
        let slices = self.encode(received, Way::Management, origin)?;
        let mut whole = BytesMut::with_capacity(slices.iter().map(Bytes::len).sum());
        for slice in &slices {
            whole.put_slice(slice);
        }
        Ok(whole.freeze())
    }

    /// The delivery count is always explicit: N, G and P read it without a default. What was delivered before has been
    /// acquired before, whatever its sender wrote.
    fn header(&mut self, sections: &Sections, view: &MessageView) -> Result<(), DecodeError> {
        let mut sent =
            if sections.header.is_empty() { Header::default() } else { sections.decode_header()? };
        if view.delivery_count > 0 {
            sent.first_acquirer = sent.first_acquirer.map(|_| false);
        }
        let ttl_ms = view.time_to_live_ms.map(|ttl_ms| u32::try_from(ttl_ms).unwrap_or(u32::MAX));
        Header { ttl_ms, delivery_count: Some(view.delivery_count), ..sent }.encode(&mut self.fresh);
        Ok(())
    }

    /// The sender's delivery annotations, and the token of the lock. On a link the section is always there, be it empty.
    fn delivery_annotations(
        &mut self,
        sections: &Sections,
        lock: Option<&Lock>,
        way: Way,
    ) -> Result<(), DecodeError> {
        if way == Way::Management && lock.is_none() && sections.delivery_annotations.is_empty() {
            return Ok(());
        }
        let mut section = MapSection::delivery_annotations(&mut self.fresh);
        for entry in Sections::map_entries(&sections.delivery_annotations)? {
            let entry = entry?;
            if entry.key != Some(annotation::LOCK_TOKEN) {
                section.entry(entry);
            }
        }
        if let Some(lock) = lock {
            section.value(annotation::LOCK_TOKEN, &Value::Uuid(lock.token.0.to_be_bytes()));
        }
        section.finish();
        Ok(())
    }

    /// The sender's annotations, less those that only the broker writes and those that actions changed, and the broker's.
    fn annotations(
        &mut self,
        sections: &Sections,
        received: &Received,
        origin: Origin,
    ) -> Result<(), DecodeError> {
        let view = &received.view;
        let changes = view.changes.as_deref();
        let changed_key = changes.and_then(|changes| changes.text(TextProperty::PartitionKey));
        let changed_schedule = changes.and_then(|changes| changes.scheduled_enqueue_time_ms);
        let mut needs_key = origin.sessions && !matches!(changed_key, Some(Some(_)));
        let mut section = MapSection::message_annotations(&mut self.fresh);
        for entry in Sections::map_entries(&sections.message_annotations)? {
            let entry = entry?;
            let is_changed = match entry.key {
                Some(annotation::PARTITION_KEY) => changed_key.is_some(),
                Some(annotation::SCHEDULED_ENQUEUE_TIME) => changed_schedule.is_some(),
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
        if needs_key && let Some(session_id) = session_id(sections, changes)? {
            section.string(annotation::PARTITION_KEY, &session_id);
        }
        let number = view.sequence_number.0;
        section.timestamp(annotation::ENQUEUED_TIME, signed(view.enqueued_at.0));
        section.long(annotation::SEQUENCE_NUMBER, signed(number));
        let forwarded = view.forwarded.as_deref();
        let own_number = if origin.copies { view.body.0 } else { number };
        let first_number = forwarded.map_or(own_number, |forwarded| forwarded.enqueued_sequence_number.0);
        section.long(annotation::ENQUEUED_SEQUENCE_NUMBER, signed(first_number));
        if let Some(source) = forwarded.and_then(|forwarded| forwarded.dead_letter_source.as_deref()) {
            section.string(annotation::DEAD_LETTER_SOURCE, source);
        }
        if let Some(lock) = &received.lock {
            section.timestamp(annotation::LOCKED_UNTIL, signed(lock.locked_until.0));
        }
        match view.state {
            MessageState::Active => {}
            MessageState::Deferred => section.int(annotation::MESSAGE_STATE, 1),
            MessageState::Scheduled => section.int(annotation::MESSAGE_STATE, 2),
        }
        section.finish();
        Ok(())
    }

    /// The sender's properties as actions changed them, with the instant of expiry.
    fn properties(&mut self, sections: &Sections, view: &MessageView) -> Result<(), DecodeError> {
        let mut properties = sections.decode_properties()?;
        if let Some(changes) = &view.changes {
            changed::apply(changes, &mut properties);
        }
        if view.expires_at != Timestamp::NEVER {
            show_expiry(&mut properties, view);
        }
        properties.encode(&mut self.fresh);
        Ok(())
    }

    /// The sender's application properties, under all that lies over them.
    fn application_properties(
        &mut self,
        sections: &Sections,
        mut overlay: Overlay<'_>,
    ) -> Result<(), DecodeError> {
        let mut section = MapSection::application_properties(&mut self.fresh);
        for entry in Sections::map_entries(&sections.application_properties)? {
            overlay.write_over(entry?, &mut section);
        }
        overlay.write_rest(&mut section);
        section.finish();
        Ok(())
    }
}

/// The instant of expiry, which only the broker knows (D: authoritative). J and N show as time-to-live what lies between
/// creation and expiry, so the sender's clock gives way to the broker's (S-13).
fn show_expiry(properties: &mut MessageProperties, view: &MessageView) {
    let expires_at_ms = view.expires_at.0.min(EXPIRY_MAX_MS);
    properties.absolute_expiry_time_ms = Some(signed(expires_at_ms));
    if properties.creation_time_ms.is_some() {
        let life_ms = view.time_to_live_ms.unwrap_or_default();
        properties.creation_time_ms = Some(signed(expires_at_ms.saturating_sub(life_ms)));
    }
}

/// The session of a message, as an action of a rule changed it.
fn session_id(sections: &Sections, changes: Option<&Changes>) -> Result<Option<Str>, DecodeError> {
    match changes.and_then(|changes| changes.text(TextProperty::SessionId)) {
        Some(changed) => Ok(changed.map(Into::into)),
        None => Ok(sections.decode_properties()?.group_id),
    }
}

/// Application property under which every SDK looks for the reason.
pub const DEAD_LETTER_REASON: &str = "DeadLetterReason";
/// Application property under which every SDK looks for the description.
pub const DEAD_LETTER_DESCRIPTION: &str = "DeadLetterErrorDescription";

/// Numbers and instants of the engine fit; saturates all the same.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
