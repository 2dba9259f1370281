//! Answers on behalf of a partition that does not carry out a request: wrong time, too large, or gone.

use super::{Mailbox, Output, Request, Response};
use crate::Refusal;
use crate::command::{AnswerKind, Link};

/// The destination of an answer.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) mailbox: Mailbox,
    pub(super) tag: u64,
    pub(super) kind: AnswerKind,
}

impl Waiter {
    /// Converts the response to the output for the mailbox.
    pub(super) fn output(&self, response: Response) -> Output {
        match (self.kind, response) {
            // Messages that could not be read are left out: they match nothing.
            (AnswerKind::Examination { receiver }, Response::Received(messages)) => {
                Output::Examine { receiver, messages: messages.unwrap_or_default() }
            }
            (_, response) => Output::Response { tag: self.tag, response },
        }
    }

    /// The output for a refusal.
    pub(super) fn refusal(&self, refusal: Refusal) -> Output {
        self.output(self.kind.refused(refusal))
    }
}

/// The waiter for a command's answer, if it has one.
pub(super) fn waiter(mailbox: Mailbox, tag: Option<u64>, kind: Option<AnswerKind>) -> Option<Waiter> {
    Some(Waiter { mailbox, tag: tag?, kind: kind? })
}

/// Refuses a request through `put`. Links that the request opens, watches or credits without an answer are notified that
/// they are closed.
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
