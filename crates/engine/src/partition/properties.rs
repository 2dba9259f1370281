//! Properties that receivers change when they settle.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::record::Record;
use crate::{DeadLetter, Properties, Property};

/// Largest header, that is all properties together (Service Bus quotas).
pub(super) const HEADER_BYTES_MAX: usize = 64 * 1024;

/// Shorter headers are not kept account of: what receivers change may exceed the limit by as much.
const HEADER_BYTES_NOTED_MIN: u32 = 4 * 1024;

/// The part of a header's length that is worth remembering.
pub(super) const fn noted_header_bytes(header_bytes: u32) -> u32 {
    if header_bytes >= HEADER_BYTES_NOTED_MIN { header_bytes } else { 0 }
}

/// Whether a message's header would become too large with these properties and this reason (§9: header size).
pub(super) fn exceeds_header(record: &Record, modified: &[Property], why: Option<&DeadLetter>) -> bool {
    let length = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
    let sent = record.extra().map_or(0, |extra| extra.header_bytes as usize);
    let changed: usize = modified.iter().map(|one| one.name.len() + one.value.len()).sum();
    let reason = why.map_or(0, |why| length(&why.reason) + length(&why.description));
    sent + changed + reason > HEADER_BYTES_MAX
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
