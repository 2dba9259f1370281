//! Connections whose access has ended.

use super::*;

#[tokio::test]
async fn a_cut_ends_the_connection_without_farewell() {
    let (mut near, far) = duplex(1 << 16);
    let (brokers, clock) = (Brokers::default(), StillClock::new());
    let (cut, told) = oneshot::channel::<()>();
    let signal: StopSignal = Box::pin(async move {
        told.await.unwrap();
        Stop::Cut
    });
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
