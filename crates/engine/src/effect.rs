//! What a partition wants to happen outside. An effect leaves only when the batch it depends on is durable.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    Departing, Listed, Lock, LockToken, MessageView, ReceiverId, Refusal, RequestId, Rule, SequenceNumber,
    Timestamp,
};

/// An output of the partition. The runtime adds contents to views before they leave.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// The answer to a request.
    Reply {
        /// Which.
        request: RequestId,
        /// The answer.
        reply: Reply,
    },
    /// A message for a receiver.
    Deliver {
        /// Who.
        receiver: ReceiverId,
        /// What.
        view: MessageView,
        /// The lock.
        lock: Option<Lock>,
        /// What a forwarder needs to know.
        departing: Option<Box<Departing>>,
    },
    /// Messages that a receiver with a selector may want: its owner is to say by [`crate::Command::Examined`] which match.
    /// Nothing is delivered to it that comes behind them before.
    Examine {
        /// Who.
        receiver: ReceiverId,
        /// What, in order of number.
        views: Vec<MessageView>,
    },
    /// All that was available has been delivered; the rest of the credit is void.
    Drained {
        /// Who.
        receiver: ReceiverId,
    },
    /// The partition closed a receiver by itself: its session's lock ended, or what it reads from was deleted.
    ReceiverClosed {
        /// Who.
        receiver: ReceiverId,
        /// Why.
        refusal: Refusal,
    },
    /// The entity takes no commands any more, and what is stored of it is to be deleted.
    Ended(End),
}

/// Why an entity ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It was idle for as long as it may be (S-26).
    Idle,
    /// Somebody wanted it so: [`crate::Command::EndEntity`].
    Asked,
}

/// A message as a partition shows it: without its content, which the runtime adds.
pub type ViewWithLock = (MessageView, Option<Lock>);

/// Answers, one kind for each kind of command. `M` is a message in it: [`ViewWithLock`] by the partition, and
/// [`crate::Received`] when the answer reaches the front end as a [`crate::runtime::Response`].
#[derive(Debug, Clone, PartialEq)]
pub enum Reply<M = ViewWithLock> {
    /// To `Send`: the numbers in order, or why nothing was stored.
    Sent(Result<smallvec::SmallVec<[SequenceNumber; 1]>, Refusal>),
    /// To `CancelScheduled`, `SetSessionState`, what changes subscriptions and rules, and the commit of a transaction.
    Done(Result<(), Refusal>),
    /// To `OpenReceiver`: the session, if one was asked for.
    Opened(Result<Option<AcceptedSession>, Refusal>),
    /// To `Settle`: the tokens that failed; empty when all went well.
    Settled(Vec<SettleFailure>),
    /// To `Provisional`: a number for each scheduled message of a `Send`, in order; in a partitioned entity those of the
    /// messages that a `Settle` is about; none for other commands.
    Provisional(Result<smallvec::SmallVec<[SequenceNumber; 1]>, Refusal>),
    /// To `RenewLocks`: the new ends in order.
    Renewed(Result<Vec<Timestamp>, Refusal>),
    /// To `ReceiveDeferred` and `Peek`.
    Received(Result<Vec<M>, Refusal>),
    /// To `DeleteMessages`: how many were deleted.
    Deleted(Result<u32, Refusal>),
    /// To `RenewSessionLock`: the new end.
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
    /// The same answer for messages of another form; the messages themselves if it brings any.
    pub(crate) fn without_messages<N>(self) -> Result<Reply<N>, Vec<M>> {
        Ok(match self {
            Self::Sent(result) => Reply::Sent(result),
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
    /// With what another may take it over, if it may.
    pub token: Option<LockToken>,
}

/// One failed token of a `Settle`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettleFailure {
    /// Its position in the command's list.
    pub index: usize,
    /// Why.
    pub refusal: Refusal,
}

impl SettleFailure {
    /// All of so many tokens failed for the same reason.
    pub(crate) fn all(count: usize, refusal: &Refusal) -> Vec<Self> {
        (0..count).map(|index| Self { index, refusal: refusal.clone() }).collect()
    }
}
