//! Checks the subscriptions of a configuration before any of its entities is declared: each topic's partition decides about
//! its subscriptions, so a refusal comes when other changes are made already.

use std::sync::Arc;

use super::subscriptions::DeclaredSubscription;
use crate::names::name_key;
use crate::rule::FilterCounts;
use crate::runtime::entity::Entity;
use crate::runtime::{Namespace, StartError};
use crate::{Refusal, Rule};

impl Namespace {
    /// Checks that [`Self::declare_subscriptions`] will not be refused for these subscriptions of a topic, which may not exist
    /// yet. Targets of forwarding may be entities for which `is_declared`: they are about to be declared.
    ///
    /// # Errors
    /// The refusal.
    pub fn check_subscriptions(
        &self,
        topic: &str,
        subscriptions: &[DeclaredSubscription],
        is_declared: impl Fn(&str) -> bool,
    ) -> Result<(), StartError> {
        let topic = self.inner.directory.get(&name_key(topic));
        let is_target = |key: &str| self.inner.directory.get(key).is_some() || is_declared(key);
        for (name, options, rules) in subscriptions {
            self.check_subscription(name, options, rules, |options| {
                options.forwarding.unknown_target(None, is_target)
            })?;
            if let Some(found) = topic.as_ref().and_then(|topic| topic.subscriptions.get(name))
                && let Some(reason) = found.options.immutable_change(options)
            {
                return Err(StartError::InvalidOptions { name: name.clone(), reason });
            }
        }
        self.check_limits(topic.as_deref(), subscriptions)
    }

    /// Checks the limits on rules and on the number of subscriptions, for those that do not exist yet.
    fn check_limits(
        &self,
        topic: Option<&Entity>,
        subscriptions: &[DeclaredSubscription],
    ) -> Result<(), StartError> {
        let limits = &self.inner.common.rule_limits;
        let (mut count, mut filters) =
            topic.map_or((0, FilterCounts::default()), |topic| topic.subscriptions.sizes());
        let is_new = |name: &str| topic.as_ref().is_none_or(|topic| topic.subscriptions.get(name).is_none());
        for (name, _, rules) in subscriptions.iter().filter(|(name, ..)| is_new(name)) {
            let rules: Vec<Arc<Rule>> = rules.iter().cloned().map(Arc::new).collect();
            let added = FilterCounts::of(&rules);
            (count, filters) = (count + 1, filters.plus(added));
            let refusal = if count > limits.subscriptions_per_topic {
                Some(Refusal::TooManySubscriptions(limits.subscriptions_per_topic))
            } else if added.sql > 0 && filters.sql > limits.sql_filters_per_topic {
                Some(Refusal::TooManySqlFilters(limits.sql_filters_per_topic))
            } else if added.correlation > 0 && filters.correlation > limits.correlation_filters_per_topic {
                Some(Refusal::TooManyCorrelationFilters(limits.correlation_filters_per_topic))
            } else {
                rules.iter().find_map(|rule| limits.check(rule).err())
            };
            if let Some(refusal) = refusal {
                return Err(StartError::Refused { name: name.clone(), refusal });
            }
        }
        Ok(())
    }
}
