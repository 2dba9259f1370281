//! Subscriptions of topics, by name. The topic's partition decides about all changes, so they can't race.

use std::collections::HashMap;

use super::{SubscriptionDescription, carry_out, not_found};
use crate::names::{check_client_subscription_name, check_rule_name, check_subscription_name, name_key};
use crate::runtime::entity::Entity;
use crate::runtime::{
    ChangeError, Mailbox, Namespace, Output, PartitionHandle, Request, Response, StartError,
};
use crate::{Command, Forwarding, Intent, QueueId, Refusal, Rule, SubscriptionOptions};

/// A declared subscription: its name, its options and, if it is new, its rules.
pub(super) type DeclaredSubscription = (String, SubscriptionOptions, Vec<Rule>);

impl Namespace {
    /// Creates a subscription of a topic with these rules, durably.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing changed then.
    pub async fn create_subscription(
        &self,
        topic: &str,
        name: &str,
        options: SubscriptionOptions,
        rules: Vec<Rule>,
    ) -> Result<SubscriptionDescription, ChangeError> {
        self.check_subscription(name, &options, &rules, |options| self.unknown_target(options, None))?;
        let entity = self.topic(topic)?;
        if entity.subscriptions.get(name).is_some() {
            return Err(ChangeError::Exists { name: name.to_owned() });
        }
        let (intent, queue) = (Intent::Create, self.reserve(1).await?);
        let options = options.for_creation();
        let command = Command::DeclareSubscription { intent, queue, name: name.into(), options, rules };
        let created =
            self.change_subscription(&entity, name, command).await.map_err(|error| match error {
                // The topic was deleted meanwhile.
                ChangeError::NotFound { .. } => not_found(topic),
                other => other,
            })?;
        // In Service Bus, the answer to the creation has no access time; later descriptions have one.
        entity.accessed.set(self.clock().now());
        entity.subscriptions.set_accessed(queue, self.clock().now());
        Ok(created)
    }

    /// Replaces all options of a subscription, durably; rules stay.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing changed then.
    pub async fn update_subscription(
        &self,
        topic: &str,
        name: &str,
        options: SubscriptionOptions,
    ) -> Result<SubscriptionDescription, ChangeError> {
        let entity = self.topic(topic)?;
        let found = entity.subscriptions.get(name).ok_or_else(|| not_found(name))?;
        let options = SubscriptionOptions { client: found.options.client.clone(), ..options };
        let current = Some(&found.options.forwarding);
        self.check_subscription(name, &options, &[], |options| self.unknown_target(options, current))?;
        let (intent, queue, rules) = (Intent::Update, found.subscription.queue, Vec::new());
        let command = Command::DeclareSubscription { intent, queue, name: name.into(), options, rules };
        self.change_subscription(&entity, name, command).await
    }

    async fn change_subscription(
        &self,
        topic: &Entity,
        name: &str,
        command: Command,
    ) -> Result<SubscriptionDescription, ChangeError> {
        let changed = carry_out(&topic.handle(), command).await;
        changed.map_err(|refusal| ChangeError::refused(name, refusal))?;
        Ok(topic.subscriptions.get(name).ok_or_else(|| not_found(name))?.describe())
    }

    /// Creates subscriptions of a topic, or updates the options of existing ones, durably. The rules are used for new
    /// subscriptions only (without rules they receive no messages); existing ones keep theirs. A declaration that changes
    /// nothing writes nothing. If a name is declared twice, the later declaration counts.
    ///
    /// # Errors
    /// The store's, or an invalid name or option: nothing changed then. If the topic refuses one subscription
    /// ([`StartError::Refused`]), the others of the call are declared nevertheless.
    pub async fn declare_subscriptions(
        &self,
        topic: &str,
        subscriptions: Vec<DeclaredSubscription>,
    ) -> Result<(), StartError> {
        for (name, options, rules) in &subscriptions {
            self.check_subscription(name, options, rules, |options| self.unknown_target(options, None))?;
        }
        let entity = self.topic(topic)?;
        let handle = entity.handle();
        let wanted = distinct(subscriptions);
        // A number is reserved only for subscriptions that are new or were deleted meanwhile.
        let mut known = Vec::new();
        let mut new = Vec::new();
        for one in wanted {
            match entity.subscriptions.get(&one.0) {
                Some(found) => known.push((found.subscription.queue, one)),
                None => new.push(one),
            }
        }
        let (gone, updated) = declare(&handle, Intent::Update, known).await;
        new.extend(gone);
        if new.is_empty() {
            return updated;
        }
        let first = self.reserve(new.len() as u64).await?;
        let new = (first.0..).map(QueueId).zip(new).collect();
        let (_, declared) = declare(&handle, Intent::Declare, new).await;
        updated.and(declared)
    }

    /// Deletes a subscription with all its messages, durably; false if there is none of this name.
    ///
    /// # Errors
    /// There is no such topic, or the store failed.
    pub async fn delete_subscription(&self, topic: &str, name: &str) -> Result<bool, StartError> {
        let entity = self.topic(topic)?;
        let Some(found) = entity.subscriptions.get(name) else { return Ok(false) };
        let delete = Command::DeleteSubscription { queue: found.subscription.queue };
        match carry_out(&entity.handle(), delete).await {
            Ok(()) => Ok(true),
            // It was deleted meanwhile.
            Err(Refusal::EntityDeleted) => Ok(false),
            Err(refusal) => Err(StartError::Refused { name: name.to_owned(), refusal }),
        }
    }

    /// A subscription; names match case-insensitively.
    #[must_use]
    pub fn describe_subscription(&self, topic: &str, name: &str) -> Option<SubscriptionDescription> {
        Some(self.topic(topic).ok()?.subscriptions.get(name)?.describe())
    }

    /// Subscriptions of a topic in the order of their names, without regard to case: `top` of them after the first `skip`;
    /// `None` if there is no such topic.
    #[must_use]
    pub fn describe_subscriptions(
        &self,
        topic: &str,
        skip: usize,
        top: usize,
    ) -> Option<Vec<SubscriptionDescription>> {
        let found = self.topic(topic).ok()?.subscriptions.page(skip, top);
        Some(found.iter().map(|found| found.describe()).collect())
    }

    /// The first forwarding target that does not exist and is not in `current`.
    fn unknown_target(&self, options: &SubscriptionOptions, current: Option<&Forwarding>) -> Option<String> {
        options.forwarding.unknown_target(current, |key| self.inner.directory.get(key).is_some())
    }

    /// Refuses names, rules and options that no partition can work with; the front ends check the configuration's stricter
    /// limits. `unknown_target` finds a forwarding target that can't be used.
    pub(super) fn check_subscription(
        &self,
        name: &str,
        options: &SubscriptionOptions,
        rules: &[Rule],
        unknown_target: impl FnOnce(&SubscriptionOptions) -> Option<String>,
    ) -> Result<(), StartError> {
        let invalid_name = |name: &str, reason| StartError::InvalidName { name: name.to_owned(), reason };
        let check = match &options.client {
            Some(_) => check_client_subscription_name,
            None => check_subscription_name,
        };
        check(name).map_err(|reason| invalid_name(name, reason))?;
        for rule in rules {
            check_rule_name(&rule.name).map_err(|reason| invalid_name(&rule.name, reason))?;
        }
        options
            .check()
            .and(unknown_target(options).map_or(Ok(()), Err))
            .map_err(|reason| StartError::InvalidOptions { name: name.to_owned(), reason })
    }
}

/// The last declaration of each name, in the order of first occurrence.
fn distinct(subscriptions: Vec<DeclaredSubscription>) -> Vec<DeclaredSubscription> {
    let mut positions: HashMap<Box<str>, usize> = HashMap::new();
    let mut distinct: Vec<DeclaredSubscription> = Vec::with_capacity(subscriptions.len());
    for (name, options, rules) in subscriptions {
        let position = *positions.entry(name_key(&name)).or_insert(distinct.len());
        let wanted = (name, options.for_creation(), rules);
        match distinct.get_mut(position) {
            Some(earlier) => *earlier = wanted,
            None => distinct.push(wanted),
        }
    }
    distinct
}

/// Sends declarations to a topic's partition and waits for all answers. Returns the declarations that found no subscription
/// to update, and the first other refusal.
async fn declare(
    handle: &PartitionHandle,
    intent: Intent,
    all_wanted: Vec<(QueueId, DeclaredSubscription)>,
) -> (Vec<DeclaredSubscription>, Result<(), StartError>) {
    let (mailbox, mut outputs) = Mailbox::new();
    let mut waiting = HashMap::with_capacity(all_wanted.len());
    for (tag, (queue, wanted)) in (0..).zip(all_wanted) {
        let (name, options, rules) = wanted.clone();
        let name = name.as_str().into();
        let command = Command::DeclareSubscription { intent, queue, name, options, rules };
        handle.submit(Request { mailbox: mailbox.clone(), tag: Some(tag), command });
        waiting.insert(tag, wanted);
    }
    let (mut gone, mut result) = (Vec::new(), Ok(()));
    while !waiting.is_empty() {
        let Some(Output::Response { tag, response }) = outputs.recv().await else { continue };
        match (waiting.remove(&tag), response) {
            (Some(wanted), Response::Done(Err(Refusal::EntityDeleted))) if intent == Intent::Update => {
                gone.push(wanted);
            }
            (Some((name, ..)), Response::Done(Err(refusal))) if result.is_ok() => {
                result = Err(StartError::Refused { name, refusal });
            }
            _ => {}
        }
    }
    (gone, result)
}
