//! Commands of a turn for the engine: those for one partition are submitted together.

use peeklock_engine::Command;
use peeklock_engine::runtime::{Mailbox, Parcels, PartitionHandle, TaggedCommand};

/// See the module. Commands for one partition are submitted in the order in which they were added.
#[derive(Debug)]
pub(super) struct Outbox {
    /// The return address.
    mailbox: Mailbox,
    parcels: Parcels<PartitionHandle, TaggedCommand>,
}

impl Outbox {
    pub(super) const fn new(mailbox: Mailbox) -> Self {
        Self { mailbox, parcels: Parcels::new() }
    }

    /// Adds a command; with a tag, an answer is expected.
    #[inline]
    pub(super) fn add(&mut self, partition: &PartitionHandle, tag: Option<u64>, command: Command) {
        self.parcels.add(partition, TaggedCommand { tag, command }, submit(&self.mailbox));
    }

    /// The command added last for a partition, if it is not submitted yet.
    pub(super) fn last_command(&mut self, partition: &PartitionHandle) -> Option<&mut TaggedCommand> {
        self.parcels.last_for(partition)
    }

    /// Submits the added commands.
    pub(super) fn submit_commands(&mut self) {
        self.parcels.send_all(submit(&self.mailbox));
    }

    /// The return address, for requests to other recipients than partitions; commands added before are submitted first.
    pub(super) fn return_address(&mut self) -> Mailbox {
        self.submit_commands();
        self.mailbox.clone()
    }
}

fn submit(mailbox: &Mailbox) -> impl FnMut(PartitionHandle, Vec<TaggedCommand>) {
    |partition, asked| partition.submit_all(mailbox.clone(), asked)
}

/// The last commands of an ending connection close its receivers.
impl Drop for Outbox {
    fn drop(&mut self) {
        self.submit_commands();
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
    fn commands_wait_for_the_hand_over_or_for_another_request() {
        let mut outbox = Outbox::new(Mailbox::new().0);
        let (partition, mut requests) = PartitionHandle::new();
        outbox.add(&partition, None, close(1));
        assert!(numbers(&mut requests).is_empty());
        outbox.submit_commands();
        assert_eq!(numbers(&mut requests), [1]);
        outbox.add(&partition, None, close(2));
        let _address = outbox.return_address();
        assert_eq!(numbers(&mut requests), [2]);
    }
}
