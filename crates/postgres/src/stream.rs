//! The socket of a connection, which records every transfer of bytes.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Observed state of a connection.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Number of reads and writes that transferred bytes.
    moves: AtomicU64,
    /// Number of requests that wait for an answer.
    owed: AtomicUsize,
    /// Woken by each notification.
    pub(crate) notified: Notify,
    /// The reason why the connection was abandoned.
    end: OnceLock<String>,
    /// Whether the tolerated silence grows with the losses of this session, which is for appends only. Several sessions
    /// are lost together, and reads are small: if each loss doubled the time, the others would detect a dead link later.
    is_appending: AtomicBool,
    /// Whether removals are committed, which takes as long as an append.
    is_removing: AtomicBool,
    tolerance: SilenceTolerance,
}

/// How far the silence tolerated for appends is stretched. It doubles with each appending connection that was abandoned
/// for its silence: otherwise a server that needs longer for a record could never complete it. It returns to the
/// configured one only after appends were fast for [`Self::CALM`]: otherwise a server that is always slow would lose
/// every second connection. All clones share the state.
#[derive(Debug, Clone, Default)]
pub(crate) struct SilenceTolerance(Arc<Mutex<Stretch>>);

#[derive(Debug, Default)]
struct Stretch {
    doublings: u32,
    /// Since when every append was answered in half of the configured time.
    fast_since: Option<Instant>,
}

impl SilenceTolerance {
    /// The tolerated silence is multiplied by at most 2 to the power of this.
    const DOUBLINGS_MAX: u32 = 4;
    /// How long appends must be fast.
    const CALM: Duration = Duration::from_secs(60);

    fn state(&self) -> MutexGuard<'_, Stretch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost(&self) {
        let mut state = self.state();
        *state = Stretch { doublings: (state.doublings + 1).min(Self::DOUBLINGS_MAX), fast_since: None };
    }

    fn answered(&self, now: Instant, took: Duration, silence: Duration) {
        let mut state = self.state();
        if took > silence / 2 {
            state.fast_since = None;
        } else if now - *state.fast_since.get_or_insert(now) >= Self::CALM {
            state.doublings = 0;
        }
    }

    fn stretch(&self, silence: Duration) -> Duration {
        silence * (1 << self.state().doublings)
    }
}

impl Watch {
    pub(crate) fn new(tolerance: SilenceTolerance) -> Self {
        Self { tolerance, ..Self::default() }
    }

    /// Declares that the session appends.
    pub(crate) fn mark_appending(&self) {
        self.is_appending.store(true, Ordering::Relaxed);
    }

    /// Declares that the session removes.
    pub(crate) fn mark_removing(&self) {
        self.is_removing.store(true, Ordering::Relaxed);
    }

    /// The tolerated silence, based on the configured `silence`.
    pub(crate) fn silence(&self, silence: Duration) -> Duration {
        let commits = self.is_appending.load(Ordering::Relaxed) || self.is_removing.load(Ordering::Relaxed);
        if commits { self.tolerance.stretch(silence) } else { silence }
    }

    /// Records that the connection was abandoned for its silence.
    pub(crate) fn note_given_up(&self) {
        if self.is_appending.load(Ordering::Relaxed) {
            self.tolerance.lost();
        }
    }

    /// Records that an append was answered after this time; `silence` is the configured one.
    pub(crate) fn note_answered(&self, took: Duration, silence: Duration) {
        self.tolerance.answered(Instant::now(), took, silence);
    }

    pub(crate) fn moves(&self) -> u64 {
        self.moves.load(Ordering::Relaxed)
    }

    pub(crate) fn is_owed(&self) -> bool {
        self.owed.load(Ordering::Relaxed) > 0
    }

    /// Records a pending answer until the result is dropped.
    pub(crate) fn begin_request(&self) -> PendingRequest<'_> {
        self.owed.fetch_add(1, Ordering::Relaxed);
        PendingRequest(self)
    }

    /// Sets the reason of the end; only the first one is kept.
    pub(crate) fn end(&self, reason: String) {
        let _ = self.end.set(reason);
    }

    pub(crate) fn reason(&self) -> Option<&str> {
        self.end.get().map(String::as_str)
    }
}

/// A pending answer; see [`Watch::begin_request`].
#[derive(Debug)]
pub(crate) struct PendingRequest<'a>(&'a Watch);

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        self.0.owed.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A socket of any kind.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Socket for S {}

/// The socket with its state; see the module.
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

    #[tokio::test(start_paused = true)]
    async fn only_appends_that_were_given_up_are_waited_for_longer() {
        let tolerance = SilenceTolerance::default();
        let session = || Watch::new(tolerance.clone());
        let (appending, reading, removing) = (session(), session(), session());
        appending.mark_appending();
        removing.mark_removing();
        for lost in [&appending, &reading, &removing] {
            lost.note_given_up();
        }
        let silences = [&appending, &removing, &reading].map(|session| session.silence(SILENCE));
        assert_eq!(silences, [2 * SILENCE, 2 * SILENCE, SILENCE]);
        let next = session();
        assert_eq!(next.silence(SILENCE), SILENCE, "its first questions are small");
        next.mark_appending();
        assert_eq!(next.silence(SILENCE), 2 * SILENCE);
        for _ in 0..9 {
            next.note_given_up();
        }
        assert_eq!(next.silence(SILENCE), 16 * SILENCE);
    }

    /// A server that needs six seconds for each record must not lose every second connection.
    #[tokio::test(start_paused = true)]
    async fn appends_are_waited_for_longer_until_they_were_fast_for_a_minute() {
        let watch = Watch::default();
        watch.mark_appending();
        watch.note_given_up();
        let (slow, fast) = (Duration::from_secs(6), Duration::from_millis(20));
        for took in [slow, fast, slow, fast] {
            tokio::time::advance(Duration::from_secs(40)).await;
            watch.note_answered(took, SILENCE);
            assert_eq!(watch.silence(SILENCE), 2 * SILENCE);
        }
        tokio::time::advance(SilenceTolerance::CALM).await;
        watch.note_answered(fast, SILENCE);
        assert_eq!(watch.silence(SILENCE), SILENCE);
    }
}
