//! `[[topics]]`: the properties of a topic, and its subscriptions.

use peeklock_engine::{Kept, TopicOptions};

use super::authorization_rule;
use super::entity::{self, Bounds};
use super::names::{Names, Place};
use super::subscription::{self, SubscriptionConfig};
use super::table::Table;

/// Properties that a topic leaves to its subscriptions.
const OF_SUBSCRIPTIONS: [&str; 6] = [
    "dead_lettering_on_message_expiration",
    "forward_dead_lettered_messages_to",
    "forward_to",
    "lock_duration",
    "max_delivery_count",
    "requires_session",
];

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

/// Reads one `[[topics]]` table, and the place of its name; `None` when its name is unusable, which has been reported
/// then.
pub(super) fn read(mut table: Table<'_, '_>, place: &Place, bounds: Bounds) -> Option<(TopicConfig, Place)> {
    let name = entity::read_name(&mut table, place, "\"news\"", entity::check_name);
    if let Some((name, _)) = &name {
        table.set_title(format!("topic \"{name}\": "));
    }
    let options = read_options(&mut table, bounds);
    let subscriptions = read_subscriptions(&mut table, name.as_ref().map(|(name, _)| name.as_str()), bounds);
    table.unsupported("tier", "");
    for key in OF_SUBSCRIPTIONS {
        table.misplaced(key, "subscriptions have it, not topics; write it in [[topics.subscriptions]]");
    }
    table.finish();
    let (name, place) = name?;
    Some((TopicConfig { name, options, subscriptions }, place))
}

fn read_options(table: &mut Table<'_, '_>, bounds: Bounds) -> TopicOptions {
    let default = TopicOptions::default();
    let sizes = (default.max_message_size_bytes, default.max_size_bytes);
    let (max_message_size_bytes, max_size_bytes) = entity::sizes_bytes(table, "topic", sizes, bounds);
    let (requires_duplicate_detection, duplicate_detection_history_time_window_ms) =
        entity::duplicate_detection(table, default.duplicate_detection_history_time_window_ms);
    TopicOptions {
        default_message_time_to_live_ms: entity::default_message_time_to_live_ms(table, bounds.limits),
        auto_delete_on_idle_ms: entity::auto_delete_on_idle_ms(table, bounds.limits),
        max_message_size_bytes,
        max_size_bytes,
        requires_duplicate_detection,
        duplicate_detection_history_time_window_ms,
        status: entity::status(table),
        authorization_rules: authorization_rule::read_all(
            table,
            "authorization_rules",
            "topics.authorization_rules",
        ),
        kept: read_kept(table, requires_duplicate_detection),
    }
}

fn read_kept(table: &mut Table<'_, '_>, requires_duplicate_detection: bool) -> Kept {
    Kept {
        support_ordering: table.boolean("support_ordering", true),
        filtering_messages_before_publishing: table.boolean("filtering_messages_before_publishing", false),
        enable_subscription_partitioning: table.boolean("enable_subscription_partitioning", false),
        ..entity::kept(table, requires_duplicate_detection)
    }
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
