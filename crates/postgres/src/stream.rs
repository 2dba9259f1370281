//! The socket of a connection, which notes every byte that moves.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
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
    /// Whether patience counts: for appends alone. Several sessions are lost together, and a question is small: each
    /// would otherwise double the time in which the others notice a dead link.
    is_appending: AtomicBool,
    patience: Patience,
}

/// How often connections that append were given up for their silence since an append was answered. Each time doubles the silence
/// that is borne there: a server that needs longer for a large record would never get it done otherwise. All clones are one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Patience(Arc<AtomicU32>);

impl Patience {
    /// 2 to the power of this is the most that a silence is multiplied by.
    const DOUBLINGS_MAX: u32 = 4;

    fn lost(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn restored(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn stretch(&self, silence: Duration) -> Duration {
        silence * (1 << self.0.load(Ordering::Relaxed).min(Self::DOUBLINGS_MAX))
    }
}

impl Watch {
    pub(crate) fn new(patience: Patience) -> Self {
        Self { patience, ..Self::default() }
    }

    /// The session appends from now on.
    pub(crate) fn appends(&self) {
        self.is_appending.store(true, Ordering::Relaxed);
    }

    /// How long a silence is borne, where it is `silence` at other times.
    pub(crate) fn silence(&self, silence: Duration) -> Duration {
        if self.is_appending.load(Ordering::Relaxed) { self.patience.stretch(silence) } else { silence }
    }

    /// The connection is given up for its silence.
    pub(crate) fn given_up(&self) {
        if self.is_appending.load(Ordering::Relaxed) {
            self.patience.lost();
        }
    }

    /// An append was answered.
    pub(crate) fn answered(&self) {
        self.patience.restored();
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

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_secs(5);

    #[test]
    fn only_appends_that_were_given_up_are_waited_for_longer_and_until_one_is_answered() {
        let patience = Patience::default();
        let session = || Watch::new(patience.clone());
        let (appending, reading, removing) = (session(), session(), session());
        appending.appends();
        for lost in [&appending, &reading, &removing] {
            lost.given_up();
        }
        assert_eq!((appending.silence(SILENCE), reading.silence(SILENCE)), (2 * SILENCE, SILENCE));
        let next = session();
        assert_eq!(next.silence(SILENCE), SILENCE, "its first questions are small");
        next.appends();
        assert_eq!(next.silence(SILENCE), 2 * SILENCE);
        for _ in 0..9 {
            next.given_up();
        }
        assert_eq!(next.silence(SILENCE), 16 * SILENCE);
        next.answered();
        assert_eq!(next.silence(SILENCE), SILENCE);
    }
}
