//! The one table from what went wrong to what a client is told: AMQP condition, management status, text.

use peeklock_access::Denied;
use peeklock_engine::runtime::Response;
use peeklock_engine::{Refusal, Timestamp};
use peeklock_message::Unfit;

use super::clock_text;
use crate::wire::performative::Error;
use crate::wire::{Value, loggable};

/// Conditions that a client of the dialect meets, as symbols: AMQP's own and those of Service Bus.
#[allow(missing_docs)] // reason: each constant is the symbol it holds
pub mod condition {
    pub use crate::endpoint::condition::{
        DECODE_ERROR, INTERNAL_ERROR, INVALID_FIELD, MESSAGE_SIZE_EXCEEDED, NOT_ALLOWED, NOT_FOUND,
        NOT_IMPLEMENTED, RESOURCE_LIMIT_EXCEEDED, UNAUTHORIZED_ACCESS,
    };

    pub const ARGUMENT_ERROR: &str = "com.microsoft:argument-error";
    pub const ARGUMENT_OUT_OF_RANGE: &str = "com.microsoft:argument-out-of-range";
    pub const MESSAGE_LOCK_LOST: &str = "com.microsoft:message-lock-lost";
    pub const MESSAGE_NOT_FOUND: &str = "com.microsoft:message-not-found";
    pub const SESSION_LOCK_LOST: &str = "com.microsoft:session-lock-lost";
    pub const SESSION_NOT_FOUND: &str = "com.microsoft:session-not-found";
    pub const SESSION_CANNOT_BE_LOCKED: &str = "com.microsoft:session-cannot-be-locked";
    pub const TIMEOUT: &str = "com.microsoft:timeout";
    pub const ENTITY_ALREADY_EXISTS: &str = "com.microsoft:entity-already-exists";
    pub const ENTITY_DISABLED: &str = "com.microsoft:entity-disabled";
    pub const SERVER_BUSY: &str = "com.microsoft:server-busy";
    pub const TRANSACTION_UNKNOWN_ID: &str = "amqp:transaction:unknown-id";
    pub const TRANSACTION_ROLLBACK: &str = "amqp:transaction:rollback";
    pub const TRANSACTION_TIMEOUT: &str = "amqp:transaction:timeout";
    pub const DEAD_LETTER: &str = "com.microsoft:dead-letter";
}

/// Every error that is reported to a client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The engine refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// No such entity, sub-queue or subscription.
    #[error(
        "The messaging entity '{uri}' could not be found. Check its name; entities are created by administration clients or declared in the broker's configuration."
    )]
    EntityNotFound {
        /// The full address as the client wrote it.
        uri: String,
    },
    /// A right that no token on this connection gives.
    #[error(
        "Unauthorized access. '{right}' claim(s) are required to perform this operation on '{uri}'. Put a token to $cbs first."
    )]
    Unauthorized {
        /// `Send`, `Listen` or `Manage`.
        right: &'static str,
        /// What was asked for.
        uri: String,
    },
    /// A right that the connection had when the link was attached.
    #[error(
        "Unauthorized access. The token, key or rule that gave '{right}' on '{uri}' has expired or was changed. Put a token to $cbs and attach again."
    )]
    GrantEnded {
        /// `Send`, `Listen` or `Manage`.
        right: &'static str,
        /// What the link was attached to.
        uri: String,
    },
    /// A token that grants nothing.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// A message whose encoding is broken.
    #[error("The message is malformed: {0}.")]
    MalformedMessage(String),
    /// A batch that is larger than any may be (azure-sdk-for-net 44261).
    #[error(
        "The batch of {size_bytes} bytes exceeds the limit of {limit_bytes} bytes for batches; send large messages one by one."
    )]
    BatchTooLarge {
        /// Encoded size.
        size_bytes: u64,
        /// What a batch may have on this entity.
        limit_bytes: u64,
    },
    /// A request whose arguments are missing, of the wrong type or out of range.
    #[error("{0}")]
    Argument(String),
    /// More or fewer messages to delete than one request may. Service Bus's own words (azure-sdk-for-js 34274).
    #[error("Invalid Message Count : requested {requested}. Message count should be between 1 and {most}.")]
    DeleteCount {
        /// How many.
        requested: i64,
        /// The most that the tier of the namespace allows.
        most: u32,
    },
    /// A field of a link that can't be understood, such as a selector.
    #[error("{0}")]
    InvalidField(String),
    /// Known, but senseless on this entity.
    #[error("{0}")]
    NotAllowed(&'static str),
    /// Unknown, or not built yet.
    #[error("{0}")]
    NotImplemented(String),
    /// Too much waits for this peer to read.
    #[error("Too many responses wait to be read on this connection; read them before asking for more.")]
    TooMuchWaiting,
    /// More messages a second than the operator allows. Service Bus's own words.
    #[error(
        "The request was terminated because the entity is being throttled. Error code : 50009. Please wait 2 seconds and try again."
    )]
    Throttled,
    /// Too many deliveries of one connection without a settlement.
    #[error("More than {0} deliveries on this connection wait to be settled.")]
    TooMuchUnsettled(usize),
    /// An id that names no transaction of this connection. Service Bus's own words.
    #[error("Transaction hasn't been declared yet, or has already been discharged.")]
    TransactionUnknown,
    /// The transaction took too long.
    #[error("The transaction took longer than it may and was rolled back; declare another.")]
    TransactionTimedOut,
    /// A part of the transaction was refused: it can't be committed as a whole.
    #[error("The transaction can only be rolled back, because an operation in it failed: {0}")]
    TransactionRolledBack(String),
    /// Too many messages sent in one transaction. Service Bus's own words.
    #[error("Cannot send more than {0} messages in a single transaction.")]
    TransactionTooLarge(usize),
    /// Too many transactions of one connection.
    #[error(
        "More than {0} transactions are open on this connection; discharge one before declaring another."
    )]
    TooManyTransactions(usize),
    /// The tier of the namespace has no transactions. Service Bus's own words (azure-spring-boot 965).
    #[error("Transaction is unsupported because the namespace {namespace} is of '{tier}' tier.")]
    NoTransactions {
        /// What the namespace is called.
        namespace: String,
        /// Its tier.
        tier: &'static str,
    },
    /// Too many links to the coordinator on one connection.
    #[error("More than {0} links to the transaction coordinator are attached on this connection.")]
    TooManyCoordinators(usize),
    /// Too many temporary entities and consumers of subscriptions on one connection.
    #[error("More than {0} temporary entities and consumers of topics are attached on this connection.")]
    TooManyHeld(usize),
    /// The engine answered something that does not fit the question.
    #[error("The broker failed to carry out the operation.")]
    Internal,
}

impl From<Unfit> for Fault {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::Malformed(reason) => Self::MalformedMessage(reason),
            Unfit::Argument(reason) => Self::Argument(reason),
            Unfit::NotImplemented(reason) => Self::NotImplemented(reason),
        }
    }
}

impl Fault {
    /// The condition and the management status, row by row. P: Python azure-servicebus 7.15.0, J: JS
    /// @azure/service-bus 7.9.5, N: .NET, each as found in its error mapping; spec: AMQP 1.0.
    #[must_use]
    pub fn condition_and_status(&self) -> (&'static str, i32) {
        match self {
            // P, J, N: the exception for lost locks; 410 in the table of every SDK's management client.
            Self::Refused(Refusal::MessageLockLost) => (condition::MESSAGE_LOCK_LOST, 410),
            // P, J, N: deferred receive and cancel of unknown numbers.
            Self::Refused(Refusal::MessageNotFound(_)) => (condition::MESSAGE_NOT_FOUND, 404),
            // N: InvalidOperationException; 400 is the status N and J fall back on for not-allowed.
            Self::Refused(Refusal::AlreadyDeadLettered) => (condition::NOT_ALLOWED, 400),
            // P, J, N: MessageSizeExceeded; spec 2.8.18.
            Self::Refused(Refusal::MessageTooLarge { .. } | Refusal::HeaderTooLarge { .. })
            | Self::BatchTooLarge { .. } => (condition::MESSAGE_SIZE_EXCEEDED, 403),
            // P, J, N: QuotaExceeded, final: the SDK does not retry.
            Self::Refused(
                Refusal::EntityFull { .. }
                | Refusal::StorageFull
                | Refusal::TooManyEntities(_)
                | Refusal::TooManySubscriptions(_)
                | Refusal::TooManySqlFilters(_)
                | Refusal::TooManyCorrelationFilters(_),
            ) => (condition::RESOURCE_LIMIT_EXCEEDED, 403),
            // P, J, N: ServiceBusy, retried by the SDK after some seconds.
            Self::Refused(Refusal::Unavailable | Refusal::MemoryShort)
            | Self::TooMuchWaiting
            | Self::TooManyTransactions(_)
            | Self::Throttled => (condition::SERVER_BUSY, 503),
            // P, J, N: MessagingEntityNotFound (J looks at the text too).
            Self::Refused(Refusal::EntityDeleted | Refusal::RuleNotFound(_))
            | Self::EntityNotFound { .. } => (condition::NOT_FOUND, 404),
            // P, J, N: ArgumentException and its like, final.
            Self::Refused(Refusal::InvalidArgument(_)) | Self::Argument(_) => {
                (condition::ARGUMENT_ERROR, 400)
            }
            // J 34274: ArgumentOutOfRangeError, final.
            Self::DeleteCount { .. } => (condition::ARGUMENT_OUT_OF_RANGE, 400),
            // Spec 2.8.15.
            Self::InvalidField(_) => (condition::INVALID_FIELD, 400),
            // Not seen by a client that follows the protocol; spec 2.8.15.
            Self::Refused(Refusal::ReceiverNotFound) | Self::Internal => (condition::INTERNAL_ERROR, 500),
            // Service trace of June 2026: session receiver on a plain queue; N: InvalidOperationException.
            Self::Refused(
                Refusal::SessionNotSupported
                | Refusal::SessionRequired
                | Refusal::SessionIdMissing
                | Refusal::NotAllowed(_),
            )
            | Self::NotAllowed(_)
            | Self::NoTransactions { .. } => (condition::NOT_ALLOWED, 400),
            // P, J, N: SessionLockLost; 410 in the table of every SDK's management client.
            Self::Refused(Refusal::SessionLockLost) => (condition::SESSION_LOCK_LOST, 410),
            // P, J, N: SessionCannotBeLocked, at attach.
            Self::Refused(Refusal::SessionCannotBeLocked(_)) => (condition::SESSION_CANNOT_BE_LOCKED, 410),
            // P: OperationTimeoutError, J, N: ServiceTimeout, when no session came in time.
            Self::Refused(Refusal::NoSessionAvailable) => (condition::TIMEOUT, 408),
            // P: MessagingEntityDisabledError, J, N: MessagingEntityDisabled, final.
            Self::Refused(Refusal::EntityDisabled | Refusal::EntityDamaged(_)) => {
                (condition::ENTITY_DISABLED, 400)
            }
            // P, J, N: MessagingEntityAlreadyExists.
            Self::Refused(Refusal::RuleExists(_) | Refusal::SubscriptionExists(_)) => {
                (condition::ENTITY_ALREADY_EXISTS, 409)
            }
            // All SDKs try again; after 401 they don't.
            Self::Denied(Denied::UnknownKey) => (condition::SERVER_BUSY, 503),
            // P, J, N: authorization errors; put-token: 401.
            Self::Unauthorized { .. } | Self::GrantEnded { .. } | Self::Denied(_) => {
                (condition::UNAUTHORIZED_ACCESS, 401)
            }
            // Spec 2.8.15; P: in its no-retry list.
            Self::MalformedMessage(_) | Self::Refused(Refusal::MessageDamaged(_)) => {
                (condition::DECODE_ERROR, 400)
            }
            // P, J, N: NotSupportedException and its like; 501 for unknown management operations.
            Self::NotImplemented(_) => (condition::NOT_IMPLEMENTED, 501),
            // Spec 4.5.9; N: a general, transient error, which its tests ask for.
            Self::TransactionUnknown => (condition::TRANSACTION_UNKNOWN_ID, 400),
            Self::TransactionRolledBack(_) => (condition::TRANSACTION_ROLLBACK, 400),
            Self::TransactionTimedOut => (condition::TRANSACTION_TIMEOUT, 408),
            // N: QuotaExceeded, final; more of the same would fail as well.
            Self::TransactionTooLarge(_) | Self::TooManyCoordinators(_) | Self::TooManyHeld(_) => {
                (condition::RESOURCE_LIMIT_EXCEEDED, 403)
            }
            // Spec 2.8.15.
            Self::TooMuchUnsettled(_) => (condition::RESOURCE_LIMIT_EXCEEDED, 403),
        }
    }
}

/// Ends every description the way Service Bus does, so that a report can be matched with the broker's log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tracker {
    /// Unique per report.
    pub(crate) tracking_id: u128,
    /// When.
    pub(crate) at: Timestamp,
}

impl Tracker {
    /// The text for people, with `TrackingId`, `SystemTracker` and `Timestamp`.
    #[must_use]
    pub(crate) fn description(&self, fault: &Fault) -> String {
        format!(
            "{fault} TrackingId:{:032x}, SystemTracker:peeklock, Timestamp:{}",
            self.tracking_id,
            clock_text::iso_8601(self.at)
        )
    }

    /// The fault as an AMQP error.
    #[must_use]
    pub(crate) fn error(&self, fault: &Fault) -> Error {
        let (condition, _) = fault.condition_and_status();
        let description = self.description(fault);
        tracing::debug!(condition, description = &*loggable(&description), "refused");
        Error { condition: condition.into(), description: Some(description.into()), info: Vec::new() }
    }
}

/// What an answer of the wrong kind comes to.
pub(crate) fn unexpected(_response: Response) -> Fault {
    Fault::Internal
}

/// A symbol value.
#[must_use]
pub(crate) fn symbol(text: &str) -> Value {
    Value::Symbol(text.into())
}

#[cfg(test)]
mod tests;
