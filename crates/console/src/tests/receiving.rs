//! Operations on messages beside the API.

use peeklock_engine::runtime::{Mailbox, MailboxReceiver, Output, Request as EngineRequest};
use peeklock_engine::{
    Command, CreditLimit, DeadLetter, LockToken, QueueId, QueuePath, ReceiverId, ReceiverOptions, Settlement,
    SubQueue,
};

use super::Broker;

impl Broker {
    /// Opens a receiver on a queue with credit for this many messages.
    fn open(&self, queue: &str, messages: u64) -> (QueueId, ReceiverId, Mailbox, MailboxReceiver) {
        let entity = self.namespace.entity(queue).unwrap();
        let (mailbox, outputs) = Mailbox::new();
        let receiver = self.namespace.next_receiver_id(&entity.partition);
        let source = QueuePath { queue: entity.queue, sub_queue: SubQueue::Main };
        let options = ReceiverOptions { source, ..ReceiverOptions::default() };
        let limit = CreditLimit { messages, bytes: u64::MAX };
        for (tag, command) in [
            (Some(1), Command::OpenReceiver { receiver, options, session: None }),
            (None, Command::Credit { receiver, limit, drain: false }),
        ] {
            entity.partition.submit(EngineRequest { mailbox: mailbox.clone(), tag, command });
        }
        (entity.queue, receiver, mailbox, outputs)
    }

    /// Receives messages and keeps their locks; returns the id of the receiver, which stays open.
    pub(super) async fn receive(&self, queue: &str, messages: u64) -> String {
        let (_, receiver, _, mut outputs) = self.open(queue, messages);
        for _ in 0..messages {
            lock(&mut outputs).await;
        }
        receiver.0.to_string()
    }

    /// Receives a message of a queue and settles it.
    pub(super) async fn settle(&self, queue: &str, settlement: Settlement) {
        let (id, receiver, mailbox, mut outputs) = self.open(queue, 1);
        let tokens = [lock(&mut outputs).await].into_iter().collect();
        let partition = self.namespace.entity(queue).unwrap().partition;
        partition.ask(Command::Settle { queue: id, tokens, settlement }).await.unwrap();
        partition.submit(EngineRequest { mailbox, tag: None, command: Command::CloseReceiver { receiver } });
    }

    pub(super) async fn dead_letter(&self, queue: &str, reason: &str) {
        let why = DeadLetter { reason: Some(reason.into()), description: Some("d".into()) };
        self.settle(queue, Settlement::DeadLetter { why: why.into(), modify: Vec::new() }).await;
    }

    /// Waits until a receiver has expired this many messages of a queue to dead letters.
    pub(super) async fn expire(&self, queue: &str, count: u64) {
        let _receiver = self.open(queue, 1);
        while self.namespace.counts(queue).unwrap().dead_letter < count {
            tokio::task::yield_now().await;
        }
    }
}

async fn lock(outputs: &mut MailboxReceiver) -> LockToken {
    loop {
        if let Output::Delivery(delivery) = outputs.recv().await.unwrap() {
            return delivery.message.lock.unwrap().token;
        }
    }
}
