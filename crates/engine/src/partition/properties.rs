//! Properties that receivers change when they settle.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::record::Extra;
use crate::{DeadLetter, Properties, Property, PropertyChanges, PropertyValue};

/// Largest header, that is all properties together (Service Bus quotas).
pub(super) const HEADER_BYTES_MAX: usize = 64 * 1024;

/// Size of a text's type and length prefix, in bytes.
const NAME_BYTES: usize = 5;
/// Size of a GUID or a decimal with its type, in bytes.
const WIDE_BYTES: usize = 17;

/// Shorter headers are not recorded: receivers may exceed the limit by as much.
const HEADER_BYTES_NOTED_MIN: u32 = 4 * 1024;

/// The header's length, or 0 if it is too short to be recorded.
pub(super) const fn noted_header_bytes(header_bytes: u32) -> u32 {
    if header_bytes >= HEADER_BYTES_NOTED_MIN { header_bytes } else { 0 }
}

/// Whether a message's header would become too large with these properties and this reason (§9: header size). Properties as
/// sent and changes by actions count, even if they are replaced.
pub(super) fn exceeds_header(extra: Option<&Extra>, modified: &[Property], why: Option<&DeadLetter>) -> bool {
    let length = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
    let sent = extra.map_or(0, |extra| extra.header_bytes as usize);
    let changes = extra.and_then(|extra| extra.changes.as_deref()).map_or(0, PropertyChanges::header_bytes);
    let modified: usize = modified.iter().map(|one| one.name.len() + one.value.len()).sum();
    let reason = why.map_or(0, |why| length(&why.reason) + length(&why.description));
    sent + changes + modified + reason > HEADER_BYTES_MAX
}

/// Approximate size of changes in the store, in bytes; removed properties count as well, because the removal is stored.
pub(crate) fn changes_bytes(changes: &PropertyChanges) -> usize {
    let PropertyChanges { texts, scheduled_enqueue_time_ms, time_to_live_ms, user } = changes;
    let texts = texts.iter().map(|(_, value)| NAME_BYTES + value.as_ref().map_or(0, |text| text.len()));
    let value_bytes = |value: &Option<PropertyValue>| match value {
        None | Some(PropertyValue::Null | PropertyValue::Boolean(_)) => 1,
        Some(
            PropertyValue::Integer(_)
            | PropertyValue::Unsigned(_)
            | PropertyValue::Double(_)
            | PropertyValue::Timestamp(_)
            | PropertyValue::TimeSpan(_)
            | PropertyValue::DateTimeOffset(_),
        ) => 9,
        Some(PropertyValue::Uuid(_) | PropertyValue::Decimal(_)) => WIDE_BYTES,
        Some(PropertyValue::Text(text)) => NAME_BYTES + text.len(),
        Some(PropertyValue::Other(bytes)) => NAME_BYTES + bytes.len(),
        // Actions set plain values only.
        Some(PropertyValue::Given(_)) => WIDE_BYTES,
    };
    let user = user.iter().map(|(name, value)| NAME_BYTES + name.len() + value_bytes(value));
    let times = [scheduled_enqueue_time_ms, time_to_live_ms].into_iter().flatten().count() * 9;
    texts.sum::<usize>() + user.sum::<usize>() + times
}

/// Size in bytes of the parts of a record that a client or a rule determines.
pub(super) fn variable_bytes(extra: &Extra) -> usize {
    let length = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
    let modified = extra.modified.iter().flat_map(|modified| modified.iter());
    let modified: usize = modified.map(|one| one.name.len() + one.value.len()).sum();
    let why = extra.dead_letter.as_ref().map_or(0, |why| length(&why.reason) + length(&why.description));
    let changes = extra.changes.as_deref().map_or(0, changes_bytes);
    let session = extra.session_id.as_ref().map_or(0, |id| id.text().len());
    modified + why + changes + session
}

/// `before` with the properties of `changes` replaced or added, in order of first appearance.
pub(super) fn merged(before: &[Property], changes: &[Property]) -> Properties {
    let mut merged: Properties = Vec::with_capacity(before.len() + changes.len());
    let mut positions: BTreeMap<&str, usize> = BTreeMap::new();
    for property in before.iter().chain(changes) {
        let position = *positions.entry(&property.name).or_insert(merged.len());
        match merged.get_mut(position) {
            Some(replaced) => replaced.value = property.value.clone(),
            None => merged.push(property.clone()),
        }
    }
    merged
}
