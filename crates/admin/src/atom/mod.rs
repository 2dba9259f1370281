//! The management API: entities as Atom entries in XML, as used by the SDKs' administration clients.
//!
//! `call` parses a request, `path` its path; one file for each kind of entity carries it out. `properties` reads and
//! writes descriptions by the engine's schema of options, `xml` is the bounded reader and the writer, `error` has the
//! error responses. Requirements of SDKs on a response are noted where it is written.

mod action;
mod audit;
mod authorization_rules;
mod call;
pub mod description;
mod details;
mod duration;
mod entity;
mod error;
mod exercise;
mod feed;
mod filter;
mod front_end;
pub(crate) mod instant;
mod key_values;
mod namespace_info;
mod orders;
mod path;
mod properties;
mod public;
mod rights;
mod rule;
mod sql;
mod subscription;
#[cfg(test)]
mod tests;
mod value;
mod xml;

pub(crate) use self::exercise::exercise;
pub use self::front_end::{OptionText, RuleText, Typed, correlation_fields, options_of, typed, untyped};

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use axum::http::{HeaderName, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use peeklock_access::Grant;
use peeklock_engine::Timestamp;
use peeklock_engine::runtime::ChangeError;

use self::call::Call;
use self::feed::Page;
use self::path::Target;
use self::properties::{Audience, Reading};
use self::rights::Verdict;
use self::xml::{Document, Element};
use crate::error::Error;
use crate::{Admin, Admission};

/// The header in which clients number their requests.
const CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-client-request-id");

/// An authorized request.
struct Session<'a> {
    admin: &'a Admin,
    call: &'a Call,
}

impl Session<'_> {
    /// The current time, by the clock of the entities.
    fn entity_now(&self) -> Timestamp {
        self.admin.namespace.clock().now()
    }

    /// Whether a queue or topic of this name exists.
    fn exists(&self, name: &str) -> bool {
        self.admin.namespace.options(name).is_some()
    }

    fn audience(&self) -> Audience<'_> {
        Audience { host: &self.call.host, api_version: self.call.api_version() }
    }

    /// The context for reading a description, with the options of the entity if it exists.
    fn reading<'b, O>(&'b self, current: Option<&'b O>) -> Reading<'b, O> {
        let limits = &self.admin.entity_limits;
        let (namespace, is_patch) = (feed::namespace_name(self), self.call.is_patch);
        Reading { limits, namespace, now: self.entity_now(), current, is_patch }
    }

    /// The requested page; `find` gets the numbers of items to skip and to return.
    fn page<T>(&self, find: impl FnOnce(usize, usize) -> Vec<T>) -> Page<T> {
        let Call { skip, top, .. } = *self.call;
        // One more item shows whether there is another page.
        let mut items = find(skip, top.saturating_add(1));
        let has_more = top > 0 && items.len() > top;
        items.truncate(top);
        Page { items, next_skip: has_more.then(|| skip.saturating_add(top)) }
    }
}

/// Answers a request.
pub(crate) async fn answer(admin: Admin, request: Request) -> Response {
    let id = request.headers().get(CLIENT_REQUEST_ID).cloned();
    let mut response = match Call::new(&request) {
        Ok(call) => respond(&admin, &call, request).await,
        Err(error) => error.into_response(),
    };
    if let Some(id) = id {
        response.headers_mut().insert(CLIENT_REQUEST_ID, id);
    }
    response
}

async fn respond(admin: &Admin, call: &Call, request: Request) -> Response {
    let peer = audit::peer(&request);
    let session = Session { admin, call };
    if call.target == Target::Root && call.method == Method::GET {
        // It contains nothing about the namespace, so no right is needed.
        return success(StatusCode::OK, Some(public::feed(&session)));
    }
    let verdict = rights::check(admin, call);
    if verdict.is_ok() {
        Admission::tell(request.extensions());
    }
    let (principal, outcome) = match verdict {
        Ok(Verdict::Allowed(grant)) => {
            let outcome = perform(&session, &grant, request.into_body()).await;
            (Some(grant.principal), outcome)
        }
        Ok(Verdict::Missing) => (None, Ok((StatusCode::OK, Some(public::feed(&session))))),
        Err(error) => (None, Err(error)),
    };
    audit::note(call, principal.as_deref(), peer, &outcome);
    match outcome {
        Ok((status, document)) => success(status, document),
        Err(error) => refusal(call, error),
    }
}

/// The status, and the body if there is one.
type Answer = (StatusCode, Option<Document>);

async fn perform(session: &Session<'_>, grant: &Grant, body: Body) -> Result<Answer, Error> {
    if let Target::Inside(node) = &session.call.target
        && session.exists(&node.name)
    {
        return Err(Error::verb(session.call.method.as_str()));
    }
    match session.call.method {
        Method::GET => {
            let found = get(session);
            let found = if is_missing(session, &found) { Ok(public::feed(session)) } else { found };
            found.map(|document| (StatusCode::OK, Some(document)))
        }
        Method::PUT => {
            let is_update = session.call.is_update()?;
            check_is_one(session.call)?;
            let description = call::description(body).await?;
            // A key may have been replaced while the body arrived.
            session.admin.access.confirm(grant)?;
            put(session, is_update, &description).await
        }
        // Python accepts no other status than 200.
        Method::DELETE => delete(session).await.map(|()| (StatusCode::OK, None)),
        _ => Err(not_allowed(session.call)),
    }
}

/// Whether a queue or topic is missing. A missing part of an existing topic is an error (Java asserts that for
/// subscriptions and rules, and can't read the feed there).
fn is_missing<T>(session: &Session<'_>, found: &Result<T, Error>) -> bool {
    let is_not_found = found.as_ref().is_err_and(|error| error.status == StatusCode::NOT_FOUND);
    is_not_found && session.call.target.entity().is_none_or(|name| !session.exists(name))
}

fn get(session: &Session<'_>) -> Result<Document, Error> {
    match &session.call.target {
        Target::Root | Target::Nothing(..) | Target::Inside(_) => {
            Err(Error::entity_not_found(&session.call.target.display()))
        }
        Target::NamespaceInfo => Ok(namespace_info::get(session)),
        Target::Entities(kind) => Ok(entity::list(session, *kind)),
        Target::Entity(name) => entity::get(session, name),
        Target::Subscriptions(topic) => subscription::list(session, topic),
        Target::Subscription(topic, name) => subscription::get(session, topic, name),
        Target::Rules(topic, subscription) => rule::list(session, (topic, subscription)),
        Target::Rule(topic, subscription, name) => rule::get(session, (topic, subscription, name)),
    }
}

async fn put(session: &Session<'_>, is_update: bool, description: &Element) -> Result<Answer, Error> {
    let (status, document) = match is_update {
        true => (StatusCode::OK, update(session, description).await?),
        false => (StatusCode::CREATED, create(session, description).await?),
    };
    Ok((status, Some(document)))
}

async fn create(session: &Session<'_>, description: &Element) -> Result<Document, Error> {
    match &session.call.target {
        Target::Entity(name) => entity::create(session, name, description).await,
        Target::Subscription(topic, name) => subscription::create(session, (topic, name), description).await,
        Target::Rule(topic, subscription, name) => {
            rule::create(session, (topic, subscription, name), description).await
        }
        _ => Err(not_allowed(session.call)),
    }
}

async fn update(session: &Session<'_>, description: &Element) -> Result<Document, Error> {
    match &session.call.target {
        Target::Entity(name) => entity::update(session, name, description).await,
        Target::Subscription(topic, name) => subscription::update(session, (topic, name), description).await,
        Target::Rule(topic, subscription, name) => {
            rule::update(session, (topic, subscription, name), description).await
        }
        _ => Err(not_allowed(session.call)),
    }
}

async fn delete(session: &Session<'_>) -> Result<(), Error> {
    let namespace = &session.admin.namespace;
    match &session.call.target {
        Target::Entity(name) => namespace.delete(name).await?,
        Target::Subscription(topic, name) => {
            let deleted = namespace.delete_subscription(topic, name).await;
            if !deleted.map_err(ChangeError::from)? {
                return Err(Error::entity_not_found(&session.call.target.display()));
            }
        }
        Target::Rule(topic, subscription, name) => namespace.delete_rule(topic, subscription, name).await?,
        Target::Nothing(..) | Target::Inside(_) => {
            return Err(Error::entity_not_found(&session.call.target.display()));
        }
        _ => return Err(not_allowed(session.call)),
    }
    Ok(())
}

/// Checks before reading a body that the target can be created or updated.
fn check_is_one(call: &Call) -> Result<(), Error> {
    match &call.target {
        Target::Entity(_) | Target::Subscription(..) | Target::Rule(..) => Ok(()),
        // An invalid name of an entity.
        Target::Nothing(_, error) => Err(Error::address(error)),
        Target::Inside(_) => Err(Error::verb(call.method.as_str())),
        _ => Err(not_allowed(call)),
    }
}

fn not_allowed(call: &Call) -> Error {
    Error::method(call.method.as_str(), &call.target.display())
}

fn success(status: StatusCode, document: Option<Document>) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    if let Some(document) = document {
        let body = document.finish();
        let content_type = HeaderValue::from_static(feed::media_type(&body));
        *response.body_mut() = Body::from(body);
        response.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    response
}

fn refusal(call: &Call, error: Error) -> Response {
    let is_method = error.status == StatusCode::METHOD_NOT_ALLOWED;
    let mut response = error.into_response();
    if is_method {
        let allowed = if check_is_one(call).is_ok() { "GET, PUT, DELETE" } else { "GET" };
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    }
    response
}
