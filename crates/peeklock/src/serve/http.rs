//! One HTTP connection: its deadlines, its requests, and its upgrade to a WebSocket.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::header::{CONNECTION, CONTENT_LENGTH};
use axum::http::uri::Scheme;
use axum::http::{HeaderValue, Request, Response, StatusCode, Uri};
use axum::response::IntoResponse;
use bytes::BytesMut;
use hyper::body::Incoming as Received;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use peeklock_access::{Access, Attempts, Denied, Failures};
use peeklock_admin::{Admission, Departure, token_header};
use peeklock_net::websocket::{self, WebSocket};
use peeklock_net::{ByteStream, Pass, Peer, Rewind, UnauthenticatedConnection};
use peeklock_wire::loggable;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tower::ServiceExt;

use super::metrics::{ConnectionMetrics, HttpMetrics, Monitoring, Spoken, route};
use super::pages::{self, Pages};
use super::stall_timeout::{StallTimeoutBody, StallTimeoutStream};
use super::watched_stream::WatchedStream;

/// Deadline for the head of the first request.
const FIRST_HEAD_WITHIN: Duration = Duration::from_secs(10);
/// Deadline for the head of the next request, after the last answer.
const NEXT_HEAD_WITHIN: Duration = Duration::from_secs(60);
/// Longest head of a request, in bytes: enough for long tokens, little enough for unauthenticated connections.
const HEAD_BYTES_MAX: usize = 32 << 10;

/// Serves HTTP on accepted connections.
pub(super) struct Http {
    router: Router,
    pages: Arc<Pages>,
    /// Connections that may finish when the broker stops hold a receiver.
    leaving: watch::Sender<bool>,
    authenticated: Arc<Semaphore>,
    failed_attempts: Arc<FailedAttempts>,
    metrics: HttpMetrics,
    connections: ConnectionMetrics,
}

/// Throttling of failed authentication attempts.
struct FailedAttempts {
    failures: Failures,
    started_at: Instant,
}

impl FailedAttempts {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// A connection that is upgraded to a WebSocket.
pub(super) struct WebSocketAsked<S> {
    pub(super) socket: WebSocket<StallTimeoutStream<Rewind<S>>>,
    pub(super) peer: Peer,
    pub(super) unauthenticated: UnauthenticatedConnection,
}

/// State shared by the requests of one connection.
struct ConnectionState {
    router: Router,
    pages: Arc<Pages>,
    peer: Peer,
    pass: Pass,
    departure: Departure,
    authenticated: Arc<Semaphore>,
    /// Held while the connection is protected from eviction as an authenticated one.
    regular: OnceLock<OwnedSemaphorePermit>,
    failed_attempts: Arc<FailedAttempts>,
    attempts: Attempts,
    /// Whether a complete request head has arrived.
    arrived: AtomicBool,
    upgrade: Mutex<Option<OnUpgrade>>,
    metrics: HttpMetrics,
}

impl Http {
    /// Answers requests that `pages` allows with `router`. Up to `authenticated_max` connections are not evicted after
    /// one of their tokens has proved valid.
    pub(super) fn new(
        router: Router,
        pages: Arc<Pages>,
        authenticated_max: usize,
        monitoring: &Monitoring,
    ) -> Arc<Self> {
        let authenticated = Arc::new(Semaphore::new(authenticated_max.min(Semaphore::MAX_PERMITS)));
        let failed_attempts =
            Arc::new(FailedAttempts { failures: Failures::default(), started_at: Instant::now() });
        let (metrics, connections) = (monitoring.http.clone(), monitoring.connections.clone());
        let leaving = watch::Sender::new(false);
        Arc::new(Self { router, pages, leaving, authenticated, failed_attempts, metrics, connections })
    }

    /// Serves one connection to its end, or until it becomes a WebSocket.
    pub(super) async fn serve<S: ByteStream>(
        &self,
        stream: S,
        first_bytes: BytesMut,
        peer: Peer,
        mut unauthenticated: UnauthenticatedConnection,
    ) -> Option<WebSocketAsked<S>> {
        let stream = WatchedStream::new(StallTimeoutStream::new(Rewind::new(first_bytes, stream)));
        let state = Arc::new(ConnectionState {
            router: self.router.clone(),
            pages: Arc::clone(&self.pages),
            peer: peer.clone(),
            pass: unauthenticated.pass(),
            departure: stream.departure(),
            authenticated: Arc::clone(&self.authenticated),
            regular: OnceLock::new(),
            failed_attempts: Arc::clone(&self.failed_attempts),
            attempts: Attempts::default(),
            arrived: AtomicBool::new(false),
            upgrade: Mutex::default(),
            metrics: self.metrics.clone(),
        });
        let open = self.connections.open(Spoken::Http, peer.encrypted);
        self.converse(TokioIo::new(stream), &state, &mut unauthenticated).await?;
        drop(open);
        let upgrade = state.upgrade.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let parts = upgrade.await.ok()?.downcast::<TokioIo<WatchedStream<_>>>().ok()?;
        let (stream, ahead) = parts.io.into_inner().into_parts()?;
        let mut read = BytesMut::from(parts.read_buf);
        read.extend_from_slice(&ahead);
        let socket = WebSocket::new(stream, read);
        Some(WebSocketAsked { socket, peer, unauthenticated })
    }

    /// Answers requests one by one; `None` when the connection can't be used any more.
    async fn converse<S: ByteStream>(
        &self,
        io: TokioIo<S>,
        state: &Arc<ConnectionState>,
        unauthenticated: &mut UnauthenticatedConnection,
    ) -> Option<()> {
        let service = |request| {
            let state = Arc::clone(state);
            async move { Ok::<_, Infallible>(state.measure(request).await) }
        };
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(NEXT_HEAD_WITHIN).max_buf_size(HEAD_BYTES_MAX);
        let mut connection = pin!(server.serve_connection(io, service_fn(service)).with_upgrades());
        let mut evicted = pin!(unauthenticated.evicted_meanwhile());
        let mut first_head = pin!(sleep(FIRST_HEAD_WITHIN));
        // A connection that arrives while others finish may still query health.
        let mut leaving = self.leaving.subscribe();
        let mut leaves = *leaving.borrow_and_update();
        let mut waits = true;
        loop {
            tokio::select! {
                biased;
                ended = connection.as_mut() => {
                    return ended.map_err(|error| tracing::debug!(%error, "HTTP connection failed")).ok();
                }
                () = &mut evicted => return None,
                () = &mut first_head, if waits => {
                    waits = false;
                    if !state.arrived.load(Ordering::Relaxed) {
                        return None;
                    }
                }
                _ = leaving.changed(), if !leaves => {
                    leaves = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }

    /// Lets requests in progress finish, for at most `grace`.
    pub(super) async fn drain(&self, grace: Duration) {
        self.leaving.send_replace(true);
        // Requests that do not finish in time are cut off.
        let _ = timeout(grace, self.leaving.closed()).await;
    }
}

/// Properties of a request for the log, if it is refused.
struct Asked {
    uri: Uri,
    token: Option<HeaderValue>,
    /// The size declared by the client.
    size_bytes: Option<u64>,
}

impl Asked {
    fn of<B>(request: &Request<B>) -> Self {
        let size = request.headers().get(CONTENT_LENGTH).and_then(|size| size.to_str().ok()?.parse().ok());
        let token = token_header(request.headers()).cloned();
        Self { uri: request.uri().clone(), token, size_bytes: size }
    }

    /// Logs refusals that are relevant to an operator.
    fn log_refusal(&self, peer: SocketAddr, status: StatusCode) {
        let path = || loggable(self.uri.path());
        match status {
            StatusCode::UNAUTHORIZED => {
                let token = self.token.as_ref().and_then(|token| token.to_str().ok());
                let claimed = token.and_then(Access::claimed_rule);
                let identity = claimed.as_deref().map(loggable).map(tracing::field::display);
                tracing::info!(%peer, identity, path = %path(), "credentials refused over HTTP");
            }
            StatusCode::PAYLOAD_TOO_LARGE => {
                let size_bytes = self.size_bytes;
                tracing::info!(%peer, size_bytes, path = %path(), "HTTP request refused: it is too large");
            }
            _ => {}
        }
    }
}

impl ConnectionState {
    async fn measure(self: Arc<Self>, request: Request<Received>) -> Response<Body> {
        let (route, started_at) = (route(request.uri().path()), Instant::now());
        let metrics = self.metrics.clone();
        let response = self.answer(request).await;
        metrics.note(route, response.status(), started_at.elapsed());
        // The next request may have arrived already: without this, pipelined requests would be answered in one turn.
        tokio::task::yield_now().await;
        response
    }

    async fn answer(self: Arc<Self>, mut request: Request<Received>) -> Response<Body> {
        self.arrived.store(true, Ordering::Relaxed);
        let source = match self.pages.check(request.uri(), request.headers()) {
            Ok(source) => source,
            Err(refused) => {
                tracing::info!(peer = %self.peer.address, ?refused, "HTTP request refused");
                return pages::refuse(&refused);
            }
        };
        if let Some(response) = pages::preflight(request.method(), request.headers(), &source) {
            return response;
        }
        if websocket::is_asked_for(request.uri().path()) {
            return self.upgrade(&mut request);
        }
        let mut response = self.serve_route(request).await;
        pages::share(&mut response, &source);
        response
    }

    /// Passes an accepted request to its route, slows down guesses of credentials, and logs refusals.
    async fn serve_route(self: Arc<Self>, mut request: Request<Received>) -> Response<Body> {
        let scheme = if self.peer.encrypted { Scheme::HTTPS } else { Scheme::HTTP };
        request.extensions_mut().insert(scheme);
        request.extensions_mut().insert(ConnectInfo(self.peer.address));
        request.extensions_mut().insert(self.departure.clone());
        let asked = Asked::of(&request);
        let has_token = asked.token.is_some();
        if has_token {
            self.wait_for_turn().await;
        }
        let (router, this) = (self.router.clone(), Arc::clone(&self));
        request.extensions_mut().insert(Admission::new(move || self.admit()));
        let (head, body) = request.into_parts();
        let (body, unread) = StallTimeoutBody::wrap(body);
        let mut response = match router.oneshot(Request::from_parts(head, body)).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        // The rest of the body is not read, so the connection ends; a client that is not notified would send its next
        // request in vain.
        if unread.is_left() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        asked.log_refusal(this.peer.address, response.status());
        let may_be_guess = response.extensions().get::<Denied>().is_none_or(Denied::may_be_guess);
        if has_token && may_be_guess && response.status() == StatusCode::UNAUTHORIZED {
            let FailedAttempts { failures, .. } = &*this.failed_attempts;
            this.attempts.failed(failures, this.peer.address.ip(), this.failed_attempts.now_ms());
        }
        response
    }

    /// Delays an authentication attempt after earlier failures, so that guessing is slow.
    async fn wait_for_turn(&self) {
        let (tried, is_authenticated) = (&self.failed_attempts, self.regular.get().is_some());
        let wait_ms =
            self.attempts.wait_ms(&tried.failures, self.peer.address.ip(), is_authenticated, tried.now_ms());
        if wait_ms > 0 {
            sleep(Duration::from_millis(wait_ms)).await;
        }
    }

    /// Marks the peer as authenticated; the connection is protected from eviction if a slot is free.
    fn admit(&self) {
        if self.regular.get().is_none()
            && let Ok(permit) = Arc::clone(&self.authenticated).try_acquire_owned()
        {
            // The requests of one connection are sequential, so this is not set concurrently.
            let _ = self.regular.set(permit);
            self.pass.admit();
        }
    }

    fn upgrade(&self, request: &mut Request<Received>) -> Response<Body> {
        let upgrade = hyper::upgrade::on(&mut *request);
        match websocket::shake_hands(request.method(), request.headers()) {
            Ok(response) => {
                *self.upgrade.lock().unwrap_or_else(PoisonError::into_inner) = Some(upgrade);
                response.map(|()| Body::empty())
            }
            Err(refused) => (refused.status, refused.headers(), refused.reason).into_response(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use peeklock_net::{UnauthenticatedConnections, UnauthenticatedLimits};
    use tokio::io::AsyncWriteExt;
    use tokio::task::yield_now;

    use super::*;
    use crate::config::{Config, ServeArgs};

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const REQUESTS: usize = 200;

    fn http(router: Router) -> Arc<Http> {
        let config = Config::resolve(ServeArgs::default()).unwrap();
        Http::new(router, Arc::new(Pages::new(&config)), 1, &Monitoring::default())
    }

    /// Each turn of a task that only yields is one turn of the connection at most.
    #[tokio::test]
    async fn other_tasks_have_their_turn_between_pipelined_requests() {
        let answered = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&answered);
        let router = Router::new().fallback(move || {
            count.fetch_add(1, Ordering::Relaxed);
            async { "answer" }
        });
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let limits = UnauthenticatedLimits { total_max: 1, per_address_max: 1 };
        let unauthenticated = UnauthenticatedConnections::new(limits).arrive(address.ip());
        let peer = Peer { address, encrypted: false, certificate: None };
        let (mut client, server) = tokio::io::duplex(1 << 20);
        client.write_all(&REQUEST.repeat(REQUESTS)).await.unwrap();
        let http = http(router);
        let serving =
            tokio::spawn(async move { http.serve(server, BytesMut::new(), peer, unauthenticated).await });
        let (mut before, mut most) = (0, 0);
        while before < REQUESTS && !serving.is_finished() {
            yield_now().await;
            let now = answered.load(Ordering::Relaxed);
            most = most.max(now - before);
            before = now;
        }
        assert_eq!((before, most), (REQUESTS, 1));
    }
}
