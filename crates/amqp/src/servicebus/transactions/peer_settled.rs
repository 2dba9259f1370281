//! Deliveries that the peer settled in a transaction (JMS does so): it has forgotten them, hence can't settle them again
//! after a rollback. They are then abandoned, so that a message which always fails reaches its maximum delivery count;
//! other deliveries stay locked.

use std::sync::Arc;

use peeklock_engine::{Command, LockToken, Settlement};
use smallvec::SmallVec;

use crate::servicebus::ConnectionHandler;
use crate::servicebus::entities::Entity;

/// Locks that only the transaction still knows.
#[derive(Debug)]
pub(super) struct PeerSettledLocks {
    pub(super) entity: Arc<Entity>,
    pub(super) tokens: SmallVec<[LockToken; 1]>,
}

impl PeerSettledLocks {
    /// Takes the locks.
    pub(super) fn take(&mut self) -> Self {
        Self { entity: Arc::clone(&self.entity), tokens: std::mem::take(&mut self.tokens) }
    }
}

impl ConnectionHandler {
    /// Abandons the deliveries of a transaction that is not committed.
    pub(super) fn abandon_peer_settled(&mut self, peer_settled: Vec<PeerSettledLocks>) {
        let some = peer_settled.into_iter().filter(|locks| !locks.tokens.is_empty());
        for PeerSettledLocks { entity, tokens } in some {
            let settlement = Settlement::Abandon { modify: Vec::new() };
            self.tell(&entity.partition, Command::Settle { queue: entity.queue, tokens, settlement });
        }
    }
}
