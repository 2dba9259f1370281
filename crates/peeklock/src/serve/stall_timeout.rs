//! Time-outs of an HTTP connection that its server does not have: for a peer that does not read an answer, and for one
//! that does not finish its request.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use peeklock_net::ByteStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A peer that reads nothing of an answer, or sends nothing of a body, for this long is disconnected.
const STALL_MAX: Duration = Duration::from_secs(30);

/// A timer that runs while an operation is pending.
#[derive(Debug, Default)]
struct StallTimer(Option<Pin<Box<Sleep>>>);

impl StallTimer {
    /// Returns `outcome`, or an error if it has been pending for too long.
    fn poll<T>(&mut self, context: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.0 = None;
            return outcome;
        }
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep(STALL_MAX)));
        sleep.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// A stream that fails if its peer stops reading the output.
#[derive(Debug)]
pub(super) struct StallTimeoutStream<S> {
    stream: S,
    writing: StallTimer,
}

impl<S> StallTimeoutStream<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, writing: StallTimer::default() }
    }
}

impl<S: ByteStream> AsyncRead for StallTimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        pin!(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: ByteStream> AsyncWrite for StallTimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = pin!(&mut self.stream).poll_write(context, bytes);
        self.writing.poll(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = pin!(&mut self.stream).poll_write_vectored(context, slices);
        self.writing.poll(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = pin!(&mut self.stream).poll_flush(context);
        self.writing.poll(context, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = pin!(&mut self.stream).poll_shutdown(context);
        self.writing.poll(context, outcome)
    }
}

/// A request's body that fails if its data stops arriving.
pub(super) struct StallTimeoutBody {
    body: hyper::body::Incoming,
    reading: StallTimer,
    unread: Unread,
}

/// Whether a part of a request's body has not been read.
#[derive(Debug, Clone)]
pub(super) struct Unread(Arc<AtomicBool>);

impl Unread {
    pub(super) fn is_left(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl StallTimeoutBody {
    pub(super) fn wrap(body: hyper::body::Incoming) -> (Body, Unread) {
        let unread = Unread(Arc::new(AtomicBool::new(!body.is_end_stream())));
        (Body::new(Self { body, reading: StallTimer::default(), unread: unread.clone() }), unread)
    }
}

impl HttpBody for StallTimeoutBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.unread.0.store(false, Ordering::Relaxed);
        }
        let frame = frame.map(|frame| frame.transpose().map_err(io::Error::other));
        Poll::Ready(ready!(self.reading.poll(context, frame)).transpose())
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
