//! Properties that receivers change when they settle.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{DeadLetter, Properties, Property, Refusal};

/// Largest sum of names and values that receivers may leave at a message: Service Bus's limit for the header.
const MODIFIED_BYTES_MAX: usize = 64 * 1024;

/// Refuses a reason and description that would not fit into a message's header.
pub(super) fn check_dead_letter(why: &DeadLetter) -> Result<(), Refusal> {
    let length = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
    check_size(length(&why.reason) + length(&why.description))
}

/// `before` with the properties of `changes` replaced or added, in order of first appearance.
pub(super) fn merged(before: &[Property], changes: &[Property]) -> Result<Properties, Refusal> {
    let mut merged: Properties = Vec::with_capacity(before.len() + changes.len());
    let mut positions: BTreeMap<&str, usize> = BTreeMap::new();
    let mut size_bytes = 0;
    for property in before.iter().chain(changes) {
        let position = *positions.entry(&property.name).or_insert(merged.len());
        size_bytes += property.value.len();
        match merged.get_mut(position) {
            Some(replaced) => {
                size_bytes -= replaced.value.len();
                replaced.value = property.value.clone();
            }
            None => {
                size_bytes += property.name.len();
                merged.push(property.clone());
            }
        }
    }
    check_size(size_bytes)?;
    Ok(merged)
}

fn check_size(size_bytes: usize) -> Result<(), Refusal> {
    if size_bytes > MODIFIED_BYTES_MAX {
        return Err(Refusal::InvalidArgument(format!(
            "The modified properties take {size_bytes} bytes, at most {MODIFIED_BYTES_MAX} are kept."
        )));
    }
    Ok(())
}
