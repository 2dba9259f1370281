//! Named values with types: the properties of correlation filters, the parameters of SQL.

use peeklock_engine::PropertyValue;

use super::value;
use super::xml::{Document, Element};
use crate::error::Error;

/// Values in one list.
const VALUES_MAX: usize = 1000;

/// A name and its value.
pub(super) type KeyValue = (Box<str>, PropertyValue);

/// Reads the list under a name; a missing one is empty. `owner` names the list's owner in errors.
///
/// # Errors
/// Entries without key or value, duplicate names, unknown types.
pub(super) fn read(element: &Element, name: &'static str, owner: &str) -> Result<Vec<KeyValue>, Error> {
    let entries = element.child(name).map(|list| list.children.as_slice()).unwrap_or_default();
    if entries.len() > VALUES_MAX {
        return Err(Error::bad_request(format!(
            "The '{name}' of {owner} has more than {VALUES_MAX} entries."
        )));
    }
    let mut names = std::collections::HashSet::new();
    let mut values = Vec::with_capacity(entries.len());
    for entry in entries {
        let (Some(key), Some(element)) = (entry.text_of("Key"), entry.child("Value")) else {
            return Err(Error::bad_request(format!(
                "Each of the '{name}' of {owner} needs a Key and a Value."
            )));
        };
        if !names.insert(key.to_ascii_lowercase()) {
            return Err(Error::bad_request(format!(
                "'{key}' occurs twice in the '{name}' of {owner}; keys are compared without regard to case."
            )));
        }
        let value = value::read(element)
            .map_err(|reason| Error::bad_request(format!("'{key}' in the '{name}' of {owner} {reason}")))?;
        values.push((key.into(), value));
    }
    Ok(values)
}

/// Writes a list under a name, unless it is empty: Python and JS read a missing list as empty.
pub(super) fn write(document: &mut Document, name: &'static str, values: &[KeyValue]) {
    if values.is_empty() {
        return;
    }
    document.element(name, &[], |document| {
        for (key, value) in values {
            document.element("KeyValueOfstringanyType", &[], |document| {
                document.text("Key", key);
                value::write(document, value);
            });
        }
    });
}
