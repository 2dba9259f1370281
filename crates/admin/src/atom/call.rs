//! A parsed request.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, HOST, HeaderMap, IF_MATCH};
use axum::http::{HeaderName, Method};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use peeklock_access::Resource;
use peeklock_engine::Right;
use percent_encoding::percent_decode_str;

use super::path::{Spelling, Target};
use super::xml::{self, Element};
use crate::Admin;
use crate::error::Error;

/// Largest body of a request, in bytes.
const BODY_BYTES_MAX: usize = 1 << 20;
/// How long reading a body may take.
const BODY_TIME_OUT: Duration = Duration::from_secs(30);
/// Entities in one answer, also without `$top`: the service's value.
const TOP_MAX: usize = 100;
/// The assumed version of a request that names none.
const API_VERSION_DEFAULT: &str = "2021-05";
/// The first accepted version: that of azure-sdk-for-java's `ServiceBusRestProxy`.
const API_VERSION_MIN: &str = "2013-07";
/// A token for the target of `ForwardTo`.
pub(crate) const FORWARD_TOKEN: HeaderName = HeaderName::from_static("servicebussupplementaryauthorization");
/// A token for the target of `ForwardDeadLetteredMessagesTo`.
pub(crate) const DEAD_LETTER_FORWARD_TOKEN: HeaderName =
    HeaderName::from_static("servicebusdlqsupplementaryauthorization");

/// A request without its body.
#[derive(Debug)]
pub(crate) struct Call {
    /// The addressed resource of the API.
    pub(crate) target: Target,
    /// The resource for authorization.
    pub(crate) resource: Resource,
    /// The request method.
    pub(crate) method: Method,
    /// The host and port with which the client addresses this broker.
    pub(crate) host: String,
    /// Path and query as requested; empty for a request of another front end.
    pub(crate) path_and_query: String,
    /// How its path spells the fixed segments.
    pub(crate) spelling: Spelling,
    /// The version of the protocol that it names: a date, compared as text.
    pub(crate) named_version: Option<String>,
    /// Number of entities to skip.
    pub(crate) skip: usize,
    /// Maximum number of entities to return.
    pub(crate) top: usize,
    /// The request headers.
    pub(crate) headers: HeaderMap,
    /// Whether a description changes only the options that it names.
    pub(crate) is_patch: bool,
}

impl Call {
    /// Parses a request.
    ///
    /// # Errors
    /// An invalid path or parameter.
    pub(crate) fn new(request: &Request) -> Result<Self, Error> {
        let (target, resource) =
            Target::parse(request.uri().path()).map_err(|error| Error::address(&error))?;
        let mut call = Self {
            target,
            resource,
            method: request.method().clone(),
            host: host(request),
            path_and_query: request.uri().path_and_query().map(ToString::to_string).unwrap_or_default(),
            spelling: Spelling::of(request.uri().path()),
            named_version: None,
            skip: 0,
            top: TOP_MAX,
            headers: request.headers().clone(),
            is_patch: false,
        };
        for parameter in request.uri().query().unwrap_or_default().split('&') {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
            call.set_parameter(&decode(name), &decode(value))?;
        }
        Ok(call)
    }

    /// A request of another front end: options have the names and texts of descriptions.
    pub(crate) fn of_front_end(target: Target, resource: Resource, headers: &HeaderMap) -> Self {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost").to_owned();
        Self {
            target,
            resource,
            method: Method::PUT,
            host,
            path_and_query: String::new(),
            spelling: Spelling::default(),
            named_version: None,
            skip: 0,
            top: TOP_MAX,
            headers: headers.clone(),
            is_patch: false,
        }
    }

    fn set_parameter(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let number = || {
            value
                .parse()
                .map_err(|_| Error::bad_request(format!("The parameter {name} must be a whole number.")))
        };
        match name.to_ascii_lowercase().as_str() {
            "$skip" => self.skip = number()?,
            "$top" => self.top = number()?.min(TOP_MAX),
            "api-version" => self.named_version = Some(api_version(value)?),
            // The service ignores unknown parameters, too.
            _ => {}
        }
        Ok(())
    }

    /// The version of the protocol in which it is answered.
    pub(crate) fn api_version(&self) -> &str {
        self.named_version.as_deref().unwrap_or(API_VERSION_DEFAULT)
    }

    /// Whether a PUT updates instead of creating.
    ///
    /// # Errors
    /// An unsupported precondition.
    pub(crate) fn is_update(&self) -> Result<bool, Error> {
        match self.headers.get(IF_MATCH) {
            None => Ok(false),
            Some(any) if any.as_bytes() == b"*" => Ok(true),
            Some(_) => Err(Error::precondition()),
        }
    }

    /// Checks that messages may be forwarded to `target`, with the caller's own token or the one in `header`.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub(crate) fn authorize_forwarding(
        &self,
        admin: &Admin,
        target: &str,
        header: &HeaderName,
    ) -> Result<(), Error> {
        let resource = Resource::entity(target);
        let own = admin.authorize(&self.headers, &resource, Right::Send);
        match (own, self.headers.get(header)) {
            (Ok(_), _) => Ok(()),
            (Err(error), None) => Err(error),
            (Err(_), Some(token)) => {
                let supplementary = HeaderMap::from_iter([(AUTHORIZATION, token.clone())]);
                admin.authorize(&supplementary, &resource, Right::Send).map(|_| ())
            }
        }
    }
}

/// The host as sent by the client, which compares URLs in the answer with its own.
fn host(request: &Request) -> String {
    let header = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let authority = request.uri().authority().map(|authority| authority.as_str());
    header.or(authority).unwrap_or("localhost").to_owned()
}

fn api_version(value: &str) -> Result<String, Error> {
    let is_date = value.len() >= API_VERSION_MIN.len()
        && value.chars().all(|character| character.is_ascii_digit() || character == '-');
    if is_date && value >= API_VERSION_MIN {
        return Ok(value.to_owned());
    }
    Err(Error::bad_request(format!("The api-version must be {API_VERSION_MIN} or later, such as 2021-05.")))
}

/// Reads the description in a request's body: the element in `entry/content`.
///
/// # Errors
/// A body that is too large, too slow or invalid.
pub(crate) async fn description(body: Body) -> Result<Element, Error> {
    let whole = Limited::new(body, BODY_BYTES_MAX).collect();
    let whole = tokio::time::timeout(BODY_TIME_OUT, whole).await.map_err(|_| Error::time_out())?;
    let body = match whole {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => return Err(Error::too_large(BODY_BYTES_MAX)),
        Err(_) => return Err(Error::bad_request("The body of the request ended early.")),
    };
    let mut entry = xml::parse(&body)
        .map_err(|reason| Error::bad_request(format!("The body is not usable XML: {reason}.")))?;
    let mut content = entry.children.iter_mut().find(|child| child.name == "content");
    let description = content.as_mut().filter(|content| content.children.len() == 1);
    let description = description.and_then(|content| content.children.pop());
    if entry.name != "entry" {
        return Err(Error::bad_request("The body must be an Atom entry."));
    }
    description.ok_or_else(|| {
        Error::bad_request("The entry must have a content with one description, such as QueueDescription.")
    })
}
