//! The possible steps.

use peeklock_engine::{EntityStatus, ReceiveMode, SubQueue};
use peeklock_storage::local::{Call, Event};

use super::forwarding::network::Node;

/// Number of session ids, and of labels of messages to a topic.
pub(super) const FLAVOURS: usize = 3;

/// Where messages are sent to or received from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Queue(usize),
    Topic,
    Subscription(usize),
    Sessions,
    Temporary,
}

/// One step of a history.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Send {
        to: Place,
        flavours: Vec<usize>,
        delay_ms: Option<u64>,
    },
    Receive {
        from: Place,
        sub_queue: SubQueue,
        mode: ReceiveMode,
        credit: u64,
    },
    CloseReceivers,
    /// Deletes messages without receiving them.
    Delete {
        from: Place,
        count: u32,
    },
    Settle {
        which: usize,
        how: How,
    },
    TakeDeferred {
        which: usize,
        mode: ReceiveMode,
    },
    Advance {
        duration_ms: u64,
    },
    /// `batches` batches become durable; one of them may be refused.
    Commit {
        batches: usize,
        refused: Option<usize>,
    },
    Read,
    FullOnce,
    /// `seed` determines what the disk loses.
    Crash {
        seed: u64,
    },
    Disk(DiskStep),
    /// The wall clock is wrong for a while.
    Disturb {
        off_ms: i64,
        for_ms: u64,
    },
    /// A crash, and a restart with a wall clock that is behind until it is corrected.
    CrashBehind {
        behind_ms: u64,
    },
    Topic(TopicStep),
    Session(SessionStep),
    /// One of the queues is updated.
    ChangeOptions {
        queue: usize,
        options: NewOptions,
    },
    DeclareTemporary,
    DeleteTemporary,
    Forward(ForwardStep),
    /// A transaction that sends one message to each of these queues, scheduled or not, and settles up to so many others.
    Transact {
        to: Vec<Place>,
        delay_ms: Option<u64>,
        settles: Vec<How>,
    },
    /// An administrator acts on messages that may be there.
    Act {
        from: Place,
        sub_queue: SubQueue,
        picks: Vec<usize>,
        act: Act,
    },
    /// An administrator makes a deferred message available.
    Undefer {
        which: usize,
    },
}

/// Events of the log and its disk, if the store is the log.
#[derive(Debug, Clone, Copy)]
pub(super) enum DiskStep {
    /// A round of the keeper.
    Keep,
    /// No batch is submitted for a while.
    Idle,
    Clean {
        is_eager: bool,
    },
    /// After `pass` more calls of the file system (of one kind, if `Some`), the event happens.
    Plan {
        call: Option<Call>,
        pass: u64,
        event: Event,
    },
    /// The next so many reads fail with this `errno`.
    FailReads(u64, i32),
    /// A byte of a stored body changes, in a segment that is only read: which message, and which byte.
    Rot(usize, usize),
    /// The same, of the stored attributes of a message.
    RotHead(usize, usize),
}

/// Steps in the network of forwarding entities.
#[derive(Debug, Clone)]
pub(super) enum ForwardStep {
    Send {
        to: Node,
        ids: Vec<usize>,
        delay_ms: Option<u64>,
        ttl_ms: Option<u64>,
    },
    Receive {
        from: Node,
        dead: bool,
        credit: u64,
    },
    Settle {
        which: usize,
        how: How,
    },
    CloseReceivers,
    Loose {
        to: Option<Node>,
        dead_letters_go: bool,
    },
    /// Declares the subscription, or deletes it.
    Turns {
        there: bool,
        to: Option<Node>,
    },
    Sink {
        takes: bool,
    },
    Ghost {
        there: bool,
    },
}

/// New options of a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewOptions {
    pub(super) lock_ms: u64,
    pub(super) max_delivery_count: u32,
    pub(super) life_ms: Option<u64>,
    pub(super) status: EntityStatus,
}

/// Actions of an administrator on stored messages.
#[derive(Debug, Clone, Copy)]
pub(super) enum Act {
    Delete,
    DeadLetter,
    /// Deletes them, and sends as many to this queue.
    Move(usize),
}

/// How a lock is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Complete,
    Abandon,
    /// Abandoned, and unavailable for a while.
    Postpone,
    Defer,
    DeadLetter,
    Release,
}

/// A request about one of the subscriptions by name.
#[derive(Debug, Clone, Copy)]
pub(super) enum TopicStep {
    Declare { name: usize },
    Delete { name: usize },
    AddRule { name: usize, rule: usize },
    RemoveRule { name: usize, rule: usize },
    ListRules { name: usize },
}

/// Requests for a session, or by the receiver that holds one.
#[derive(Debug, Clone, Copy)]
pub(super) enum SessionStep {
    Accept { id: Option<usize>, wait_ms: u64, credit: u64 },
    Close { which: usize },
    Renew { which: usize },
    SetState { which: usize, clear: bool },
    GetState { which: usize },
}

/// A part of the namespace that a history covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Area {
    Queues,
    Topic,
    Sessions,
    Temporary,
    Forwarding,
    Transactions,
}
