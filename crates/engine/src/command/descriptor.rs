//! The static properties of each command, in one table with a row for each: its answer, the entity it uses, its link, the size
//! of its writes. The partition and its runtime use this table, so a new command needs only one row here.

use bytes::Bytes;

use super::{Command, MessageAction, Settlement};
use crate::{DeadLetter, NewMessage, QueueId, ReceiveMode, ReceiverId, Refusal, Reply, SettleFailure};

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Descriptor<'a> {
    /// The answer, if it has one.
    pub(crate) answer: Option<AnswerKind>,
    /// The entity it uses, which restarts its idle time (semantics §17).
    pub(crate) uses: Uses<'a>,
    /// Whether this use is an access by a client, which administrators see as a time.
    pub(crate) is_access: bool,
    /// Its effect on a receiver or watcher.
    pub(crate) link: Link,
    /// What it adds to a batch, not counting copies of a topic's messages.
    pub(crate) writes: Writes<'a>,
    /// Whether it adds to the stored data and so is refused on a full disk. The store itself recognizes only bodies.
    pub(crate) grows: bool,
}

/// The kind of a command's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    Sent,
    SentEach {
        messages: usize,
    },
    Done,
    Opened {
        receiver: ReceiverId,
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
    Listed,
    /// Messages with bodies; `takes` if they are deleted by being received.
    Received {
        takes: bool,
    },
    /// Messages with bodies for a receiver with a selector to examine: not the answer of a command.
    Examination {
        receiver: ReceiverId,
    },
}

/// The entity that a command uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Uses<'a> {
    /// Nothing: it reads rules or sessions, or attaches without requesting messages.
    Nothing,
    /// The queue, or the topic itself.
    Entity,
    /// A queue or subscription, or the messages of a topic itself.
    Queue(QueueId),
    /// The source of this receiver.
    SourceOf(ReceiverId),
    /// A subscription, by its name if the id is unknown.
    Subscription { queue: QueueId, name: &'a str },
}

/// The effect of a command on a receiver or watcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// None, or none that its owner needs to know.
    Unchanged,
    /// A receiver is opened.
    Opens(ReceiverId),
    /// A watcher is added.
    Watches(ReceiverId),
    /// A receiver gets credit.
    Credits(ReceiverId),
    /// A receiver or watcher is closed.
    Closes(ReceiverId),
}

/// The writes of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Writes<'a> {
    /// None, or negligible ones.
    Nothing,
    /// Messages, with their dead-letter reason if they are stored as dead letters.
    Messages { messages: &'a [NewMessage], why: Option<&'a DeadLetter> },
    /// Records changed by a settlement.
    Settled { count: usize, settlement: &'a Settlement },
    /// Records of messages or subscriptions.
    Records(usize),
    /// Messages changed by an administrator's action.
    Acted { count: usize, action: &'a MessageAction },
    /// Deletions of messages.
    Deletions(u32),
    /// A session state, with its size in bytes.
    SessionState(usize),
    /// A subscription with its rules.
    Rules,
}

impl Command {
    /// Its row of the table.
    pub(crate) fn describe(&self) -> Descriptor<'_> {
        use AnswerKind as Answer;
        match self {
            Self::Send { messages } => sending(Answer::Sent, messages),
            Self::SendEach { messages } => sending(Answer::SentEach { messages: messages.len() }, messages),
            Self::KeepUndelivered { messages, why } => answered(Answer::Sent)
                .using(Uses::Entity)
                .writing(Writes::Messages { messages, why: Some(why) })
                .growing(true),
            Self::CancelScheduled { numbers } => {
                answered(Answer::Done).accessing(Uses::Entity).writing(Writes::Records(numbers.len()))
            }
            Self::OpenReceiver { receiver, .. } => {
                answered(Answer::Opened { receiver: *receiver }).about(Link::Opens(*receiver))
            }
            Self::Watch { watcher, .. } => UNANSWERED.about(Link::Watches(*watcher)),
            Self::Credit { receiver, .. } => {
                UNANSWERED.about(Link::Credits(*receiver)).accessing(Uses::SourceOf(*receiver))
            }
            Self::CloseReceiver { receiver } => UNANSWERED.about(Link::Closes(*receiver)),
            Self::Settle { queue, tokens, settlement } => answered(Answer::Settled { tokens: tokens.len() })
                .accessing(Uses::Queue(*queue))
                .writing(Writes::Settled { count: tokens.len(), settlement }),
            Self::RenewLocks { queue, tokens } => answered(Answer::Renewed)
                .accessing(Uses::Queue(*queue))
                .writing(Writes::Records(tokens.len())),
            Self::ReceiveDeferred { numbers, source, mode, .. } => {
                answered(Answer::Received { takes: *mode == ReceiveMode::ReceiveAndDelete })
                    .accessing(Uses::Queue(source.queue))
                    .writing(Writes::Records(numbers.len()))
            }
            Self::Peek { source, .. } => {
                answered(Answer::Received { takes: false }).accessing(Uses::Queue(source.queue))
            }
            Self::DeleteMessages { source, count_max, .. } => answered(Answer::Deleted)
                .accessing(Uses::Queue(source.queue))
                .writing(Writes::Deletions(*count_max)),
            Self::ActOnMessages { source, numbers, action } => answered(Answer::Done)
                .accessing(Uses::Queue(source.queue))
                .writing(Writes::Acted { count: numbers.len(), action }),
            Self::RenewSessionLock { receiver } => {
                answered(Answer::SessionRenewed).accessing(Uses::SourceOf(*receiver))
            }
            Self::GetSessionState { receiver } => {
                answered(Answer::SessionState).accessing(Uses::SourceOf(*receiver))
            }
            Self::SetSessionState { receiver, state } => answered(Answer::Done)
                .accessing(Uses::SourceOf(*receiver))
                .writing(Writes::SessionState(state.as_ref().map_or(0, Bytes::len)))
                .growing(state.is_some()),
            Self::DeclareSubscription { queue, name, .. } => answered(Answer::Done)
                .using(Uses::Subscription { queue: *queue, name })
                .writing(Writes::Rules),
            Self::DeleteSubscription { .. } => {
                answered(Answer::Done).using(Uses::Entity).writing(Writes::Records(1))
            }
            Self::AddRule { queue, .. } | Self::ReplaceRule { queue, .. } => {
                answered(Answer::Done).using(Uses::Queue(*queue)).writing(Writes::Rules).growing(true)
            }
            Self::RemoveRule { queue, .. } => {
                answered(Answer::Done).using(Uses::Queue(*queue)).writing(Writes::Records(1))
            }
            Self::Provisional(command) => answered(Answer::Provisional).using(command.describe().uses),
            Self::ListSessions { .. } => answered(Answer::Sessions),
            Self::ListRules { .. } => answered(Answer::Rules),
            Self::List { .. } => answered(Answer::Listed),
            // The use by an update is part of its event.
            Self::ChangeOptions { .. } | Self::EndEntity => answered(Answer::Done),
            Self::Select { .. } | Self::Examined { .. } | Self::Quarantine { .. } | Self::Tick => UNANSWERED,
        }
    }

    /// The messages that it sends.
    pub(crate) fn sent_messages(&self) -> &[NewMessage] {
        match self {
            Self::Send { messages } => messages,
            Self::SendEach { messages } => messages,
            _ => &[],
        }
    }

    /// The receiver that must hold its session for this command, if it reads from sessions.
    pub(crate) const fn session_holder(&self) -> Option<ReceiverId> {
        match self {
            Self::Credit { receiver, .. }
            | Self::RenewSessionLock { receiver }
            | Self::GetSessionState { receiver }
            | Self::SetSessionState { receiver, .. } => Some(*receiver),
            Self::ReceiveDeferred { receiver, .. } | Self::DeleteMessages { receiver, .. } => *receiver,
            _ => None,
        }
    }

    /// The answer that refuses the whole command; `None` for commands without an answer.
    #[must_use]
    pub fn refused(&self, refusal: Refusal) -> Option<Reply> {
        self.describe().answer.map(|answer| answer.refused(refusal))
    }
}

/// A command without an answer that uses, writes and changes nothing.
const UNANSWERED: Descriptor<'static> = Descriptor {
    answer: None,
    uses: Uses::Nothing,
    is_access: false,
    link: Link::Unchanged,
    writes: Writes::Nothing,
    grows: false,
};

/// The same with an answer.
const fn answered(answer: AnswerKind) -> Descriptor<'static> {
    Descriptor { answer: Some(answer), ..UNANSWERED }
}

/// A command by which clients send messages.
const fn sending(answer: AnswerKind, messages: &[NewMessage]) -> Descriptor<'_> {
    answered(answer).accessing(Uses::Entity).writing(Writes::Messages { messages, why: None }).growing(true)
}

impl<'a> Descriptor<'a> {
    const fn using(self, uses: Uses<'a>) -> Self {
        Self { uses, ..self }
    }

    const fn accessing(self, uses: Uses<'a>) -> Self {
        Self { uses, is_access: true, ..self }
    }

    const fn about(self, link: Link) -> Self {
        Self { link, ..self }
    }

    const fn writing(self, writes: Writes<'a>) -> Self {
        Self { writes, ..self }
    }

    const fn growing(self, grows: bool) -> Self {
        Self { grows, ..self }
    }
}

impl AnswerKind {
    /// The answer that refuses the whole command.
    pub(crate) fn refused<M>(self, refusal: Refusal) -> Reply<M> {
        match self {
            Self::Sent => Reply::Sent(Err(refusal)),
            Self::SentEach { messages } => Reply::SentEach(vec![Err(refusal); messages]),
            Self::Done => Reply::Done(Err(refusal)),
            Self::Opened { .. } => Reply::Opened(Err(refusal)),
            Self::Settled { tokens } => Reply::Settled(SettleFailure::all(tokens, &refusal)),
            Self::Provisional => Reply::Provisional(Err(refusal)),
            Self::Renewed => Reply::Renewed(Err(refusal)),
            Self::Deleted => Reply::Deleted(Err(refusal)),
            Self::SessionRenewed => Reply::SessionRenewed(Err(refusal)),
            Self::SessionState => Reply::SessionState(Err(refusal)),
            Self::Sessions => Reply::Sessions(Err(refusal)),
            Self::Rules => Reply::Rules(Err(refusal)),
            Self::Listed => Reply::Listed(Err(refusal)),
            Self::Received { .. } | Self::Examination { .. } => Reply::Received(Err(refusal)),
        }
    }
}

impl Link {
    /// The receiver or watcher whose id must be from the epoch in which the host owns the shard. Other commands refer only to
    /// open receivers, or are refused by the partition.
    pub(crate) const fn id_of_this_epoch(self) -> Option<ReceiverId> {
        match self {
            Self::Opens(receiver) | Self::Watches(receiver) | Self::Credits(receiver) => Some(receiver),
            Self::Unchanged | Self::Closes(_) => None,
        }
    }
}

impl Writes<'_> {
    /// Total size of the command's bodies and states, in bytes.
    pub(crate) fn content_bytes(self) -> usize {
        match self {
            Self::Messages { messages, .. } => messages.iter().map(|message| message.content.len()).sum(),
            Self::SessionState(bytes) => bytes,
            Self::Nothing
            | Self::Settled { .. }
            | Self::Records(_)
            | Self::Acted { .. }
            | Self::Deletions(_)
            | Self::Rules => 0,
        }
    }
}
