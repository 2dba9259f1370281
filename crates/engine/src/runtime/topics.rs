//! What front ends ask a namespace about subscriptions. Rules are changed by commands to the topic's partition.

use std::collections::HashMap;
use std::sync::Arc;

use super::entity::{Entity, SubscriptionRef};
use super::names::name_key;
use super::{Mailbox, Namespace, Output, PartitionHandle, Request, Response, StartError};
use crate::names::{check_rule_name, check_subscription_name};
use crate::partition::Counts;
use crate::{Command, EntityOptions, QueueId, Refusal, Rule, SubscriptionOptions};

/// A subscription as its owner wants it: its name, its options and, should it be new, its rules.
type Wanted = (String, SubscriptionOptions, Vec<Rule>);

impl Namespace {
    /// Finds a subscription of a topic; both names match case-insensitively. The topic's actor starts if it is not
    /// running.
    #[must_use]
    pub fn subscription(&self, topic: &str, name: &str) -> Option<SubscriptionRef> {
        let entity = self.inner.entities.get(&name_key(topic))?;
        let found = entity.subscriptions.get(name)?;
        Some(SubscriptionRef {
            partition: entity.handle(&self.inner.spawner),
            queue: found.subscription.queue,
            options: found.options,
            topic: entity.options(),
        })
    }

    /// The counts of a subscription as of the last turn of its topic; they may be ahead of what is durable. `size_bytes`
    /// is 0: contents are the topic's.
    #[must_use]
    pub fn subscription_counts(&self, topic: &str, name: &str) -> Option<Counts> {
        Some(self.inner.entities.get(&name_key(topic))?.subscriptions.get(name)?.counts())
    }

    /// Names of all subscriptions of a topic, sorted, as they were first given; `None` if there is no such topic.
    #[must_use]
    pub fn subscription_names(&self, topic: &str) -> Option<Vec<String>> {
        Some(self.topic(topic).ok()?.subscriptions.names())
    }

    /// Creates subscriptions of a topic, or updates the options of existing ones, durably. The rules given are those of
    /// new subscriptions (without any they get no message); existing ones keep theirs. Declaring what is already so
    /// writes nothing. Of two declarations of the same name the later counts.
    ///
    /// # Errors
    /// The store's, or an invalid name or option: nothing changed then. What the topic itself refuses
    /// ([`StartError::Refused`]) leaves the other subscriptions of the call declared.
    pub async fn declare_subscriptions(
        &self,
        topic: &str,
        subscriptions: Vec<Wanted>,
    ) -> Result<(), StartError> {
        for (name, options, rules) in &subscriptions {
            check(name, options, rules)?;
        }
        let entity = self.topic(topic)?;
        let _changing = entity.subscriptions.changing.lock().await;
        let mut declared = Vec::new();
        for (name, options, rules) in distinct(subscriptions) {
            match entity.subscriptions.get(&name) {
                Some(found) if *found.options == options => {}
                found => {
                    let queue = found.map(|found| found.subscription.queue);
                    declared.push((queue, name, options, rules));
                }
            }
        }
        let new = declared.iter().filter(|(queue, ..)| queue.is_none()).count() as u64;
        let first = if new == 0 { QueueId(0) } else { self.reserve(new).await? };
        let mut unused = first.0..;
        let commands = declared.into_iter().filter_map(|(queue, name, options, rules)| {
            let queue = queue.or_else(|| unused.next().map(QueueId))?;
            let command = Command::DeclareSubscription { queue, name: name.as_str().into(), options, rules };
            Some((name, command))
        });
        carry_out(&entity.handle(&self.inner.spawner), commands.collect()).await
    }

    /// Deletes a subscription with all that rests in it, durably; false if there is none of this name.
    ///
    /// # Errors
    /// There is no such topic, or the store's.
    pub async fn delete_subscription(&self, topic: &str, name: &str) -> Result<bool, StartError> {
        let entity = self.topic(topic)?;
        let _changing = entity.subscriptions.changing.lock().await;
        let Some(found) = entity.subscriptions.get(name) else { return Ok(false) };
        let delete = Command::DeleteSubscription { queue: found.subscription.queue };
        let handle = entity.handle(&self.inner.spawner);
        match carry_out(&handle, vec![(name.to_owned(), delete)]).await {
            Ok(()) => Ok(true),
            // It deleted itself meanwhile.
            Err(StartError::Refused { refusal: Refusal::EntityDeleted, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn topic(&self, name: &str) -> Result<Arc<Entity>, StartError> {
        let entity = self.inner.entities.get(&name_key(name));
        let topic = entity.filter(|entity| matches!(*entity.options(), EntityOptions::Topic(_)));
        topic.ok_or_else(|| StartError::NoSuchTopic { name: name.to_owned() })
    }
}

/// The last declaration of each name, in the order in which the names came first.
fn distinct(subscriptions: Vec<Wanted>) -> Vec<Wanted> {
    let mut positions: HashMap<Box<str>, usize> = HashMap::new();
    let mut distinct: Vec<Wanted> = Vec::with_capacity(subscriptions.len());
    for wanted in subscriptions {
        let position = *positions.entry(name_key(&wanted.0)).or_insert(distinct.len());
        match distinct.get_mut(position) {
            Some(earlier) => *earlier = wanted,
            None => distinct.push(wanted),
        }
    }
    distinct
}

/// Refuses what no partition can work with; the configuration's finer limits are the front ends' to check.
fn check(name: &str, options: &SubscriptionOptions, rules: &[Rule]) -> Result<(), StartError> {
    let invalid_name = |name: &str, reason| StartError::InvalidName { name: name.to_owned(), reason };
    check_subscription_name(name).map_err(|reason| invalid_name(name, reason))?;
    for rule in rules {
        check_rule_name(&rule.name).map_err(|reason| invalid_name(&rule.name, reason))?;
    }
    let positive = [
        ("lock_duration", options.lock_duration_ms),
        ("max_delivery_count", u64::from(options.max_delivery_count)),
        ("default_message_time_to_live", options.default_message_time_to_live_ms.unwrap_or(u64::MAX)),
        ("auto_delete_on_idle", options.auto_delete_on_idle_ms.unwrap_or(u64::MAX)),
    ];
    match positive.iter().find(|(_, value)| *value == 0) {
        Some((option, _)) => {
            let reason = format!("{option} is 0; it must be positive");
            Err(StartError::InvalidOptions { name: name.to_owned(), reason })
        }
        None => Ok(()),
    }
}

/// Hands commands that are answered with [`Response::Done`] to a partition and waits for all answers.
async fn carry_out(handle: &PartitionHandle, commands: Vec<(String, Command)>) -> Result<(), StartError> {
    let (mailbox, mut outputs) = Mailbox::new();
    let mut waiting = HashMap::with_capacity(commands.len());
    for (tag, (name, command)) in (0..).zip(commands) {
        handle.submit(Request { mailbox: mailbox.clone(), tag: Some(tag), command });
        waiting.insert(tag, name);
    }
    let mut result = Ok(());
    while !waiting.is_empty() {
        let Some(Output::Response { tag, response }) = outputs.recv().await else { continue };
        let name = waiting.remove(&tag);
        if let (Some(name), Response::Done(Err(refusal)), Ok(())) = (name, response, &result) {
            result = Err(StartError::Refused { name, refusal });
        }
    }
    result
}
