//! Requests to the API of a broker in memory.

mod acting;
mod authorization;
mod changes;
mod connections;
mod files;
mod listing;
mod lists;
mod messages;
mod receiving;
mod rules;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request};
use peeklock_access::{Access, Policy};
use peeklock_admin::{Admin, Limits};
use peeklock_connections::Register;
use peeklock_engine::runtime::{ManualClock, Namespace, NamespaceOptions};
use peeklock_engine::{QueueOptions, Timestamp, TopicOptions};
use peeklock_storage::{MemoryStore, ShardId, Store};
use serde_json::{Value as Json, json};
use tower::ServiceExt;

use crate::{About, Console};

/// The time of the stopped clock.
const NOW: &str = "2023-11-14T22:13:20.000Z";

struct Broker {
    router: Router,
    namespace: Namespace,
    clock: Arc<ManualClock>,
    register: Register,
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Broker {
    async fn start() -> Self {
        Self::with(None).await
    }

    /// A broker with this authorization policy, or without authorization.
    async fn with(policy: Option<Policy>) -> Self {
        let shard = MemoryStore::default().acquire(ShardId(0)).await.unwrap();
        let clock = Arc::new(ManualClock::new(Timestamp(1_700_000_000_000)));
        let options = NamespaceOptions { seed: Some(7), ..NamespaceOptions::default() };
        let namespace = Namespace::start(shard, Arc::clone(&clock) as Arc<_>, options).await.unwrap();
        let access = match policy {
            None => Access::open(),
            Some(policy) => Access::new(policy, Arc::new(namespace.clone()), Arc::clone(&clock) as Arc<_>),
        };
        let admin = Admin::new(namespace.clone(), access, Limits::default()).named(Some("test"));
        let about = About { version: "1.2.3" };
        let register = Register::new(1);
        let router = Console::new(admin, about).watching(register.clone()).router();
        Self { router: router.merge(crate::assets()), namespace, clock, register }
    }

    /// A broker with a queue `q`, a queue with sessions `s`, and a topic `news` with the subscription `all`.
    async fn with_entities() -> Self {
        let broker = Self::start().await;
        broker.namespace.declare("q", QueueOptions::default()).await.unwrap();
        let sessions = QueueOptions { requires_session: true, ..QueueOptions::default() };
        broker.namespace.declare("s", sessions).await.unwrap();
        broker.namespace.declare("news", TopicOptions::default()).await.unwrap();
        let body = json!({ "path": "news/Subscriptions/all", "kind": "subscription" });
        assert_eq!(broker.post("entities", &body).await.status, 201);
        broker
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let uri = if path.starts_with('/') { path.to_owned() } else { format!("/$api/v1/{path}") };
        let mut request = Request::builder().method(method).uri(uri).header("host", "localhost:5300");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.into()).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap().to_vec();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, &[], "").await
    }

    async fn with_body(&self, method: Method, path: &str, body: &Json) -> Answer {
        self.ask(method, path, &[("content-type", "application/json")], body.to_string()).await
    }

    async fn post(&self, path: &str, body: &Json) -> Answer {
        self.with_body(Method::POST, path, body).await
    }

    /// Sends a message to an entity; returns its sequence number.
    async fn send(&self, path: &str, message: Json) -> String {
        let answer = self.post(&format!("messages?path={path}"), &json!({ "messages": [message] })).await;
        answer.json(201)["sequence_numbers"][0].as_str().unwrap().to_owned()
    }
}

impl Answer {
    #[track_caller]
    fn json(&self, status: u16) -> Json {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{text}");
        assert_eq!(self.headers["content-type"], "application/json");
        assert_eq!(self.headers["x-content-type-options"], "nosniff");
        assert_eq!(self.headers["cache-control"], "no-store");
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Asserts that it is an error with this code and text.
    #[track_caller]
    fn refused(&self, status: u16, code: &str, text: &str) {
        let error = &self.json(status)["error"];
        assert_eq!(error["code"], code, "{error}");
        assert!(error["message"].as_str().unwrap().contains(text), "{error}");
    }
}
