//! An entity in the complete runtime, over a store in memory, without a front end.

use std::sync::Arc;

use bytes::Bytes;
use peeklock_engine::runtime::{
    EntityRef, Mailbox, Namespace, NamespaceOptions, Output, Request, Response, SystemClock, TaggedCommand,
};
use peeklock_engine::{
    Command, CreditLimit, NewMessage, QueueOptions, QueuePath, ReceiveMode, ReceiverOptions, Settlement,
};
use peeklock_storage::{MemoryStore, ShardId, Store};
use smallvec::smallvec;

const QUEUE: &str = "orders";
/// Messages under way at a time.
const ROUND: u64 = 256;
/// Messages in one command.
const JOINED: u64 = 16;

/// Sends, delivers and completes `messages`, in rounds.
pub(crate) fn live(messages: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(rounds(messages / ROUND));
}

async fn rounds(rounds: u64) {
    let lease = MemoryStore::new().acquire(ShardId(0)).await.unwrap();
    let options = NamespaceOptions {
        body_cache_bytes: 1 << 30,
        series_max: 1,
        seed: Some(1),
        ..NamespaceOptions::default()
    };
    let namespace = Namespace::start(lease, Arc::new(SystemClock::new()), options).await.unwrap();
    namespace.declare(QUEUE, QueueOptions::default()).await.unwrap();
    let EntityRef { partition, queue, .. } = namespace.entity(QUEUE).unwrap();
    let (mailbox, mut outputs) = Mailbox::new();
    let submit = |tag, command| partition.submit(Request { mailbox: mailbox.clone(), tag, command });
    let receiver = namespace.next_receiver_id(&partition);
    let options = ReceiverOptions { source: QueuePath::main(queue), mode: ReceiveMode::PeekLock };
    submit(Some(0), Command::OpenReceiver { receiver, options, session: None });
    let content = Bytes::from_static(&[0; 1024]);
    for round in 1..=rounds {
        // In batches, like those of a connection's turn.
        let sends = (0..ROUND / JOINED).map(|_| {
            let message = NewMessage { content: content.clone(), ..NewMessage::default() };
            let messages = vec![message; JOINED as usize];
            TaggedCommand { tag: Some(0), command: Command::SendEach { messages } }
        });
        partition.submit_all(mailbox.clone(), sends.collect());
        let limit = CreditLimit { messages: round * ROUND, bytes: u64::MAX };
        submit(None, Command::Credit { receiver, limit, drain: false });
        let (mut settled, mut settles) = (0, Vec::new());
        while settled < ROUND {
            let output = match outputs.try_recv() {
                Ok(output) => output,
                Err(_) => {
                    partition.submit_all(mailbox.clone(), std::mem::take(&mut settles));
                    outputs.recv().await.unwrap()
                }
            };
            match output {
                Output::Delivery(delivery) => {
                    let tokens = smallvec![delivery.message.lock.unwrap().token];
                    let command = Command::Settle { queue, tokens, settlement: Settlement::Complete };
                    settles.push(TaggedCommand { tag: Some(0), command });
                }
                Output::Response { response: Response::Settled(failures), .. } => {
                    assert!(failures.is_empty());
                    settled += 1;
                }
                _ => {}
            }
        }
    }
    namespace.shutdown().await;
}
