//! What goes to the target together, and what is held meanwhile.

use super::refused::{Fate, too_many_hops};
use super::{BATCH_BYTES, BATCH_MESSAGES, Forwarder};
use crate::{Delivery, Departure, HOPS_MAX, LockToken, Refusal, SettleFailure};

impl Forwarder {
    /// Tells the memory budget what is held while no batch is under way.
    pub(super) fn report(&mut self) {
        self.held_bytes = self.waiting.iter().map(|delivery| delivery.message.content.len()).sum();
        self.share.set(self.held_bytes);
    }

    /// As many messages as go together, in order.
    pub(super) fn next_batch(&mut self) -> Vec<Delivery> {
        let most = if self.one_by_one > 0 { 1 } else { BATCH_MESSAGES };
        self.one_by_one = self.one_by_one.saturating_sub(1);
        let (mut batch, mut bytes) = (Vec::new(), 0_usize);
        while let Some(next) = self.waiting.front()
            && batch.len() < most
        {
            bytes = bytes.saturating_add(next.message.content.len());
            if !batch.is_empty() && bytes > BATCH_BYTES {
                break;
            }
            batch.extend(self.waiting.pop_front());
        }
        batch
    }

    /// They were too much together.
    pub(super) fn put_back(&mut self, batch: Vec<Delivery>) {
        self.one_by_one = batch.len();
        for delivery in batch.into_iter().rev() {
            self.done.messages -= 1;
            self.done.bytes -= counted_bytes(&delivery);
            self.waiting.push_front(delivery);
        }
    }
}

/// What the source has counted against the credit, also of a content that can't be read.
pub(super) fn counted_bytes(delivery: &Delivery) -> u64 {
    delivery.departing.as_ref().map_or(0, |departing| departing.departure.content_bytes.into())
}

/// Those that may go on, and those that may not whatever the target says.
pub(super) fn split(batch: Vec<Delivery>) -> (Vec<Delivery>, Vec<(Delivery, Fate)>) {
    let (mut going, mut staying) = (Vec::with_capacity(batch.len()), Vec::new());
    for delivery in batch {
        let hops = delivery.message.view.forwarded.as_ref().map_or(0, |forwarded| forwarded.hops);
        if hops >= HOPS_MAX {
            staying.push((delivery, too_many_hops()));
        } else {
            going.push(delivery);
        }
    }
    (going, staying)
}

/// How the source knows a message.
pub(super) fn departure(delivery: &Delivery) -> Option<(LockToken, Departure)> {
    let lock = delivery.message.lock.as_ref()?;
    Some((lock.token, delivery.departing.as_ref()?.departure.clone()))
}

pub(super) fn is_too_large(failure: &SettleFailure) -> bool {
    matches!(failure.refusal, Refusal::MessageTooLarge { .. })
}
