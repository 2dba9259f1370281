//! Outputs on their way to mailboxes: all outputs of a turn for one mailbox are sent as one parcel, in order.

use crate::runtime::parcels::Parcels;
use crate::runtime::{Mailbox, Output};

/// See the module. All outputs of an actor pass through here, so none overtakes another.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    parcels: Parcels<Mailbox, Output>,
    /// Outputs whose mailbox is closed.
    undeliverable: Vec<Output>,
}

impl Outgoing {
    /// Adds an output to the parcel for a mailbox.
    pub(super) fn put(&mut self, mailbox: &Mailbox, output: Output) {
        self.parcels.add(mailbox, output, deliver(&mut self.undeliverable));
    }

    /// Sends all parcels.
    pub(super) fn send(&mut self) {
        self.parcels.send_all(deliver(&mut self.undeliverable));
    }

    /// Returns the outputs that could not be delivered since the last call.
    pub(super) fn take_undeliverable(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.undeliverable)
    }
}

/// Delivers parcels; outputs for closed mailboxes are collected in `undeliverable`.
fn deliver(undeliverable: &mut Vec<Output>) -> impl FnMut(Mailbox, Vec<Output>) {
    |mailbox, outputs| {
        if let Err(outputs) = mailbox.put_all(outputs) {
            undeliverable.extend(outputs);
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.send();
    }
}

#[cfg(test)]
mod tests {
    use crate::ReceiverId;
    use crate::runtime::MailboxReceiver;

    use super::*;

    fn drained(number: u64) -> Output {
        Output::Drained { receiver: ReceiverId(number) }
    }

    fn number(output: &Output) -> u64 {
        let Output::Drained { receiver } = output else { panic!("{output:?}") };
        receiver.0
    }

    #[test]
    fn remaining_outputs_are_sent_when_the_actor_ends() {
        let mut outgoing = Outgoing::default();
        let ((one, mut to_one), (other, mut to_other)) = (Mailbox::new(), Mailbox::new());
        outgoing.put(&one, drained(1));
        outgoing.put(&other, drained(2));
        outgoing.put(&one, drained(3));
        drop(outgoing);
        let numbers = |outputs: &mut MailboxReceiver| -> Vec<u64> {
            std::iter::from_fn(|| outputs.try_recv().ok()).map(|output| number(&output)).collect()
        };
        assert_eq!((numbers(&mut to_one), numbers(&mut to_other)), (vec![1, 3], vec![2]));
    }

    #[test]
    fn outputs_without_a_recipient_come_back() {
        let mut outgoing = Outgoing::default();
        let ((gone, receiver), (there, mut outputs)) = (Mailbox::new(), Mailbox::new());
        drop(receiver);
        outgoing.put(&gone, drained(1));
        outgoing.put(&there, drained(2));
        outgoing.put(&gone, drained(3));
        outgoing.send();
        let back: Vec<u64> = outgoing.take_undeliverable().iter().map(number).collect();
        assert_eq!(back, [1, 3]);
        assert_eq!(number(&outputs.try_recv().unwrap()), 2);
        assert!(outgoing.take_undeliverable().is_empty());
    }
}
