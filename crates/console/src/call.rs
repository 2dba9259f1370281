//! A parsed request.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::{Mutex, OnceLock, PoisonError};

use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Extensions, HeaderMap, Method};
use peeklock_access::{EntityNode, Grant, ResolvedNode, Resource};
use peeklock_admin::messages::{Place, Room};
use peeklock_admin::{Admission, Error};
use peeklock_engine::Right;
use peeklock_engine::runtime::Namespace;
use peeklock_errors::ErrorKind;
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;

use crate::{Console, PREFIX};

/// Maximum number of parameters in a query.
const PARAMETERS_MAX: usize = 32;
/// Largest body of a request without messages, in bytes.
pub(crate) const BODY_BYTES_MAX: u64 = 2 << 20;

/// A request without its body.
pub(crate) struct Call {
    pub(crate) method: Method,
    /// The path after the prefix of the API.
    pub(crate) route: String,
    pub(crate) headers: HeaderMap,
    /// The address of the client, if the server provides it.
    pub(crate) peer: Option<SocketAddr>,
    /// The target of the change, if the query does not name it.
    pub(crate) concerned: OnceLock<String>,
    /// The operation for the audit log, if the route does not determine it.
    pub(crate) operation: OnceLock<&'static str>,
    /// The sender, once its token is verified.
    pub(crate) principal: OnceLock<Box<str>>,
    /// What the token gave, to be checked again when the body has arrived.
    grants: Mutex<Vec<Grant>>,
    parameters: Vec<(String, String)>,
    extensions: Extensions,
}

impl Call {
    /// Parses a request; its body is returned unread.
    ///
    /// # Errors
    /// A query that is not valid text, or repeats a parameter.
    pub(crate) fn new(request: Request) -> Result<(Self, Body), Error> {
        let (head, body) = request.into_parts();
        let mut parameters: Vec<(String, String)> = Vec::new();
        for pair in head.uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            if parameters.len() == PARAMETERS_MAX || parameters.iter().any(|(known, _)| *known == name) {
                return Err(Error::bad_request(format!(
                    "The parameter '{name}' occurs twice, or there are too many parameters."
                )));
            }
            parameters.push((name, value));
        }
        let peer = head.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
        let route = head.uri.path().strip_prefix(PREFIX).unwrap_or_default().to_owned();
        let (method, headers, extensions) = (head.method, head.headers, head.extensions);
        let (concerned, operation, principal) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Ok((
            Self {
                method,
                route,
                headers,
                peer,
                concerned,
                operation,
                principal,
                grants: Mutex::default(),
                parameters,
                extensions,
            },
            body,
        ))
    }

    /// Refuses unknown parameters: a misspelt one would have no effect.
    ///
    /// # Errors
    /// 400 with the known ones.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), Error> {
        let Some((name, _)) = self.parameters.iter().find(|(name, _)| !known.contains(&name.as_str())) else {
            return Ok(());
        };
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(Error::bad_request(format!("There is no parameter '{name}'; known here: {known}.")))
    }

    /// A parameter; `None` if it is missing or empty.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// An integer within a range, or `default`.
    ///
    /// # Errors
    /// 400 with the range.
    pub(crate) fn number(&self, name: &str, default: u64, range: RangeInclusive<u64>) -> Result<u64, Error> {
        let Some(text) = self.text(name) else { return Ok(default) };
        text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
            let (start, end) = range.into_inner();
            Error::bad_request(format!(
                "The parameter '{name}' must be a whole number from {start} to {end}."
            ))
        })
    }

    /// The entity in the parameter `path`: a queue, topic or subscription, or a sub-queue.
    ///
    /// # Errors
    /// 400 for an invalid path.
    pub(crate) fn node(&self) -> Result<EntityNode, Error> {
        let path = self.text("path").ok_or_else(|| {
            Error::bad_request(
                "The parameter 'path' is missing: a queue, a topic or TOPIC/Subscriptions/NAME.",
            )
        })?;
        node(path)
    }

    /// [`Self::node`] for a whole queue, topic or subscription.
    ///
    /// # Errors
    /// 400, also for a sub-queue.
    pub(crate) fn whole_node(&self) -> Result<EntityNode, Error> {
        let node = self.node()?;
        if node.is_whole() {
            return Ok(node);
        }
        let path = node.entity_path();
        Err(Error::bad_request(format!(
            "This operation applies to the whole entity: write its path, '{path}'."
        )))
    }

    /// Reads the body, which must be JSON. Its memory is reserved until the room is dropped.
    ///
    /// # Errors
    /// 415 for another type, 413 for a longer body, 400 for an invalid one, 401 if a grant ended while the body arrived.
    pub(crate) async fn json<T: DeserializeOwned + Send + 'static>(
        &self,
        console: &Console,
        body: Body,
        bytes_max: u64,
    ) -> Result<(T, Room), Error> {
        let kind = self.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/json") {
            let text = "The body must be JSON, with the header 'Content-Type: application/json'.";
            return Err(Error::of(ErrorKind::BodyTypeUnknown, text));
        }
        let (bytes, room) = console.admin.body(body, bytes_max).await?;
        self.confirm(console)?;
        // The work has the room, because it continues when the client disconnects.
        let read = move || (serde_json::from_slice(&bytes), room);
        let (read, room) = tokio::task::spawn_blocking(read).await.map_err(|_| Error::internal())?;
        let read = read.map_err(|error| Error::bad_request(format!("The body is invalid: {error}.")))?;
        Ok((read, room))
    }

    /// Checks a right, and reports that the request is authorized.
    ///
    /// # Errors
    /// 401.
    pub(crate) fn authorize(
        &self,
        console: &Console,
        resource: &Resource,
        right: Right,
    ) -> Result<Grant, Error> {
        let grant = console.admin.authorize(&self.headers, resource, right)?;
        Admission::tell(&self.extensions);
        let _ = self.principal.set(grant.principal.clone());
        self.grants.lock().unwrap_or_else(PoisonError::into_inner).push(grant.clone());
        Ok(grant)
    }

    /// Checks again whatever the request has been authorized for.
    fn confirm(&self, console: &Console) -> Result<(), Error> {
        let grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
        grants.iter().try_for_each(|grant| Ok(console.admin.access.confirm(grant)?))
    }

    /// Checks the right to manage the namespace.
    ///
    /// # Errors
    /// 401.
    pub(crate) fn manage(&self, console: &Console) -> Result<Grant, Error> {
        self.authorize(console, &Resource::namespace(), Right::Manage)
    }

    /// [`Self::authorize`] for the entity in `path`, which is then looked up.
    ///
    /// # Errors
    /// 400, 401, 404.
    pub(crate) fn place(&self, console: &Console, right: Right) -> Result<(Place, Grant), Error> {
        let node = self.node()?;
        let grant = self.authorize(console, &node.resource(), right)?;
        Ok((place(&console.admin.namespace, &node)?, grant))
    }

    /// Reports that the request is authorized.
    pub(crate) fn admit(&self) {
        Admission::tell(&self.extensions);
    }
}

/// The entity of an address, which must not be a management node.
pub(crate) fn node(path: &str) -> Result<EntityNode, Error> {
    match ResolvedNode::of(path) {
        Ok(ResolvedNode::Entity(node)) if !node.management => Ok(node),
        Ok(_) => {
            let text = format!(
                "'{path}' is not the path of a queue, a topic or a subscription (TOPIC/Subscriptions/NAME)."
            );
            Err(Error::bad_request(text))
        }
        Err(error) => Err(Error::bad_request(format!("The path can't be used: {error}."))),
    }
}

/// Looks an entity up.
pub(crate) fn place(namespace: &Namespace, node: &EntityNode) -> Result<Place, Error> {
    Place::of(namespace, node).ok_or_else(|| not_found(node))
}

/// The error for a missing entity.
pub(crate) fn not_found(node: &EntityNode) -> Error {
    let text = format!("The messaging entity '{}' could not be found.", node.entity_path());
    Error::of(ErrorKind::EntityNotFound, text)
}

/// Decodes a part of a query as written by `URLSearchParams`: `+` is a space.
fn decoded(text: &str) -> Result<String, Error> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    decoded.map(Into::into).map_err(|_| Error::bad_request("The query is not UTF-8 once it is decoded."))
}
