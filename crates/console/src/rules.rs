//! Rules in JSON, and `POST rules/test`: which rules match a message, and the results of their actions.

use axum::body::Body;
use axum::http::StatusCode;
use peeklock_access::EntityNode;
use peeklock_admin::messages::Place;
use peeklock_admin::{Error, RuleText, correlation_fields};
use peeklock_engine::{Arrival, Filter, Right, Rule, RuleProperties, Subject};
use peeklock_message::submission::RequiredProperties;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use uuid::Uuid;

use crate::answer::{Answer, Outcome, found};
use crate::call::{self, BODY_BYTES_MAX, Call, not_found};
use crate::entities::subscription_path;
use crate::messages::AskedMessage;
use crate::values::{self, Properties};
use crate::{Console, time};

/// Maximum number of rules on a page.
const TOP_MAX: u64 = 1_000;
/// Maximum number of rules that one request evaluates.
const TRIED_MAX: usize = 1_000;
/// Maximum number of subscriptions that one request examines.
const SUBSCRIPTIONS_MAX: usize = 100;

/// A page of the rules of a subscription.
pub(crate) fn list(console: &Console, call: &Call) -> Outcome {
    let node = call.whole_node()?;
    call.authorize(console, &node.resource(), Right::Manage)?;
    let from = usize::try_from(call.number("from", 0, 0..=u64::MAX)?).unwrap_or(usize::MAX);
    let top = usize::try_from(call.number("top", 100, 1..=TOP_MAX)?).unwrap_or(1);
    let name = node.subscription.as_deref().ok_or_else(|| {
        Error::bad_request("Only subscriptions have rules: write a path such as TOPIC/Subscriptions/NAME.")
    })?;
    let described = console.admin.namespace.describe_subscription(&node.name, name);
    let rules = &described.ok_or_else(|| not_found(&node))?.subscription.rules;
    let shown: Vec<Json> = rules.iter().skip(from).take(top).map(|rule| self::shown(rule)).collect();
    let end = from.saturating_add(shown.len());
    let next = (end < rules.len()).then(|| end.to_string());
    found(json!({ "rules": shown, "next": next }))
}

/// A rule.
pub(crate) fn shown(rule: &Rule) -> Json {
    let mut shown = json!({
        "name": &*rule.name,
        "filter": filter(&rule.filter),
        "created_at": time::json(rule.created_at),
    });
    if let (Some(action), Some(object)) = (&rule.action, shown.as_object_mut()) {
        object.insert(
            "action".into(),
            json!({
                "expression": action.expression(),
                "parameters": values(action.parameters()),
            }),
        );
    }
    shown
}

fn filter(filter: &Filter) -> Json {
    match filter {
        Filter::True => json!({ "kind": "true" }),
        Filter::False => json!({ "kind": "false" }),
        Filter::Sql(filter) => json!({
            "kind": "sql",
            "expression": filter.expression(),
            "parameters": values(filter.parameters()),
        }),
        Filter::Selector(selector) => json!({ "kind": "selector", "expression": selector.text() }),
        Filter::Correlation(filter) => {
            let mut shown = Map::new();
            shown.insert("kind".into(), json!("correlation"));
            for (name, text) in correlation_fields(filter) {
                if let Some((field, _)) = FIELDS.iter().find(|(_, known)| *known == name) {
                    shown.insert((*field).into(), json!(text));
                }
            }
            shown.insert("properties".into(), values(&filter.user));
            Json::Object(shown)
        }
    }
}

fn values(values: &[(Box<str>, peeklock_engine::PropertyValue)]) -> Json {
    let shown = values.iter().map(|(name, value)| (name.to_string(), values::of_property(value)));
    Json::Object(shown.collect())
}

/// Fields of a correlation filter: the API's names and Service Bus's.
const FIELDS: [(&str, &str); 8] = [
    ("correlation_id", "CorrelationId"),
    ("message_id", "MessageId"),
    ("to", "To"),
    ("reply_to", "ReplyTo"),
    ("subject", "Label"),
    ("session_id", "SessionId"),
    ("reply_to_session_id", "ReplyToSessionId"),
    ("content_type", "ContentType"),
];

/// A rule in a request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AskedRule {
    #[serde(default)]
    filter: Option<AskedFilter>,
    #[serde(default)]
    action: Option<AskedAction>,
}

/// A rule to be tested that does not exist in a subscription.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRule {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    filter: Option<AskedFilter>,
    #[serde(default)]
    action: Option<AskedAction>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedFilter {
    kind: String,
    #[serde(default)]
    expression: Option<String>,
    #[serde(default)]
    parameters: Properties,
    #[serde(default)]
    properties: Properties,
    #[serde(default)]
    correlation_id: Option<String>,
    #[serde(default)]
    message_id: Option<String>,
    #[serde(default)]
    to: Option<String>,
    #[serde(default)]
    reply_to: Option<String>,
    #[serde(default)]
    subject: Option<String>,
    #[serde(default)]
    session_id: Option<String>,
    #[serde(default)]
    reply_to_session_id: Option<String>,
    #[serde(default)]
    content_type: Option<String>,
}

/// An action: its SQL, alone or with parameters.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum AskedAction {
    Expression(String),
    Full(FullAction),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FullAction {
    expression: String,
    #[serde(default)]
    parameters: Properties,
}

impl AskedRule {
    /// The rule as texts.
    ///
    /// # Errors
    /// An unknown kind of filter.
    pub(crate) fn text(self) -> Result<RuleText, Error> {
        let filter =
            self.filter.unwrap_or_else(|| AskedFilter { kind: "true".into(), ..AskedFilter::default() });
        let filter_kind = match filter.kind.as_str() {
            "true" => "TrueFilter",
            "false" => "FalseFilter",
            "sql" => "SqlFilter",
            "correlation" => "CorrelationFilter",
            other => {
                let text = format!("A filter is of the kind sql, correlation, true or false, not '{other}'.");
                return Err(Error::bad_request(text));
            }
        };
        let texts = [
            filter.correlation_id,
            filter.message_id,
            filter.to,
            filter.reply_to,
            filter.subject,
            filter.session_id,
            filter.reply_to_session_id,
            filter.content_type,
        ];
        let fields = FIELDS.into_iter().zip(texts);
        let fields = fields.filter_map(|((_, name), text)| Some((name.to_owned(), text?))).collect();
        let (action, action_parameters) = match self.action {
            None => (None, Vec::new()),
            Some(AskedAction::Expression(expression)) => (Some(expression), Vec::new()),
            Some(AskedAction::Full(action)) => (Some(action.expression), action.parameters.typed()),
        };
        Ok(RuleText {
            filter_kind,
            expression: filter.expression.unwrap_or_default(),
            parameters: filter.parameters.typed(),
            fields,
            properties: filter.properties.typed(),
            action,
            action_parameters,
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Test {
    topic: String,
    message: AskedMessage,
    #[serde(default)]
    rule: Option<NewRule>,
    #[serde(default)]
    from: Option<String>,
}

/// Evaluates the rules of a topic's subscriptions, or a given one, on a message that is not sent.
pub(crate) async fn test(console: &Console, call: &Call, body: Body) -> Outcome {
    let (asked, _room) = call.json::<Test>(console, body, BODY_BYTES_MAX).await?;
    let node = call::node(&asked.topic)?;
    call.authorize(console, &node.resource(), Right::Manage)?;
    let place = call::place(&console.admin.namespace, &node)?;
    let trial = Trial::new(console, asked.message)?;
    if let Some(NewRule { name, filter, action }) = asked.rule {
        let name = name.as_deref().unwrap_or("new");
        let rule = console.admin.read_rule(name, &AskedRule { filter, action }.text()?)?;
        return found(json!({ "results": [trial.result(None, &rule)], "next": null }));
    }
    check_is_topic(&place, &node)?;
    let console = console.clone();
    // Evaluating rules may take long.
    let tried =
        tokio::task::spawn_blocking(move || try_all(&console, &node, asked.from.as_deref(), &trial)).await;
    let (results, next) = tried.map_err(|_| Error::internal())?;
    Ok(Answer::Json(StatusCode::OK, json!({ "results": results, "next": next })))
}

fn check_is_topic(place: &Place, node: &EntityNode) -> Result<(), Error> {
    if place.is_topic {
        return Ok(());
    }
    let path = node.entity_path();
    Err(Error::bad_request(format!("'{path}' is not a topic: rules are tried on a message sent to a topic.")))
}

/// Evaluates rules of some subscriptions; also returns the name of the last one if there are more.
fn try_all(
    console: &Console,
    node: &EntityNode,
    after: Option<&str>,
    trial: &Trial,
) -> (Vec<Json>, Option<String>) {
    let namespace = &console.admin.namespace;
    let found = namespace.subscriptions_after(&node.name, after, SUBSCRIPTIONS_MAX + 1);
    let has_more = found.len() > SUBSCRIPTIONS_MAX;
    let (mut results, mut last) = (Vec::new(), None);
    for description in found.into_iter().take(SUBSCRIPTIONS_MAX) {
        let subscription = &description.subscription;
        let path = subscription_path(&node.name, &subscription.name);
        let rules = subscription.rules.iter().take(TRIED_MAX);
        results.extend(rules.map(|rule| trial.result(Some(&path), rule)));
        last = Some(subscription.name.to_string());
        if results.len() >= TRIED_MAX {
            return (results, last);
        }
    }
    (results, last.filter(|_| has_more))
}

/// A message on which rules are evaluated.
struct Trial {
    properties: RuleProperties,
    enqueued_at_ms: u64,
    time_to_live_ms: Option<u64>,
    scheduled_enqueue_time_ms: Option<u64>,
    size_bytes: u64,
}

impl Trial {
    fn new(console: &Console, message: AskedMessage) -> Result<Self, Error> {
        let now = console.admin.namespace.clock().now();
        let wanted = RequiredProperties { rule_properties: true, ..RequiredProperties::default() };
        let message = message.draft()?.into_message(wanted, now.0)?;
        Ok(Self {
            properties: message.rule_properties.as_deref().cloned().unwrap_or_default(),
            enqueued_at_ms: now.0,
            time_to_live_ms: message.time_to_live_ms,
            scheduled_enqueue_time_ms: message.scheduled_enqueue_time.map(|at| at.0),
            size_bytes: message.content.len() as u64,
        })
    }

    fn result(&self, subscription: Option<&str>, rule: &Rule) -> Json {
        let arrival = Arrival {
            enqueued_at_ms: self.enqueued_at_ms,
            time_to_live_ms: self.time_to_live_ms,
            scheduled_enqueue_time_ms: self.scheduled_enqueue_time_ms,
            size_bytes: self.size_bytes,
            ..Arrival::default()
        };
        let subject = Subject { rule_properties: &self.properties, arrival };
        let mut new_id = || Uuid::new_v4().as_u128();
        let mut result = Map::new();
        if let Some(path) = subscription {
            result.insert("subscription".into(), json!(path));
        }
        result.insert("rule".into(), json!(&*rule.name));
        let matches = rule.filter.matches(&subject, &mut new_id);
        result.insert("matches".into(), json!(matches.as_ref().is_ok_and(|matches| *matches)));
        match (matches, &rule.action) {
            (Err(failure), _) => {
                result.insert("error".into(), json!(failure.text));
            }
            (Ok(true), Some(action)) => match action.changes(&subject, &mut new_id) {
                Ok(changes) => {
                    result.insert("changed".into(), changed(&changes));
                }
                Err(failure) => {
                    result.insert("error".into(), json!(failure.text));
                }
            },
            (Ok(_), _) => {}
        }
        Json::Object(result)
    }
}

/// Properties changed by an action; null for removed ones.
fn changed(changes: &peeklock_engine::PropertyChanges) -> Json {
    let mut changed = Map::new();
    for (property, value) in &changes.texts {
        changed.insert(property_name(*property).into(), json!(value));
    }
    if let Some(at_ms) = changes.scheduled_enqueue_time_ms {
        let at = at_ms.map(|at_ms| time::text(peeklock_engine::Timestamp(at_ms)));
        changed.insert("scheduled_for".into(), json!(at));
    }
    if let Some(life_ms) = changes.time_to_live_ms {
        changed.insert("time_to_live_ms".into(), json!(life_ms));
    }
    let user = changes.user.iter();
    let user =
        user.map(|(name, value)| (name.to_string(), value.as_ref().map_or(Json::Null, values::of_property)));
    changed.insert("properties".into(), Json::Object(user.collect()));
    Json::Object(changed)
}

const fn property_name(property: peeklock_engine::TextProperty) -> &'static str {
    use peeklock_engine::TextProperty as Text;
    match property {
        Text::ContentType => "content_type",
        Text::CorrelationId => "correlation_id",
        Text::Label => "subject",
        Text::MessageId => "message_id",
        Text::PartitionKey => "partition_key",
        Text::ReplyTo => "reply_to",
        Text::ReplyToSessionId => "reply_to_session_id",
        Text::SessionId => "session_id",
        Text::To => "to",
    }
}
