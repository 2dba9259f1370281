//! A value for each sub-queue of an entity.

use crate::{ReceiverId, SubQueue};

/// A value for each [`SubQueue`].
#[derive(Debug, Default)]
pub(super) struct PerSubQueue<T> {
    main: T,
    dead_letter: T,
    transfer_dead_letter: T,
}

impl<T> PerSubQueue<T> {
    pub(super) const fn get(&self, sub_queue: SubQueue) -> &T {
        match sub_queue {
            SubQueue::Main => &self.main,
            SubQueue::DeadLetter => &self.dead_letter,
            SubQueue::TransferDeadLetter => &self.transfer_dead_letter,
        }
    }

    /// All three values.
    pub(super) fn each(&self) -> [&T; 3] {
        [&self.main, &self.dead_letter, &self.transfer_dead_letter]
    }

    pub(super) const fn get_mut(&mut self, sub_queue: SubQueue) -> &mut T {
        match sub_queue {
            SubQueue::Main => &mut self.main,
            SubQueue::DeadLetter => &mut self.dead_letter,
            SubQueue::TransferDeadLetter => &mut self.transfer_dead_letter,
        }
    }
}

impl PerSubQueue<Option<ReceiverId>> {
    /// Removes a receiver from all sub-queues.
    pub(super) fn let_go(&mut self, receiver: ReceiverId) {
        for noted in [&mut self.main, &mut self.dead_letter, &mut self.transfer_dead_letter] {
            if *noted == Some(receiver) {
                *noted = None;
            }
        }
    }
}
