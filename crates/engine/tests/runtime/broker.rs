//! A namespace on a manual clock, its store, and a client with an inbox.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use peeklock_budget::Budget;
use peeklock_engine::runtime::{
    Clock, EntityRef, Mailbox, MailboxReceiver, Namespace, NamespaceOptions, Output, PartitionHandle,
    ReadRuleProperties, Request, Response, ScriptedMachine, SetBacks, Spans, SystemClock, Tenure, Travel,
};
use peeklock_engine::{
    Command, CreditLimit, Delivery, LockToken, NewMessage, QueueId, QueueOptions, QueuePath, ReceiveMode,
    ReceiverId, ReceiverOptions, Refusal, SequenceNumber, Settlement, SubQueue, Timestamp,
};
use peeklock_storage::{Lease, MemoryStore, ShardId, Store};

pub(crate) const QUEUE: &str = "orders";
pub(crate) const START: Timestamp = Timestamp(1_700_000_000_000);

/// Turns of the actors before a test assumes that nothing more happens: all tasks run on the test's own thread.
const TURNS_UNTIL_QUIET: usize = 64;

/// The broker's clock over a machine whose time passes only when a test advances it. Clones share the time.
#[derive(Clone)]
pub(crate) struct TestClock {
    pub(crate) machine: ScriptedMachine,
    system: SystemClock,
}

impl TestClock {
    pub(crate) fn new(start: Timestamp) -> Self {
        Self::over(ScriptedMachine::new(start.0))
    }

    /// The clock of a broker that starts on this machine.
    pub(crate) fn over(machine: ScriptedMachine) -> Self {
        Self { system: SystemClock::over(Arc::new(machine.clone())), machine }
    }

    /// The clock of a broker that is restarted on the same machine.
    pub(crate) fn restarted(&self) -> Self {
        Self::over(self.machine.clone())
    }

    pub(crate) fn advance(&self, duration_ms: u64) {
        self.machine.pass(duration_ms);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        self.system.now()
    }

    fn sleep_until(&self, deadline: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.system.sleep_until(deadline)
    }

    fn go_on_from(&self, latest: Timestamp) {
        self.system.go_on_from(latest);
    }

    fn reading(&self) -> (Timestamp, SetBacks) {
        self.system.reading()
    }

    fn next_set_back(&self) -> Pin<Box<dyn Future<Output = SetBacks> + Send>> {
        self.system.next_set_back()
    }
}

impl Travel for TestClock {
    fn move_to(&self, at: Timestamp) {
        self.advance(at.0.saturating_sub(self.now().0));
    }
}

pub(crate) struct Broker<S = MemoryStore> {
    pub(crate) store: S,
    pub(crate) clock: TestClock,
    pub(crate) namespace: Namespace,
}

impl Broker {
    /// One queue; bodies are cached up to `body_cache_bytes`.
    pub(crate) async fn start(body_cache_bytes: usize) -> Self {
        let store = MemoryStore::new();
        let lease = store.acquire(ShardId(0)).await.unwrap();
        Self::over(store, lease, TestClock::new(START), body_cache_bytes, 1).await
    }

    pub(crate) async fn over(
        store: MemoryStore,
        lease: Lease,
        clock: TestClock,
        body_cache_bytes: usize,
        seed: u64,
    ) -> Self {
        let queue = QueueOptions::default();
        Self::reading(store, lease, clock, body_cache_bytes, seed, None, queue).await
    }

    /// One queue, and a limit on the entities with metric series of their own.
    pub(crate) async fn with_series(series_max: usize) -> Self {
        Self::with(NamespaceOptions { series_max, ..NamespaceOptions::default() }).await
    }

    /// One queue whose messages are traced with spans.
    pub(crate) async fn with_spans(spans: Arc<dyn Spans>) -> Self {
        Self::with(NamespaceOptions { spans: Some(spans), ..NamespaceOptions::default() }).await
    }

    /// One queue, and a `Tenure` that permits or forbids output.
    pub(crate) async fn with_tenure(tenure: Arc<dyn Tenure>) -> Self {
        Self::with(NamespaceOptions { tenure: Some(tenure), ..NamespaceOptions::default() }).await
    }

    async fn with(options: NamespaceOptions) -> Self {
        let (store, clock) = (MemoryStore::new(), TestClock::new(START));
        let lease = store.acquire(ShardId(0)).await.unwrap();
        let options = NamespaceOptions { seed: Some(1), ..options };
        let namespace = Namespace::start(lease, Arc::new(clock.clone()), options).await.unwrap();
        namespace.declare(QUEUE, QueueOptions::default()).await.unwrap();
        Self { store, clock, namespace }
    }

    /// Opens what is stored already, including options.
    pub(crate) async fn over_existing(store: MemoryStore, lease: Lease, clock: TestClock, seed: u64) -> Self {
        Self::with_cache(store, lease, clock, 0, seed, None).await
    }
}

impl<S> Broker<S> {
    /// The same, with the function by which forwarders read rule properties of a message, and with options of the queue.
    pub(crate) async fn reading(
        store: S,
        lease: Lease,
        clock: TestClock,
        body_cache_bytes: usize,
        seed: u64,
        read_rule_properties: Option<ReadRuleProperties>,
        queue: QueueOptions,
    ) -> Self {
        let broker =
            Self::with_cache(store, lease, clock, body_cache_bytes, seed, read_rule_properties).await;
        broker.namespace.declare(QUEUE, queue).await.unwrap();
        broker
    }

    /// One queue with a memory budget, and a body cache of `cached` bytes.
    pub(crate) async fn within(store: S, lease: Lease, budget: &Budget, cached: usize) -> Self {
        let clock = TestClock::new(START);
        let options = NamespaceOptions {
            body_cache_bytes: cached,
            seed: Some(1),
            budget: budget.clone(),
            ..NamespaceOptions::default()
        };
        let namespace = Namespace::start(lease, Arc::new(clock.clone()), options).await.unwrap();
        namespace.declare(QUEUE, QueueOptions::default()).await.unwrap();
        Self { store, clock, namespace }
    }

    async fn with_cache(
        store: S,
        lease: Lease,
        clock: TestClock,
        body_cache_bytes: usize,
        seed: u64,
        read_rule_properties: Option<ReadRuleProperties>,
    ) -> Self {
        let options = NamespaceOptions {
            body_cache_bytes,
            seed: Some(seed),
            read_rule_properties,
            ..NamespaceOptions::default()
        };
        let namespace = Namespace::start(lease, Arc::new(clock.clone()), options).await.unwrap();
        Self { store, clock, namespace }
    }

    pub(crate) fn client(&self) -> Client {
        let EntityRef { partition: handle, queue, .. } = self.namespace.entity(QUEUE).unwrap();
        let (mailbox, outputs) = Mailbox::new();
        Client { handle, queue, mailbox, outputs, next_tag: 1 }
    }
}

/// Lets the actors run until they have nothing more to do.
pub(crate) async fn quiet() {
    for _ in 0..TURNS_UNTIL_QUIET {
        tokio::task::yield_now().await;
    }
}

pub(crate) struct Client {
    pub(crate) handle: PartitionHandle,
    pub(crate) queue: QueueId,
    pub(crate) mailbox: Mailbox,
    pub(crate) outputs: MailboxReceiver,
    next_tag: u64,
}

impl Client {
    pub(crate) fn submit(&mut self, command: Command) -> u64 {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.handle.submit(Request { mailbox: self.mailbox.clone(), tag: Some(tag), command });
        tag
    }

    pub(crate) async fn next(&mut self) -> Output {
        self.outputs.recv().await.expect("the client holds a mailbox itself")
    }

    /// All outputs that arrive without further action of the test.
    pub(crate) async fn all(&mut self) -> Vec<Output> {
        quiet().await;
        std::iter::from_fn(|| self.outputs.try_recv().ok()).collect()
    }

    pub(crate) async fn nothing(&mut self) {
        let outputs = self.all().await;
        assert!(outputs.is_empty(), "too early: {outputs:?}");
    }

    pub(crate) async fn response(&mut self) -> (u64, Response) {
        match self.next().await {
            Output::Response { tag, response } => (tag, response),
            other => panic!("expected a response, got {other:?}"),
        }
    }

    pub(crate) async fn delivery(&mut self) -> Delivery {
        match self.next().await {
            Output::Delivery(delivery) => *delivery,
            other => panic!("expected a delivery, got {other:?}"),
        }
    }

    pub(crate) fn send(&mut self, content: &str) -> u64 {
        self.submit(send(content))
    }

    pub(crate) async fn sent(&mut self, content: &str) -> SequenceNumber {
        let tag = self.send(content);
        match self.response().await {
            (answered, Response::Sent(Ok(numbers))) if answered == tag => numbers[0],
            other => panic!("expected {tag} to be accepted, got {other:?}"),
        }
    }

    /// The id of a receiver.
    pub(crate) fn receiver(&self, number: u64) -> ReceiverId {
        self.handle.receiver_id(number)
    }

    /// Opens a receiver with credit for `messages` messages.
    pub(crate) fn open(
        &mut self,
        receiver: u64,
        mode: ReceiveMode,
        sub_queue: SubQueue,
        messages: u64,
    ) -> ReceiverId {
        let receiver = self.receiver(receiver);
        let options = ReceiverOptions { source: QueuePath { queue: self.queue, sub_queue }, mode };
        let open = Command::OpenReceiver { receiver, options, session: None };
        self.handle.submit(Request { mailbox: self.mailbox.clone(), tag: None, command: open });
        self.credit(receiver, messages, false);
        receiver
    }

    pub(crate) fn credit(&self, receiver: ReceiverId, messages: u64, drain: bool) {
        let limit = CreditLimit { messages, bytes: u64::MAX };
        let command = Command::Credit { receiver, limit, drain };
        self.handle.submit(Request { mailbox: self.mailbox.clone(), tag: None, command });
    }

    /// Submits a command without a response.
    pub(crate) fn tell(&self, command: Command) {
        self.handle.submit(Request { mailbox: self.mailbox.clone(), tag: None, command });
    }

    pub(crate) fn settle(&mut self, token: LockToken, settlement: Settlement) -> u64 {
        let tokens = [token].into_iter().collect();
        self.submit(Command::Settle { queue: self.queue, tokens, settlement })
    }

    pub(crate) async fn completed(&mut self, token: LockToken) {
        let tag = self.settle(token, Settlement::Complete);
        assert_eq!(self.response().await, (tag, Response::Settled(Vec::new())));
    }

    /// Bodies in a queue, in order. Browses as often as necessary: one response holds a few thousand at most.
    pub(crate) async fn browsed(&mut self, sub_queue: SubQueue) -> Vec<Bytes> {
        let source = QueuePath { queue: self.queue, sub_queue };
        let mut contents = Vec::new();
        let mut from = SequenceNumber(1);
        loop {
            self.submit(peek_from(from, source));
            let messages = match self.response().await {
                (_, Response::Received(Ok(messages))) => messages,
                other => panic!("expected to browse, got {other:?}"),
            };
            let Some(last) = messages.last() else { return contents };
            from = SequenceNumber(last.view.sequence_number.0 + 1);
            contents.extend(messages.into_iter().map(|message| message.content));
        }
    }
}

pub(crate) fn send(content: &str) -> Command {
    let content = Bytes::copy_from_slice(content.as_bytes());
    Command::Send { messages: [NewMessage { content, ..NewMessage::default() }].into_iter().collect() }
}

pub(crate) fn peek(source: QueuePath) -> Command {
    peek_from(SequenceNumber(1), source)
}

fn peek_from(from: SequenceNumber, source: QueuePath) -> Command {
    Command::Peek { from, count_max: u32::MAX, bytes_max: usize::MAX, source, session: None }
}

pub(crate) fn token(delivery: &Delivery) -> LockToken {
    delivery.message.lock.expect("peek-lock").token
}

pub(crate) fn refused(refusal: Refusal) -> Response {
    Response::Sent(Err(refusal))
}
