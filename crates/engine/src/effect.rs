//! Effects: the outputs of a partition. An effect is carried out only when the batch it depends on is durable.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    Departing, Listed, Lock, LockToken, MessageView, ReceiverId, Refusal, RequestId, Rule, SequenceNumber,
    Timestamp,
};

/// An output of the partition. The runtime adds the bodies to views.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// The answer to a request.
    Reply {
        /// The request.
        request: RequestId,
        /// The answer.
        reply: Reply,
    },
    /// A message for a receiver.
    Deliver {
        /// The receiver.
        receiver: ReceiverId,
        /// The message.
        view: MessageView,
        /// The lock.
        lock: Option<Lock>,
        /// Additional data for a forwarder.
        departing: Option<Box<Departing>>,
    },
    /// Candidates for a receiver with a selector: its owner answers with [`crate::Command::Examined`], which says which match.
    /// Until then the receiver gets no later message.
    Examine {
        /// The receiver.
        receiver: ReceiverId,
        /// The messages, in order of their numbers.
        views: Vec<MessageView>,
    },
    /// A drain has ended: all available messages were delivered, or the credit is used up, and the rest of it is void; or
    /// later credit has replaced it.
    Drained {
        /// The receiver.
        receiver: ReceiverId,
    },
    /// The partition closed a receiver by itself: its session lock expired, or its entity was deleted.
    ReceiverClosed {
        /// The receiver or watcher.
        receiver: ReceiverId,
        /// The reason.
        refusal: Refusal,
    },
    /// The entity accepts no commands any more, and its stored state is to be deleted.
    Ended(End),
}

/// The reason why an entity ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It was idle for its AutoDeleteOnIdle time (S-26).
    Idle,
    /// By request: [`crate::Command::EndEntity`].
    Asked,
}

/// A message without its body, which the runtime adds.
pub type ViewWithLock = (MessageView, Option<Lock>);

/// Answers, one variant for each kind of command. `M` is the type of messages: [`ViewWithLock`] from the partition, and
/// [`crate::Received`] when the answer reaches the front end as a [`crate::runtime::Response`].
#[derive(Debug, Clone, PartialEq)]
pub enum Reply<M = ViewWithLock> {
    /// To `Send`: the numbers in order.
    Sent(Result<smallvec::SmallVec<[SequenceNumber; 1]>, Refusal>),
    /// To `SendEach`: the number of each message, or why it was refused, in order.
    SentEach(Vec<Result<SequenceNumber, Refusal>>),
    /// To `CancelScheduled`, `SetSessionState`, commands for subscriptions and rules, and the commit of a transaction.
    Done(Result<(), Refusal>),
    /// To `OpenReceiver`: the session, if one was requested.
    Opened(Result<Option<AcceptedSession>, Refusal>),
    /// To `Settle`: the tokens that failed, in the order of the command; empty if none did. To `Provisional` with a `Settle`:
    /// those that would fail, if any.
    Settled(Vec<SettleFailure>),
    /// To `Provisional`: a number for each scheduled message of a `Send`, in order; in a partitioned entity also those of the
    /// messages of a `Settle`; none for other commands.
    Provisional(Result<smallvec::SmallVec<[SequenceNumber; 1]>, Refusal>),
    /// To `RenewLocks`: the new expiry times in order.
    Renewed(Result<Vec<Timestamp>, Refusal>),
    /// To `ReceiveDeferred` and `Peek`.
    Received(Result<Vec<M>, Refusal>),
    /// To `DeleteMessages`: the number of deleted messages.
    Deleted(Result<u32, Refusal>),
    /// To `RenewSessionLock`: the new expiry time.
    SessionRenewed(Result<Timestamp, Refusal>),
    /// To `GetSessionState`; `None` when it was never set or was cleared.
    SessionState(Result<Option<Bytes>, Refusal>),
    /// To `ListSessions`: ids in order.
    Sessions(Result<Vec<Arc<str>>, Refusal>),
    /// To `ListRules`.
    Rules(Result<Vec<Arc<Rule>>, Refusal>),
    /// To `List`.
    Listed(Result<Listed, Refusal>),
}

impl<M> Reply<M> {
    /// Converts an answer without messages to another message type; `Err` with the messages of any other answer.
    pub(crate) fn without_messages<N>(self) -> Result<Reply<N>, Vec<M>> {
        Ok(match self {
            Self::Sent(result) => Reply::Sent(result),
            Self::SentEach(results) => Reply::SentEach(results),
            Self::Done(result) => Reply::Done(result),
            Self::Opened(result) => Reply::Opened(result),
            Self::Settled(failures) => Reply::Settled(failures),
            Self::Provisional(result) => Reply::Provisional(result),
            Self::Renewed(result) => Reply::Renewed(result),
            Self::Received(Ok(messages)) => return Err(messages),
            Self::Received(Err(refusal)) => Reply::Received(Err(refusal)),
            Self::Deleted(result) => Reply::Deleted(result),
            Self::SessionRenewed(result) => Reply::SessionRenewed(result),
            Self::SessionState(result) => Reply::SessionState(result),
            Self::Sessions(result) => Reply::Sessions(result),
            Self::Rules(result) => Reply::Rules(result),
            Self::Listed(result) => Reply::Listed(result),
        })
    }
}

/// A session that a receiver now holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedSession {
    /// Its id.
    pub id: Arc<str>,
    /// When its lock ends unless renewed.
    pub locked_until: Timestamp,
    /// The token by which another receiver can take it over, unless the lock is exclusive.
    pub token: Option<LockToken>,
}

/// One failed token of a `Settle`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettleFailure {
    /// Its position in the command's list.
    pub index: usize,
    /// The reason.
    pub refusal: Refusal,
}

impl SettleFailure {
    /// The same failure for `count` tokens.
    pub(crate) fn all(count: usize, refusal: &Refusal) -> Vec<Self> {
        (0..count).map(|index| Self { index, refusal: refusal.clone() }).collect()
    }
}
