//! The socket of a connection, which notes every byte that moves.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// What is known of a connection beside its answers.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Reads and writes that moved something.
    moves: AtomicU64,
    /// Requests that wait for an answer.
    owed: AtomicUsize,
    /// Woken by each notification.
    pub(crate) notified: Notify,
    /// Why the connection was given up.
    end: OnceLock<String>,
    patience: Patience,
}

/// How often connections to a database were given up for their silence since an append was answered. Each time doubles the silence
/// that is borne: a server that needs longer for a large record would never get it done otherwise. All clones are one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Patience(Arc<AtomicU32>);

impl Patience {
    /// 2 to the power of this is the most that a silence is multiplied by.
    const DOUBLINGS_MAX: u32 = 4;

    pub(crate) fn lost(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn restored(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    pub(crate) fn stretch(&self, silence: Duration) -> Duration {
        silence * (1 << self.0.load(Ordering::Relaxed).min(Self::DOUBLINGS_MAX))
    }
}

impl Watch {
    pub(crate) fn new(patience: Patience) -> Self {
        Self { patience, ..Self::default() }
    }

    pub(crate) const fn patience(&self) -> &Patience {
        &self.patience
    }

    pub(crate) fn moves(&self) -> u64 {
        self.moves.load(Ordering::Relaxed)
    }

    pub(crate) fn is_owed(&self) -> bool {
        self.owed.load(Ordering::Relaxed) > 0
    }

    /// An answer is owed until what is returned is dropped.
    pub(crate) fn owe(&self) -> Owed<'_> {
        self.owed.fetch_add(1, Ordering::Relaxed);
        Owed(self)
    }

    /// The first reason counts.
    pub(crate) fn end(&self, reason: String) {
        let _ = self.end.set(reason);
    }

    pub(crate) fn reason(&self) -> Option<&str> {
        self.end.get().map(String::as_str)
    }
}

/// See [`Watch::owe`].
#[derive(Debug)]
pub(crate) struct Owed<'a>(&'a Watch);

impl Drop for Owed<'_> {
    fn drop(&mut self) {
        self.0.owed.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A socket of any kind.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Socket for S {}

/// See the module.
pub(crate) struct Watched {
    socket: Box<dyn Socket>,
    watch: Arc<Watch>,
}

impl fmt::Debug for Watched {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Watched").finish_non_exhaustive()
    }
}

impl Watched {
    pub(crate) fn new(socket: impl Socket + 'static, watch: Arc<Watch>) -> Self {
        Self { socket: Box::new(socket), watch }
    }

    fn note(&self) {
        self.watch.moves.fetch_add(1, Ordering::Relaxed);
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.socket).poll_read(context, buffer);
        if read.is_ready() {
            self.note();
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        if written.is_ready() {
            self.note();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
