//! The partition alone: no store, no front end.

use std::hint::black_box;

use bytes::Bytes;
use peeklock_engine::partition::{Outputs, Partition, persist};
use peeklock_engine::{
    Command, CreditLimit, Effect, NewMessage, QueueId, QueueOptions, QueuePath, ReceiveMode, ReceiverId,
    ReceiverOptions, Settlement, Timestamp,
};
use peeklock_storage::{Batch, PartitionId};
use rand::SeedableRng;
use rand::rngs::StdRng;
use smallvec::smallvec;

const QUEUE: QueueId = QueueId(1);
const RECEIVER: ReceiverId = ReceiverId(1);
/// Messages per turn.
const TURN: u64 = 256;

/// Sends, delivers and completes `messages`, in turns, each persisted.
pub(crate) fn live(messages: u64) {
    let mut partition = Partition::new(QUEUE, QueueOptions::default());
    let mut random = StdRng::seed_from_u64(1);
    let mut outputs = Outputs::default();
    let mut handle = |command, outputs: &mut Outputs| {
        partition.handle(Timestamp(1_800_000_000_000), &mut random, None, command, outputs);
    };
    let options = ReceiverOptions { source: QueuePath::main(QUEUE), mode: ReceiveMode::PeekLock };
    handle(Command::OpenReceiver { receiver: RECEIVER, options, session: None }, &mut outputs);
    let content = Bytes::from_static(&[0; 1024]);
    for turn in 1..=messages / TURN {
        for _ in 0..TURN {
            let messages = smallvec![NewMessage { content: content.clone(), ..NewMessage::default() }];
            handle(Command::Send { messages }, &mut outputs);
        }
        store(&mut outputs);
        let limit = CreditLimit { messages: turn * TURN, bytes: u64::MAX };
        handle(Command::Credit { receiver: RECEIVER, limit, drain: false }, &mut outputs);
        for effect in std::mem::take(&mut outputs.effects) {
            if let Effect::Deliver { lock: Some(lock), .. } = effect {
                let (tokens, settlement) = (smallvec![lock.token], Settlement::Complete);
                handle(Command::Settle { queue: QUEUE, tokens, settlement }, &mut outputs);
            }
        }
        store(&mut outputs);
    }
}

fn store(outputs: &mut Outputs) {
    let mut batch = Batch::new();
    persist(PartitionId(1), &outputs.events, &mut batch);
    black_box(batch);
    outputs.events.clear();
    outputs.effects.clear();
}
