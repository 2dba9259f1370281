//! What a partition wants to happen outside. An effect leaves only when the batch it depends on is durable.

use crate::{Lock, MessageView, ReceiverId, Refusal, RequestId, SequenceNumber, Timestamp};

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
        /// The lock, in peek-lock mode.
        lock: Option<Lock>,
    },
    /// All that was available has been delivered; the rest of the credit is void.
    Drained {
        /// Who.
        receiver: ReceiverId,
    },
}

/// Answers, one kind for each kind of command.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// To `Send`: the numbers in order, or why nothing was stored.
    Sent(Result<smallvec::SmallVec<[SequenceNumber; 1]>, Refusal>),
    /// To `CancelScheduled` and `OpenReceiver`.
    Done(Result<(), Refusal>),
    /// To `Settle`: the tokens that failed; empty when all went well.
    Settled(Vec<SettleFailure>),
    /// To `RenewLocks`: the new ends in order.
    Renewed(Result<Vec<Timestamp>, Refusal>),
    /// To `ReceiveDeferred` and `Peek`.
    Received(Result<Vec<(MessageView, Option<Lock>)>, Refusal>),
}

/// One failed token of a `Settle`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettleFailure {
    /// Its position in the command's list.
    pub index: usize,
    /// Why.
    pub refusal: Refusal,
}
