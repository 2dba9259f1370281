//! Administration over HTTP: entities as Atom entries.

use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, DATE, IF_MATCH};
use http::{HeaderName, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use peeklock_admin::description::{self, API_VERSION, Element, Entry};
use peeklock_engine::schema::OptionSet;
use peeklock_engine::{Rule, Tier};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::{ClientError, ConnectionString, Credentials, Described, EntityKind, Found, Options, Trust};

const TIME_OUT: Duration = Duration::from_secs(60);
const TOKEN_LIFETIME: Duration = Duration::from_secs(60 * 60);
/// Upper bound of the size of a page of descriptions.
const ANSWER_BYTES_MAX: usize = 32 << 20;
const PAGE: usize = 100;
/// Characters of a name that stay unescaped in the path of a URL.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Tokens for the targets of forwarding.
const FORWARD_TOKENS: [HeaderName; 2] = [
    HeaderName::from_static("servicebussupplementaryauthorization"),
    HeaderName::from_static("servicebusdlqsupplementaryauthorization"),
];

/// The administration of a namespace.
#[derive(Debug, Clone)]
pub struct Admin {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    target: ConnectionString,
}

impl Admin {
    /// A client without a connection yet.
    ///
    /// # Errors
    /// Unusable certificates.
    pub fn new(target: &ConnectionString, trust: &Trust) -> Result<Self, ClientError> {
        // Without TLS no certificate is needed, so the file need not exist.
        let connector = if target.is_emulator {
            let mut http = HttpConnector::new();
            http.enforce_http(false);
            let config = Trust::none()?;
            HttpsConnectorBuilder::new()
                .with_tls_config(config)
                .https_or_http()
                .enable_http1()
                .wrap_connector(http)
        } else {
            HttpsConnectorBuilder::new().with_tls_config(trust.config()?).https_only().enable_http1().build()
        };
        Ok(Self { client: Client::builder(TokioExecutor::new()).build(connector), target: target.clone() })
    }

    /// All queues and topics, each topic followed by its subscriptions, by name.
    ///
    /// # Errors
    /// A refusal of the namespace.
    pub async fn list(&self) -> Result<Vec<Found>, ClientError> {
        let mut found = Vec::new();
        for (list, kind) in
            [("$Resources/queues", EntityKind::Queue), ("$Resources/topics", EntityKind::Topic)]
        {
            for entry in self.feed(list).await? {
                let described = Described::of(&entry.description);
                found.push(Found { path: entry.name.clone(), kind, described });
                if kind == EntityKind::Topic {
                    found.extend(self.subscriptions(&entry.name).await?);
                }
            }
        }
        found.sort_by_cached_key(|found| found.path.to_lowercase());
        Ok(found)
    }

    /// The subscriptions of a topic.
    ///
    /// # Errors
    /// A refusal of the namespace.
    pub async fn subscriptions(&self, topic: &str) -> Result<Vec<Found>, ClientError> {
        let entries = self.feed(&format!("{topic}/Subscriptions")).await?;
        let found = entries.into_iter().map(|entry| Found {
            path: format!("{topic}/Subscriptions/{}", entry.name),
            kind: EntityKind::Subscription,
            described: Described::of(&entry.description),
        });
        Ok(found.collect())
    }

    /// A queue, topic or subscription; `None` if it does not exist.
    ///
    /// # Errors
    /// A refusal of the namespace.
    pub async fn find(&self, path: &str) -> Result<Option<Found>, ClientError> {
        let Some(entry) = self.entry(path).await? else { return Ok(None) };
        let kind = kind_of(&entry.description)?;
        Ok(Some(Found { path: path.to_owned(), kind, described: Described::of(&entry.description) }))
    }

    /// The options of an entity; `None` if it does not exist.
    ///
    /// # Errors
    /// A refusal of the namespace, or options that this client can't parse.
    pub async fn options(&self, path: &str) -> Result<Option<Options>, ClientError> {
        let Some(Entry { description, .. }) = self.entry(path).await? else { return Ok(None) };
        let options = match kind_of(&description)? {
            EntityKind::Queue => description::read_options(&description).map(Box::new).map(Options::Queue),
            EntityKind::Topic => description::read_options(&description).map(Box::new).map(Options::Topic),
            EntityKind::Subscription => {
                description::read_options(&description).map(Box::new).map(Options::Subscription)
            }
        };
        options.map(Some).map_err(|reason| ClientError::Unreadable(format!("{path}: {reason}")))
    }

    /// The tier of the namespace; `None` if it does not tell.
    ///
    /// # Errors
    /// A refusal of the namespace.
    pub async fn tier(&self) -> Result<Option<Tier>, ClientError> {
        let entry = self.entry("$namespaceinfo").await?;
        Ok(entry.and_then(|entry| description::read_tier(&entry.description)))
    }

    /// Creates an entity in a namespace of this tier; a subscription gets `rule` as its first one, otherwise the rule that
    /// matches everything.
    ///
    /// # Errors
    /// The entity exists, or the namespace refuses.
    pub async fn create(
        &self,
        path: &str,
        options: &Options,
        tier: Tier,
        rule: Option<&Rule>,
    ) -> Result<(), ClientError> {
        self.put(path, options, tier, rule, false).await
    }

    /// Replaces the options of an entity in a namespace of this tier.
    ///
    /// # Errors
    /// The entity does not exist, or the namespace refuses.
    pub async fn update(&self, path: &str, options: &Options, tier: Tier) -> Result<(), ClientError> {
        self.put(path, options, tier, None, true).await
    }

    async fn put(
        &self,
        path: &str,
        options: &Options,
        tier: Tier,
        rule: Option<&Rule>,
        is_update: bool,
    ) -> Result<(), ClientError> {
        let (body, targets) = match options {
            Options::Queue(options) => (self.entry_of(&**options, tier, None), Some(&options.forwarding)),
            Options::Topic(options) => (self.entry_of(&**options, tier, None), None),
            Options::Subscription(options) => {
                (self.entry_of(&**options, tier, rule), Some(&options.forwarding))
            }
        };
        let targets = targets.map_or([None, None], |forwarding| {
            [forwarding.forward_to.as_deref(), forwarding.forward_dead_lettered_messages_to.as_deref()]
        });
        let mut request = self.request(Method::PUT, path, "");
        if is_update {
            request = request.header(IF_MATCH, "*");
        }
        for (header, target) in FORWARD_TOKENS.into_iter().zip(targets) {
            if let Some(token) = target.and_then(|target| self.token(target)) {
                request = request.header(header, token);
            }
        }
        self.send(request, body).await.map(|_| ())
    }

    fn entry_of<O: OptionSet>(&self, options: &O, tier: Tier, rule: Option<&Rule>) -> Vec<u8> {
        description::write_options(options, tier, &self.authority(), rule)
    }

    /// Deletes an entity with its messages, or a rule (`topic/Subscriptions/name/Rules/rule`).
    ///
    /// # Errors
    /// The entity does not exist, or the namespace refuses.
    pub async fn delete(&self, path: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::DELETE, path, ""), Vec::new()).await.map(|_| ())
    }

    /// The rules of a subscription.
    ///
    /// # Errors
    /// A refusal of the namespace, or a rule that this client can't parse.
    pub async fn rules(&self, subscription: &str) -> Result<Vec<Rule>, ClientError> {
        let entries = self.feed(&format!("{subscription}/Rules")).await?;
        let read = |entry: &Entry| {
            description::read_rule(&entry.description)
                .map_err(|reason| ClientError::Unreadable(format!("the rule {}: {reason}", entry.name)))
        };
        entries.iter().map(read).collect()
    }

    /// Adds or replaces a rule.
    ///
    /// # Errors
    /// A refusal of the namespace.
    pub async fn put_rule(
        &self,
        subscription: &str,
        rule: &Rule,
        is_update: bool,
    ) -> Result<(), ClientError> {
        let path = format!("{subscription}/Rules/{}", rule.name);
        let mut request = self.request(Method::PUT, &path, "");
        if is_update {
            request = request.header(IF_MATCH, "*");
        }
        self.send(request, description::write_rule(rule)).await.map(|_| ())
    }

    async fn entry(&self, path: &str) -> Result<Option<Entry>, ClientError> {
        match self.get(path, "").await {
            Ok(entries) => Ok(entries.into_iter().next()),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All pages of a feed.
    async fn feed(&self, path: &str) -> Result<Vec<Entry>, ClientError> {
        let mut found = Vec::new();
        loop {
            let page = self.get(path, &format!("&$skip={}&$top={PAGE}", found.len())).await?;
            let is_last = page.len() < PAGE;
            found.extend(page);
            if is_last {
                return Ok(found);
            }
        }
    }

    async fn get(&self, path: &str, query: &str) -> Result<Vec<Entry>, ClientError> {
        let body = self.send(self.request(Method::GET, path, query), Vec::new()).await?;
        description::entries(&body).map_err(ClientError::Unreadable)
    }

    fn authority(&self) -> String {
        format!("{}:{}", self.target.url_host(), self.target.http_port())
    }

    pub(crate) fn token(&self, path: &str) -> Option<String> {
        match &self.target.credentials {
            Credentials::None => None,
            Credentials::Key(key) => {
                // The resource of a token contains no port.
                let resource = format!("http://{}/{path}", self.target.url_host());
                Some(key.token(&resource, TOKEN_LIFETIME))
            }
            Credentials::Token(token) => Some(token.clone()),
        }
    }

    fn request(&self, method: Method, path: &str, query: &str) -> http::request::Builder {
        let encoded =
            if path.starts_with('$') { path.to_owned() } else { utf8_percent_encode(path, PATH).to_string() };
        let uri = format!("{}/{encoded}?api-version={API_VERSION}{query}", self.url());
        let request = Request::builder().method(method).uri(uri).header(CONTENT_TYPE, "application/atom+xml");
        match self.token(path) {
            Some(token) => request.header(AUTHORIZATION, token),
            None => request,
        }
    }

    /// Scheme, host and port.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.target.is_emulator { "http" } else { "https" };
        format!("{scheme}://{}", self.authority())
    }

    async fn send(&self, request: http::request::Builder, body: Vec<u8>) -> Result<Bytes, ClientError> {
        let answer = self.exchange(request, body).await?;
        let status = answer.status();
        if status.is_success() { Ok(answer.into_body()) } else { Err(refused(status, answer.body())) }
    }

    /// The namespace's time in HTTP's format; `None` if the answer has none.
    ///
    /// # Errors
    /// No answer.
    pub async fn date(&self) -> Result<Option<String>, ClientError> {
        let answer =
            self.exchange(self.request(Method::GET, "$Resources/queues", "&$top=1"), Vec::new()).await?;
        Ok(answer.headers().get(DATE).and_then(|date| date.to_str().ok()).map(str::to_owned))
    }

    /// Sends a request and returns the answer, whatever its status.
    pub(crate) async fn exchange(
        &self,
        request: http::request::Builder,
        body: Vec<u8>,
    ) -> Result<Response<Bytes>, ClientError> {
        let request = request.body(Full::from(body));
        let request = request.map_err(|error| ClientError::Argument(error.to_string()))?;
        let connect = |source| ClientError::Connect { address: self.authority(), source };
        let answer = async {
            let response = self.client.request(request).await;
            let response = response.map_err(|error| connect(std::io::Error::other(chain(&error))))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| ClientError::Unreadable(error.to_string()))?.to_bytes();
            Ok(Response::from_parts(head, body))
        };
        let late = |_| ClientError::TimeOut("waiting for the answer over HTTP");
        tokio::time::timeout(TIME_OUT, answer).await.map_err(late)?
    }
}

fn refused(status: StatusCode, body: &[u8]) -> ClientError {
    let text = description::error_text(body);
    let text =
        text.unwrap_or_else(|| status.canonical_reason().unwrap_or("the request was refused").to_owned());
    ClientError::refused(status.as_str(), text)
}

fn kind_of(description: &Element) -> Result<EntityKind, ClientError> {
    match description.name.as_str() {
        "QueueDescription" => Ok(EntityKind::Queue),
        "TopicDescription" => Ok(EntityKind::Topic),
        "SubscriptionDescription" => Ok(EntityKind::Subscription),
        other => Err(ClientError::Unreadable(format!("'{other}' is not a description of an entity"))),
    }
}

/// An error with its causes: hyper's error alone says little.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source()).skip(1);
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    if causes.is_empty() { error.to_string() } else { causes.join(": ") }
}
