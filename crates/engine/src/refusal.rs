//! Refusals of commands.

/// The reason why a command was refused. The front ends map each to a condition and a status in one table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The lock has ended, or the message was removed, or the token never existed.
    #[error(
        "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue."
    )]
    MessageLockLost,
    /// No message with that sequence number is in a state that allows the operation.
    #[error(
        "The message with sequence number {0} could not be found, or is not in a state that allows this."
    )]
    MessageNotFound(u64),
    /// No scheduled message with that sequence number can be cancelled. The words are those of Service Bus (azure-service-bus
    /// 239, MassTransit 926).
    #[error("Messages not found. Missing sequence numbers: {0}")]
    ScheduledNotFound(u64),
    /// No deferred message with that sequence number can be received. The words are those of Service Bus (azure-service-bus 415,
    /// azure-sdk-for-python 25698), by which scripts recognize the error; the number is added.
    #[error(
        "Failed to lock one or more specified messages. Either the message is already locked or does not exist. Sequence number: {0}"
    )]
    DeferredNotFound(u64),
    /// A dead-lettered message can't be dead-lettered again.
    #[error("A message in a dead-letter queue can't be dead-lettered again.")]
    AlreadyDeadLettered,
    /// The message exceeds the entity's limit.
    #[error("The message of {size_bytes} bytes exceeds the limit of {limit_bytes} bytes of this entity.")]
    MessageTooLarge {
        /// Encoded size.
        size_bytes: u64,
        /// The entity's limit.
        limit_bytes: u64,
    },
    /// All properties of the message together exceed the header's limit.
    #[error("The properties of the message take {size_bytes} bytes; at most {limit_bytes} are accepted.")]
    HeaderTooLarge {
        /// Size of everything but the body.
        size_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// The entity reached its size quota. The words are those of Service Bus (azure-service-bus 683, 199).
    #[error(
        "The maximum entity size has been reached or exceeded. Max entity size in bytes: {limit_bytes}. Receive or purge messages to make room. QuotaType: EntitySize"
    )]
    EntityFull {
        /// The quota.
        limit_bytes: u64,
    },
    /// The disk is full.
    #[error("The broker's storage is full; messages are accepted again as soon as there is room.")]
    StorageFull,
    /// The store can't be written at present, for another reason than lack of room; nothing has happened.
    #[error(
        "The broker's storage can't be written at present; retry the operation. The broker's log names the cause."
    )]
    StorageFailing,
    /// The broker's state takes up all the memory for it.
    #[error(
        "The broker has no memory left for more messages; receive or purge messages to make room, or give the broker more memory."
    )]
    StateFull,
    /// The session's lock has ended, or the requester never held it.
    #[error("The session lock has expired on the MessageSession. Accept a new MessageSession.")]
    SessionLockLost,
    /// Another receiver holds the session.
    #[error("The requested session '{0}' cannot be accepted. It may be locked by another receiver.")]
    SessionCannotBeLocked(Box<str>),
    /// No session was available in time.
    #[error("There was no available session before the operation timed out; try again later.")]
    NoSessionAvailable,
    /// The entity requires sessions, but the receiver requested none.
    #[error(
        "It is not possible for an entity that requires sessions to create a non-sessionful message receiver."
    )]
    SessionRequired,
    /// The entity does not use sessions, but the receiver requested one.
    #[error(
        "A sessionful message receiver cannot be created on an entity that does not require sessions. Ensure RequiresSession is set to true when creating a Queue or Subscription to enable sessionful behavior."
    )]
    SessionNotSupported,
    /// A message without session id was sent to a queue that requires sessions.
    #[error(
        "The SessionId was not set on a message, and it cannot be sent to the entity. Entities that have session support enabled can only receive messages that have the SessionId set to a valid value."
    )]
    SessionIdMissing,
    /// The topic has a subscription of that name already.
    #[error("The messaging entity '{0}' already exists.")]
    SubscriptionExists(Box<str>),
    /// The subscription has a rule of that name already.
    #[error("The messaging entity '{0}' already exists.")]
    RuleExists(Box<str>),
    /// The subscription has no rule of that name.
    #[error("The messaging entity '{0}' could not be found: the subscription has no rule of that name.")]
    RuleNotFound(Box<str>),
    /// The number of queues and topics is at its limit.
    #[error("A namespace has at most {0} queues and topics together; delete one to make room.")]
    TooManyEntities(usize),
    /// The topic's number of subscriptions is at its limit.
    #[error("A topic has at most {0} subscriptions; delete one to make room.")]
    TooManySubscriptions(usize),
    /// The number of SQL filters of the topic's subscriptions is at its limit.
    #[error("The subscriptions of a topic have at most {0} SQL filters together; delete rules to make room.")]
    TooManySqlFilters(usize),
    /// The number of correlation filters of the topic's subscriptions is at its limit.
    #[error(
        "The subscriptions of a topic have at most {0} correlation filters together; delete rules to make room."
    )]
    TooManyCorrelationFilters(usize),
    /// The operation is not possible for this kind or state of entity, message or receiver.
    #[error("{0}")]
    NotAllowed(&'static str),
    /// The receiver is not open.
    #[error("The receiver is not open.")]
    ReceiverNotFound,
    /// The request is invalid (empty list, value out of range).
    #[error("{0}")]
    InvalidArgument(String),
    /// The partition was restarted or the broker is stopping; retry.
    #[error("The entity is temporarily unavailable; retry the operation.")]
    Unavailable,
    /// The message's stored data is damaged: it is out of delivery, and a retry does not help.
    #[error(
        "The stored data of the message with sequence number {0} is damaged. The message is kept in quarantine and is not delivered; the broker's log and /health/ready name the damaged place."
    )]
    MessageDamaged(u64),
    /// The entity's stored state is damaged.
    #[error(
        "The messaging entity '{0}' is not available, because its stored data is damaged; the broker's log and /health/ready name the damaged place."
    )]
    EntityDamaged(Box<str>),
    /// The broker's memory for messages under way is used up.
    #[error("The broker has no memory left for this operation; retry it in a while.")]
    MemoryShort,
    /// The entity's status does not allow it.
    #[error(
        "The messaging entity of this operation is currently disabled for it; its status must change first."
    )]
    EntityDisabled,
    /// The entity was deleted. (The Java SDK parses the words before "could not be found" by a pattern.)
    #[error("The messaging entity of this operation could not be found; it was deleted.")]
    EntityDeleted,
}
