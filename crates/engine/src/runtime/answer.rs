//! Answers on behalf of a partition that could not act: the wrong time, the wrong size, or nobody there.

use super::{Mailbox, Output, Request, Response};
use crate::Refusal;
use crate::command::{AnswerKind, Link};

/// Somebody who waits for an answer.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) mailbox: Mailbox,
    pub(super) tag: u64,
    pub(super) kind: AnswerKind,
}

impl Waiter {
    pub(super) fn answer(&self, response: Response) {
        self.mailbox.put(match (self.kind, response) {
            // What could not be read is left out: it matches nothing.
            (AnswerKind::Examination { receiver }, Response::Received(messages)) => {
                Output::Examine { receiver, messages: messages.unwrap_or_default() }
            }
            (_, response) => Output::Response { tag: self.tag, response },
        });
    }

    pub(super) fn refuse(&self, refusal: Refusal) {
        self.answer(self.kind.refused(refusal));
    }
}

/// Who waits for the answer of a command.
pub(super) fn waiter(mailbox: Mailbox, tag: Option<u64>, kind: Option<AnswerKind>) -> Option<Waiter> {
    Some(Waiter { mailbox, tag: tag?, kind: kind? })
}

/// Answers a request that will not be carried out. Receivers learn that they are closed.
pub(super) fn refuse(request: Request, refusal: &Refusal) {
    let Request { mailbox, tag, command } = request;
    let described = command.describe();
    match described.link {
        Link::Credits(receiver) | Link::Watches(receiver) => {
            mailbox.put(Output::ReceiverClosed { receiver, refusal: refusal.clone() });
        }
        Link::Opens(receiver) if tag.is_none() => {
            mailbox.put(Output::ReceiverClosed { receiver, refusal: refusal.clone() });
        }
        Link::Unchanged | Link::Opens(_) | Link::Closes(_) => {
            if let Some(waiter) = waiter(mailbox, tag, described.answer) {
                waiter.refuse(refusal.clone());
            }
        }
    }
}
