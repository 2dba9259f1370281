//! The values of a selector's names: the fields of a message as mapped by the specification (AMQP Binding for JMS,
//! 3.2), and its application properties.

use super::{STEPS_MAX, Selector};
use crate::{PropertyValue, RuleProperties};

/// The priority of a message without one (AMQP 1.0, 3.2.1).
const PRIORITY_DEFAULT: u8 = 4;

impl Selector {
    /// Whether a message matches that was delivered this many times before; adds the steps that the evaluation took.
    #[must_use]
    pub fn matches_message(&self, message: &RuleProperties, delivery_count: u32, steps: &mut usize) -> bool {
        let mut left = STEPS_MAX;
        let matches = self.matches_within(|name| value(name, message, delivery_count), &mut left);
        *steps += self.steps() + (STEPS_MAX - left);
        matches
    }

    /// Whether a message that was never delivered matches, with a limit for the steps of LIKE.
    pub(crate) fn matches_new(&self, message: &RuleProperties, like_steps_left: &mut usize) -> bool {
        self.matches_within(|name| value(name, message, 0), like_steps_left)
    }
}

/// The value of a name; names other than those of fields are application properties, and case-sensitive.
fn value(name: &str, message: &RuleProperties, delivery_count: u32) -> Option<PropertyValue> {
    let text = |text: &Option<Box<str>>| text.clone().map(PropertyValue::Text);
    let fields = &message.selectable;
    match name {
        "JMSDeliveryMode" => {
            let mode = if fields.is_durable { "PERSISTENT" } else { "NON_PERSISTENT" };
            Some(PropertyValue::Text(mode.into()))
        }
        "JMSPriority" => Some(PropertyValue::Integer(fields.priority.unwrap_or(PRIORITY_DEFAULT).into())),
        "JMSTimestamp" => fields.creation_time_ms.map(PropertyValue::Integer),
        "JMSMessageID" => text(&message.message_id),
        "JMSCorrelationID" => text(&message.correlation_id),
        "JMSType" => text(&message.label),
        "JMSXGroupID" => text(&message.session_id),
        "JMSXGroupSeq" => fields.group_sequence.map(|at| PropertyValue::Integer(at.into())),
        "JMSXUserID" => text(&fields.user_id),
        "JMSXDeliveryCount" => Some(PropertyValue::Integer(i64::from(delivery_count) + 1)),
        _ => message.user.iter().find(|(known, _)| &**known == name).map(|(_, value)| value.clone()),
    }
}
