//! Connections while memory is short.

use std::sync::Mutex;

use peeklock_budget::{Budget, Owner};
use tokio::io::{DuplexStream, ReadHalf};

use super::*;

/// Sends two messages, the second when the first has its outcome.
struct OneByOne {
    link: LinkId,
    sent: usize,
    outcomes: Arc<Mutex<Vec<Option<DeliveryState>>>>,
}

/// In one frame.
const MESSAGE_BYTES: usize = 200 * 1024;

impl OneByOne {
    fn send(&mut self, connection: &mut Connection) {
        let payload = smallvec![Bytes::from(vec![5; MESSAGE_BYTES])];
        connection.send(self.link, Outgoing { payload, ..message() });
        self.sent += 1;
    }
}

impl Application for OneByOne {
    fn handle_event(&mut self, event: Event, connection: &mut Connection, _now: NowMs) {
        match event {
            Event::Credit { .. } if self.sent == 0 => self.send(connection),
            Event::Disposition { state, .. } => {
                self.outcomes.lock().unwrap().push(state);
                match self.sent {
                    1 => self.send(connection),
                    _ => connection.close(None),
                }
            }
            _ => {}
        }
    }

    fn handle_output(&mut self, _output: Output, _connection: &mut Connection, _now: NowMs) {}

    fn end_of_turn(&mut self, _connection: &mut Connection, _now: NowMs) {}
}

#[tokio::test]
async fn a_message_that_finds_no_memory_is_refused_after_its_frame_and_the_connection_goes_on() {
    let (near, far) = duplex(1 << 16);
    let (brokers, clock, budget) = (Brokers::default(), StillClock::new(), Budget::new(1 << 20));
    let mut others = budget.share(Owner::HttpRequests);
    others.set(1 << 20);
    let (mailbox, outputs) = Mailbox::new();
    let account = mailbox.account();
    let broker = brokers.accept(&Peer::default(), mailbox);
    let server = Connection::server(Config::default(), 0);
    let still: Arc<dyn Clock> = Arc::<StillClock>::clone(&clock);
    let server = Transport::new(far, BytesMut::new(), server, (broker, outputs), still, never());
    let server = tokio::spawn(server.within(&budget, account).run());
    let (connection, (Client { link, .. }, outputs)) = client(0);
    let outcomes = Arc::default();
    let application = OneByOne { link, sent: 0, outcomes: Arc::clone(&outcomes) };
    let still: Arc<dyn Clock> = Arc::<StillClock>::clone(&clock);
    let client = Transport::new(near, BytesMut::new(), connection, (application, outputs), still, never());
    let client = tokio::spawn(client.run());
    until(|| {
        clock.advance(100);
        !outcomes.lock().unwrap().is_empty()
    })
    .await;
    drop(others);
    assert_eq!(client.await.unwrap(), Ended { error: None, by_peer: false });
    assert_eq!(server.await.unwrap(), Ended { error: None, by_peer: true });
    let outcomes = outcomes.lock().unwrap();
    assert!(
        matches!(&outcomes[..], [Some(DeliveryState::Rejected(Some(_))), Some(DeliveryState::Accepted)]),
        "{outcomes:?}"
    );
    assert_eq!((budget.used_bytes(), brokers.seen.load(Ordering::SeqCst)), (0, 1));
}

/// A peer that sends requests as long as they are taken, and reads nothing.
pub(super) struct Flood {
    reader: ReadHalf<DuplexStream>,
    pub(super) sending: JoinHandle<()>,
    /// Number of bytes that were taken.
    taken: usize,
}

impl Flood {
    pub(super) async fn over(near: DuplexStream) -> Self {
        let (said, flood) = endless_begins();
        let (reader, mut writer) = tokio::io::split(near);
        let written = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&written);
        let sending = tokio::spawn(async move {
            writer.write_all(&said).await.unwrap();
            while writer.write_all(&flood).await.is_ok() {
                count.fetch_add(flood.len(), Ordering::SeqCst);
            }
        });
        let mut taken = usize::MAX;
        while written.load(Ordering::SeqCst) != taken {
            taken = written.load(Ordering::SeqCst);
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        }
        Self { reader, sending, taken }
    }
}

#[tokio::test]
async fn a_client_that_never_reads_costs_bounded_memory_and_is_cut_off() {
    let (near, far) = duplex(1 << 14);
    let (brokers, clock) = (Brokers::default(), StillClock::new());
    let server = serve(far, &brokers, &clock, never());
    let Flood { mut reader, sending, taken } = Flood::over(near).await;
    // A begin and its end are answered with frames of about their own size.
    assert!(taken > 1 << 14 && taken < 4 * limits::UNWRITTEN_BYTES_MAX, "{taken} bytes were taken");
    clock.advance(limits::WRITE_STALL_MS_MAX);
    until(|| brokers.closed.load(Ordering::SeqCst) == 1).await;
    clock.advance(limits::LINGER_MS);
    assert!(server.await.unwrap().by_peer);
    sending.await.unwrap();
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).await.unwrap();
}
