//! `[[topics]]`: the properties of a topic, and its subscriptions.

use peeklock_engine::{SubscriptionOptions, Tier, TopicOptions};

use super::entity::{self, Bounds};
use super::names::{Names, Place};
use super::options;
use super::subscription::{self, SubscriptionConfig};
use super::table::Table;

/// A topic that the configuration declares.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TopicConfig {
    /// Its name, as written.
    pub(crate) name: String,
    /// Its properties.
    pub(crate) options: TopicOptions,
    /// `[[topics.subscriptions]]`, in file order.
    pub(crate) subscriptions: Vec<SubscriptionConfig>,
}

impl TopicConfig {
    /// The topic with the tier's fixed options set.
    pub(super) fn complete(self, tier: Tier) -> Self {
        Self { options: tier.complete(self.options), ..self }
    }
}

/// Reads one `[[topics]]` table, and the position of its name; `None` when its name is invalid, which has been
/// reported.
pub(super) fn read(mut table: Table<'_, '_>, place: &Place, bounds: Bounds) -> Option<(TopicConfig, Place)> {
    let name = entity::read_name(&mut table, place, "\"news\"", entity::check_name);
    if let Some((name, _)) = &name {
        table.set_title(format!("topic \"{name}\": "));
    }
    let options = options::read(&mut table, bounds.tier.defaults(), None, bounds);
    let subscriptions = read_subscriptions(&mut table, name.as_ref().map(|(name, _)| name.as_str()), bounds);
    if let Some((_, place)) = &name {
        options::check_topics(&table, place, bounds);
    }
    table.misplaced("tier", "the whole namespace has one; write it in [namespace]");
    let advice = "subscriptions have it, not topics; write it in [[topics.subscriptions]]";
    options::report_misplaced::<TopicOptions, SubscriptionOptions>(&mut table, advice);
    table.finish();
    let (name, place) = name?;
    Some((TopicConfig { name, options, subscriptions }, place))
}

fn read_subscriptions(
    table: &mut Table<'_, '_>,
    topic: Option<&str>,
    bounds: Bounds,
) -> Vec<SubscriptionConfig> {
    let mut names = Names::default();
    let mut subscriptions = Vec::new();
    for (inner, place) in table.array("subscriptions", "topics.subscriptions") {
        let Some((subscription, place)) = subscription::read(inner, &place, topic, bounds) else { continue };
        if table.take_name(&mut names, "subscription", &subscription.name, &place) {
            subscriptions.push(subscription);
        }
    }
    subscriptions
}
