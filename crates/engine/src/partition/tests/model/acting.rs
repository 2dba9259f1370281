//! An administrator's actions on messages by number.

use super::Rule;
use super::comparison::Comparison;
use super::queue::Queue;
use super::turn::Turn;
use crate::{Command, DeadLetter, MessageAction, MessageState, QueuePath, Refusal, SequenceNumber, SubQueue};

impl Queue {
    /// All or none; no message may be locked.
    pub(super) fn act(
        &mut self,
        turn: &Turn,
        sub_queue: SubQueue,
        numbers: &[SequenceNumber],
        action: &MessageAction,
    ) -> Result<(), Refusal> {
        let mut found = Vec::new();
        for shown in numbers {
            let named = self.named(turn, *shown, Rule::CancellingTakesTheNumberThatWasShown);
            let is_there = |number: &u64| {
                let view = &self.messages[number].view;
                view.sub_queue == sub_queue
                    && match action {
                        MessageAction::Delete => true,
                        MessageAction::Undefer => view.state == MessageState::Deferred,
                        MessageAction::DeadLetter(_) => {
                            sub_queue == SubQueue::Main && view.state != MessageState::Scheduled
                        }
                    }
            };
            let number = named.filter(is_there).ok_or(Refusal::MessageNotFound(shown.0))?;
            if self.messages[&number].lock.is_some() {
                return Err(Refusal::NotAllowed(""));
            }
            found.push(number);
        }
        for number in found {
            let Some(message) = self.messages.get_mut(&number) else { continue };
            match action {
                MessageAction::Delete => {
                    self.messages.remove(&number);
                }
                MessageAction::Undefer => message.view.state = MessageState::Active,
                MessageAction::DeadLetter(why) => {
                    message.view.state = MessageState::Active;
                    message.view.sub_queue = SubQueue::DeadLetter;
                    message.view.dead_letter = Some(why.clone());
                    message.held_until = None;
                }
            }
        }
        Ok(())
    }
}

impl Comparison {
    /// Picks from the latest messages of a queue, whatever their state, and one that does not exist.
    pub(super) fn act(
        &self,
        picks: &[usize],
        (queue, sub_queue): (usize, SubQueue),
        action: usize,
    ) -> Command {
        let queue = self.queue(queue);
        let messages = self.model.messages();
        let here = messages.iter().map(|(view, _)| view);
        let here = here.filter(|view| view.queue == queue && view.sub_queue == sub_queue);
        let mut choice: Vec<_> =
            here.map(|view| self.model.shown(queue, view.sequence_number, false)).collect();
        choice.reverse();
        choice.push(self.partition.state.entity.next_number);
        let numbers = picks.iter().map(|pick| choice[pick % choice.len()]).collect();
        let action = match action {
            0 => MessageAction::Delete,
            1 => MessageAction::Undefer,
            _ => {
                let why = DeadLetter { reason: Some("asked".into()), description: None };
                MessageAction::DeadLetter(why.into())
            }
        };
        Command::ActOnMessages { source: QueuePath { queue, sub_queue }, numbers, action }
    }
}
