//! Examination of messages for receivers with selectors, in parts: the client chooses the selector, and with it what a
//! message costs, so one group of messages may take longer than a turn should.

use std::collections::VecDeque;
use std::vec::IntoIter;

use peeklock_engine::{Command, Received, ReceiverId, SequenceNumber};
use peeklock_message::selection;

use super::ConnectionHandler;

/// Steps of selectors in one turn, some milliseconds; the last message may exceed them.
pub(super) const STEPS_PER_TURN: usize = 1 << 16;

/// A group of messages of which the engine wants to know which match.
#[derive(Debug)]
pub(super) struct Examination {
    receiver: ReceiverId,
    messages: IntoIter<Received>,
    matching: Vec<SequenceNumber>,
}

/// The groups that are not examined yet.
#[derive(Debug, Default)]
pub(super) struct Examinations {
    /// The oldest first.
    waiting: VecDeque<Examination>,
    /// The last turn took all its steps: other tasks have theirs before more is examined.
    is_paused: bool,
}

impl Examinations {
    /// Whether the last turn was as long as one may be.
    pub(super) const fn are_paused(&self) -> bool {
        self.is_paused
    }
}

impl ConnectionHandler {
    /// Takes a group of messages, to answer the engine which of them match the receiver's selector.
    pub(super) fn examine(&mut self, receiver: ReceiverId, messages: Vec<Received>) {
        let messages = messages.into_iter();
        self.examinations.waiting.push_back(Examination { receiver, messages, matching: Vec::new() });
    }

    /// Examines as many messages as a turn may, and answers complete groups. Those of closed receivers are dropped.
    pub(super) fn continue_examinations(&mut self) {
        let mut steps = 0;
        let Examinations { waiting, is_paused } = &mut self.examinations;
        while let Some(current) = waiting.front_mut()
            && steps < STEPS_PER_TURN
        {
            let receiver = self.receivers.get(&current.receiver);
            let Some((receiver, selector)) = receiver.and_then(|one| Some((one, one.selector.as_ref()?)))
            else {
                waiting.pop_front();
                continue;
            };
            if let Some(message) = current.messages.next() {
                if selection::matches(selector, &message.content, &message.view, &mut steps) {
                    current.matching.push(message.view.sequence_number);
                }
                continue;
            }
            let matching = std::mem::take(&mut current.matching);
            let examined = Command::Examined { receiver: current.receiver, matching };
            self.outbox.add(&receiver.entity.partition, None, examined);
            waiting.pop_front();
        }
        *is_paused = steps >= STEPS_PER_TURN;
    }
}
