//! Changes made by actions: an overlay over a message, whose body stays unchanged and is shared by all its copies.

use crate::{PropertyValue, RuleProperties};

/// A text system property that actions may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TextProperty {
    /// `content-type`.
    ContentType,
    /// `correlation-id`.
    CorrelationId,
    /// `subject`, once called label.
    Label,
    /// `message-id`.
    MessageId,
    /// `x-opt-partition-key`.
    PartitionKey,
    /// `reply-to`.
    ReplyTo,
    /// `reply-to-group-id`.
    ReplyToSessionId,
    /// `group-id`.
    SessionId,
    /// `to`.
    To,
}

/// Changes of a message's properties; properties not listed here are unchanged.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PropertyChanges {
    /// Text system properties, each at most once: set, or removed.
    pub texts: Vec<(TextProperty, Option<Box<str>>)>,
    /// The scheduled enqueue time in milliseconds since 1970: set, or removed.
    pub scheduled_enqueue_time_ms: Option<Option<u64>>,
    /// The time-to-live in milliseconds: set, or removed (no limit).
    pub time_to_live_ms: Option<Option<u64>>,
    /// Application properties, each at most once, with the message's spelling of the name if it has one: set, or
    /// removed.
    pub user: Vec<(Box<str>, Option<PropertyValue>)>,
}

impl PropertyChanges {
    /// Whether there are no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The change of a text system property: `None` if it is unchanged.
    #[must_use]
    pub fn text(&self, property: TextProperty) -> Option<Option<&str>> {
        let changed = self.texts.iter().find(|(known, _)| *known == property);
        changed.map(|(_, value)| value.as_deref())
    }

    /// Records that a system property is set or removed.
    pub fn set_text(&mut self, property: TextProperty, value: Option<Box<str>>) {
        match self.texts.iter_mut().find(|(known, _)| *known == property) {
            Some((_, before)) => *before = value,
            None => self.texts.push((property, value)),
        }
    }

    /// Records that an application property is set or removed, by the message's spelling of its name.
    pub fn set_user(&mut self, name: &str, value: Option<PropertyValue>) {
        match self.user.iter_mut().find(|(known, _)| &**known == name) {
            Some((_, before)) => *before = value,
            None => self.user.push((name.into(), value)),
        }
    }

    /// These changes followed by others; the later ones take precedence.
    #[must_use]
    pub fn followed_by(mut self, later: Self) -> Self {
        for (property, value) in later.texts {
            self.set_text(property, value);
        }
        for (name, value) in later.user {
            self.set_user(&name, value);
        }
        self.scheduled_enqueue_time_ms = later.scheduled_enqueue_time_ms.or(self.scheduled_enqueue_time_ms);
        self.time_to_live_ms = later.time_to_live_ms.or(self.time_to_live_ms);
        self
    }

    /// Applies the changes to the properties that rules see. Changed properties keep their position, new ones are
    /// appended in order.
    pub fn apply(&self, rule_properties: &mut RuleProperties) {
        for (property, value) in &self.texts {
            rule_properties.text_mut(*property).clone_from(value);
        }
        for (name, value) in &self.user {
            let place = rule_properties.user.iter().position(|(known, _)| known == name);
            match (place.and_then(|place| rule_properties.user.get_mut(place)), value) {
                (Some((_, before)), Some(value)) => before.clone_from(value),
                (Some(_), None) => rule_properties.user.retain(|(known, _)| known != name),
                (None, Some(value)) => rule_properties.user.push((name.clone(), value.clone())),
                (None, None) => {}
            }
        }
    }

    /// The size of the changed properties in bytes of AMQP encoding, without deducting the values that they replace.
    /// All properties of a message together are limited to 64 KB (semantics §3).
    #[must_use]
    pub fn header_bytes(&self) -> usize {
        let texts = self.texts.iter().filter_map(|(property, value)| {
            let key = if *property == TextProperty::PartitionKey { PARTITION_KEY } else { "" };
            Some(key_bytes(key) + text_bytes(value.as_ref()?.len()))
        });
        let user = self.user.iter().filter_map(|(name, value)| {
            let value = value.as_ref()?;
            Some(text_bytes(name.len()) + value_bytes(value))
        });
        let scheduled = matches!(self.scheduled_enqueue_time_ms, Some(Some(_)));
        let lives = matches!(self.time_to_live_ms, Some(Some(_)));
        let scheduled = if scheduled { key_bytes(SCHEDULED_ENQUEUE_TIME) + FIXED_BYTES } else { 0 };
        let lives = if lives { UINT_BYTES } else { 0 };
        texts.sum::<usize>() + user.sum::<usize>() + scheduled + lives
    }
}

/// Annotation of the partition key.
const PARTITION_KEY: &str = "x-opt-partition-key";
/// Annotation of the scheduled enqueue time.
const SCHEDULED_ENQUEUE_TIME: &str = "x-opt-scheduled-enqueue-time";
/// Size of an integer, a double or a timestamp with its type.
const FIXED_BYTES: usize = 9;
/// Size of a GUID or a decimal with its type.
const WIDE_BYTES: usize = 17;
/// Size of an integer of 32 bits with its type.
const UINT_BYTES: usize = 5;

/// Size of an annotation's key.
fn key_bytes(key: &str) -> usize {
    if key.is_empty() { 0 } else { text_bytes(key.len()) }
}

/// Size of a text or symbol with its type and length.
fn text_bytes(length: usize) -> usize {
    length + if length <= usize::from(u8::MAX) { 2 } else { 5 }
}

fn value_bytes(value: &PropertyValue) -> usize {
    /// Size of a described type: constructor, name and value.
    fn described(name: &str) -> usize {
        1 + text_bytes(name.len()) + FIXED_BYTES
    }
    match value {
        PropertyValue::Null | PropertyValue::Boolean(_) => 1,
        PropertyValue::Integer(_)
        | PropertyValue::Unsigned(_)
        | PropertyValue::Double(_)
        | PropertyValue::Timestamp(_) => FIXED_BYTES,
        PropertyValue::Uuid(_) | PropertyValue::Decimal(_) => WIDE_BYTES,
        PropertyValue::Text(text) => text_bytes(text.len()),
        PropertyValue::Other(encoded) => encoded.len(),
        PropertyValue::TimeSpan(_) => described("com.microsoft:timespan"),
        PropertyValue::DateTimeOffset(_) => described("com.microsoft:datetime-offset"),
        PropertyValue::Given(given) => value_bytes(&given.plain()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> Option<PropertyValue> {
        Some(PropertyValue::Text(text.into()))
    }

    #[test]
    fn later_changes_win_and_others_stay() {
        let mut first = PropertyChanges { time_to_live_ms: Some(Some(5)), ..PropertyChanges::default() };
        first.set_text(TextProperty::To, Some("a".into()));
        first.set_text(TextProperty::Label, Some("b".into()));
        first.set_user("x", text("1"));
        first.set_user("y", text("2"));
        let mut second =
            PropertyChanges { scheduled_enqueue_time_ms: Some(None), ..PropertyChanges::default() };
        second.set_text(TextProperty::To, None);
        second.set_user("x", None);
        second.set_user("z", text("3"));
        let both = first.followed_by(second);
        assert_eq!(both.text(TextProperty::To), Some(None));
        assert_eq!(both.text(TextProperty::Label), Some(Some("b")));
        assert_eq!(both.text(TextProperty::SessionId), None);
        assert_eq!(both.user, [("x".into(), None), ("y".into(), text("2")), ("z".into(), text("3"))]);
        assert_eq!((both.time_to_live_ms, both.scheduled_enqueue_time_ms), (Some(Some(5)), Some(None)));
    }

    #[test]
    fn changed_properties_keep_their_place() {
        let values = [("a", 1), ("b", 2), ("c", 3)];
        let user = values.map(|(name, number)| (name.into(), PropertyValue::Integer(number)));
        let mut rule_properties =
            RuleProperties { user: user.into(), to: Some("x".into()), ..RuleProperties::default() };
        let mut changes = PropertyChanges::default();
        changes.set_user("d", Some(PropertyValue::Null));
        changes.set_user("b", Some(PropertyValue::Boolean(true)));
        changes.set_user("a", None);
        changes.set_user("never", None);
        changes.set_text(TextProperty::To, None);
        changes.set_text(TextProperty::SessionId, Some("s".into()));
        changes.apply(&mut rule_properties);
        let user: Vec<_> = rule_properties.user.iter().map(|(name, value)| (&**name, value)).collect();
        let expected = [
            ("b", &PropertyValue::Boolean(true)),
            ("c", &PropertyValue::Integer(3)),
            ("d", &PropertyValue::Null),
        ];
        assert_eq!(user, expected);
        assert_eq!((rule_properties.to, rule_properties.session_id.as_deref()), (None, Some("s")));
    }

    #[test]
    fn a_removed_property_has_no_size() {
        let mut changes = PropertyChanges { time_to_live_ms: Some(None), ..PropertyChanges::default() };
        changes.set_text(TextProperty::To, None);
        changes.set_user("x", None);
        assert!(changes.header_bytes() == 0 && !changes.is_empty());
    }

    #[test]
    fn a_set_property_has_the_size_of_its_encoding() {
        let mut changes = PropertyChanges::default();
        changes.set_user("abc", Some(PropertyValue::Integer(1)));
        assert_eq!(changes.header_bytes(), 5 + 9);
        changes.set_user("abc", text(&"x".repeat(256)));
        assert_eq!(changes.header_bytes(), 5 + 5 + 256);
        changes.set_text(TextProperty::To, Some("12".into()));
        assert_eq!(changes.header_bytes(), 5 + 5 + 256 + 4);
        changes.set_text(TextProperty::PartitionKey, Some("p".into()));
        assert_eq!(changes.header_bytes(), 5 + 5 + 256 + 4 + 21 + 3);
        changes.time_to_live_ms = Some(Some(1));
        changes.scheduled_enqueue_time_ms = Some(Some(1));
        assert_eq!(changes.header_bytes(), 5 + 5 + 256 + 4 + 21 + 3 + 5 + 30 + 9);
    }

    fn some_changes() -> impl Strategy<Value = PropertyChanges> {
        let value =
            prop_oneof![Just(None), (0..3_i64).prop_map(|number| Some(PropertyValue::Integer(number)))];
        let user = prop::collection::vec(("[a-d]", value), 0..5);
        let properties =
            prop::sample::select(vec![TextProperty::To, TextProperty::Label, TextProperty::MessageId]);
        let texts = prop::collection::vec((properties, prop::option::of("[xy]")), 0..4);
        (user, texts).prop_map(|(user, texts)| {
            let mut changes = PropertyChanges::default();
            user.into_iter().for_each(|(name, value)| changes.set_user(&name, value));
            texts.into_iter().for_each(|(property, text)| changes.set_text(property, text.map(Into::into)));
            changes
        })
    }

    proptest! {
        #[test]
        fn one_after_the_other_is_both_at_once(first in some_changes(), second in some_changes()) {
            let mut rule_properties = RuleProperties::default();
            rule_properties.user.push(("b".into(), PropertyValue::Null));
            let mut at_once = rule_properties.clone();
            first.apply(&mut rule_properties);
            second.apply(&mut rule_properties);
            first.followed_by(second).apply(&mut at_once);
            // A property that was removed in between has another position.
            rule_properties.user.sort_by(|(one, _), (other, _)| one.cmp(other));
            at_once.user.sort_by(|(one, _), (other, _)| one.cmp(other));
            prop_assert_eq!(rule_properties, at_once);
        }
    }
}
