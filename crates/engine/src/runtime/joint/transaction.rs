//! A client's transaction: the commands so far.

use smallvec::SmallVec;

use super::{Answer, CommitAnswer, Job, JointSteps, Unit, UnitStep};
use crate::runtime::{Mailbox, Namespace, PartitionHandle};
use crate::{Command, NewMessage};

/// Commands that take effect at the commit, all or none. Nothing is visible before; a dropped transaction is rolled back.
#[derive(Debug)]
pub struct Transaction {
    joint: JointSteps,
    unit: Unit,
    content_bytes: usize,
}

impl Namespace {
    /// An empty transaction.
    #[must_use]
    pub fn begin_transaction(&self) -> Transaction {
        let unit = Unit { steps: SmallVec::new() };
        Transaction { joint: self.inner.host.spawner.shared.joint.clone(), unit, content_bytes: 0 }
    }
}

impl Transaction {
    /// Adds a `Send`, `Settle`, `CancelScheduled` or `SetSessionState` that [`Command::Provisional`] has found possible.
    /// Any other command makes the commit fail.
    pub fn add(&mut self, entity: &PartitionHandle, command: Command) {
        self.content_bytes = self.content_bytes.saturating_add(command.describe().writes.content_bytes());
        self.unit.steps.push(UnitStep { entity: entity.clone(), command, via: None });
    }

    /// Adds messages sent to `target` via another entity: messages that the target refuses at the commit are stored in the
    /// transfer dead-letter queue of `via` (semantics §14.2).
    pub fn add_transfer(
        &mut self,
        via: &PartitionHandle,
        target: &PartitionHandle,
        messages: SmallVec<[NewMessage; 1]>,
    ) {
        let command = Command::Send { messages };
        self.content_bytes = self.content_bytes.saturating_add(command.describe().writes.content_bytes());
        self.unit.steps.push(UnitStep { entity: target.clone(), command, via: Some(via.clone()) });
    }

    /// Number of commands so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.unit.steps.len()
    }

    /// Whether nothing was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.unit.steps.is_empty()
    }

    /// Bytes of the bodies that it holds in memory.
    #[must_use]
    pub const fn content_bytes(&self) -> usize {
        self.content_bytes
    }

    /// Carries it out. `mailbox` receives [`crate::runtime::Response::Done`] with `tag`, once everything is durable, or
    /// with the reason why nothing was done.
    pub fn commit(self, mailbox: Mailbox, tag: u64) {
        self.joint.submit(Job {
            units: vec![self.unit],
            answer: Answer::Transaction(CommitAnswer::new(mailbox, tag)),
        });
    }
}
