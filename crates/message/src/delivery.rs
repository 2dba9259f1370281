//! Encodes a stored message for a client: a fresh header and annotations, and changes in layers over the sent
//! properties: those by rule actions, then those by receivers, then the reason of dead-lettering.

mod annotations;
mod changed;
mod overlay;

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use peeklock_engine::{Lock, MessageView, Received, Timestamp};
use smallvec::{SmallVec, smallvec};

use crate::annotation;
use overlay::Overlay;
use peeklock_wire::DecodeError;
use peeklock_wire::message::{Header, MapSection, MessageProperties, Places, Sections, header_and_places};

/// Latest time that the SDKs can represent, in milliseconds since 1970 (P and J clamp to the same).
const EXPIRY_MAX_MS: u64 = 253_402_243_199_000;

/// An encoded message, in slices.
pub type Encoded = SmallVec<[Bytes; 3]>;

/// How a message is sent to a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryFormat {
    /// Over a receiver link.
    Link,
    /// Inside a management response to a receive by sequence number; or over HTTP.
    Management,
    /// Inside a management response to browsing.
    Browsed {
        /// Whether the body is omitted.
        omits_body: bool,
    },
}

/// Properties of the entity that affect how its messages are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Origin {
    /// Messages belong to sessions: each has its session's id as partition key (P's own test suite).
    pub sessions: bool,
    /// Messages are copies of a topic's: each also has its sequence number in the topic (semantics §3).
    pub copies: bool,
    /// Messages belong to partitions: each has its partition's id.
    pub partitioned: bool,
}

/// A stored message and the positions of its sections.
struct Stored<'a> {
    content: &'a Bytes,
    places: Places,
}

impl Stored<'_> {
    fn section(&self, place: &Range<usize>) -> Bytes {
        self.content.slice(place.clone())
    }

    fn with_properties(&self) -> Sections {
        Sections { properties: self.section(&self.places.properties), ..Sections::default() }
    }
}

/// Encodes messages; reuses the memory for fresh parts between messages.
#[derive(Debug, Default)]
pub struct Encoder {
    fresh: BytesMut,
}

/// Fresh parts are allocated from blocks of this size.
const FRESH_BLOCK_BYTES: usize = 16 * 1024;

/// Size of the fresh part of a plain delivery: 5 + 2 + 5 fields of header, 47 and 135 bytes of annotations.
const FRESH_PART_BYTES: usize = 256;

impl Encoder {
    /// Encodes a message for a reader.
    ///
    /// # Errors
    /// [`DecodeError`] when the stored body is not a message, which was checked on sending.
    pub fn encode(
        &mut self,
        received: &Received,
        format: DeliveryFormat,
        origin: Origin,
    ) -> Result<Encoded, DecodeError> {
        self.fresh.clear();
        let (header, places) = header_and_places(&received.content)?;
        let stored = Stored { content: &received.content, places };
        let places = &stored.places;
        if self.fresh.capacity() < FRESH_PART_BYTES {
            self.fresh.reserve(FRESH_BLOCK_BYTES);
        }
        let view = &received.view;
        self.header(header, view);
        self.delivery_annotations(&stored, received.lock.as_ref(), format)?;
        annotations::write(&mut self.fresh, &stored, received, format, origin)?;
        let mut kept = places.header.len() + places.delivery_annotations.len();
        kept += places.message_annotations.len();
        let changes = view.changes.as_deref();
        let is_rewritten =
            view.expires_at != Timestamp::NEVER || changes.is_some_and(changed::concerns_properties);
        if is_rewritten {
            self.properties(&stored, view)?;
            kept += places.properties.len();
        }
        let mut rest = received.content.slice(kept..);
        if let Some(overlay) = Overlay::of(view) {
            if !is_rewritten {
                self.fresh.put_slice(&stored.section(&places.properties));
            }
            self.application_properties(&stored, overlay)?;
            rest = stored.section(&places.body);
        }
        if format == (DeliveryFormat::Browsed { omits_body: true }) {
            rest.truncate(rest.len().saturating_sub(places.body.len()));
        }
        let mut encoded: Encoded = smallvec![self.fresh.split().freeze(), rest];
        if !places.footer.is_empty() {
            end_with_footer(&mut encoded, &stored.section(&places.footer), format)?;
        }
        Ok(encoded)
    }

    /// The message in one buffer, for a `message` entry of a management response.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn encode_whole(
        &mut self,
        received: &Received,
        format: DeliveryFormat,
        origin: Origin,
    ) -> Result<Bytes, DecodeError> {
        let slices = self.encode(received, format, origin)?;
        let mut whole = BytesMut::with_capacity(slices.iter().map(Bytes::len).sum());
        for slice in &slices {
            whole.put_slice(slice);
        }
        Ok(whole.freeze())
    }

    /// The delivery count is always explicit: N, G and P read it without a default. A message delivered before is not
    /// on its first acquirer, whatever its sender wrote.
    fn header(&mut self, mut sent: Header, view: &MessageView) {
        if view.delivery_count > 0 {
            sent.first_acquirer = sent.first_acquirer.map(|_| false);
        }
        let ttl_ms = view.time_to_live_ms.map(|ttl_ms| u32::try_from(ttl_ms).unwrap_or(u32::MAX));
        Header { ttl_ms, delivery_count: Some(view.delivery_count), ..sent }.encode(&mut self.fresh);
    }

    /// The sender's delivery annotations, and the lock token. On a link the section is always present, even if empty.
    fn delivery_annotations(
        &mut self,
        stored: &Stored<'_>,
        lock: Option<&Lock>,
        format: DeliveryFormat,
    ) -> Result<(), DecodeError> {
        let sent = stored.section(&stored.places.delivery_annotations);
        if format != DeliveryFormat::Link && lock.is_none() && sent.is_empty() {
            return Ok(());
        }
        let mut section = MapSection::delivery_annotations(&mut self.fresh);
        if !sent.is_empty() {
            for entry in Sections::map_entries(&sent)? {
                let entry = entry?;
                if entry.key != Some(annotation::LOCK_TOKEN) {
                    section.entry(entry);
                }
            }
        }
        if let Some(lock) = lock {
            section.uuid(annotation::LOCK_TOKEN, lock.token.0.to_be_bytes());
        }
        section.finish();
        Ok(())
    }

    /// The sender's properties with the changes of actions and the time of expiry.
    fn properties(&mut self, stored: &Stored<'_>, view: &MessageView) -> Result<(), DecodeError> {
        let mut properties = stored.with_properties().decode_properties()?;
        if let Some(changes) = &view.changes {
            changed::apply(changes, &mut properties);
        }
        if view.expires_at != Timestamp::NEVER {
            show_expiry(&mut properties, view);
        }
        properties.encode(&mut self.fresh);
        Ok(())
    }

    /// The sender's application properties with all layers of changes.
    fn application_properties(
        &mut self,
        stored: &Stored<'_>,
        mut overlay: Overlay<'_>,
    ) -> Result<(), DecodeError> {
        let sent = stored.section(&stored.places.application_properties);
        let mut section = MapSection::application_properties(&mut self.fresh);
        for entry in Sections::map_entries(&sent)? {
            overlay.write_over(entry?, &mut section);
        }
        overlay.write_rest(&mut section);
        section.finish();
        Ok(())
    }
}

/// Sets the time of expiry, which only the broker knows (D: authoritative), and the creation time from which the
/// time-to-live counts. J and N display the difference of the two as time-to-live, even if it is the entity's default
/// (.NET's tests `CanRoundTripAmqpProperties`, `TimeToLiveSetBasedOnAbsoluteExpiryTimeAndQueueDefault`), so the
/// sender's clock is replaced by the broker's (S-13).
fn show_expiry(properties: &mut MessageProperties, view: &MessageView) {
    let life_ms = view.time_to_live_ms.unwrap_or_default();
    properties.absolute_expiry_time_ms = Some(signed(view.expires_at.0.min(EXPIRY_MAX_MS)));
    properties.creation_time_ms = Some(signed(view.expires_at.0.saturating_sub(life_ms)));
}

/// Corrects the footer of a message: it is kept when the body is omitted, and earlier versions stored keys as strings,
/// which crash Java's receivers.
fn end_with_footer(encoded: &mut Encoded, footer: &Bytes, format: DeliveryFormat) -> Result<(), DecodeError> {
    let Some(rest) = encoded.last_mut() else { return Ok(()) };
    if format != (DeliveryFormat::Browsed { omits_body: true }) {
        // If it is in its canonical place, as ensured on sending, it is the last section.
        if !rest.ends_with(footer) {
            return Ok(());
        }
        rest.truncate(rest.len() - footer.len());
    }
    encoded.push(Sections::copy_map(footer, |_| None)?);
    Ok(())
}

/// Application property from which every SDK reads the reason.
pub const DEAD_LETTER_REASON: &str = "DeadLetterReason";
/// Application property from which every SDK reads the description.
pub const DEAD_LETTER_DESCRIPTION: &str = "DeadLetterErrorDescription";

/// The engine's numbers and times fit; saturates nevertheless.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
