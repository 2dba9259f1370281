//! A connection yields to other tasks between its reads.

use std::future::poll_fn;
use std::task::Poll;

use super::*;

/// Input is passed to the engine before the next read: partitions work on it meanwhile, not only after all input is
/// read.
#[tokio::test]
async fn others_have_their_turn_between_two_large_reads() {
    const MESSAGES: usize = 170;
    let (near, far) = duplex(2 << 20);
    let (brokers, clock) = (Brokers::default(), StillClock::new());
    let (connection, application) = client(MESSAGES as u64);
    let server = serve(far, &brokers, &clock, never());
    let client = Transport::new(near, BytesMut::new(), connection, application, clock, never());
    let client = tokio::spawn(client.run());
    let seen = Arc::clone(&brokers.seen);
    // Another task that is always ready and has the same priority.
    let most = tokio::spawn(async move {
        let (mut most, mut before) = (0, 0);
        poll_fn(|context| {
            let now = seen.load(Ordering::SeqCst);
            most = most.max(now - before);
            before = now;
            context.waker().wake_by_ref();
            if now == MESSAGES { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        most
    });
    let most = most.await.unwrap();
    client.await.unwrap();
    server.await.unwrap();
    // A buffer may have twice the requested room, and the start of a message.
    assert!(most <= 2 * limits::READ_BYTES_MAX / 6_000 + 1, "{most} messages without a turn of others");
}
