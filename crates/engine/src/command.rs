//! What a partition can be asked to do; `descriptor` is what has to be known of each command.

mod descriptor;

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

pub(crate) use self::descriptor::{AnswerKind, Descriptor, Link, Uses, Writes};
use crate::{
    DeadLetter, EntityOptions, Listing, LockToken, NewMessage, Properties, QueueId, QueuePath, ReceiveMode,
    ReceiverId, Rule, SequenceNumber, SubscriptionOptions, Timestamp,
};

/// Contents that [`Command::ReceiveDeferred`] gives out at once, in bytes; a single message has no limit but its own. The answer is
/// all or nothing, so it has to fit into memory.
pub const RECEIVE_DEFERRED_BYTES_MAX: usize = 64 << 20;

/// Messages that one [`Command::DeleteMessages`] deletes at most: as many as one of Service Bus's premium tier
/// (azure-docs 127665).
pub const DELETE_COUNT_MAX: u32 = 4000;

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
    /// Opens a receiver without credit; answers [`crate::Reply::Opened`]. The answer to a request for the next available
    /// session may take until [`SessionRequest::wait_until`]; closing the receiver calls it off.
    OpenReceiver {
        /// Its id, never used before.
        receiver: ReceiverId,
        /// What it reads and how.
        options: ReceiverOptions,
        /// The session it wants; required in an entity with sessions (but for its dead letters), refused elsewhere.
        session: Option<SessionRequest>,
    },
    /// Tells of a link that receives nothing (it sends, or asks questions), so that it can be told when what it is
    /// attached to is deleted, or takes no messages any more: [`crate::Effect::ReceiverClosed`]. Closed like a receiver;
    /// counts as no activity.
    Watch {
        /// Its id, never used before.
        watcher: ReceiverId,
        /// What it is attached to.
        queue: QueueId,
        /// Whether it sends messages.
        sends: bool,
    },
    /// Makes a receiver, open and without credit yet, one with a selector: it gets the messages that match, and others stay.
    /// A partition knows no bodies: it asks by [`crate::Effect::Examine`]. A receiver that can't have a selector, because it
    /// holds a session, is closed ([`crate::Effect::ReceiverClosed`]).
    Select {
        /// Which.
        receiver: ReceiverId,
    },
    /// Says which of the messages of the last [`crate::Effect::Examine`] match.
    Examined {
        /// Whose receiver.
        receiver: ReceiverId,
        /// Those that match; numbers of others mean nothing.
        matching: Vec<SequenceNumber>,
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
    /// Closes a receiver. Locks it took stay until they expire or are settled; but with the receiver of a session its
    /// lock ends, and what was in flight returns without a failure counted.
    CloseReceiver {
        /// Which.
        receiver: ReceiverId,
    },
    /// Ends locks; answers [`crate::Reply::Settled`], each token on its own.
    Settle {
        /// Where they were taken; a token of another queue is as good as lost.
        queue: QueueId,
        /// Which locks.
        tokens: SmallVec<[LockToken; 1]>,
        /// How.
        settlement: Settlement,
    },
    /// Prolongs locks from now, all or none; answers [`crate::Reply::Renewed`].
    RenewLocks {
        /// Where they were taken.
        queue: QueueId,
        /// Which.
        tokens: Vec<LockToken>,
    },
    /// Takes deferred messages by number, all or none; answers [`crate::Reply::Received`].
    ReceiveDeferred {
        /// Which.
        numbers: Vec<SequenceNumber>,
        /// From where.
        source: QueuePath,
        /// Locked or removed.
        mode: ReceiveMode,
        /// The receiver on whose behalf: in an entity with sessions it must hold the session of the messages.
        receiver: Option<ReceiverId>,
        /// Bytes of content for which there is memory; more is refused, unless it is a single message.
        bytes_max: usize,
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
        source: QueuePath,
        /// Only messages of this session.
        session: Option<Box<str>>,
    },
    /// Deletes messages that a receiver could get now, those with the lowest numbers first, without delivering them: what is
    /// locked, deferred or scheduled stays. Answers [`crate::Reply::Deleted`].
    DeleteMessages {
        /// Which queue.
        source: QueuePath,
        /// At most this many: 1 to [`DELETE_COUNT_MAX`].
        count_max: u32,
        /// Only those enqueued at this time or before.
        enqueued_until: Timestamp,
        /// Only those of the session that this receiver holds. Without it, those of all sessions that nobody holds, where
        /// there are sessions. Refused where there are none, and for dead letters.
        receiver: Option<ReceiverId>,
    },
    /// Lists receivers, locks or sessions for administrators; answers [`crate::Reply::Listed`].
    List {
        /// Of which queue.
        source: QueuePath,
        /// What.
        listing: Listing,
        /// At most so many rows.
        top: usize,
    },
    /// Does what an administrator wants with messages, by number, all or none; answers [`crate::Reply::Done`]. None of them may
    /// be locked. They may be of sessions, also of those that a receiver holds.
    ActOnMessages {
        /// Which queue; of a topic itself, what is scheduled on it.
        source: QueuePath,
        /// Which.
        numbers: Vec<SequenceNumber>,
        /// What.
        action: MessageAction,
    },
    /// Prolongs a session's lock from now; answers [`crate::Reply::SessionRenewed`].
    RenewSessionLock {
        /// Who holds it.
        receiver: ReceiverId,
    },
    /// Reads a session's state; answers [`crate::Reply::SessionState`].
    GetSessionState {
        /// Who holds the session.
        receiver: ReceiverId,
    },
    /// Stores a session's state; answers [`crate::Reply::Done`].
    SetSessionState {
        /// Who holds the session.
        receiver: ReceiverId,
        /// The state; `None` clears it.
        state: Option<Bytes>,
    },
    /// Lists sessions by id; answers [`crate::Reply::Sessions`].
    ListSessions {
        /// Of which entity.
        queue: QueueId,
        /// Only those whose state changed after this instant; `None` for all with active messages or a state.
        updated_after: Option<Timestamp>,
        /// So many are left out at the beginning.
        skip: u32,
        /// At most this many.
        top: u32,
    },
    /// Creates a subscription of a topic, or changes the options of an existing one (rules stay as they are then);
    /// answers [`crate::Reply::Done`].
    DeclareSubscription {
        /// What is expected to be there.
        intent: Intent,
        /// Its id, never used before; the id it has when it is known to exist. One that exists under another id is
        /// found by its name.
        queue: QueueId,
        /// Its name, already checked; unique in the topic without regard to case.
        name: Box<str>,
        /// Its options.
        options: SubscriptionOptions,
        /// Its first rules, with distinct names; without any it gets no message.
        /// [`Rule::default_rule`] is what a subscription has about which nothing is said.
        rules: Vec<Rule>,
    },
    /// Deletes a subscription with all that rests in it; answers [`crate::Reply::Done`].
    DeleteSubscription {
        /// Which.
        queue: QueueId,
    },
    /// Adds a rule to a subscription; answers [`crate::Reply::Done`].
    AddRule {
        /// Which subscription.
        queue: QueueId,
        /// The rule, its name already checked. Its time of creation is set by the partition.
        rule: Rule,
    },
    /// Replaces filter and action of a rule in one step: each message sees the old rule or the new one. Answers
    /// [`crate::Reply::Done`].
    ReplaceRule {
        /// Which subscription.
        queue: QueueId,
        /// The rule as it is to be; found by its name, and its spelling and time of creation stay.
        rule: Rule,
    },
    /// Removes a rule of a subscription; answers [`crate::Reply::Done`].
    RemoveRule {
        /// Which subscription.
        queue: QueueId,
        /// Its name; case does not matter.
        name: Box<str>,
    },
    /// Lists the rules of a subscription, `$Default` first, then by name; answers [`crate::Reply::Rules`].
    ListRules {
        /// Which subscription.
        queue: QueueId,
        /// So many are left out at the beginning.
        skip: u32,
        /// At most this many.
        top: u32,
    },
    /// Asks whether a command could be carried out now; answers [`crate::Reply::Provisional`]. It may be a `Send`, `Settle`,
    /// `CancelScheduled` or `SetSessionState`: what a transaction may consist of. Nothing changes but the entity's next number:
    /// each scheduled message of a `Send` gets a number of its own, to be given back in
    /// [`NewMessage::reserved_number`].
    Provisional(Box<Self>),
    /// Stores messages in the transfer dead-letter queue, all or none, because the entity to which they were to go by way of
    /// this one does not take them; answers [`crate::Reply::Sent`].
    KeepUndelivered {
        /// Which.
        messages: SmallVec<[NewMessage; 1]>,
        /// Why.
        why: Arc<DeadLetter>,
    },
    /// Takes a message out of delivery whose stored content can't be read. It stays in the store; the receiver to which it
    /// was assigned gets its credit back. Nothing happens when somebody else has locked it meanwhile.
    Quarantine {
        /// The queue or subscription.
        queue: QueueId,
        /// Which message.
        number: SequenceNumber,
        /// How it was assigned.
        assigned: Assigned,
        /// The receiver to which it was assigned, and the bytes of content counted against its credit.
        receiver: Option<(ReceiverId, u64)>,
    },
    /// Changes the options of the queue or topic; answers [`crate::Reply::Done`]. The catalogue of the shard has checked and
    /// stored them before: its record is the only one, a partition reads none, and one that is read back from the store begins
    /// with what the catalogue has.
    ChangeOptions {
        /// All of them, as they are from now on.
        options: Arc<EntityOptions>,
    },
    /// Ends the entity with everything in it: attached links are closed, and every later command is refused.
    /// Answers [`crate::Reply::Done`]; [`crate::Effect::Ended`] comes before.
    EndEntity,
    /// Lets due timers fire; carries no request of its own.
    Tick,
}

/// What an administrator does with a message, see [`Command::ActOnMessages`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageAction {
    /// Deletes it, whatever its state.
    Delete,
    /// Makes a deferred message available again, at its place in the order; its delivery count stays.
    Undefer,
    /// Moves an active or deferred message to the dead-letter queue.
    DeadLetter(Arc<DeadLetter>),
}

/// How a message was assigned to the receiver that would have got it, see [`Command::Quarantine`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assigned {
    /// Locked.
    Locked(LockToken),
    /// Not at all: it was browsed.
    Shown,
}

/// What whoever declares something expects to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Intent {
    /// Whatever is: afterwards it is as declared.
    #[default]
    Declare,
    /// Nothing of this name: otherwise it is refused.
    Create,
    /// Something of this name: otherwise it is refused.
    Update,
}

/// What a receiver reads and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiverOptions {
    /// Which queue.
    pub source: QueuePath,
    /// Locked or removed.
    pub mode: ReceiveMode,
}

/// Which session a receiver wants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionRequest {
    /// By id (the empty string is one), or the next available.
    pub id: Option<Box<str>>,
    /// How long to wait for an available one; a session asked for by id is granted or refused at once.
    pub wait_until: Timestamp,
    /// Whether others may take it over.
    pub lock: SessionLock,
}

/// Who may have a session while it is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionLock {
    /// Its holder only.
    #[default]
    Exclusive,
    /// Whoever presents the token that its holder gets: [`crate::AcceptedSession::token`].
    NonExclusive,
    /// The same, and it is taken over from whoever holds it under this token. The token stays.
    TakeOver(LockToken),
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
    /// Failed, and no receiver gets the message before a time: an extension of Peeklock. A deferred one goes back to the
    /// deferred, which are received by their numbers at any time.
    Postpone {
        /// Properties to change.
        modify: Properties,
        /// From when on it may be delivered again.
        until: Timestamp,
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
