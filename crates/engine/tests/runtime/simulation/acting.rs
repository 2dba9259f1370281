//! Administrators' actions on stored messages by number: each command takes effect completely or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use peeklock_engine::{
    Command, KeyPartition, MessageAction, NewMessage, QueueId, QueuePath, Refusal, SequenceNumber, SubQueue,
};

use super::steps::{Act, Place};
use super::transactions::Work;
use super::world::{Address, Asked, Taken, World};

impl World {
    /// Acts on up to `picks.len()` messages that may be in the place.
    pub(super) fn act(&mut self, from: Place, sub_queue: SubQueue, picks: &[usize], act: Act) {
        let Some(address) = self.find(from) else { return };
        let auditor = self.auditor(address.queue);
        let picked: BTreeMap<SequenceNumber, String> =
            picks.iter().filter_map(|pick| auditor.pick(*pick)).collect();
        if picked.is_empty() {
            return;
        }
        // Receiving these by number may fail from now on.
        self.deferred.retain(|deferred| {
            deferred.address.queue != address.queue || !picked.contains_key(&deferred.number)
        });
        let source = QueuePath { queue: address.queue, sub_queue };
        let numbers = picked.keys().map(|number| self.shown(address.queue, *number)).collect();
        let contents: Vec<String> = picked.into_values().collect();
        contents.iter().for_each(|content| self.auditor(address.queue).acting_on(content));
        match act {
            Act::Delete => {
                let work = self.removing(address.queue, contents);
                let command = Command::ActOnMessages { source, numbers, action: MessageAction::Delete };
                self.submit(&address, command, Some(Asked::Commit(work)));
            }
            Act::DeadLetter => {
                contents.iter().for_each(|content| self.auditor(address.queue).moving(content));
                let action = MessageAction::DeadLetter(Arc::default());
                let asked = Asked::DeadLetter { queue: address.queue, contents };
                self.submit(&address, Command::ActOnMessages { source, numbers, action }, Some(asked));
            }
            Act::Move(to) => self.move_messages(&address, source, numbers, contents, to),
        }
    }

    /// Deletes messages in one place and sends as many to another, atomically.
    fn move_messages(
        &mut self,
        from: &Address,
        source: QueuePath,
        numbers: Vec<SequenceNumber>,
        contents: Vec<String>,
        to: usize,
    ) {
        let Some(target) = self.find(Place::Queue(to)) else { return };
        let mut transaction = self.broker.namespace.begin_transaction();
        let mut work = self.removing(from.queue, contents);
        let command = Command::ActOnMessages { source, numbers, action: MessageAction::Delete };
        transaction.add(&from.partition, command);
        let copies: Vec<String> = work.completed.iter().map(|_| self.new_content("")).collect();
        let messages = copies.iter().map(|content| NewMessage {
            content: Bytes::copy_from_slice(content.as_bytes()),
            ..NewMessage::default()
        });
        transaction.add(&target.partition, Command::Send { messages: messages.collect() });
        let sent = self.sent;
        for content in copies {
            self.auditor(target.queue).sending(&content);
            work.sent.push((target.queue, content));
        }
        // Sequence numbers are assigned at the commit, after those of sends that were requested later.
        self.auditor(target.queue).order_unknown(sent);
        let tag = self.ask(Asked::Commit(work));
        transaction.commit(self.mailbox(), tag);
    }

    /// Makes a deferred message available again.
    pub(super) fn undefer(&mut self, which: usize) {
        if self.deferred.is_empty() {
            return;
        }
        let taken = self.deferred.swap_remove(which % self.deferred.len());
        let (address, sent) = (taken.address.clone(), self.sent);
        self.auditor(address.queue).order_unknown(sent);
        if self.find(Place::Sessions).is_some_and(|sessions| sessions.queue == address.queue) {
            self.sessions.out_of_order(taken.number);
        }
        let source = QueuePath { queue: address.queue, sub_queue: taken.sub_queue };
        let numbers = vec![self.shown(address.queue, taken.number)];
        let command = Command::ActOnMessages { source, numbers, action: MessageAction::Undefer };
        self.submit(&address, command, Some(Asked::Undefer { taken }));
    }

    pub(super) fn undeferred(&mut self, taken: Taken, result: Result<(), Refusal>) {
        match result {
            Ok(())
            | Err(
                Refusal::StorageFull
                | Refusal::StorageFailing
                | Refusal::Unavailable
                | Refusal::MessageDamaged(_),
            ) => {}
            Err(Refusal::EntityDeleted | Refusal::EntityDisabled) => self.deferred.push(taken),
            // A later request, in a transaction, may overtake it while the queue is reloaded.
            Err(Refusal::MessageNotFound(_))
                if self.may_end_deferred(taken.address.queue)
                    || self.auditor(taken.address.queue).is_acted_on(&taken.content) => {}
            Err(refusal) => panic!("{} was deferred and stays so: {refusal}", taken.content),
        }
    }

    pub(super) fn dead_lettered(&mut self, queue: QueueId, contents: &[String], result: Result<(), Refusal>) {
        let auditor = self.auditor(queue);
        match result {
            Ok(()) => contents.iter().for_each(|content| auditor.moved(content)),
            Err(Refusal::Unavailable) => {}
            Err(_) => contents.iter().for_each(|content| auditor.did_not_move(content)),
        }
    }

    /// Messages whose presence is unknown until the response arrives.
    fn removing(&mut self, queue: QueueId, contents: Vec<String>) -> Work {
        contents.iter().for_each(|content| self.auditor(queue).leaving(content));
        let completed = contents.into_iter().map(|content| (queue, content)).collect();
        Work { completed, ..Work::default() }
    }

    fn shown(&mut self, queue: QueueId, number: SequenceNumber) -> SequenceNumber {
        self.partition(queue, number, KeyPartition::default()).shown(number)
    }
}
