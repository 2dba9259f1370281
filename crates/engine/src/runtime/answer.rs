//! Answers on behalf of a partition that could not act: the wrong time, the wrong size, or nobody there.

use super::{Mailbox, Output, Request, Response};
use crate::command::{AnswerKind, Link};
use crate::{Refusal, Reply};

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
        // A refusal brings no messages.
        let response = response(self.kind.refused(refusal));
        self.answer(response.unwrap_or_else(|_| Response::Received(Ok(Vec::new()))));
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

/// The answer as the front end sees it; contents are not known yet for [`Reply::Received`], which has its own way.
pub(super) fn response(reply: Reply) -> Result<Response, ReceivedReply> {
    Ok(match reply {
        Reply::Sent(result) => Response::Sent(result),
        Reply::Done(result) => Response::Done(result),
        Reply::Opened(result) => Response::Opened(result),
        Reply::Deleted(result) => Response::Deleted(result),
        Reply::SessionRenewed(result) => Response::SessionRenewed(result),
        Reply::SessionState(result) => Response::SessionState(result),
        Reply::Sessions(result) => Response::Sessions(result),
        Reply::Rules(result) => Response::Rules(result),
        Reply::Settled(failures) => Response::Settled(failures),
        Reply::Provisional(result) => Response::Provisional(result),
        Reply::Renewed(result) => Response::Renewed(result),
        Reply::Received(Err(refusal)) => Response::Received(Err(refusal)),
        Reply::Received(Ok(views)) => return Err(views),
    })
}

/// The views of a [`Reply::Received`].
pub(super) type ReceivedReply = Vec<(crate::MessageView, Option<crate::Lock>)>;
