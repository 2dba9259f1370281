//! Commands of a turn on their way to the engine. Those for one partition are handed over together, which costs little more
//! than handing over one.

use peeklock_engine::Command;
use peeklock_engine::runtime::{Asked, Mailbox, PartitionHandle};

/// Partitions that commands are collected for; one more, and all are handed over.
const PARTITIONS_MAX: usize = 32;
/// Commands that room is made for at once, if as many came the last time.
const ROOM_MAX: usize = 128;

/// See the module. Commands for one partition arrive in the order in which they were added.
#[derive(Debug)]
pub(super) struct Outbox {
    /// The return address.
    mailbox: Mailbox,
    parcels: Vec<(PartitionHandle, Vec<Asked>)>,
    /// The parcel that got the last command: usually it gets the next as well.
    last: usize,
    /// How many commands the last parcel had.
    usual: usize,
}

impl Outbox {
    pub(super) const fn new(mailbox: Mailbox) -> Self {
        Self { mailbox, parcels: Vec::new(), last: 0, usual: 0 }
    }

    /// Adds a command; with a tag, its answer is awaited.
    pub(super) fn add(&mut self, partition: &PartitionHandle, tag: Option<u64>, command: Command) {
        let is_for = |(other, _): &(PartitionHandle, Vec<Asked>)| other.is_same(partition);
        if !self.parcels.get(self.last).is_some_and(is_for) {
            self.last = self.parcels.iter().position(is_for).unwrap_or_else(|| self.open(partition));
        }
        if let Some((_, asked)) = self.parcels.get_mut(self.last) {
            asked.push(Asked { tag, command });
        }
    }

    /// Begins a parcel and returns its place.
    fn open(&mut self, partition: &PartitionHandle) -> usize {
        if self.parcels.len() >= PARTITIONS_MAX {
            self.hand_over();
        }
        self.parcels.push((partition.clone(), Vec::with_capacity(self.usual.min(ROOM_MAX))));
        self.parcels.len() - 1
    }

    /// Hands over what was added.
    pub(super) fn hand_over(&mut self) {
        for (partition, asked) in self.parcels.drain(..) {
            self.usual = asked.len();
            partition.submit_all(self.mailbox.clone(), asked);
        }
    }

    /// The return address, for what is asked of others than partitions: what was added before goes first.
    pub(super) fn return_address(&mut self) -> Mailbox {
        self.hand_over();
        self.mailbox.clone()
    }
}

/// A connection that ends closes its receivers with its last commands.
impl Drop for Outbox {
    fn drop(&mut self) {
        self.hand_over();
    }
}

#[cfg(test)]
mod tests {
    use peeklock_engine::ReceiverId;
    use peeklock_engine::runtime::Requests;

    use super::*;

    fn close(number: u64) -> Command {
        Command::CloseReceiver { receiver: ReceiverId(number) }
    }

    fn numbers(requests: &mut Requests) -> Vec<u64> {
        let number = |command| match command {
            Command::CloseReceiver { receiver } => receiver.0,
            other => panic!("{other:?}"),
        };
        std::iter::from_fn(|| requests.try_next()).map(|request| number(request.command)).collect()
    }

    #[test]
    fn each_partition_gets_its_commands_in_order_however_many_there_are() {
        let mut outbox = Outbox::new(Mailbox::new().0);
        let mut partitions: Vec<_> = (0..PARTITIONS_MAX + 3).map(|_| PartitionHandle::new()).collect();
        for round in 0..4 {
            for (partition, _) in &partitions {
                outbox.add(partition, None, close(2 * round));
                outbox.add(partition, None, close(2 * round + 1));
            }
        }
        drop(outbox);
        for (_, requests) in &mut partitions {
            assert_eq!(numbers(requests), [0, 1, 2, 3, 4, 5, 6, 7]);
        }
    }

    #[test]
    fn commands_wait_for_the_hand_over_or_for_somebody_who_asks_elsewhere() {
        let mut outbox = Outbox::new(Mailbox::new().0);
        let (partition, mut requests) = PartitionHandle::new();
        outbox.add(&partition, None, close(1));
        assert!(numbers(&mut requests).is_empty());
        outbox.hand_over();
        assert_eq!(numbers(&mut requests), [1]);
        outbox.add(&partition, None, close(2));
        let _address = outbox.return_address();
        assert_eq!(numbers(&mut requests), [2]);
    }
}
