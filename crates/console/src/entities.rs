//! `GET entities` and `GET entity`: queues, topics and subscriptions.

use peeklock_access::EntityNode;
use peeklock_admin::Error;
use peeklock_engine::runtime::{EntityDescription, SubscriptionDescription, TreeNode};
use peeklock_engine::{EntityOptions, Forwarding, Right, Timestamp};
use serde_json::{Map, Value as Json, json};

use crate::answer::{Outcome, found};
use crate::call::{self, Call, not_found};
use crate::options::{self, Shown};
use crate::{Console, overview, rules, time};

/// Maximum number of rows on a page.
const TOP_MAX: u64 = 1_000;
/// Maximum number of entities that one request examines.
const LOOKED_AT_MAX: usize = 1_000;
/// Rules returned with a subscription; `GET rules` returns all in pages.
const RULES_SHOWN: usize = 100;

/// A page of all queues, topics and subscriptions, or of the subscriptions of one topic, whose path contains a text.
pub(crate) fn list(console: &Console, call: &Call) -> Outcome {
    call.manage(console)?;
    let top = usize::try_from(call.number("top", 100, 1..=TOP_MAX)?).unwrap_or(1);
    let search = call.text("search").map(str::to_lowercase);
    let (kind, topic) = (call.text("kind"), call.text("topic"));
    if !matches!(kind, None | Some("queue" | "topic" | "subscription")) {
        return Err(Error::bad_request("The parameter 'kind' must be queue, topic or subscription."));
    }
    let after = call.text("from").map(call::node).transpose()?;
    let is_filtered = search.is_some() || kind.is_some();
    let looked_at_max = if is_filtered { LOOKED_AT_MAX } else { top };
    let nodes = nodes(console, topic, after.as_ref(), looked_at_max)?;
    let (mut rows, mut next) = (Vec::new(), None);
    let is_last_page = nodes.len() < looked_at_max;
    let mut nodes = nodes.iter();
    for node in nodes.by_ref() {
        let path = path_of(node);
        // The path of every subscription of a topic contains the name of the topic.
        let name = if topic.is_some() { name_of(node) } else { &path };
        let is_wanted = search.as_ref().is_none_or(|search| name.to_lowercase().contains(&**search))
            && kind.is_none_or(|kind| kind == kind_of(node));
        next = Some(path);
        if is_wanted {
            rows.push(Json::Object(row(node)));
            if rows.len() >= top {
                break;
            }
        }
    }
    let has_more = !is_last_page || nodes.next().is_some();
    found(json!({ "entities": rows, "next": next.filter(|_| has_more) }))
}

/// Up to `top` nodes after another: of the whole tree, or subscriptions of one topic.
///
/// # Errors
/// 404 if there is no such topic.
fn nodes(
    console: &Console,
    topic: Option<&str>,
    after: Option<&EntityNode>,
    top: usize,
) -> Result<Vec<TreeNode>, Error> {
    let namespace = &console.admin.namespace;
    let subscription = after.and_then(|node| node.subscription.as_deref());
    let Some(topic) = topic.map(call::node).transpose()? else {
        return Ok(namespace.tree(after.map(|node| (node.name.as_str(), subscription)), top));
    };
    let found = namespace.describe(&topic.name).filter(|_| topic.subscription.is_none());
    let name = found.filter(|found| entity_kind(found) == "topic").ok_or_else(|| not_found(&topic))?.name;
    let subscriptions = namespace.subscriptions_after(&name, subscription, top).into_iter();
    Ok(subscriptions.map(|description| TreeNode::Subscription { topic: name.clone(), description }).collect())
}

/// One entity with its options and, for a subscription, its first rules.
pub(crate) fn get(console: &Console, call: &Call) -> Outcome {
    let node = call.whole_node()?;
    call.authorize(console, &node.resource(), Right::Manage)?;
    found(shown(console, &node)?)
}

/// The answer of `GET entity`.
///
/// # Errors
/// 404.
pub(crate) fn shown(console: &Console, node: &EntityNode) -> Result<Json, Error> {
    let (namespace, tier) = (&console.admin.namespace, console.admin.tier());
    let (mut row, shown, times, accessed_at) = match &node.subscription {
        None => {
            let found = namespace.describe(&node.name).ok_or_else(|| not_found(node))?;
            let shown = options::of_entity(&found.options, tier);
            (entity_row(&found), shown, found.times, found.accessed_at)
        }
        Some(name) => {
            let found = namespace.describe_subscription(&node.name, name).ok_or_else(|| not_found(node))?;
            let subscription = &found.subscription;
            let shown = options::of(&subscription.options, tier);
            let mut row = subscription_row(&node.name, &found);
            let rules = &subscription.rules;
            row.insert("rule_count".into(), json!(rules.len()));
            row.insert(
                "rules".into(),
                rules.iter().take(RULES_SHOWN).map(|rule| rules::shown(rule)).collect(),
            );
            (row, shown, subscription.times, found.accessed_at)
        }
    };
    let Shown { options, read_only } = shown;
    row.insert("options".into(), Json::Object(options));
    row.insert("read_only".into(), json!(read_only));
    row.insert("created_at".into(), time::json(times.created_at));
    row.insert("updated_at".into(), time::json(times.updated_at));
    row.insert("accessed_at".into(), accessed_at.map_or(Json::Null, time::json));
    Ok(Json::Object(row))
}

fn name_of(node: &TreeNode) -> &str {
    match node {
        TreeNode::Entity(entity) => &entity.name,
        TreeNode::Subscription { description, .. } => &description.subscription.name,
    }
}

fn path_of(node: &TreeNode) -> String {
    match node {
        TreeNode::Entity(entity) => entity.name.clone(),
        TreeNode::Subscription { topic, description } => {
            subscription_path(topic, &description.subscription.name)
        }
    }
}

/// The path of a subscription.
pub(crate) fn subscription_path(topic: &str, name: &str) -> String {
    format!("{topic}/Subscriptions/{name}")
}

fn kind_of(node: &TreeNode) -> &'static str {
    match node {
        TreeNode::Entity(entity) => entity_kind(entity),
        TreeNode::Subscription { .. } => "subscription",
    }
}

fn entity_kind(entity: &EntityDescription) -> &'static str {
    match *entity.options {
        EntityOptions::Queue(_) => "queue",
        EntityOptions::Topic(_) => "topic",
    }
}

fn row(node: &TreeNode) -> Map<String, Json> {
    match node {
        TreeNode::Entity(entity) => entity_row(entity),
        TreeNode::Subscription { topic, description } => subscription_row(topic, description),
    }
}

fn entity_row(entity: &EntityDescription) -> Map<String, Json> {
    let options = &*entity.options;
    let mut row = Map::new();
    row.insert("path".into(), json!(entity.name));
    row.insert("kind".into(), json!(entity_kind(entity)));
    row.insert("status".into(), json!(options.status().name()));
    row.insert("counts".into(), overview::counts(&entity.counts));
    row.insert("size_bytes".into(), json!(entity.counts.size_bytes));
    row.insert("totals".into(), overview::totals(&entity.totals));
    row.insert("max_size_bytes".into(), json!(options.max_size_bytes()));
    row.insert("is_damaged".into(), json!(entity.is_damaged));
    match options {
        EntityOptions::Queue(queue) => {
            row.insert("requires_session".into(), json!(queue.requires_session));
            add_forwarding(&mut row, &queue.forwarding);
        }
        EntityOptions::Topic(_) => {
            row.insert("requires_session".into(), json!(false));
            row.insert("subscriptions".into(), json!(entity.subscriptions));
        }
    }
    add_accessed(&mut row, entity.accessed_at);
    row
}

fn subscription_row(topic: &str, found: &SubscriptionDescription) -> Map<String, Json> {
    let (subscription, options) = (&found.subscription, &found.subscription.options);
    let mut row = Map::new();
    row.insert("path".into(), json!(subscription_path(topic, &subscription.name)));
    row.insert("kind".into(), json!("subscription"));
    row.insert("topic".into(), json!(topic));
    row.insert("status".into(), json!(options.status.name()));
    row.insert("requires_session".into(), json!(options.requires_session));
    row.insert("counts".into(), overview::counts(&found.counts));
    row.insert("size_bytes".into(), json!(found.counts.size_bytes));
    row.insert("totals".into(), overview::totals(&found.totals));
    add_forwarding(&mut row, &options.forwarding);
    add_accessed(&mut row, found.accessed_at);
    row
}

fn add_forwarding(row: &mut Map<String, Json>, forwarding: &Forwarding) {
    if let Some(target) = &forwarding.forward_to {
        row.insert("forward_to".into(), json!(&**target));
    }
}

fn add_accessed(row: &mut Map<String, Json>, accessed_at: Option<Timestamp>) {
    row.insert("accessed_at".into(), accessed_at.map_or(Json::Null, time::json));
}
