//! A client's transaction: what it asked for so far.

use smallvec::SmallVec;

use super::{Answer, CommitAnswer, Job, JointSteps, Unit, UnitStep};
use crate::runtime::{Mailbox, Namespace, PartitionHandle};
use crate::{Command, NewMessage};

/// Work that takes effect as a whole or not at all, at its commit. Nothing of it is visible before; dropped, it never
/// happened.
#[derive(Debug)]
pub struct Transaction {
    joint: JointSteps,
    unit: Unit,
    content_bytes: usize,
}

impl Namespace {
    /// A transaction without work.
    #[must_use]
    pub fn begin_transaction(&self) -> Transaction {
        let unit = Unit { steps: SmallVec::new() };
        Transaction { joint: self.inner.host.spawner.shared.joint.clone(), unit, content_bytes: 0 }
    }
}

impl Transaction {
    /// Adds a `Send`, `Settle`, `CancelScheduled` or `SetSessionState`, which [`Command::Provisional`] has found possible. Any
    /// other command makes the commit fail.
    pub fn add(&mut self, entity: &PartitionHandle, command: Command) {
        self.content_bytes = self.content_bytes.saturating_add(command.describe().writes.content_bytes());
        self.unit.steps.push(UnitStep { entity: entity.clone(), command, via: None });
    }

    /// Adds messages for `target` that go by way of another entity: what the target does not take at the commit goes to the
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

    /// Sum of the contents that it keeps in memory, in bytes.
    #[must_use]
    pub const fn content_bytes(&self) -> usize {
        self.content_bytes
    }

    /// Carries it out. `mailbox` gets [`crate::runtime::Response::Done`] with `tag`, once all of it is durable, or the
    /// reason why nothing of it happened.
    pub fn commit(self, mailbox: Mailbox, tag: u64) {
        self.joint.submit(Job {
            units: vec![self.unit],
            answer: Answer::Transaction(CommitAnswer::new(mailbox, tag)),
        });
    }
}
