//! Connections that end from our side.

use std::io;
use std::task::{Context, Poll};

use tokio::io::ReadBuf;

use super::*;

/// A signal that ends the connection in this way, and its trigger.
pub(super) fn stop_signal(how: Stop) -> (oneshot::Sender<()>, StopSignal) {
    let (trigger, triggered) = oneshot::channel();
    let signal = async move {
        triggered.await.unwrap();
        how
    };
    (trigger, Box::pin(signal))
}

#[tokio::test]
async fn a_cut_ends_the_connection_without_farewell() {
    let (mut near, far) = duplex(1 << 16);
    let (brokers, clock) = (Brokers::default(), StillClock::new());
    let (cut, signal) = stop_signal(Stop::Cut);
    let server = serve(far, &brokers, &clock, signal);
    near.write_all(b"AMQP\x03\x01\x00\x00").await.unwrap();
    near.read_exact(&mut [0; 8]).await.unwrap();
    cut.send(()).unwrap();
    server.await.unwrap();
    assert_eq!(brokers.closed.load(Ordering::SeqCst), 1);
    let mut rest = Vec::new();
    near.read_to_end(&mut rest).await.unwrap();
    assert!(!rest.windows(8).any(|word| word == b"shutting"), "no word, and no waiting for one");
}

/// An SDK that opens its next connection between our close and the end of the stream takes that end for a failure of
/// the new one (rhea in `@azure/service-bus` 7.9).
#[tokio::test]
async fn the_stream_ends_with_our_close() {
    let (mut near, far) = duplex(1 << 16);
    let (brokers, clock) = (Brokers::default(), StillClock::new());
    let (stop, signal) = stop_signal(Stop::Close);
    let server = serve(far, &brokers, &clock, signal);
    near.write_all(&endless_begins().0).await.unwrap();
    stop.send(()).unwrap();
    let mut read = Vec::new();
    near.read_to_end(&mut read).await.unwrap();
    assert!(read.windows(8).any(|word| word == b"shutting"));
    assert_eq!(brokers.closed.load(Ordering::SeqCst), 0, "the peer's close is still awaited");
    let mut close = BytesMut::new();
    encode_frame(0, &Performative::Close(None), 0, &mut close);
    near.write_all(&close).await.unwrap();
    drop(near);
    assert!(!server.await.unwrap().by_peer);
}

/// A peer that sends frames without a pause, and discards what it gets.
struct Endless {
    start: Bytes,
    reads: Arc<AtomicUsize>,
}

impl AsyncRead for Endless {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        const EMPTY_FRAME: &[u8] = &[0, 0, 0, 8, 2, 0, 0, 0];
        let start = std::mem::take(&mut self.start);
        buffer.put_slice(if start.is_empty() { EMPTY_FRAME } else { &start });
        self.reads.fetch_add(1, Ordering::SeqCst);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Endless {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_peer_that_never_pauses_is_cut_too() {
    let reads = Arc::new(AtomicUsize::new(0));
    let (cut, signal) = stop_signal(Stop::Cut);
    let (brokers, clock) = (Brokers::default(), StillClock::new());
    let peer = Endless { start: Bytes::from(endless_begins().0), reads: Arc::clone(&reads) };
    let server = serve(peer, &brokers, &clock, signal);
    until(|| reads.load(Ordering::SeqCst) > 1_000).await;
    cut.send(()).unwrap();
    let last = reads.load(Ordering::SeqCst) + 100_000;
    until(|| server.is_finished() || reads.load(Ordering::SeqCst) > last).await;
    assert!(server.is_finished());
}
