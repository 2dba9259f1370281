//! The commands of a partition; `descriptor` has the static properties of each command.

mod descriptor;

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

pub(crate) use self::descriptor::{AnswerKind, Descriptor, Link, Uses, Writes};
use crate::{
    DeadLetter, EntityOptions, Listing, LockToken, NewMessage, Properties, QueueId, QueuePath, ReceiveMode,
    ReceiverId, Rule, SequenceNumber, SubscriptionOptions, Timestamp,
};

/// Maximum bytes of bodies in one answer to [`Command::ReceiveDeferred`]; a single message may be larger. The answer is all or
/// nothing, so it must fit into memory.
pub const RECEIVE_DEFERRED_BYTES_MAX: usize = 64 << 20;

/// Maximum number of messages deleted by one [`Command::DeleteMessages`]: the limit of Service Bus's premium tier (azure-docs
/// 127665).
pub const DELETE_COUNT_MAX: u32 = 4000;

/// A request to a partition. Each variant names its reply; without a request id there is no reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Stores messages, all or none; answers [`crate::Reply::Sent`] with their numbers. Messages scheduled for the future get
    /// a temporary number, by which they can be cancelled.
    Send {
        /// The messages; one for a single send, several for a batch.
        messages: SmallVec<[NewMessage; 1]>,
    },
    /// Stores messages like a `Send` for each, but costs less: one that is refused leaves the others. Answers
    /// [`crate::Reply::SentEach`]. Meant for queues: the copies of a topic's messages would count as those of one command.
    SendEach {
        /// The messages.
        messages: Vec<NewMessage>,
    },
    /// Deletes scheduled messages, all or none; answers [`crate::Reply::Done`].
    CancelScheduled {
        /// The messages.
        numbers: Vec<SequenceNumber>,
    },
    /// Opens a receiver without credit; answers [`crate::Reply::Opened`]. A request for the next available session may be
    /// answered as late as [`SessionRequest::wait_until`]; closing the receiver cancels it.
    OpenReceiver {
        /// Its id, never used before.
        receiver: ReceiverId,
        /// Its source and mode.
        options: ReceiverOptions,
        /// The requested session; required in an entity with sessions (but not for its dead letters), refused elsewhere.
        session: Option<SessionRequest>,
    },
    /// Registers a link that receives nothing (a sender, or a management link), so that it is notified by
    /// [`crate::Effect::ReceiverClosed`] when its entity is deleted or accepts no messages any more. Closed like a receiver;
    /// does not count as use.
    Watch {
        /// Its id, never used before.
        watcher: ReceiverId,
        /// The entity or subscription it is attached to.
        queue: QueueId,
        /// Whether it sends messages.
        sends: bool,
    },
    /// Gives a receiver, which must be open and still without credit, a selector: it receives matching messages, others stay
    /// in the queue. A partition does not know bodies, so it asks by [`crate::Effect::Examine`]. A receiver that can't have a
    /// selector, because it holds a session, is closed ([`crate::Effect::ReceiverClosed`]).
    Select {
        /// The receiver.
        receiver: ReceiverId,
    },
    /// Reports which of the messages in the last [`crate::Effect::Examine`] match.
    Examined {
        /// The receiver.
        receiver: ReceiverId,
        /// The matching ones; other numbers are ignored.
        matching: Vec<SequenceNumber>,
    },
    /// Sets a receiver's credit; ignored if it is not open. With `drain`, available messages are delivered at once, followed
    /// by one [`crate::Effect::Drained`] when none are left or the credit is used up, in messages or bytes. A later `Credit`
    /// ends a drain that is not complete, which is answered then: each drain of an open receiver is answered once.
    Credit {
        /// The receiver.
        receiver: ReceiverId,
        /// The limits, counted since it was opened.
        limit: CreditLimit,
        /// Whether unused credit is returned at once.
        drain: bool,
    },
    /// Closes a receiver. Its message locks stay until they expire or are settled; but the lock of its session ends, and the
    /// session's locked messages are returned without a failed delivery.
    CloseReceiver {
        /// The receiver or watcher.
        receiver: ReceiverId,
    },
    /// Ends locks; answers [`crate::Reply::Settled`]. Each token is settled independently.
    Settle {
        /// The queue of the messages; a token of another queue counts as lost.
        queue: QueueId,
        /// The locks.
        tokens: SmallVec<[LockToken; 1]>,
        /// The settlement.
        settlement: Settlement,
    },
    /// Renews locks from now on, all or none; answers [`crate::Reply::Renewed`].
    RenewLocks {
        /// The queue of the messages.
        queue: QueueId,
        /// The locks.
        tokens: Vec<LockToken>,
    },
    /// Receives deferred messages by number, all or none; answers [`crate::Reply::Received`].
    ReceiveDeferred {
        /// The numbers.
        numbers: Vec<SequenceNumber>,
        /// The queue.
        source: QueuePath,
        /// Whether they are locked or deleted.
        mode: ReceiveMode,
        /// The receiver making the request: in an entity with sessions it must hold the session of the messages.
        receiver: Option<ReceiverId>,
        /// Memory available for bodies, in bytes; larger answers are refused, unless they have a single message.
        bytes_max: usize,
    },
    /// Browses without locking; answers [`crate::Reply::Received`], possibly empty.
    Peek {
        /// The first number.
        from: SequenceNumber,
        /// Maximum number of messages.
        count_max: u32,
        /// Approximate maximum bytes of bodies; the first message is returned whatever its size.
        bytes_max: usize,
        /// The queue.
        source: QueuePath,
        /// Only messages of this session.
        session: Option<Box<str>>,
    },
    /// Deletes available messages, lowest numbers first, without delivering them; locked, deferred and scheduled ones stay.
    /// Answers [`crate::Reply::Deleted`].
    DeleteMessages {
        /// The queue.
        source: QueuePath,
        /// Maximum number of messages: 1 to [`DELETE_COUNT_MAX`].
        count_max: u32,
        /// Only messages enqueued at this time or before.
        enqueued_until: Timestamp,
        /// Only messages of the session that this receiver holds; refused without sessions, and for dead letters. `None` in a
        /// queue with sessions: messages of all sessions without a holder.
        receiver: Option<ReceiverId>,
    },
    /// Lists receivers, locks or sessions for administrators; answers [`crate::Reply::Listed`].
    List {
        /// The queue.
        source: QueuePath,
        /// The kind of list and the page.
        listing: Listing,
        /// Maximum number of rows.
        top: usize,
    },
    /// Applies an administrator's action to messages, by number, all or none; answers [`crate::Reply::Done`]. None of them may
    /// be locked. Messages of sessions are allowed, even if a receiver holds the session.
    ActOnMessages {
        /// The queue; for a topic itself, the messages scheduled on it, or its transfer dead letters.
        source: QueuePath,
        /// The messages.
        numbers: Vec<SequenceNumber>,
        /// The action.
        action: MessageAction,
    },
    /// Renews a session's lock from now on; answers [`crate::Reply::SessionRenewed`].
    RenewSessionLock {
        /// The holder.
        receiver: ReceiverId,
    },
    /// Reads a session's state; answers [`crate::Reply::SessionState`].
    GetSessionState {
        /// The holder of the session.
        receiver: ReceiverId,
    },
    /// Stores a session's state; answers [`crate::Reply::Done`].
    SetSessionState {
        /// The holder of the session.
        receiver: ReceiverId,
        /// The state; `None` clears it.
        state: Option<Bytes>,
    },
    /// Lists sessions by id; answers [`crate::Reply::Sessions`].
    ListSessions {
        /// The queue or subscription.
        queue: QueueId,
        /// Only those whose state changed at this time or later; `None` for all with active messages or a state.
        updated_since: Option<Timestamp>,
        /// Number of sessions to skip.
        skip: u32,
        /// Maximum number of sessions.
        top: u32,
    },
    /// Creates a subscription of a topic, or changes the options of an existing one, whose rules stay unchanged; answers
    /// [`crate::Reply::Done`].
    DeclareSubscription {
        /// The expected present state.
        intent: Intent,
        /// Its id: new, or that of the existing subscription if known. An existing subscription with another id is found by
        /// its name.
        queue: QueueId,
        /// Its name, already checked; unique in the topic case-insensitively.
        name: Box<str>,
        /// Its options.
        options: SubscriptionOptions,
        /// Its initial rules, with distinct names; without rules it receives no messages. By default this is
        /// [`Rule::default_rule`].
        rules: Vec<Rule>,
    },
    /// Deletes a subscription with all its messages; answers [`crate::Reply::Done`].
    DeleteSubscription {
        /// The subscription.
        queue: QueueId,
    },
    /// Adds a rule to a subscription; answers [`crate::Reply::Done`].
    AddRule {
        /// The subscription.
        queue: QueueId,
        /// The rule, its name already checked. Its time of creation is set by the partition.
        rule: Rule,
    },
    /// Replaces filter and action of a rule atomically: each message is matched against the old rule or the new one. Answers
    /// [`crate::Reply::Done`].
    ReplaceRule {
        /// The subscription.
        queue: QueueId,
        /// The new rule; found by its name, whose spelling stays, as does the time of creation.
        rule: Rule,
    },
    /// Removes a rule of a subscription; answers [`crate::Reply::Done`].
    RemoveRule {
        /// The subscription.
        queue: QueueId,
        /// Its name; case-insensitive.
        name: Box<str>,
    },
    /// Lists the rules of a subscription, `$Default` first, then by name; answers [`crate::Reply::Rules`].
    ListRules {
        /// The subscription.
        queue: QueueId,
        /// Number of rules to skip.
        skip: u32,
        /// Maximum number of rules.
        top: u32,
    },
    /// Asks whether a command could be carried out now; answers [`crate::Reply::Provisional`]. Allowed are the commands of
    /// transactions: `Send`, `Settle`, `CancelScheduled` and `SetSessionState`. Nothing changes except the entity's next
    /// number: each scheduled message of a `Send` reserves a number, to be passed in [`NewMessage::reserved_number`].
    Provisional(Box<Self>),
    /// Stores messages in the transfer dead-letter queue, all or none, because their destination refused them; they were sent
    /// via this entity. Answers [`crate::Reply::Sent`].
    KeepUndelivered {
        /// The messages.
        messages: SmallVec<[NewMessage; 1]>,
        /// The reason.
        why: Arc<DeadLetter>,
    },
    /// Takes a message whose stored body can't be read out of delivery. It stays in the store; the receiver gets its credit
    /// back. Ignored if another receiver has locked the message meanwhile.
    Quarantine {
        /// The queue or subscription.
        queue: QueueId,
        /// The message.
        number: SequenceNumber,
        /// How it was assigned.
        assigned: Assigned,
        /// The receiver to which it was assigned, and the body's bytes counted against its credit.
        receiver: Option<(ReceiverId, u64)>,
    },
    /// Changes the options of the queue or topic; answers [`crate::Reply::Done`]. The catalogue of the shard has checked and
    /// stored them before. The catalogue's record is the only one: a partition that is restored gets its options from the
    /// catalogue.
    ChangeOptions {
        /// The new options, complete.
        options: Arc<EntityOptions>,
    },
    /// Ends the entity with everything in it: attached links are closed, and every later command is refused. Answers
    /// [`crate::Reply::Done`], after [`crate::Effect::Ended`].
    EndEntity,
    /// Fires due timers; does nothing else.
    Tick,
}

/// An administrator's action on a message, see [`Command::ActOnMessages`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageAction {
    /// Deletes it, whatever its state.
    Delete,
    /// Makes a deferred message available again, at its position in the order; its delivery count stays.
    Undefer,
    /// Moves an active or deferred message to the dead-letter queue.
    DeadLetter(Arc<DeadLetter>),
}

/// How a message was assigned to its reader, see [`Command::Quarantine`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assigned {
    /// Locked.
    Locked(LockToken),
    /// Not locked: it was browsed.
    Shown,
}

/// The present state that a declaration expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Intent {
    /// Any: the entity is created or updated.
    #[default]
    Declare,
    /// Does not exist; refused otherwise.
    Create,
    /// Exists; refused otherwise.
    Update,
}

/// The source and the mode of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiverOptions {
    /// The queue.
    pub source: QueuePath,
    /// How messages are received.
    pub mode: ReceiveMode,
}

/// The session requested by a receiver.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionRequest {
    /// The id (may be the empty string), or `None` for the next available session.
    pub id: Option<Box<str>>,
    /// How long to wait for an available session; a session requested by id is granted or refused at once.
    pub wait_until: Timestamp,
    /// Whether the session can be taken over.
    pub lock: SessionLock,
}

/// Exclusiveness of a session lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionLock {
    /// Only its holder can use the session.
    #[default]
    Exclusive,
    /// A receiver that presents the holder's token can take it over: [`crate::AcceptedSession::token`].
    NonExclusive,
    /// The same; in addition, the session is taken over from the holder with this token, which stays the same.
    TakeOver(LockToken),
}

/// A receiver's credit, counted since it was opened: cumulative, so that a change can't race with deliveries under way.
/// Deliveries continue while both counts are below their limits. Only message credit makes the receiver an active listener,
/// for which messages expire (S-3): the byte limit only delays deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CreditLimit {
    /// Total number of messages.
    pub messages: u64,
    /// Total bytes of bodies; the message that exceeds the limit is still delivered.
    pub bytes: u64,
}

/// The settlement of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// Processed: the message is deleted.
    Complete,
    /// Failed: back to the queue (a deferred message stays deferred), delivery count + 1.
    Abandon {
        /// Properties to change.
        modify: Properties,
    },
    /// Failed, and not delivered again before a point in time: an extension of Peeklock. A deferred message stays deferred and
    /// can be received by its number at any time.
    Postpone {
        /// Properties to change.
        modify: Properties,
        /// When it may be delivered again.
        until: Timestamp,
    },
    /// Deferred, delivery count + 1.
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
    /// Released: delivery count unchanged.
    Release,
}
