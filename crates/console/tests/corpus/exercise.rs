//! Sends HTTP requests to a broker in memory: to the Atom API, the messaging API and the management API in JSON. Any
//! request is answered, none with an internal error, and an answer that says it is JSON is JSON.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{Request, StatusCode, header};
use peeklock_access::Access;
use peeklock_admin::{Admin, Limits};
use peeklock_console::{About, Console};
use peeklock_engine::runtime::{ManualClock, Namespace, NamespaceOptions};
use peeklock_engine::{QueueOptions, Rule, SubscriptionOptions, Timestamp, TopicOptions};
use peeklock_storage::{MemoryStore, ShardId, Store};
use tower::ServiceExt;

const NOW: Timestamp = Timestamp(1_700_000_000_000);

/// Separates the requests of an input.
const SEPARATOR: u8 = 0x1e;

/// Maximum number of requests in an input; the rest is ignored.
const REQUESTS_MAX: usize = 12;

/// Longer than any request waits.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3_600);

/// Sends the requests of an input, each in the form of HTTP/1.1 without a version: the method and the target, headers,
/// an empty line, the body. Lines end with a line feed.
pub(crate) fn exercise(input: &[u8]) {
    let requests: Vec<_> =
        input.split(|byte| *byte == SEPARATOR).take(REQUESTS_MAX).filter_map(read).collect();
    if requests.is_empty() {
        return;
    }
    // Time is paused: a request that waits for a message ends at once.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let namespace = namespace().await;
        let admin = Admin::new(namespace.clone(), Access::open(), Limits::default());
        let console = Console::new(admin.clone(), About { version: "1.2.3" });
        let router = console.router().fallback_service(admin.router());
        for request in requests {
            answer(&router, request).await;
        }
        assert!(namespace.lost_shard().is_none(), "the namespace lives");
        namespace.shutdown().await;
    });
}

async fn answer(router: &Router, request: Request<Body>) {
    let shown = format!("{} {}", request.method(), request.uri());
    let answered = tokio::time::timeout(ANSWERED_WITHIN, router.clone().oneshot(request)).await;
    let (head, body) = answered.expect("an answer").expect("no error").into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("a body");
    assert_ne!(head.status, StatusCode::INTERNAL_SERVER_ERROR, "{shown}: {body:?}");
    let is_json = head.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if is_json && shown.contains("/$api/v1/") {
        let read: Result<serde_json::Value, _> = serde_json::from_slice(&body);
        assert!(read.is_ok(), "{shown}: {body:?}");
    }
}

/// Reads a request; `None` if no HTTP server could have received it.
fn read(bytes: &[u8]) -> Option<Request<Body>> {
    let end = bytes.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = end.map_or((bytes, &[][..]), |end| (&bytes[..end], &bytes[end + 2..]));
    let mut lines = head.split(|byte| *byte == b'\n');
    let mut first = lines.next()?.splitn(2, |byte| *byte == b' ');
    let mut request =
        Request::builder().method(first.next()?).uri(first.next()?).header("host", "localhost:5300");
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        request = request.header(&line[..colon], line[colon + 1..].trim_ascii());
    }
    request.body(Body::from(Bytes::copy_from_slice(body))).ok()
}

/// A namespace with a queue `q`, a queue with sessions `s`, and a topic `t` with the subscription `all`.
async fn namespace() -> Namespace {
    let shard = MemoryStore::new().acquire(ShardId(0)).await.expect("a shard");
    let options =
        NamespaceOptions { body_cache_bytes: 1 << 16, seed: Some(1), ..NamespaceOptions::default() };
    let namespace =
        Namespace::start(shard, Arc::new(ManualClock::new(NOW)), options).await.expect("a namespace");
    namespace.declare("q", QueueOptions::default()).await.expect("a queue");
    let sessions = QueueOptions { requires_session: true, ..QueueOptions::default() };
    namespace.declare("s", sessions).await.expect("a queue");
    namespace.declare("t", TopicOptions::default()).await.expect("a topic");
    let rules = vec![Rule::default_rule()];
    let subscription = namespace.create_subscription("t", "all", SubscriptionOptions::default(), rules);
    subscription.await.expect("a subscription");
    namespace
}
