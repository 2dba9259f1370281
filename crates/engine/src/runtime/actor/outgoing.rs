//! Outputs on their way to mailboxes: what a turn has for one of them leaves as one parcel, in order.

use crate::runtime::{Mailbox, Output};

/// Mailboxes that a turn collects outputs for; one more, and all parcels leave.
const PARCELS_MAX: usize = 32;

/// See the module. Everything that an actor sends goes by here, so that nothing overtakes.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    parcels: Vec<(Mailbox, Vec<Output>)>,
    /// The parcel that got the last output: often it gets the next as well.
    last: usize,
    /// Outputs whose mailbox nobody has any more.
    undeliverable: Vec<Output>,
}

impl Outgoing {
    /// Adds an output to the parcel for a mailbox.
    pub(super) fn put(&mut self, mailbox: &Mailbox, output: Output) {
        let is_for = |(other, _): &(Mailbox, Vec<Output>)| other.is_same(mailbox);
        if !self.parcels.get(self.last).is_some_and(is_for) {
            self.last = self.parcels.iter().position(is_for).unwrap_or_else(|| self.open(mailbox));
        }
        if let Some((_, outputs)) = self.parcels.get_mut(self.last) {
            outputs.push(output);
        }
    }

    /// Begins a parcel and returns its place.
    fn open(&mut self, mailbox: &Mailbox) -> usize {
        if self.parcels.len() >= PARCELS_MAX {
            self.send();
        }
        self.parcels.push((mailbox.clone(), Vec::new()));
        self.parcels.len() - 1
    }

    /// Sends all parcels.
    pub(super) fn send(&mut self) {
        for (mailbox, outputs) in self.parcels.drain(..) {
            if let Err(outputs) = mailbox.put_all(outputs) {
                self.undeliverable.extend(outputs);
            }
        }
    }

    /// What could not be delivered since the last call.
    pub(super) fn take_undeliverable(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.undeliverable)
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

    use super::*;

    fn drained(number: u64) -> Output {
        Output::Drained { receiver: ReceiverId(number) }
    }

    fn number(output: &Output) -> u64 {
        let Output::Drained { receiver } = output else { panic!("{output:?}") };
        receiver.0
    }

    #[test]
    fn every_mailbox_gets_its_outputs_in_order_however_many_there_are() {
        let mut outgoing = Outgoing::default();
        let mut boxes: Vec<_> = (0..PARCELS_MAX + 3).map(|_| Mailbox::new()).collect();
        for round in 0..4 {
            for (mailbox, _) in &boxes {
                outgoing.put(mailbox, drained(2 * round));
                outgoing.put(mailbox, drained(2 * round + 1));
            }
        }
        drop(outgoing);
        for (_, outputs) in &mut boxes {
            let numbers: Vec<u64> =
                std::iter::from_fn(|| outputs.try_recv().ok()).map(|output| number(&output)).collect();
            assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7]);
        }
    }

    #[test]
    fn outputs_for_nobody_come_back() {
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
