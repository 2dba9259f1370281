//! A connection does a bounded amount of work in a turn, and yields to other tasks between its reads.

use std::future::poll_fn;
use std::sync::Mutex;
use std::task::Poll;
use std::time::Duration;

use peeklock_engine::{MessageView, QueueId, Received, ReceiverId, SequenceNumber};

use super::memory::Flood;
use super::*;

/// A task that is always ready, with the same priority as the others: the most messages seen between two of its turns.
async fn most_between_turns(seen: Arc<AtomicUsize>, messages: usize) -> usize {
    let (mut most, mut before) = (0, 0);
    poll_fn(|context| {
        let now = seen.load(Ordering::SeqCst);
        most = most.max(now - before);
        before = now;
        context.waker().wake_by_ref();
        if now == messages { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    most
}

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
    let most = tokio::spawn(most_between_turns(seen, MESSAGES)).await.unwrap();
    client.await.unwrap();
    server.await.unwrap();
    // A buffer may have twice the requested room, and the start of a message.
    assert!(most <= 2 * limits::READ_BYTES_MAX / 6_000 + 1, "{most} messages without a turn of others");
}

/// Takes a millisecond for each message, and accepts it.
struct Slow {
    clock: Arc<StillClock>,
    seen: Arc<AtomicUsize>,
}

impl Application for Slow {
    fn handle_event(&mut self, event: Event, connection: &mut Connection, _now: NowMs) {
        match event {
            Event::Authenticate { .. } => connection.sasl_outcome(true),
            Event::Attach { link, attach, .. } => connection.accept_attach(link, *attach, 1_000_000),
            Event::Message { id, settled, .. } => {
                self.clock.advance(1);
                self.seen.fetch_add(1, Ordering::SeqCst);
                if !settled {
                    connection.settle_incoming(id, DeliveryState::Accepted);
                }
            }
            _ => {}
        }
    }

    fn handle_output(&mut self, _output: Output, _connection: &mut Connection, _now: NowMs) {}

    fn end_of_turn(&mut self, _connection: &mut Connection, _now: NowMs) {}
}

/// Sends short messages over one connection to a slow application; returns the tasks of both sides.
fn send_to_slow(messages: usize, settled: bool, seen: &Arc<AtomicUsize>) -> [JoinHandle<Ended>; 2] {
    let (near, far) = duplex(1 << 20);
    let clock = StillClock::new();
    let (mut connection, (application, outputs)) = client(0);
    for _ in 0..messages {
        let payload = smallvec![Bytes::from_static(&[5; 20])];
        connection.send(application.link, Outgoing { payload, settled, ..message() });
    }
    let client =
        Transport::new(near, BytesMut::new(), connection, (application, outputs), clock.clone(), never());
    let slow = Slow { clock: Arc::clone(&clock), seen: Arc::clone(seen) };
    let config = Config { idle_time_out_ms: None, ..Config::default() };
    let parts = (slow, Mailbox::new().1);
    let server = Transport::new(far, BytesMut::new(), Connection::server(config, 0), parts, clock, never());
    [tokio::spawn(client.run()), tokio::spawn(server.run())]
}

/// One read may have a thousand requests, each of which takes longer than a message.
#[tokio::test]
async fn input_that_takes_long_is_spread_over_turns() {
    const MESSAGES: usize = 2_000;
    let seen = Arc::new(AtomicUsize::new(0));
    let tasks = send_to_slow(MESSAGES, true, &seen);
    let most = tokio::spawn(most_between_turns(seen, MESSAGES)).await.unwrap();
    tasks.iter().for_each(JoinHandle::abort);
    assert!(most <= 64, "{most} messages without a turn of others");
}

/// Each turn ends with an answer, and with input left that no further wake-up announces.
#[tokio::test]
async fn input_left_by_a_turn_that_answers_is_handled() {
    const MESSAGES: usize = 2_000;
    let seen = Arc::new(AtomicUsize::new(0));
    let tasks = send_to_slow(MESSAGES, false, &seen);
    let all_seen = until(|| seen.load(Ordering::SeqCst) == MESSAGES);
    tokio::time::timeout(Duration::from_secs(60), all_seen).await.expect("input is left");
    tasks.iter().for_each(JoinHandle::abort);
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

/// Works on each output for some turns.
struct Busy {
    left: usize,
    seen: Arc<AtomicUsize>,
}

impl Application for Busy {
    fn handle_event(&mut self, _event: Event, _connection: &mut Connection, _now: NowMs) {}

    fn handle_output(&mut self, _output: Output, _connection: &mut Connection, _now: NowMs) {
        assert_eq!(self.left, 0, "the next output waits in the mailbox");
        self.left = 5;
    }

    fn end_of_turn(&mut self, _connection: &mut Connection, _now: NowMs) {
        if self.left > 0 {
            self.left -= 1;
            self.seen.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn is_busy(&self) -> bool {
        self.left > 0
    }
}

#[tokio::test]
async fn work_left_from_a_turn_is_spread_over_turns_with_others_between() {
    const OUTPUTS: usize = 30;
    let (_near, far) = duplex(1 << 10);
    let (mailbox, outputs) = Mailbox::new();
    for number in 0..OUTPUTS as u64 {
        mailbox.put(Output::Drained { receiver: ReceiverId(number) });
    }
    let seen = Arc::new(AtomicUsize::new(0));
    let busy = Busy { left: 0, seen: Arc::clone(&seen) };
    let connection = Connection::server(Config { idle_time_out_ms: None, ..Config::default() }, 0);
    let server =
        Transport::new(far, BytesMut::new(), connection, (busy, outputs), StillClock::new(), never());
    let server = tokio::spawn(server.run());
    let most = tokio::spawn(most_between_turns(seen, 5 * OUTPUTS)).await.unwrap();
    server.abort();
    // The last turn of one output and the first of the next.
    assert!(most <= 2, "{most} turns without one of others");
}

/// Counts its turns.
struct Turns(Arc<AtomicUsize>);

impl Application for Turns {
    fn handle_event(&mut self, event: Event, connection: &mut Connection, _now: NowMs) {
        if let Event::Authenticate { .. } = event {
            connection.sasl_outcome(true);
        }
    }

    fn handle_output(&mut self, _output: Output, _connection: &mut Connection, _now: NowMs) {}

    fn end_of_turn(&mut self, _connection: &mut Connection, _now: NowMs) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Heartbeats wait like all output, and further ones are not due meanwhile.
#[tokio::test]
async fn a_connection_whose_peer_does_not_read_has_no_turns() {
    let (near, far) = duplex(1 << 14);
    let (turns, clock) = (Arc::new(AtomicUsize::new(0)), StillClock::new());
    let parts = (Turns(Arc::clone(&turns)), Mailbox::new().1);
    let connection = Connection::server(Config::default(), 0);
    let server = Transport::new(far, BytesMut::new(), connection, parts, clock.clone(), never());
    let server = tokio::spawn(server.run());
    let flood = Flood::over(near).await;
    for _ in 0..3 {
        clock.advance(limits::WRITE_STALL_MS_MAX / 4);
        let before = turns.load(Ordering::SeqCst);
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        let count = turns.load(Ordering::SeqCst) - before;
        assert!(count <= 10, "{count} turns without anything to do");
    }
    server.abort();
    flood.sending.abort();
}

/// Most answers are written at once: a second turn of each would have nothing to do.
#[tokio::test]
async fn a_short_answer_takes_one_turn() {
    const IDLE_MS: u32 = 60_000;
    let (near, far) = duplex(1 << 14);
    let (turns, clock) = (Arc::new(AtomicUsize::new(0)), StillClock::new());
    let parts = (Turns(Arc::clone(&turns)), Mailbox::new().1);
    let connection = Connection::server(Config { idle_time_out_ms: None, ..Config::default() }, 0);
    let server = Transport::new(far, BytesMut::new(), connection, parts, clock.clone(), never());
    let server = tokio::spawn(server.run());
    let config = Config { idle_time_out_ms: Some(IDLE_MS), ..Config::default() };
    let connection = Connection::client(config, "host", 0);
    let (_, (application, outputs)) = client(0);
    let parts = (application, outputs);
    let peer = Transport::new(near, BytesMut::new(), connection, parts, clock.clone(), never());
    let peer = tokio::spawn(peer.run());
    for _ in 0..3 {
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        let before = turns.load(Ordering::SeqCst);
        // A heartbeat is due.
        clock.advance(u64::from(IDLE_MS) / 2);
        until(|| turns.load(Ordering::SeqCst) > before).await;
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(turns.load(Ordering::SeqCst) - before, 1);
    }
    server.abort();
    peer.abort();
}
