//! Deliveries that the peer settled as work of a transaction: it has forgotten them (JMS does so), hence can't settle them
//! again after a roll-back. They are given back then as if abandoned, so that a message which always fails comes to its end;
//! others stay locked.

use std::sync::Arc;

use peeklock_engine::{Command, LockToken, Settlement};
use smallvec::SmallVec;

use crate::servicebus::ConnectionHandler;
use crate::servicebus::entities::Entity;

/// Locks that nobody but the transaction knows any more.
#[derive(Debug)]
pub(super) struct Forgotten {
    pub(super) entity: Arc<Entity>,
    pub(super) tokens: SmallVec<[LockToken; 1]>,
}

impl ConnectionHandler {
    /// Their transaction is not committed.
    pub(super) fn give_back_forgotten(&mut self, forgotten: Vec<Forgotten>) {
        for Forgotten { entity, tokens } in forgotten {
            let settlement = Settlement::Abandon { modify: Vec::new() };
            self.tell(&entity.partition, Command::Settle { queue: entity.queue, tokens, settlement });
        }
    }
}
