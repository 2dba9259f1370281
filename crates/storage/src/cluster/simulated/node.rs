//! The engine as seen by one node.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::ready;

use super::engine::SimulatedEngine;
use super::table::{Call, Outcome};
use crate::cluster::{
    Answer, LogLimits, Logs, NewRecord, RecordId, RecordPlace, ReplicatedLog, Slice, StoredRecord, Tail,
};
use crate::{Epoch, Error, ShardId};

/// The logs of all shards.
pub(super) struct Node {
    pub(super) engine: SimulatedEngine,
    pub(super) node: u32,
}

impl Logs for Node {
    fn log(&self, shard: ShardId) -> Arc<dyn ReplicatedLog> {
        Arc::new(NodeLog { engine: self.engine.clone(), node: self.node, shard })
    }
}

struct NodeLog {
    engine: SimulatedEngine,
    node: u32,
    shard: ShardId,
}

impl NodeLog {
    fn call<T: Send + 'static>(&self, call: Call, read: fn(Outcome) -> Option<T>) -> Answer<T> {
        let answer = self.engine.engine().call(self.node, self.shard, call);
        let gone = || Error::Unavailable { reason: "the engine is gone".to_owned() };
        answer
            .map(move |answer| {
                answer.unwrap_or_else(|_| Err(gone())).and_then(|it| read(it).ok_or_else(gone))
            })
            .boxed()
    }

    fn change(&self, call: Call) -> Answer<()> {
        self.call(call, |outcome| matches!(outcome, Outcome::Done).then_some(()))
    }
}

impl ReplicatedLog for NodeLog {
    fn open(&self) -> Answer<Tail> {
        self.call(Call::Open, |outcome| match outcome {
            Outcome::Tail(tail) => Some(tail),
            _ => None,
        })
    }

    fn seize(&self, after: RecordId, epoch: Epoch) -> Answer<()> {
        self.change(Call::Seize(after, epoch))
    }

    fn append(&self, record: NewRecord) -> Answer<()> {
        self.change(Call::Append(record))
    }

    fn heads(&self, from: RecordPlace) -> Answer<Vec<StoredRecord>> {
        self.call(Call::Heads(from), |outcome| match outcome {
            Outcome::Heads(heads) => Some(heads),
            _ => None,
        })
    }

    fn bodies(&self, slices: Vec<Slice>) -> Answer<Vec<Option<Bytes>>> {
        self.call(Call::Bodies(slices), |outcome| match outcome {
            Outcome::Bodies(bodies) => Some(bodies),
            _ => None,
        })
    }

    fn drop_bodies(&self, epoch: Epoch, places: Vec<RecordPlace>) -> Answer<()> {
        self.change(Call::DropBodies(epoch, places))
    }

    fn trim(&self, epoch: Epoch, before: RecordPlace) -> Answer<()> {
        self.change(Call::Trim(epoch, before))
    }

    fn keep_reserve(&self) -> Answer<()> {
        ready(self.engine.engine().keep_reserve()).boxed()
    }

    fn release_reserve(&self) -> Answer<()> {
        self.engine.engine().reserve_bytes = 0;
        ready(Ok(())).boxed()
    }

    fn limits(&self) -> LogLimits {
        self.engine.engine().limits
    }
}
