//! Waiting receives: they are counted, and end when the right to receive ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http_body_util::{BodyExt, Full};
use peeklock_access::{Access, Policy};
use peeklock_budget::{Budget, Owner};
use peeklock_engine::runtime::{ManualClock, Namespace, NamespaceOptions};
use peeklock_engine::{QueueOptions, Timestamp};
use peeklock_storage::{MemoryStore, ShardId, Store};
use ring::hmac;
use tower::ServiceExt;

use crate::{Admin, Admission, Limits};

const NOW_S: u64 = 1_700_000_000;

struct Broker {
    router: Router,
    access: Access,
    clock: Arc<ManualClock>,
}

async fn broker() -> Broker {
    broker_within(Budget::default()).await
}

async fn broker_within(budget: Budget) -> Broker {
    let shard = MemoryStore::default().acquire(ShardId(0)).await.unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp(NOW_S * 1_000)));
    let options =
        NamespaceOptions { body_cache_bytes: 0, seed: Some(7), budget, ..NamespaceOptions::default() };
    let namespace = Namespace::start(shard, clock.clone(), options).await.unwrap();
    let queue = QueueOptions { max_message_size_bytes: 4 << 20, ..QueueOptions::default() };
    namespace.declare("q", queue).await.unwrap();
    let access = Access::new(Policy::development(), Arc::new(namespace.clone()), clock.clone());
    let router = Admin::new(namespace, access.clone(), Limits::default()).router();
    Broker { router, access, clock }
}

fn token(expires_at_s: u64, key: &str) -> String {
    let resource = "sb%3A%2F%2Flocalhost%2Fq";
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    let signature = hmac::sign(&key, format!("{resource}\n{expires_at_s}").as_bytes());
    let signature = BASE64_STANDARD.encode(signature).replace('+', "%2B").replace('=', "%3D");
    format!(
        "SharedAccessSignature sr={resource}&sig={signature}&se={expires_at_s}&skn=RootManageSharedAccessKey"
    )
}

/// Receives from an empty queue and calls `meanwhile` while the request waits; returns the status, and how often the
/// request was reported as authorized.
async fn status(broker: &Broker, token: &str, meanwhile: impl FnOnce()) -> (u16, usize) {
    let admitted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&admitted);
    let request = Request::post("/q/messages/head?timeout=300").header("authorization", token);
    let admission = Admission::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let request = request.extension(admission).body(Body::empty()).unwrap();
    let waiting = tokio::spawn(broker.router.clone().oneshot(request));
    while admitted.load(Ordering::Relaxed) == 0 && !waiting.is_finished() {
        tokio::task::yield_now().await;
    }
    meanwhile();
    (waiting.await.unwrap().unwrap().status().as_u16(), admitted.load(Ordering::Relaxed))
}

#[tokio::test]
async fn who_waits_has_been_let_in_and_is_sent_away_when_the_key_changes() {
    let broker = broker().await;
    let token = token(NOW_S + 3_600, "SAS_KEY_VALUE");
    assert_eq!(status(&broker, &token, || broker.access.replace(Policy::default())).await, (401, 1));
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_sent_away_when_the_token_expires() {
    let broker = broker().await;
    let token = token(NOW_S + 10, "SAS_KEY_VALUE");
    let start = tokio::time::Instant::now();
    assert_eq!(status(&broker, &token, || broker.clock.advance(10_000)).await, (401, 1));
    assert!(start.elapsed() < Duration::from_secs(300), "before the receive would have ended");
}

#[tokio::test]
async fn a_token_is_expired_at_its_expiry_time_and_a_wrong_one_is_refused() {
    let broker = broker().await;
    for (expires_at_s, key) in [(NOW_S, "SAS_KEY_VALUE"), (NOW_S + 3_600, "SAS_KEY_VALUe")] {
        assert_eq!(status(&broker, &token(expires_at_s, key), || {}).await, (401, 0));
    }
}

/// A body that ends a second after its bytes.
fn late(bytes: &'static str) -> Body {
    Body::new(Full::from(bytes).with_trailers(async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        None
    }))
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_right_ends_while_its_body_arrives_is_refused() {
    let entry = r#"<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription
        xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" /></content></entry>"#;
    let requests = [
        ("POST", "/q/messages", "body", 201),
        ("POST", "/q/messages/head?timeout=0", "{}", 204),
        ("PUT", "/q?api-version=2021-05", entry, 200),
    ];
    for (method, path, body, allowed) in requests {
        let broker = &broker().await;
        let ask = |expires_at_s| async move {
            let request = Request::builder().method(method).uri(path);
            let request =
                request.header("if-match", "*").header("authorization", token(expires_at_s, "SAS_KEY_VALUE"));
            broker.router.clone().oneshot(request.body(late(body)).unwrap()).await.unwrap().status().as_u16()
        };
        assert_eq!(ask(NOW_S + 10).await, allowed, "{method} {path}");
        let mut asked = Box::pin(ask(NOW_S + 10));
        assert!(poll_once(&mut asked).is_pending());
        broker.clock.advance(10_000);
        assert_eq!(asked.await, 401, "{method} {path}: the token has expired");
        let mut asked = Box::pin(ask(NOW_S + 20));
        assert!(poll_once(&mut asked).is_pending());
        broker.access.replace(Policy::default());
        assert_eq!(asked.await, 401, "{method} {path}: the key is gone");
    }
}

/// Sends a batch; returns the status of the answer.
async fn send_batch(broker: &Broker, body: String) -> u16 {
    let request = Request::post("/q/messages")
        .header("authorization", token(NOW_S + 3_600, "SAS_KEY_VALUE"))
        .header("content-type", "application/vnd.microsoft.servicebus.json")
        .body(Body::from(body))
        .unwrap();
    broker.router.clone().oneshot(request).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_batch_that_takes_more_memory_than_all_bodies_may_is_refused() {
    let broker = broker_within(Budget::new(16 << 20)).await;
    for (messages, properties, status) in [(1, 5_000, 201), (30, 1_000, 201), (1, 30_000, 413)] {
        let properties: Vec<String> = (0..properties).map(|number| format!(r#""{number}":1"#)).collect();
        let message = format!(r#"{{"UserProperties":{{{}}}}}"#, properties.join(","));
        let body = format!("[{}]", vec![message; messages].join(","));
        assert_eq!(send_batch(&broker, body).await, status, "{messages} {}", properties.len());
    }
}

#[test]
fn a_batch_is_counted_and_read_outside_the_runtime_and_keeps_its_memory_after_a_disconnect() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.unwrap().block_on(async {
        let budget = Budget::new(128 << 20);
        let used = || budget.used_by(Owner::HttpRequests);
        let broker = broker_within(budget.clone()).await;
        let (occupied, end) = mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || end.recv());
        let too_many = format!("[{}]", vec!["{}"; 200_000].join(","));
        let mut request = Box::pin(send_batch(&broker, too_many));
        for _ in 0..1_000 {
            assert!(poll_once(&mut request).is_pending(), "counted by a thread of the runtime");
        }
        let held = used();
        assert!(held > 0);
        drop(request);
        assert_eq!(used(), held, "the work has not ended yet");
        drop(occupied);
        while used() > 0 {
            tokio::task::yield_now().await;
        }
    });
}

/// The smallest `memory_max` is 128 MiB.
#[tokio::test]
async fn a_batch_of_the_largest_number_of_messages_is_accepted_with_the_smallest_memory() {
    let broker = broker_within(Budget::new(128 << 20)).await;
    let message = r#"{"BrokerProperties":{"Label":"x"}}"#;
    let body = format!("[{}]", [message; 32_768].join(","));
    assert_eq!(send_batch(&broker, body).await, 201);
}

#[tokio::test]
async fn the_answer_says_which_message_of_a_batch_is_invalid() {
    let broker = broker().await;
    let request = Request::post("/q/messages")
        .header("authorization", token(NOW_S + 3_600, "SAS_KEY_VALUE"))
        .header("content-type", "application/vnd.microsoft.servicebus.json")
        .body(Body::from(r#"[{"Body": "a"}, {"BrokerProperties": {"TimeToLive": 0}}]"#))
        .unwrap();
    let answer = broker.router.clone().oneshot(request).await.unwrap();
    let body = axum::body::to_bytes(answer.into_body(), 10_000).await.unwrap();
    let text = String::from_utf8_lossy(&body);
    assert!(text.contains("Message 1: TimeToLive"), "{text}");
}

#[tokio::test]
async fn receives_of_one_queue_leave_slots_to_others() {
    let broker = broker().await;
    let receive = || async {
        let token = token(NOW_S + 3_600, "SAS_KEY_VALUE");
        let request = Request::post("/q/messages/head?timeout=300").header("authorization", token);
        broker.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status().as_u16()
    };
    let mut waiting: Vec<_> = (0..4_096).map(|_| Box::pin(receive())).collect();
    for request in &mut waiting {
        assert!(poll_once(request).is_pending());
    }
    assert_eq!(receive().await, 503, "as many as are free");
}

/// A body of which a part arrives after each interval.
struct SlowBody {
    left_bytes: usize,
    part_bytes: usize,
    interval: Duration,
    is_length_known: bool,
    pause: std::pin::Pin<Box<tokio::time::Sleep>>,
}

impl SlowBody {
    /// A part each second.
    fn new(left_bytes: usize, part_bytes: usize) -> Self {
        let interval = Duration::from_secs(1);
        let pause = Box::pin(tokio::time::sleep(interval));
        Self { left_bytes, part_bytes, interval, is_length_known: true, pause }
    }
}

/// A fast body of a client that does not know its length in advance.
fn chunked(bytes: usize) -> Body {
    let interval = Duration::from_millis(1);
    Body::new(SlowBody { interval, is_length_known: false, ..SlowBody::new(bytes, 16 << 10) })
}

impl http_body::Body for SlowBody {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        std::task::ready!(self.pause.as_mut().poll(context));
        self.pause = Box::pin(tokio::time::sleep(self.interval));
        let part_bytes = self.part_bytes.min(self.left_bytes);
        self.left_bytes -= part_bytes;
        let part = (part_bytes > 0).then(|| http_body::Frame::data(vec![0; part_bytes].into()));
        std::task::Poll::Ready(part.map(Ok))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self.is_length_known {
            true => http_body::SizeHint::with_exact(self.left_bytes as u64),
            false => http_body::SizeHint::default(),
        }
    }
}

/// Sends a message; returns the status of the answer.
async fn send(broker: &Broker, body: Body) -> u16 {
    let token = token(NOW_S + 3_600, "SAS_KEY_VALUE");
    let request = Request::post("/q/messages").header("authorization", token).body(body).unwrap();
    broker.router.clone().oneshot(request).await.unwrap().status().as_u16()
}

/// Sends a large message, which takes almost all memory for large bodies and arrives with this pace, and another after it.
async fn send_large_and(part_bytes: usize, other_bytes: usize) -> (u16, u16) {
    let broker = broker_within(Budget::new(16 << 20)).await;
    let large = send(&broker, Body::new(SlowBody::new(3 << 20, part_bytes)));
    tokio::join!(biased; large, send(&broker, Body::from("x".repeat(other_bytes))))
}

#[tokio::test(start_paused = true)]
async fn a_stalled_body_ends_when_others_wait_for_its_memory() {
    let sent = tokio::time::timeout(Duration::from_secs(3_600), send_large_and(1, 1 << 20)).await;
    assert_eq!(sent.expect("the other message waits for the slow one"), (503, 201));
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_a_body_that_arrives_but_not_for_ever() {
    assert_eq!(send_large_and(256 << 10, 1 << 20).await, (201, 201));
    assert_eq!(send_large_and(64 << 10, 1 << 20).await, (201, 503));
}

#[tokio::test(start_paused = true)]
async fn small_bodies_do_not_wait_for_large_ones() {
    let broker = broker_within(Budget::new(16 << 20)).await;
    let large = || send(&broker, Body::new(SlowBody::new(3 << 20, 128 << 10)));
    let mut all_large = Box::pin(async { tokio::join!(biased; large(), large()) });
    assert!(poll_once(&mut all_large).is_pending());
    let small = async {
        for _ in 0..100 {
            assert_eq!(send(&broker, Body::from("x".repeat(100 << 10))).await, 201);
        }
    };
    tokio::select! {
        biased;
        sent = &mut all_large => panic!("sent before the small ones: {sent:?}"),
        () = small => {}
    }
    assert_eq!(all_large.await, (201, 201));
}

#[tokio::test(start_paused = true)]
async fn a_body_of_unknown_length_is_small_until_it_is_large() {
    let broker = broker_within(Budget::new(16 << 20)).await;
    let mut large = Box::pin(send(&broker, Body::new(SlowBody::new(3 << 20, 128 << 10))));
    assert!(poll_once(&mut large).is_pending());
    tokio::select! {
        biased;
        sent = &mut large => panic!("sent before the small one: {sent}"),
        sent = send(&broker, chunked(100 << 10)) => assert_eq!(sent, 201),
    }
    let mut other = Box::pin(send(&broker, chunked(2 << 20)));
    tokio::select! {
        biased;
        sent = &mut other => panic!("it waits for the memory of the first large one: {sent}"),
        sent = &mut large => assert_eq!(sent, 201),
    }
    assert_eq!(other.await, 201);
    assert_eq!(send(&broker, chunked(5 << 20)).await, 413);
}

/// Each keeps what it has while it waits for more.
#[tokio::test(start_paused = true)]
async fn bodies_of_unknown_length_do_not_wait_for_one_another() {
    let broker = broker_within(Budget::new(16 << 20)).await;
    let broker = Arc::new(broker);
    let send_one = |_| {
        let broker = Arc::clone(&broker);
        tokio::spawn(async move { send(&broker, chunked(1 << 20)).await })
    };
    for sent in (0..20).map(send_one).collect::<Vec<_>>() {
        assert_eq!(sent.await.unwrap(), 201);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_body_is_read_while_nobody_waits() {
    let broker = broker().await;
    assert_eq!(send(&broker, Body::new(SlowBody::new(100, 1))).await, 201);
}

/// Polls once.
fn poll_once<F: Future + Unpin>(future: &mut F) -> std::task::Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
}
