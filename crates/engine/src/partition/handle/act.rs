//! `ActOnMessages`: an administrator deletes messages by number, makes deferred ones available or dead-letters them, all or none.
//!
//! Locked messages are refused: their receivers decide about them. No lock is taken, because decision and effects are one
//! step; in a joint step, deleting a message here and storing it elsewhere happen together.

use std::sync::Arc;

use super::super::queue::Queue;
use super::super::record::Record;
use super::super::step::{REWRITTEN_BYTES_MAX, Step};
use super::check_numbers;
use super::key_partition::{is_quarantined, named};
use crate::command::MessageAction;
use crate::event::{Change, Deletion, Event};
use crate::{MessageState, QueuePath, Refusal, Reply, RequestId, SequenceNumber, SubQueue};

/// The refusal for a message locked by a receiver.
const LOCKED: Refusal = Refusal::NotAllowed("The message is locked by a receiver.");

impl Step<'_> {
    pub(in crate::partition) fn act_on_messages(
        &mut self,
        request: Option<RequestId>,
        source: QueuePath,
        numbers: &[SequenceNumber],
        action: &MessageAction,
    ) {
        self.count_visits(numbers.len());
        let done =
            self.actionable(source, numbers, action).map(|messages| self.act(source, messages, action));
        self.reply(request, Reply::Done(done));
    }

    /// The messages with these client-visible numbers, with their internal numbers, if the action is possible for all of them.
    pub(in crate::partition) fn actionable(
        &self,
        source: QueuePath,
        numbers: &[SequenceNumber],
        action: &MessageAction,
    ) -> Result<Vec<(SequenceNumber, Record)>, Refusal> {
        check_numbers(numbers)?;
        let queue = self.state().queue(source.queue).ok_or(Refusal::EntityDeleted)?;
        self.check_receive_allowed(source.queue)?;
        let found = numbers.iter().map(|shown| actionable_one(queue, source.sub_queue, *shown, action));
        let found: Vec<(SequenceNumber, Record)> = found.collect::<Result<_, _>>()?;
        let bytes: usize = found.iter().map(|(_, record)| record.variable_bytes()).sum();
        if *action != MessageAction::Delete && bytes > REWRITTEN_BYTES_MAX {
            return Err(Refusal::InvalidArgument(format!(
                "The properties of the messages take {bytes} bytes, at most {REWRITTEN_BYTES_MAX} are changed at once: name fewer."
            )));
        }
        Ok(found)
    }

    fn act(&mut self, source: QueuePath, messages: Vec<(SequenceNumber, Record)>, action: &MessageAction) {
        match action {
            MessageAction::Delete => {
                let bodies = messages.iter().map(|(number, record)| record.body(*number)).collect();
                let bodies = self.state().only_referred_to_by(bodies);
                let mut numbers: Vec<_> = messages.into_iter().map(|(number, _)| number).collect();
                // Sorted, because runs of numbers are detected in this order when they are deleted.
                numbers.sort_unstable();
                let QueuePath { queue, sub_queue } = source;
                self.emit(Event::Deleted(Box::new(Deletion {
                    queue,
                    sub_queue,
                    numbers: numbers.into(),
                    bodies,
                })));
            }
            MessageAction::Undefer => {
                for (number, mut record) in messages {
                    record.set_place(source.sub_queue, MessageState::Active);
                    let (queue, from, change) = (source.queue, source.sub_queue, Change::Undeferred);
                    self.emit(Event::Changed { queue, number, from, record, lock: None, change });
                }
            }
            MessageAction::DeadLetter(why) => {
                for (number, mut record) in messages {
                    record.hold_back(None);
                    record.edit_extra(|extra| extra.dead_letter = Some(Arc::clone(why)));
                    self.dead_letter(source.queue, number, source.sub_queue, record, None);
                }
            }
        }
    }
}

fn actionable_one(
    queue: &Queue,
    sub_queue: SubQueue,
    shown: SequenceNumber,
    action: &MessageAction,
) -> Result<(SequenceNumber, Record), Refusal> {
    let messages = queue.messages.get(sub_queue);
    let Some((number, record)) = named(shown, |number| messages.get(number)) else {
        let damaged = is_quarantined(queue, shown);
        return Err(if damaged {
            Refusal::MessageDamaged(shown.0)
        } else {
            Refusal::MessageNotFound(shown.0)
        });
    };
    let is_possible = match action {
        MessageAction::Delete => true,
        MessageAction::Undefer => record.state() == MessageState::Deferred,
        MessageAction::DeadLetter(_) => {
            sub_queue == SubQueue::Main && record.state() != MessageState::Scheduled
        }
    };
    if !is_possible {
        return Err(Refusal::MessageNotFound(shown.0));
    }
    if messages.is_locked(number) { Err(LOCKED) } else { Ok((number, record.clone())) }
}
