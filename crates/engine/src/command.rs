//! What a partition can be asked to do.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{
    DeadLetter, LockToken, NewMessage, Properties, ReceiveMode, ReceiverId, SequenceNumber, SubQueue,
};

/// A request to a partition. Each says which reply it causes; whoever does not wait gives no request id.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Stores messages, all or none; answers [`crate::Reply::Sent`] with their numbers. Those scheduled for the
    /// future get a temporary number under which they can be cancelled.
    Send {
        /// What; one for a single send, several for a batch.
        messages: SmallVec<[NewMessage; 1]>,
    },
    /// Deletes scheduled messages, all or none; answers [`crate::Reply::Done`].
    CancelScheduled {
        /// Which.
        numbers: Vec<SequenceNumber>,
    },
    /// Opens a receiver without credit; answers [`crate::Reply::Done`].
    OpenReceiver {
        /// Its id, never used before.
        receiver: ReceiverId,
        /// What it reads and how.
        options: ReceiverOptions,
    },
    /// Sets how far a receiver may be served; ignored if it is not open. With `drain`, what is available is delivered
    /// at once, then one [`crate::Effect::Drained`] follows: when nothing is left or the message credit is used up. A
    /// drain held up by the byte limit goes on when that is raised, and a later `drain: false` calls it off.
    Credit {
        /// Which.
        receiver: ReceiverId,
        /// Up to where, counted since it was opened.
        limit: CreditLimit,
        /// Whether unused credit is given back at once.
        drain: bool,
    },
    /// Closes a receiver. Locks it took stay until they expire or are settled.
    CloseReceiver {
        /// Which.
        receiver: ReceiverId,
    },
    /// Ends locks; answers [`crate::Reply::Settled`], each token on its own.
    Settle {
        /// Which locks.
        tokens: SmallVec<[LockToken; 1]>,
        /// How.
        settlement: Settlement,
    },
    /// Prolongs locks from now, all or none; answers [`crate::Reply::Renewed`].
    RenewLocks {
        /// Which.
        tokens: Vec<LockToken>,
    },
    /// Takes deferred messages by number, all or none; answers [`crate::Reply::Received`].
    ReceiveDeferred {
        /// Which.
        numbers: Vec<SequenceNumber>,
        /// From where.
        sub_queue: SubQueue,
        /// Locked or removed.
        mode: ReceiveMode,
    },
    /// Browses without locking; answers [`crate::Reply::Received`], possibly empty.
    Peek {
        /// First number to show.
        from: SequenceNumber,
        /// At most this many.
        count_max: u32,
        /// At most about this many bytes of content; the first message is shown whatever its size.
        bytes_max: usize,
        /// Which queue.
        sub_queue: SubQueue,
    },
    /// Lets due timers fire; carries no wish of its own.
    Tick,
}

/// What a receiver reads and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiverOptions {
    /// Which queue.
    pub sub_queue: SubQueue,
    /// Locked or removed.
    pub mode: ReceiveMode,
}

/// How far a receiver may be served, counted since it was opened: cumulative, so that a change can't race with
/// deliveries under way. Delivery goes on while both counts are below their limits. Message credit alone makes the
/// receiver an active listener, for which messages expire (S-3): bytes only hold deliveries back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CreditLimit {
    /// Total number of messages.
    pub messages: u64,
    /// Total bytes of content; the message that crosses the limit is still delivered.
    pub bytes: u64,
}

/// How a lock ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// Processed: the message goes.
    Complete,
    /// Failed: back to the queue (a deferred one back to the deferred), delivery count + 1.
    Abandon {
        /// Properties to change.
        modify: Properties,
    },
    /// Set aside, delivery count + 1.
    Defer {
        /// Properties to change.
        modify: Properties,
    },
    /// Moved to the dead-letter queue.
    DeadLetter {
        /// Reason and description.
        why: Arc<DeadLetter>,
        /// Properties to change.
        modify: Properties,
    },
    /// Given back untouched: delivery count unchanged.
    Release,
}
