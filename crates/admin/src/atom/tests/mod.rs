//! Requests to the router of a broker in memory.

mod bodies;
mod paths;
mod refusals;
mod round_trip;
mod rules;
mod tiers;
mod xml;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request};
use peeklock_access::Access;
use peeklock_engine::runtime::{ManualClock, Namespace, NamespaceOptions};
use peeklock_engine::{RuleLimits, Timestamp};
use peeklock_storage::{MemoryStore, ShardId, Store};
use tower::ServiceExt;

use super::xml::{Element, parse};
use crate::{Admin, Limits};

const SERVICE_BUS: &str = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect";

/// A broker in memory with its management API.
struct Broker {
    router: Router,
}

/// The response.
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Broker {
    async fn start() -> Self {
        Self::with_limits(Limits::default()).await
    }

    async fn with_limits(limits: Limits) -> Self {
        Self::with(limits, RuleLimits::default()).await
    }

    async fn with(limits: Limits, rule_limits: RuleLimits) -> Self {
        let shard = MemoryStore::default().acquire(ShardId(0)).await.unwrap();
        let clock = Arc::new(ManualClock::new(Timestamp(1_700_000_000_000)));
        let options = NamespaceOptions {
            body_cache_bytes: 0,
            seed: Some(7),
            rule_limits,
            ..NamespaceOptions::default()
        };
        let namespace = Namespace::start(shard, clock, options).await.unwrap();
        let router = Admin::new(namespace, Access::open(), limits).router();
        Self { router }
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost:5300");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.into()).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, &[], "").await
    }

    async fn create(&self, path: &str, description: &str) -> Answer {
        self.ask(Method::PUT, path, &[], entry(description)).await
    }

    async fn update(&self, path: &str, description: &str) -> Answer {
        self.ask(Method::PUT, path, &[("if-match", "*")], entry(description)).await
    }

    async fn delete(&self, path: &str) -> Answer {
        self.ask(Method::DELETE, path, &[], "").await
    }

    /// A broker with a topic `t` and a subscription `s`.
    async fn with_subscription() -> Self {
        let broker = Self::start().await;
        assert_eq!(broker.create("/t", "<TopicDescription/>").await.status, 201);
        assert_eq!(broker.create("/t/Subscriptions/s", "<SubscriptionDescription/>").await.status, 201);
        broker
    }
}

impl Answer {
    /// The description in the entry.
    fn description(&self) -> Element {
        assert!(matches!(self.status, 200 | 201), "{}: {}", self.status, self.body);
        let mut entry = parse(self.body.as_bytes()).unwrap();
        assert_eq!(entry.name, "entry", "{}", self.body);
        let mut content = entry.children.pop().unwrap();
        content.children.pop().unwrap()
    }

    fn text_of(&self, name: &str) -> Option<String> {
        self.description().text_of(name).map(str::to_owned)
    }

    /// Asserts that it is a refusal that SDKs can parse, with this text.
    fn refused(&self, status: u16, text: &str) {
        assert_eq!(self.status, status, "{}", self.body);
        self.has_sub_code(u32::from(status), text);
    }

    /// Asserts that it is the feed by which SDKs recognize a missing entity.
    fn is_missing(&self) {
        assert_eq!(self.status, 200, "{}", self.body);
        let feed = parse(self.body.as_bytes()).unwrap();
        assert_eq!((feed.name.as_str(), feed.text_of("title")), ("feed", Some("Publicly Listed Services")));
        assert_eq!(feed.all("entry").count(), 0);
    }

    /// Asserts that its sub-code begins with these digits, and that the body contains this text.
    fn has_sub_code(&self, sub_code: u32, text: &str) {
        let start = format!("<Error><Code>{}</Code><Detail>SubCode={sub_code}", self.status);
        assert!(self.body.starts_with(&start), "{}", self.body);
        assert!(self.body.contains(text), "{}", self.body);
    }

    /// The titles of a feed's entries.
    fn titles(&self) -> Vec<String> {
        let feed = parse(self.body.as_bytes()).unwrap();
        assert_eq!(feed.name, "feed", "{}", self.body);
        feed.all("entry").map(|entry| entry.text_of("title").unwrap().to_owned()).collect()
    }
}

/// A value as answers have it: durations have the type of .NET's serializer, all others one of XML Schema.
fn typed_value(kind: &str, text: &str) -> String {
    let namespace = match kind {
        "duration" => "http://schemas.microsoft.com/2003/10/Serialization/",
        _ => "http://www.w3.org/2001/XMLSchema",
    };
    format!("<Value i:type=\"d6p1:{kind}\" xmlns:d6p1=\"{namespace}\">{text}</Value>")
}

fn entry(description: &str) -> String {
    let description = description.replacen(
        "Description",
        &format!("Description xmlns=\"{SERVICE_BUS}\" xmlns:i=\"http://www.w3.org/2001/XMLSchema-instance\""),
        1,
    );
    format!(
        "<entry xmlns=\"http://www.w3.org/2005/Atom\"><content type=\"application/xml\">{description}</content></entry>"
    )
}
