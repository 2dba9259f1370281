//! The properties of a message that rules can access, and conversion of their values.

mod value;

use bytes::Bytes;
use peeklock_engine::{MessageView, PropertyValue, RuleProperties, SelectableFields};
use uuid::Uuid;

use peeklock_wire::message::{Header, IdView, PropertiesView, Sections};
use peeklock_wire::{DecodeError, Value};

use crate::annotation::Annotated;
use crate::delivery::{DEAD_LETTER_DESCRIPTION, DEAD_LETTER_REASON};

pub use value::{from_value, given_from_value, to_value};

/// Reads the properties that filters can name; each text is moved or copied once.
///
/// # Errors
/// [`DecodeError`] when the application properties are malformed.
pub(crate) fn read(
    header: &Header,
    properties: &PropertiesView<'_>,
    annotated: Annotated,
    application: &Bytes,
) -> Result<RuleProperties, DecodeError> {
    let entries = Sections::map_entries(application)?;
    let mut user = Vec::with_capacity(entries.entries_left());
    for entry in entries.values() {
        let (name, value) = entry?;
        user.push((name.into(), from_value(value)));
    }
    let selectable = SelectableFields {
        is_durable: header.durable == Some(true),
        priority: header.priority,
        creation_time_ms: properties.creation_time_ms,
        group_sequence: properties.group_sequence,
        user_id: properties.user_id.and_then(|id| std::str::from_utf8(id).ok()).map(Into::into),
    };
    Ok(RuleProperties {
        selectable,
        correlation_id: text_of(properties.correlation_id),
        message_id: text_of(properties.message_id),
        to: properties.to.map(Into::into),
        reply_to: properties.reply_to.map(Into::into),
        label: properties.subject.map(Into::into),
        session_id: properties.group_id.map(Into::into),
        reply_to_session_id: properties.reply_to_group_id.map(Into::into),
        content_type: properties.content_type.map(Into::into),
        user,
        partition_key: annotated.partition_key,
        via_partition_key: annotated.via_partition_key,
    })
}

/// Reads the properties that filters can name from a stored message, as its receiver would see them: with the changes
/// of actions and receivers and the reason of dead-lettering. `None` if it is not a message, which was checked on
/// sending.
#[must_use]
pub fn read_rule_properties(content: &Bytes, view: &MessageView) -> Option<RuleProperties> {
    let sections = Sections::split_trusted(content).ok()?;
    let annotated = Annotated::read(&sections.message_annotations).ok()?;
    let (header, properties) = (sections.decode_header().ok()?, sections.view_properties().ok()?);
    let mut rule_properties = read(&header, &properties, annotated, &sections.application_properties).ok()?;
    if let Some(changes) = &view.changes {
        changes.apply(&mut rule_properties);
    }
    for property in view.modified.iter().flat_map(|modified| modified.iter()) {
        let value = Value::decode(&mut property.value.clone()).ok()?;
        set(&mut rule_properties, &property.name, from_value(value));
    }
    let stamps = view
        .dead_letter
        .as_deref()
        .map_or([None, None], |why| [why.reason.as_deref(), why.description.as_deref()]);
    for (name, text) in [DEAD_LETTER_REASON, DEAD_LETTER_DESCRIPTION].into_iter().zip(stamps) {
        if let Some(text) = text {
            set(&mut rule_properties, name, PropertyValue::Text(text.into()));
        }
    }
    Some(rule_properties)
}

/// Reads the properties that filters can name from the sections of a message as received by a client.
///
/// # Errors
/// [`DecodeError`] when a section is malformed.
pub fn of_sections(sections: &Sections) -> Result<RuleProperties, DecodeError> {
    let annotated = Annotated::read(&sections.message_annotations)?;
    let (header, properties) = (sections.decode_header()?, sections.view_properties()?);
    read(&header, &properties, annotated, &sections.application_properties)
}

fn set(rule_properties: &mut RuleProperties, name: &str, value: PropertyValue) {
    match rule_properties.user.iter_mut().find(|(known, _)| &**known == name) {
        Some((_, before)) => *before = value,
        None => rule_properties.user.push((name.into(), value)),
    }
}

/// A message id of any type as text, in the format of the SDKs.
pub fn id_text(id: &Value) -> Option<Box<str>> {
    text_of(match id {
        Value::String(text) | Value::Symbol(text) => IdView::String(text),
        Value::ULong(number) => IdView::ULong(*number),
        Value::Uuid(bytes) => IdView::Uuid(*bytes),
        Value::Binary(bytes) => IdView::Binary(bytes),
        _ => return None,
    })
}

/// Like [`id_text`].
pub(crate) fn text_of(id: IdView<'_>) -> Option<Box<str>> {
    Some(match id {
        IdView::String(text) => text.into(),
        IdView::ULong(number) => number.to_string().into(),
        IdView::Uuid(bytes) => Uuid::from_bytes(bytes).to_string().into(),
        IdView::Binary(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
        },
        IdView::Absent | IdView::Other(_) => return None,
    })
}

#[cfg(test)]
mod tests;
