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
    /// The answer as its mailbox gets it.
    pub(super) fn output(&self, response: Response) -> Output {
        match (self.kind, response) {
            // What could not be read is left out: it matches nothing.
            (AnswerKind::Examination { receiver }, Response::Received(messages)) => {
                Output::Examine { receiver, messages: messages.unwrap_or_default() }
            }
            (_, response) => Output::Response { tag: self.tag, response },
        }
    }

    /// The answer that it is not done.
    pub(super) fn refusal(&self, refusal: Refusal) -> Output {
        self.output(self.kind.refused(refusal))
    }
}

/// Who waits for the answer of a command.
pub(super) fn waiter(mailbox: Mailbox, tag: Option<u64>, kind: Option<AnswerKind>) -> Option<Waiter> {
    Some(Waiter { mailbox, tag: tag?, kind: kind? })
}

/// Answers a request that will not be carried out, by way of `put`. Receivers learn that they are closed.
pub(super) fn refuse(request: Request, refusal: &Refusal, put: impl FnOnce(&Mailbox, Output)) {
    let Request { mailbox, tag, command } = request;
    let described = command.describe();
    match described.link {
        Link::Credits(receiver) | Link::Watches(receiver) => {
            put(&mailbox, Output::ReceiverClosed { receiver, refusal: refusal.clone() });
        }
        Link::Opens(receiver) if tag.is_none() => {
            put(&mailbox, Output::ReceiverClosed { receiver, refusal: refusal.clone() });
        }
        Link::Unchanged | Link::Opens(_) | Link::Closes(_) => {
            if let Some(waiter) = waiter(mailbox, tag, described.answer) {
                put(&waiter.mailbox, waiter.refusal(refusal.clone()));
            }
        }
    }
}
