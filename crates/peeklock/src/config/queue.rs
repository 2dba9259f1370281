//! `[[queues]]`: the properties of a queue, with Service Bus's own names and ranges.

use peeklock_engine::{QueueOptions, Tier};

use super::entity::{self, Bounds};
use super::names::Place;
use super::options;
use super::table::Table;

/// A queue that the configuration declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueueConfig {
    /// Its name, as written.
    pub(crate) name: String,
    /// Its properties.
    pub(crate) options: QueueOptions,
}

impl QueueConfig {
    /// The queue with the tier's fixed options set.
    pub(super) fn complete(self, tier: Tier) -> Self {
        Self { options: tier.complete(self.options), ..self }
    }
}

/// Reads one `[[queues]]` table, and the position of its name; `None` when its name is invalid, which has been
/// reported.
pub(super) fn read(mut table: Table<'_, '_>, place: &Place, bounds: Bounds) -> Option<(QueueConfig, Place)> {
    let name = entity::read_name(&mut table, place, "\"orders\"", entity::check_name);
    if let Some((name, _)) = &name {
        table.set_title(format!("queue \"{name}\": "));
    }
    let own_name = name.as_ref().map(|(name, _)| name.as_str());
    let options = options::read(&mut table, bounds.tier.defaults(), own_name, bounds);
    table.misplaced("tier", "the whole namespace has one; write it in [namespace]");
    table.finish();
    let (name, place) = name?;
    Some((QueueConfig { name, options }, place))
}
