//! A connection does a bounded amount of work in a turn, and yields to other tasks between its reads.

use std::future::poll_fn;
use std::sync::Mutex;
use std::task::Poll;

use peeklock_engine::{MessageView, QueueId, Received, SequenceNumber};

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

/// Counts the messages in the outputs of each turn.
#[derive(Clone, Default)]
struct Counting(Arc<Mutex<Vec<usize>>>);

impl Application for Counting {
    fn handle_event(&mut self, _event: Event, _connection: &mut Connection, _now: NowMs) {}

    fn handle_output(&mut self, output: Output, _connection: &mut Connection, _now: NowMs) {
        *self.0.lock().unwrap().last_mut().unwrap() += output.messages();
    }

    fn end_of_turn(&mut self, _connection: &mut Connection, _now: NowMs) {
        self.0.lock().unwrap().push(0);
    }
}

#[tokio::test]
async fn answers_with_many_messages_are_spread_over_turns() {
    const ANSWERS: u64 = 10;
    const MESSAGES: usize = 100;
    let counting = Counting(Arc::new(Mutex::new(vec![0])));
    let (mailbox, outputs) = Mailbox::new();
    let view = MessageView::new(QueueId::default(), SequenceNumber(1));
    let message = Received { view, content: Bytes::new(), lock: None };
    for tag in 0..ANSWERS {
        let response = Response::Received(Ok(vec![message.clone(); MESSAGES]));
        mailbox.put(Output::Response { tag, response });
    }
    let (_near, far) = duplex(1024);
    let connection = Connection::server(Config::default(), 0);
    let application = (counting.clone(), outputs);
    let server = Transport::new(far, BytesMut::new(), connection, application, StillClock::new(), never());
    let server = tokio::spawn(server.run());
    let counts = || counting.0.lock().unwrap().clone();
    until(|| counts().iter().sum::<usize>() == usize::try_from(ANSWERS).unwrap() * MESSAGES).await;
    server.abort();
    let most = counts().into_iter().max().unwrap();
    assert!(most < limits::OUTPUTS_PER_TURN + MESSAGES, "{most} messages in a turn");
}
