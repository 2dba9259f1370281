//! The broker, its clients, and the fault.

use std::collections::BTreeMap;

use peeklock_engine::runtime::{Namespace, Output, Response};
use peeklock_engine::{
    Command, CreditLimit, NewMessage, QueueId, QueuePath, ReceiveMode, ReceiverOptions, Refusal,
    SequenceNumber, SessionRequest, Settlement, SubQueue,
};
use peeklock_storage::{Error, ShardId, Store};

use crate::broker::{Broker, Client, peek, quiet, token};

use super::message;

/// Attempts of a client; more than refusals.
pub(super) const ATTEMPTS: usize = 4;
/// Longer than a forwarder's pause, shorter than a lock.
const PAUSE_MS: u64 = 6_000;
const LOCK_MS: u64 = 60_000;

/// What happens instead of a batch.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// The store refuses it.
    Refusal(Error),
    /// The process ends, and another one starts.
    Crash,
}

/// A broker for which one batch fails.
pub(super) struct Refusing {
    pub(super) broker: Broker,
    pub(super) fault: Fault,
    /// The batch, counted from 0.
    pub(super) refused: usize,
    pub(super) batches: usize,
    pub(super) receivers: u64,
}

fn is_transient(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::StorageFull | Refusal::StorageFailing | Refusal::Unavailable | Refusal::MessageLockLost
    )
}

fn is_refused(response: &Response) -> bool {
    match response {
        Response::Sent(Err(refusal)) | Response::Done(Err(refusal)) | Response::Received(Err(refusal)) => {
            is_transient(refusal)
        }
        Response::Opened(Err(refusal)) | Response::Deleted(Err(refusal)) => is_transient(refusal),
        Response::Settled(failures) => failures.iter().any(|failure| is_transient(&failure.refusal)),
        _ => false,
    }
}

impl Refusing {
    /// Lets everything happen, with one batch refused.
    pub(super) async fn pump(&mut self) {
        loop {
            quiet().await;
            if self.broker.store.held() == 0 {
                return;
            }
            let is_refused = self.batches == self.refused;
            self.batches += 1;
            match (is_refused, self.fault.clone()) {
                (true, Fault::Refusal(error)) => self.broker.store.fail_next(error),
                (true, Fault::Crash) => {
                    self.restart().await;
                    continue;
                }
                (false, _) => {}
            }
            self.broker.store.release_one();
        }
    }

    async fn restart(&mut self) {
        let Broker { store, clock, namespace } = &self.broker;
        store.crash();
        let (store, clock) = (store.clone(), clock.clone());
        namespace.shutdown().await;
        let lease = store.acquire(ShardId(0)).await.unwrap();
        self.broker = Broker::over_existing(store, lease, clock, 3).await;
        self.broker.store.hold();
    }

    /// Lets also happen what is tried again after a pause.
    pub(super) async fn settle_down(&mut self) {
        for _ in 0..ATTEMPTS {
            self.pump().await;
            self.broker.clock.advance(PAUSE_MS);
        }
        self.pump().await;
    }

    pub(super) fn client(&self, name: &str) -> Client {
        let mut client = self.broker.client();
        (client.handle, client.queue) = match name.split_once('/') {
            Some((topic, name)) => {
                let found = self.broker.namespace.subscription(topic, name).unwrap();
                (found.partition, found.queue)
            }
            None => {
                let found = self.broker.namespace.entity(name).unwrap();
                (found.partition, found.queue)
            }
        };
        client
    }

    /// Carries out a command at this entity, repeated while the store refuses it.
    pub(super) async fn carry_out(&mut self, name: &str, command: impl Fn(QueueId) -> Command) -> Response {
        for _ in 0..ATTEMPTS {
            let mut client = self.client(name);
            client.submit(command(client.queue));
            self.pump().await;
            let response = client.response().await.1;
            if !is_refused(&response) {
                return response;
            }
        }
        panic!("{name}: always refused");
    }

    pub(super) async fn send(&mut self, name: &str, message: NewMessage) {
        let messages = || Command::Send { messages: [message.clone()].into_iter().collect() };
        assert!(matches!(self.carry_out(name, |_| messages()).await, Response::Sent(Ok(_))), "{name}");
    }

    /// Receives a message and settles it, repeated while the store refuses that; returns its number.
    pub(super) async fn receive(
        &mut self,
        name: &str,
        sub_queue: SubQueue,
        session: Option<&str>,
        settlement: &Settlement,
    ) -> SequenceNumber {
        for _ in 0..ATTEMPTS {
            let mut client = self.client(name);
            self.receivers += 1;
            let receiver = client.receiver(self.receivers);
            let source = QueuePath { queue: client.queue, sub_queue };
            let options = ReceiverOptions { source, mode: ReceiveMode::PeekLock };
            let session =
                session.map(|id| SessionRequest { id: Some(id.into()), ..SessionRequest::default() });
            client.tell(Command::OpenReceiver { receiver, options, session });
            let limit = CreditLimit { messages: 1, bytes: u64::MAX };
            client.tell(Command::Credit { receiver, limit, drain: false });
            self.pump().await;
            let found = client.all().await.into_iter().find_map(|output| match output {
                Output::Delivery(delivery) => Some(*delivery),
                _ => None,
            });
            let Some(delivery) = found else { continue };
            client.settle(token(&delivery), settlement.clone());
            self.pump().await;
            let settled = |output: &Output| matches!(output, Output::Response { response, .. } if !is_refused(response));
            let is_settled = client.all().await.iter().any(settled);
            client.tell(Command::CloseReceiver { receiver });
            self.pump().await;
            if is_settled {
                return delivery.message.view.sequence_number;
            }
        }
        panic!("{name}: nothing is received and settled");
    }

    /// Sets the state of a session.
    pub(super) async fn set_state(&mut self, name: &str, session: &str, bytes: usize) {
        for _ in 0..ATTEMPTS {
            let mut client = self.client(name);
            self.receivers += 1;
            let receiver = client.receiver(self.receivers);
            let options =
                ReceiverOptions { source: QueuePath::main(client.queue), mode: ReceiveMode::PeekLock };
            let session = Some(SessionRequest { id: Some(session.into()), ..SessionRequest::default() });
            client.tell(Command::OpenReceiver { receiver, options, session });
            client.submit(Command::SetSessionState { receiver, state: Some(vec![7; bytes].into()) });
            self.pump().await;
            let outputs = client.all().await;
            client.tell(Command::CloseReceiver { receiver });
            self.pump().await;
            let is_set =
                |output: &Output| matches!(output, Output::Response { response: Response::Done(Ok(())), .. });
            if outputs.iter().any(is_set) {
                return;
            }
        }
        panic!("the state is never set");
    }

    /// Completes a message of one entity and sends one to another, together.
    pub(super) async fn transfer(&mut self, from: &str, to: &str, content: &'static str) {
        for _ in 0..ATTEMPTS {
            let (mut source, target) = (self.client(from), self.client(to));
            self.receivers += 1;
            let receiver = source.open(self.receivers, ReceiveMode::PeekLock, SubQueue::Main, 1);
            self.pump().await;
            let outputs = source.all().await;
            let found = outputs.into_iter().find_map(|output| match output {
                Output::Delivery(delivery) => Some(*delivery),
                _ => None,
            });
            let Some(delivery) = found else { continue };
            let mut transaction = self.broker.namespace.begin_transaction();
            let (queue, tokens) = (source.queue, [token(&delivery)].into_iter().collect());
            let settlement = Settlement::Complete;
            transaction.add(&source.handle, Command::Settle { queue, tokens, settlement });
            let messages = [message(content)].into_iter().collect();
            transaction.add(&target.handle, Command::Send { messages });
            transaction.commit(source.mailbox.clone(), 7);
            self.pump().await;
            let is_committed = |output: &Output| {
                matches!(output, Output::Response { tag: 7, response: Response::Done(Ok(())) })
            };
            let is_done = source.all().await.iter().any(is_committed);
            source.tell(Command::CloseReceiver { receiver });
            self.pump().await;
            if is_done {
                return;
            }
            // Its lock ends.
            self.broker.clock.advance(LOCK_MS);
            self.pump().await;
        }
        panic!("{from}: nothing is transferred to {to}");
    }

    /// Changes something through the namespace, repeated while the store refuses it.
    pub(super) async fn change<T, E, F>(&mut self, what: &str, change: impl Fn(Namespace) -> F)
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: std::fmt::Debug + Send + 'static,
    {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let changed = tokio::spawn(change(self.broker.namespace.clone()));
            self.pump().await;
            match changed.await.unwrap() {
                Ok(_) => return,
                Err(error) => last = Some(format!("{error:?}")),
            }
        }
        panic!("{what}: {last:?}");
    }

    /// The number of the first message.
    pub(super) async fn browsed_number(&self, name: &str) -> SequenceNumber {
        let mut client = self.client(name);
        client.submit(peek(QueuePath::main(client.queue)));
        match client.response().await.1 {
            Response::Received(Ok(messages)) => messages[0].view.sequence_number,
            other => panic!("{other:?}"),
        }
    }

    /// Bodies in every place, sorted.
    pub(super) async fn contents(&self, names: &[&str]) -> BTreeMap<(String, SubQueue), Vec<Vec<u8>>> {
        let mut all = BTreeMap::new();
        for name in names {
            for sub_queue in SubQueue::ALL {
                let mut found: Vec<Vec<u8>> = Vec::new();
                for content in self.client(name).browsed(sub_queue).await {
                    found.push(content.to_vec());
                }
                found.sort_unstable();
                all.insert(((*name).to_owned(), sub_queue), found);
            }
        }
        all
    }
}
