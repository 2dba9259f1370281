//! `GET dead-letters`: dead letters of all entities, grouped by their reason.

use std::collections::BTreeMap;

use peeklock_access::{EntityNode, Resource};
use peeklock_admin::Error;
use peeklock_admin::messages::Place;
use peeklock_engine::partition::Counts;
use peeklock_engine::runtime::TreeNode;
use peeklock_engine::{Right, SubQueue, Timestamp};
use serde_json::{Value as Json, json};

use super::{EXAMINED_MAX, STEP, number, peek};
use crate::answer::{Outcome, found};
use crate::call::{self, Call};
use crate::{Console, time};

/// Maximum number of entities that one request examines.
const ENTITIES_MAX: usize = 1_000;
/// Maximum number of groups on one page: reasons may be different for every message.
const GROUPS_MAX: usize = 500;
/// Separates a path and the number of the next message in the cursor.
const NUMBER: char = '@';

/// The common properties of the messages in a group.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    path: String,
    queue: &'static str,
    reason: Option<String>,
    description: Option<String>,
}

struct Group {
    count: u64,
    oldest_at: Timestamp,
    newest_at: Timestamp,
    first_number: u64,
}

/// Groups under construction.
#[derive(Default)]
struct Groups {
    groups: BTreeMap<Key, Group>,
    examined: usize,
}

/// A page of groups. A group may continue on the next page: callers add them up.
pub(crate) async fn dead_letters(console: &Console, call: &Call) -> Outcome {
    call.authorize(console, &Resource::namespace(), Right::Manage)?;
    let mut cursor = call.text("from").map(read_cursor).transpose()?;
    let mut groups = Groups::default();
    if let Some((node, Some(from))) = &cursor
        && let Some(next) = groups.examine(console, node.clone(), *from).await?
    {
        return answer(groups, Some(next));
    }
    // Continue after the queue of the cursor: first with the other one of the same entity.
    if let Some((node, Some(_))) = cursor.clone()
        && node.sub_queue == SubQueue::DeadLetter
    {
        let node = EntityNode { sub_queue: SubQueue::TransferDeadLetter, ..node };
        if let Some(next) = groups.examine(console, node, 0).await? {
            return answer(groups, Some(next));
        }
    }
    let after = cursor.take().map(|(node, _)| node);
    let after = after.as_ref().map(|node| (node.name.as_str(), node.subscription.as_deref()));
    let nodes = console.admin.namespace.tree(after, ENTITIES_MAX);
    let is_last_page = nodes.len() < ENTITIES_MAX;
    let mut last = None;
    for node in nodes {
        let (entity, counts) = of(node);
        for (sub_queue, count) in [
            (SubQueue::DeadLetter, counts.dead_letter),
            (SubQueue::TransferDeadLetter, counts.transfer_dead_letter),
        ] {
            if count > 0
                && let Some(next) =
                    groups.examine(console, EntityNode { sub_queue, ..entity.clone() }, 0).await?
            {
                return answer(groups, Some(next));
            }
        }
        last = Some(entity.entity_path());
    }
    answer(groups, last.filter(|_| !is_last_page))
}

fn of(node: TreeNode) -> (EntityNode, Counts) {
    let (name, subscription, counts) = match node {
        TreeNode::Entity(entity) => (entity.name, None, entity.counts),
        TreeNode::Subscription { topic, description } => {
            (topic, Some(description.subscription.name.to_string()), description.counts)
        }
    };
    (EntityNode { name, subscription, sub_queue: SubQueue::Main, management: false }, counts)
}

/// Parses a cursor: an entity that was examined, or a dead-letter queue and the number at which to continue.
fn read_cursor(text: &str) -> Result<(EntityNode, Option<u64>), Error> {
    match text.rsplit_once(NUMBER) {
        Some((path, from)) => Ok((call::node(path)?, Some(number("from", from)?))),
        None => Ok((call::node(text)?, None)),
    }
}

impl Groups {
    /// Adds the messages of a queue; returns where to continue if they exceed one page.
    async fn examine(
        &mut self,
        console: &Console,
        node: EntityNode,
        from: u64,
    ) -> Result<Option<String>, Error> {
        // It may have been deleted meanwhile, or not allow receiving at present.
        let Some(place) = Place::of(&console.admin.namespace, &node) else { return Ok(None) };
        let mut from = from;
        loop {
            if self.examined >= EXAMINED_MAX || self.groups.len() >= GROUPS_MAX {
                return Ok(Some(format!("{node}{NUMBER}{from}")));
            }
            let count_max = STEP.min(EXAMINED_MAX - self.examined);
            let Ok(received) = peek(&place, from, count_max).await else { return Ok(None) };
            let Some(last) = received.last() else { return Ok(None) };
            from = last.view.shown_number().0.saturating_add(1);
            for message in &received {
                self.examined += 1;
                self.add(&node, message);
            }
        }
    }

    fn add(&mut self, node: &EntityNode, message: &peeklock_engine::Received) {
        let (view, why) = (&message.view, message.view.dead_letter.as_deref());
        let queue = if node.sub_queue == SubQueue::DeadLetter { "dead_letter" } else { "transfer" };
        let text = |text: Option<&std::sync::Arc<str>>| text.map(|text| text.to_string());
        let key = Key {
            path: node.entity_path(),
            queue,
            reason: text(why.and_then(|why| why.reason.as_ref())),
            description: text(why.and_then(|why| why.description.as_ref())),
        };
        let group = self.groups.entry(key).or_insert_with(|| Group {
            count: 0,
            oldest_at: view.enqueued_at,
            newest_at: view.enqueued_at,
            first_number: view.shown_number().0,
        });
        group.count += 1;
        group.oldest_at = group.oldest_at.min(view.enqueued_at);
        group.newest_at = group.newest_at.max(view.enqueued_at);
    }
}

fn answer(groups: Groups, next: Option<String>) -> Outcome {
    let shown = groups.groups.into_iter().map(|(key, group)| {
        json!({
            "path": key.path,
            "queue": key.queue,
            "reason": key.reason,
            "description": key.description,
            "count": group.count,
            "oldest_at": time::json(group.oldest_at),
            "newest_at": time::json(group.newest_at),
            "first_sequence_number": group.first_number.to_string(),
        })
    });
    found(json!({ "groups": shown.collect::<Vec<Json>>(), "examined": groups.examined, "next": next }))
}
