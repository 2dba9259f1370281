//! `[[queues]]`: the properties of a queue, by Service Bus's own names and ranges.

use peeklock_engine::QueueOptions;

use super::entity::{self, Bounds};
use super::names::Place;
use super::table::Table;
use super::{authorization_rule, forwarding};

/// A queue that the configuration declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueueConfig {
    /// Its name, as written.
    pub(crate) name: String,
    /// Its properties.
    pub(crate) options: QueueOptions,
}

/// Reads one `[[queues]]` table, and the place of its name; `None` when its name is unusable, which has been reported
/// then.
pub(super) fn read(mut table: Table<'_, '_>, place: &Place, bounds: Bounds) -> Option<(QueueConfig, Place)> {
    let name = entity::read_name(&mut table, place, "\"orders\"", entity::check_name);
    if let Some((name, _)) = &name {
        table.set_title(format!("queue \"{name}\": "));
    }
    let options = read_options(&mut table, name.as_ref().map(|(name, _)| name.as_str()), bounds);
    table.unsupported("tier", "");
    table.finish();
    let (name, place) = name?;
    Some((QueueConfig { name, options }, place))
}

fn read_options(table: &mut Table<'_, '_>, name: Option<&str>, bounds: Bounds) -> QueueOptions {
    let default = QueueOptions::default();
    let sizes = (default.max_message_size_bytes, default.max_size_bytes);
    let (max_message_size_bytes, max_size_bytes) = entity::sizes_bytes(table, "queue", sizes, bounds);
    let (requires_duplicate_detection, duplicate_detection_history_time_window_ms) =
        entity::duplicate_detection(table, default.duplicate_detection_history_time_window_ms);
    QueueOptions {
        lock_duration_ms: entity::lock_duration_ms(table, default.lock_duration_ms),
        max_delivery_count: entity::max_delivery_count(table, default.max_delivery_count),
        default_message_time_to_live_ms: entity::default_message_time_to_live_ms(table, bounds.limits),
        dead_lettering_on_message_expiration: table
            .boolean("dead_lettering_on_message_expiration", default.dead_lettering_on_message_expiration),
        requires_session: table.boolean("requires_session", default.requires_session),
        auto_delete_on_idle_ms: entity::auto_delete_on_idle_ms(table, bounds.limits),
        max_message_size_bytes,
        max_size_bytes,
        requires_duplicate_detection,
        duplicate_detection_history_time_window_ms,
        status: entity::status(table),
        forwarding: forwarding::read(table, name),
        authorization_rules: authorization_rule::read_all(
            table,
            "authorization_rules",
            "queues.authorization_rules",
        ),
        kept: entity::kept(table, requires_duplicate_detection),
    }
}
