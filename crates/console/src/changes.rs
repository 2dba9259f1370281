//! Creates, changes and deletes entities and rules with the code of the Atom API.

use axum::body::Body;
use axum::http::StatusCode;
use peeklock_admin::Error;
use peeklock_engine::Right;
use peeklock_engine::runtime::EntityKind;
use serde::Deserialize;

use crate::Console;
use crate::answer::{Answer, Outcome, found};
use crate::call::{self, BODY_BYTES_MAX, Call};
use crate::entities;
use crate::options::Asked;
use crate::rules::AskedRule;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewEntity {
    path: String,
    kind: String,
    #[serde(default)]
    options: Asked,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Changes {
    options: Asked,
}

/// `POST entities`
pub(crate) async fn create(console: &Console, call: &Call, body: Body) -> Outcome {
    let (asked, _room) = call.json::<NewEntity>(console, body, BODY_BYTES_MAX).await?;
    let _ = call.concerned.set(asked.path.clone());
    let node = call::node(&asked.path)?;
    call.authorize(console, &node.resource(), Right::Manage)?;
    let kind = match (asked.kind.as_str(), &node.subscription) {
        _ if !node.is_whole() => return Err(Error::bad_request("A queue inside another can't be created.")),
        // A subscription is one by its path; the kind has no meaning for it.
        ("queue", None) | ("subscription", Some(_)) => EntityKind::Queue,
        ("topic", None) => EntityKind::Topic,
        ("queue" | "topic" | "subscription", _) => {
            return Err(Error::bad_request(
                "A subscription has a path such as TOPIC/Subscriptions/NAME; queues and topics have a name.",
            ));
        }
        _ => return Err(Error::bad_request("'kind' must be queue, topic or subscription.")),
    };
    console.admin.create_entity(&node, kind, &asked.options.0, &call.headers).await?;
    Ok(Answer::Json(StatusCode::CREATED, entities::shown(console, &node)?))
}

/// `PATCH entity`
pub(crate) async fn update(console: &Console, call: &Call, body: Body) -> Outcome {
    let node = call.whole_node()?;
    call.authorize(console, &node.resource(), Right::Manage)?;
    let (asked, _room) = call.json::<Changes>(console, body, BODY_BYTES_MAX).await?;
    console.admin.change_entity(&node, &asked.options.0, &call.headers).await?;
    found(entities::shown(console, &node)?)
}

/// `DELETE entity`
pub(crate) async fn delete(console: &Console, call: &Call) -> Outcome {
    let node = call.whole_node()?;
    call.authorize(console, &node.resource(), Right::Manage)?;
    console.admin.delete_entity(&node).await?;
    Ok(Answer::Empty)
}

/// `PUT rule`
pub(crate) async fn set_rule(console: &Console, call: &Call, body: Body) -> Outcome {
    let node = call.whole_node()?;
    call.authorize(console, &node.resource(), Right::Manage)?;
    let name = rule_name(call)?;
    let (asked, _room) = call.json::<AskedRule>(console, body, BODY_BYTES_MAX).await?;
    let is_new = console.admin.set_rule(&node, name, &asked.text()?).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(Answer::Json(status, entities::shown(console, &node)?))
}

/// `DELETE rule`
pub(crate) async fn delete_rule(console: &Console, call: &Call) -> Outcome {
    let node = call.whole_node()?;
    call.authorize(console, &node.resource(), Right::Manage)?;
    console.admin.delete_rule(&node, rule_name(call)?).await?;
    Ok(Answer::Empty)
}

fn rule_name(call: &Call) -> Result<&str, Error> {
    call.text("name")
        .ok_or_else(|| Error::bad_request("The parameter 'name' is missing: the name of the rule."))
}
