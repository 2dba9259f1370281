//! Validity of options for all entities. Stricter ranges are checked by the front ends, see [`EntityOption::is_enforced`].

use std::collections::HashSet;
use std::ops::RangeInclusive;

use super::schema::{AUTHORIZATION_RULES_MAX, EntityOption, OPTIONS, OptionKind, OptionSet};
use super::{AuthorizationRule, EntityOptions, Forwarding, SubscriptionOptions};
use crate::names::{name_key, same_name};

/// Longest name of an authorization rule, in characters (azure-sdk-for-net's `AuthorizationRule`).
const RULE_NAME_CHARS_MAX: usize = 256;

/// One of the two targets of forwarding.
type TargetOf = fn(&Forwarding) -> Option<&str>;

const SECOND_MS: u64 = 1_000;
const DAY_MS: u64 = 86_400 * SECOND_MS;

impl EntityOptions {
    /// Refuses options that no partition can work with.
    ///
    /// # Errors
    /// The invalid option, and its allowed values.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::Queue(queue) => check(queue),
            Self::Topic(topic) => check(topic),
        }
    }

    /// Normalizes the options of a new entity, see [`Forwarding::complete_new`]. A partitioned queue keeps what was requested
    /// (azure-sdk-for-python, `test_mgmt_queue_create_with_queue_description`).
    #[must_use]
    pub(crate) fn for_creation(mut self) -> Self {
        if let Self::Queue(queue) = &mut self
            && !queue.kept.enable_partitioning
        {
            let life_ms = &mut queue.default_message_time_to_live_ms;
            queue.forwarding.complete_new(&mut queue.auto_delete_on_idle_ms, life_ms);
        }
        self
    }

    /// The reason why an existing entity with these options can't get the new ones, if there is one.
    pub(crate) fn immutable_change(&self, new: &Self) -> Option<String> {
        match (self, new) {
            (Self::Queue(old), Self::Queue(new)) => immutable_change(old, new),
            (Self::Topic(old), Self::Topic(new)) => immutable_change(old, new),
            (Self::Queue(_), Self::Topic(_)) => {
                Some("a queue of this name exists, and it can't become a topic".to_owned())
            }
            (Self::Topic(_), Self::Queue(_)) => {
                Some("a topic of this name exists, and it can't become a queue".to_owned())
            }
        }
    }

    /// Its forwarding options; `None` for a topic.
    pub(crate) const fn forwarding(&self) -> Option<&Forwarding> {
        match self {
            Self::Queue(queue) => Some(&queue.forwarding),
            Self::Topic(_) => None,
        }
    }
}

impl SubscriptionOptions {
    /// Refuses options that no partition can work with.
    ///
    /// # Errors
    /// The invalid option, and its allowed values.
    pub(crate) fn check(&self) -> Result<(), String> {
        check(self)
    }

    /// The reason why an existing subscription with these options can't get the new ones, if there is one.
    pub(crate) fn immutable_change(&self, new: &Self) -> Option<String> {
        immutable_change(self, new)
    }

    /// Normalizes the options of a new subscription, see [`Forwarding::complete_new`].
    #[must_use]
    pub(crate) fn for_creation(mut self) -> Self {
        let life_ms = &mut self.default_message_time_to_live_ms;
        self.forwarding.complete_new(&mut self.auto_delete_on_idle_ms, life_ms);
        self
    }
}

impl Forwarding {
    /// A target that is not `known`, with the option's name, as the end of a sentence. A target that is also in `current` is
    /// accepted: it existed when it was set.
    pub(crate) fn unknown_target(
        &self,
        current: Option<&Self>,
        known: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let targets: [(_, TargetOf); 2] = [
            ("forward_to", |forwarding| forwarding.forward_to.as_deref()),
            ("forward_dead_lettered_messages_to", |forwarding| {
                forwarding.forward_dead_lettered_messages_to.as_deref()
            }),
        ];
        targets.iter().find_map(|(option, of)| {
            let target = of(self)?;
            let stays = current.and_then(of).is_some_and(|current| same_name(current, target));
            (!stays && !known(&name_key(target)))
                .then(|| format!("{option} is {target:?}, which is neither a queue nor a topic here"))
        })
    }
}

fn check<O: OptionSet>(options: &O) -> Result<(), String> {
    OPTIONS.iter().try_for_each(|option| option.check(options))
}

fn immutable_change<O: OptionSet>(old: &O, new: &O) -> Option<String> {
    let changed = OPTIONS.iter().find(|option| option.is_fixed && !option.is_equal(old, new))?;
    Some(format!("{} of an existing {} can't be changed", changed.name, O::NOUN))
}

impl EntityOption {
    fn check<O: OptionSet>(&self, options: &O) -> Result<(), String> {
        match &self.kind {
            OptionKind::Duration(at, range_ms) if self.is_enforced => {
                at.get(options).map_or(Ok(()), |length_ms| self.check_range(*length_ms, range_ms))
            }
            OptionKind::Count(at, _) => self.check_positive(at.get(options).copied().map(u64::from)),
            OptionKind::Duration(at, _) | OptionKind::Size(at, ..) => {
                self.check_positive(at.get(options).copied())
            }
            OptionKind::TimeToLive(at, _) | OptionKind::IdleTime(at) => {
                self.check_positive(at.get(options).copied().flatten())
            }
            OptionKind::Text(at, chars_max) => {
                let text = at.get(options).and_then(Option::as_deref).unwrap_or_default();
                self.check_length(text, *chars_max)
            }
            OptionKind::AuthorizationRules(at) => {
                at.get(options).map_or(Ok(()), |rules| check_authorization_rules(rules))
            }
            OptionKind::Boolean(_) | OptionKind::Target(_) | OptionKind::Status(_) => Ok(()),
        }
    }

    fn check_positive(&self, value: Option<u64>) -> Result<(), String> {
        match value {
            Some(0) => Err(format!("{} is 0; it must be positive", self.name)),
            _ => Ok(()),
        }
    }

    fn check_range(&self, length_ms: u64, range_ms: &RangeInclusive<u64>) -> Result<(), String> {
        if range_ms.contains(&length_ms) {
            return Ok(());
        }
        let (least, most) = (length(*range_ms.start()), length(*range_ms.end()));
        Err(format!("{} is {length_ms} ms; it must be {least} to {most}", self.name))
    }

    fn check_length(&self, text: &str, chars_max: usize) -> Result<(), String> {
        match text.chars().count() {
            chars if chars > chars_max => {
                Err(format!("{} has {chars} characters, at most {chars_max} are kept", self.name))
            }
            _ => Ok(()),
        }
    }
}

/// A duration in words, for messages: `20 s`, `7 days`.
fn length(length_ms: u64) -> String {
    match length_ms {
        days_ms if days_ms % DAY_MS == 0 => format!("{} days", days_ms / DAY_MS),
        other_ms => format!("{} s", other_ms / SECOND_MS),
    }
}

fn check_authorization_rules(rules: &[AuthorizationRule]) -> Result<(), String> {
    if rules.len() > AUTHORIZATION_RULES_MAX {
        let count = rules.len();
        return Err(format!(
            "there are {count} authorization rules, at most {AUTHORIZATION_RULES_MAX} are allowed"
        ));
    }
    let mut names = HashSet::new();
    for rule in rules {
        check_authorization_rule(rule)
            .map_err(|what| format!("the authorization rule {:?} {what}", rule.name))?;
        if !names.insert(name_key(&rule.name)) {
            return Err(format!(
                "there are two authorization rules {:?}; names match regardless of case",
                rule.name
            ));
        }
    }
    Ok(())
}

fn check_authorization_rule(
    AuthorizationRule { name, rights, .. }: &AuthorizationRule,
) -> Result<(), String> {
    let chars = name.chars().count();
    if name.trim().is_empty() || chars > RULE_NAME_CHARS_MAX {
        return Err(format!("has {chars} characters; a name has 1 to {RULE_NAME_CHARS_MAX}"));
    }
    if let Some(bad) = name.chars().find(|c| c.is_control() || "/\\?#@".contains(*c)) {
        return Err(format!("has {bad:?} in its name, which is not allowed there"));
    }
    if rights.manage && !(rights.listen && rights.send) {
        return Err("has the right Manage without Listen and Send, which it needs as well".to_owned());
    }
    if !(rights.listen || rights.send) {
        return Err("has no right; it needs Listen, Send, or all three".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kept, QueueOptions, Rights, Secret, Timestamp, TopicOptions};

    fn rule(name: &str, rights: Rights) -> AuthorizationRule {
        let (created_at, modified_at) = (Timestamp(1), Timestamp(1));
        let (primary_key, secondary_key) = (Secret::new("p"), Secret::new("s"));
        AuthorizationRule { name: name.into(), rights, primary_key, secondary_key, created_at, modified_at }
    }

    fn reason(options: impl Into<EntityOptions>) -> String {
        options.into().check().unwrap_err()
    }

    #[test]
    fn options_out_of_range_are_named() {
        assert_eq!(EntityOptions::from(QueueOptions::default()).check(), Ok(()));
        assert_eq!(EntityOptions::from(TopicOptions::default()).check(), Ok(()));
        let window = |window_ms| TopicOptions {
            duplicate_detection_history_time_window_ms: window_ms,
            ..TopicOptions::default()
        };
        for bad in [19_999, 7 * 24 * 3_600_000 + 1] {
            assert!(reason(window(bad)).contains("20 s to 7 days"));
        }
        for good in [20_000, 7 * 24 * 3_600_000] {
            assert_eq!(EntityOptions::from(window(good)).check(), Ok(()));
        }
        let metadata = |chars| Kept { user_metadata: Some("ü".repeat(chars).into()), ..Kept::default() };
        let queue = |chars| QueueOptions { kept: metadata(chars), ..QueueOptions::default() };
        assert_eq!(EntityOptions::from(queue(1024)).check(), Ok(()));
        assert!(reason(queue(1025)).contains("user_metadata has 1025 characters"));
        let kept = metadata(1025);
        assert!(SubscriptionOptions { kept, ..SubscriptionOptions::default() }.check().is_err());
    }

    #[test]
    fn authorization_rules_are_few_distinct_and_complete() {
        let listen = Rights { listen: true, ..Rights::default() };
        let with = |rules: Vec<AuthorizationRule>| QueueOptions {
            authorization_rules: rules,
            ..QueueOptions::default()
        };
        let many = |count| (0..count).map(|number| rule(&format!("r{number}"), listen)).collect();
        assert_eq!(EntityOptions::from(with(many(12))).check(), Ok(()));
        assert!(reason(with(many(13))).contains("at most 12"));
        let manage = Rights { manage: true, listen: true, send: false };
        for (rules, part) in [
            (vec![rule("r", listen), rule("R", listen)], "two authorization rules \"R\""),
            (vec![rule("r", manage)], "Manage without Listen and Send"),
            (vec![rule("r", Rights::default())], "has no right"),
            (vec![rule(" ", listen)], "a name has 1 to 256"),
            (vec![rule(&"x".repeat(257), listen)], "257 characters"),
            (vec![rule("a/b", listen)], "'/'"),
        ] {
            assert!(reason(with(rules)).contains(part), "{part}");
        }
        assert_eq!(EntityOptions::from(with(vec![rule("root", Rights::ALL)])).check(), Ok(()));
    }

    #[test]
    fn immutable_options_are_named() {
        let queue = QueueOptions::default();
        let partitioned = Kept { enable_partitioning: true, ..Kept::default() };
        for (changed, option) in [
            (QueueOptions { requires_session: true, ..queue.clone() }, "requires_session"),
            (
                QueueOptions { requires_duplicate_detection: true, ..queue.clone() },
                "requires_duplicate_detection",
            ),
            (QueueOptions { kept: partitioned, ..queue.clone() }, "enable_partitioning"),
        ] {
            let reason = EntityOptions::from(queue.clone()).immutable_change(&changed.into());
            assert_eq!(reason, Some(format!("{option} of an existing queue can't be changed")));
        }
        let changed = QueueOptions { max_delivery_count: 3, ..queue.clone() };
        assert_eq!(EntityOptions::from(queue).immutable_change(&changed.into()), None);
    }

    /// Sources: azure-sdk-for-js 14539, azure-sdk-for-net 18517, azure-cli 8424; for partitioned queues the live test
    /// `test_mgmt_queue_create_with_queue_description` of azure-sdk-for-python.
    #[test]
    fn an_entity_created_with_forwarding_has_no_idle_limit_and_no_time_to_live_unless_it_is_partitioned() {
        let to = |forward_to: bool, dead_letters: bool| Forwarding {
            forward_to: forward_to.then(|| "a".into()),
            forward_dead_lettered_messages_to: dead_letters.then(|| "a".into()),
        };
        for (forwarding, idle_ms, life_ms) in [
            (to(false, false), Some(1), Some(2)),
            (to(false, true), None, Some(2)),
            (to(true, false), None, None),
            (to(true, true), None, None),
        ] {
            let (auto_delete_on_idle_ms, default_message_time_to_live_ms) = (Some(1), Some(2));
            let queue = QueueOptions {
                auto_delete_on_idle_ms,
                default_message_time_to_live_ms,
                forwarding: forwarding.clone(),
                ..QueueOptions::default()
            };
            let EntityOptions::Queue(created) = EntityOptions::from(queue.clone()).for_creation() else {
                panic!()
            };
            assert_eq!(created.auto_delete_on_idle_ms, idle_ms, "{forwarding:?}");
            assert_eq!(created.default_message_time_to_live_ms, life_ms, "{forwarding:?}");
            let kept = Kept { enable_partitioning: true, ..Kept::default() };
            let partitioned = EntityOptions::from(QueueOptions { kept, ..queue });
            assert_eq!(partitioned.clone().for_creation(), partitioned, "{forwarding:?}");
            let subscription = SubscriptionOptions {
                auto_delete_on_idle_ms,
                default_message_time_to_live_ms,
                forwarding: forwarding.clone(),
                ..SubscriptionOptions::default()
            };
            let created = subscription.for_creation();
            assert_eq!(created.auto_delete_on_idle_ms, idle_ms, "{forwarding:?}");
            assert_eq!(created.default_message_time_to_live_ms, life_ms, "{forwarding:?}");
            let forwards = forwarding.forward_to.is_some();
            assert_eq!(forwarding.idle_in_effect_ms(Some(1)), (!forwards).then_some(1));
            assert_eq!(forwarding.life_in_effect_ms(Some(1)), (!forwards).then_some(1));
        }
    }
}
