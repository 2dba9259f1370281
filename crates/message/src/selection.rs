//! What selectors of JMS see of a message: its fields under the names of JMS, and its application properties.

use bytes::Bytes;
use peeklock_engine::{MessageView, PropertyValue, RuleProperties, Selector};
use peeklock_wire::DecodeError;
use peeklock_wire::message::{Header, MessageProperties, Sections};

use crate::rule_properties::read_rule_properties;

/// The priority of a message that has none (AMQP 1.0, 3.2.1).
const PRIORITY_DEFAULT: u8 = 4;

/// Whether a stored message matches a selector, as its receiver would see it: under what actions of rules and receivers
/// changed. What can't be read matches nothing.
#[must_use]
pub fn matches(selector: &Selector, content: &Bytes, view: &MessageView) -> bool {
    let Some(rule_properties) = read_rule_properties(content, view) else { return false };
    let Ok(fields) = Fields::read(selector, content) else { return false };
    selector.matches(|name| fields.value(name, &rule_properties, view))
}

/// The fields of a message that rules do not see.
#[derive(Default)]
struct Fields {
    header: Header,
    properties: MessageProperties,
}

impl Fields {
    /// Reads them if the selector asks for any.
    fn read(selector: &Selector, content: &Bytes) -> Result<Self, DecodeError> {
        if !selector.names().any(|name| name.starts_with("JMS")) {
            return Ok(Self::default());
        }
        let sections = Sections::split_trusted(content)?;
        let header = if sections.header.is_empty() { Header::default() } else { sections.decode_header()? };
        Ok(Self { header, properties: sections.decode_properties()? })
    }

    /// What a selector gets for a name: the fields as the specification maps them (AMQP Binding for JMS, 3.2), other names
    /// are application properties, and case matters.
    fn value(&self, name: &str, seen: &RuleProperties, view: &MessageView) -> Option<PropertyValue> {
        let text = |text: &Option<Box<str>>| text.clone().map(PropertyValue::Text);
        match name {
            "JMSDeliveryMode" => {
                let is_durable = self.header.durable == Some(true);
                let mode = if is_durable { "PERSISTENT" } else { "NON_PERSISTENT" };
                Some(PropertyValue::Text(mode.into()))
            }
            "JMSPriority" => {
                let priority = self.header.priority.unwrap_or(PRIORITY_DEFAULT);
                Some(PropertyValue::Integer(priority.into()))
            }
            "JMSTimestamp" => self.properties.creation_time_ms.map(PropertyValue::Integer),
            "JMSMessageID" => text(&seen.message_id),
            "JMSCorrelationID" => text(&seen.correlation_id),
            "JMSType" => text(&seen.label),
            "JMSXGroupID" => text(&seen.session_id),
            "JMSXGroupSeq" => self.properties.group_sequence.map(|at| PropertyValue::Integer(at.into())),
            "JMSXUserID" => {
                let user = self.properties.user_id.as_ref()?;
                std::str::from_utf8(user).ok().map(|user| PropertyValue::Text(user.into()))
            }
            "JMSXDeliveryCount" => Some(PropertyValue::Integer(i64::from(view.delivery_count) + 1)),
            _ => seen.user.iter().find(|(known, _)| &**known == name).map(|(_, value)| value.clone()),
        }
    }
}
