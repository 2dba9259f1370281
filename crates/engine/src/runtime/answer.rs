//! Answers on behalf of a partition that could not act: the wrong time, the wrong size, or nobody there.

use super::{Mailbox, Output, Request, Response};
use crate::{Command, Refusal, Reply, SettleFailure};

/// Which answer a command causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerKind {
    Sent,
    Done,
    Opened {
        receiver: crate::ReceiverId,
    },
    Settled {
        tokens: usize,
    },
    Provisional,
    Renewed,
    Deleted,
    SessionRenewed,
    SessionState,
    Sessions,
    Rules,
    /// Contents that a receiver with a selector is asked about.
    Examination {
        receiver: crate::ReceiverId,
    },
    /// Contents; `takes` when the messages leave the store with the answer.
    Received {
        takes: bool,
    },
}

impl AnswerKind {
    /// `None` for commands that cause no answer.
    pub(super) fn of(command: &Command) -> Option<Self> {
        Some(match command {
            Command::Send { .. } | Command::KeepUndelivered { .. } => Self::Sent,
            Command::CancelScheduled { .. }
            | Command::SetSessionState { .. }
            | Command::DeclareSubscription { .. }
            | Command::DeleteSubscription { .. }
            | Command::AddRule { .. }
            | Command::ReplaceRule { .. }
            | Command::RemoveRule { .. }
            | Command::EndEntity => Self::Done,
            Command::Provisional(_) => Self::Provisional,
            Command::OpenReceiver { receiver, .. } => Self::Opened { receiver: *receiver },
            Command::Settle { tokens, .. } => Self::Settled { tokens: tokens.len() },
            Command::RenewLocks { .. } => Self::Renewed,
            Command::DeleteMessages { .. } => Self::Deleted,
            Command::RenewSessionLock { .. } => Self::SessionRenewed,
            Command::GetSessionState { .. } => Self::SessionState,
            Command::ListSessions { .. } => Self::Sessions,
            Command::ListRules { .. } => Self::Rules,
            Command::ReceiveDeferred { mode, .. } => {
                Self::Received { takes: *mode == crate::ReceiveMode::ReceiveAndDelete }
            }
            Command::Peek { .. } => Self::Received { takes: false },
            Command::Watch { .. }
            | Command::Select { .. }
            | Command::Examined { .. }
            | Command::Credit { .. }
            | Command::CloseReceiver { .. }
            | Command::Quarantine { .. }
            | Command::Tick => return None,
        })
    }

    /// The answer that refuses everything the command asked for.
    pub(super) fn refused(self, refusal: Refusal) -> Response {
        match self {
            Self::Sent => Response::Sent(Err(refusal)),
            Self::Done => Response::Done(Err(refusal)),
            Self::Opened { .. } => Response::Opened(Err(refusal)),
            Self::Settled { tokens } => Response::Settled(SettleFailure::all(tokens, &refusal)),
            Self::Provisional => Response::Provisional(Err(refusal)),
            Self::Renewed => Response::Renewed(Err(refusal)),
            Self::Deleted => Response::Deleted(Err(refusal)),
            Self::SessionRenewed => Response::SessionRenewed(Err(refusal)),
            Self::SessionState => Response::SessionState(Err(refusal)),
            Self::Sessions => Response::Sessions(Err(refusal)),
            Self::Rules => Response::Rules(Err(refusal)),
            Self::Received { .. } | Self::Examination { .. } => Response::Received(Err(refusal)),
        }
    }
}

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

/// Splits a request into who waits for it and what to do.
pub(super) fn waiter(mailbox: Mailbox, tag: Option<u64>, command: &Command) -> Option<Waiter> {
    let kind = AnswerKind::of(command)?;
    tag.map(|tag| Waiter { mailbox, tag, kind })
}

/// Answers a request that will not be carried out. Receivers learn that they are closed.
pub(super) fn refuse(request: Request, refusal: &Refusal) {
    let Request { mailbox, tag, command } = request;
    match &command {
        Command::Credit { receiver, .. } | Command::Watch { watcher: receiver, .. } => {
            mailbox.put(Output::ReceiverClosed { receiver: *receiver, refusal: refusal.clone() });
        }
        Command::OpenReceiver { receiver, .. } if tag.is_none() => {
            mailbox.put(Output::ReceiverClosed { receiver: *receiver, refusal: refusal.clone() });
        }
        command => {
            if let Some(waiter) = waiter(mailbox, tag, command) {
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
