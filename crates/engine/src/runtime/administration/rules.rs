//! Rules of subscriptions, by name. Each change is one event of the topic's partition.

use super::{carry_out, not_found};
use crate::names::check_rule_name;
use crate::runtime::{ChangeError, Namespace};
use crate::{Command, QueueId, Refusal, Rule};

impl Namespace {
    /// Adds a rule to a subscription, durably.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing changed then.
    pub async fn create_rule(&self, topic: &str, subscription: &str, rule: Rule) -> Result<(), ChangeError> {
        let name = rule.name.clone();
        if let Err(reason) = check_rule_name(&name) {
            return Err(ChangeError::Invalid {
                reason: format!("{name:?} can't be the name of a rule: {reason}"),
            });
        }
        self.change_rules(topic, subscription, &name, |queue| Command::AddRule { queue, rule }).await
    }

    /// Replaces filter and action of a rule atomically and durably: each message is matched against the old rule or the new
    /// one.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing changed then.
    pub async fn update_rule(&self, topic: &str, subscription: &str, rule: Rule) -> Result<(), ChangeError> {
        let name = rule.name.clone();
        self.change_rules(topic, subscription, &name, |queue| Command::ReplaceRule { queue, rule }).await
    }

    /// Removes a rule from a subscription, durably.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing changed then.
    pub async fn delete_rule(&self, topic: &str, subscription: &str, name: &str) -> Result<(), ChangeError> {
        let remove = |queue| Command::RemoveRule { queue, name: name.into() };
        self.change_rules(topic, subscription, name, remove).await
    }

    async fn change_rules(
        &self,
        topic: &str,
        subscription: &str,
        rule: &str,
        command: impl FnOnce(QueueId) -> Command,
    ) -> Result<(), ChangeError> {
        let found = self.subscription(topic, subscription).ok_or_else(|| not_found(subscription))?;
        carry_out(&found.partition, command(found.queue)).await.map_err(|refusal| match refusal {
            Refusal::EntityDeleted => not_found(subscription),
            refusal => ChangeError::refused(rule, refusal),
        })
    }
}
