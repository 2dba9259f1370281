//! Errors as reported to a client. Condition and status are those of the error table (`peeklock_errors`).

use peeklock_access::Denied;
use peeklock_engine::{Refusal, Timestamp};
use peeklock_errors::ErrorKind;
use peeklock_message::InvalidMessage;

pub use peeklock_errors::condition;

use super::clock_text;
use super::idle::time_span;
use crate::RefusalMetrics;
use crate::endpoint::LinkId;
use crate::wire::performative::Error;
use crate::wire::{Value, loggable};

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
        /// The full address as written by the client.
        uri: String,
    },
    /// The status of the entity does not allow the operation. Service Bus's own wording (azure-service-bus 677,
    /// azure-sdk-for-net 12935).
    #[error("Messaging entity '{uri}' is currently disabled.")]
    EntityDisabled {
        /// The full address as written by the client.
        uri: String,
    },
    /// The status of the entity does not allow sending. Service Bus's own wording (azure-sdk-for-net 10535, 22454).
    #[error("Messaging entity '{entity}' is currently disabled for Send operations.")]
    SendDisabled {
        /// The names of the namespace, the kind and the entity.
        entity: String,
    },
    /// A right that no token on this connection grants.
    #[error(
        "Unauthorized access. '{right}' claim(s) are required to perform this operation on '{uri}'. Put a token to $cbs first."
    )]
    Unauthorized {
        /// `Send`, `Listen` or `Manage`.
        right: &'static str,
        /// The requested address.
        uri: String,
    },
    /// The right has ended since the link was attached.
    #[error(
        "Unauthorized access. The token, key or rule that gave '{right}' on '{uri}' has expired or was changed. Put a token to $cbs and attach again."
    )]
    GrantEnded {
        /// `Send`, `Listen` or `Manage`.
        right: &'static str,
        /// The address the link is attached to.
        uri: String,
    },
    /// A link that was not used for too long. Service Bus's own wording (azure-sdk-for-net 26824, azure-sdk-for-java
    /// 34588), without the number of the connection in the name.
    #[error(
        "The link '{name}' is force detached. Code: {code}(link{number}). Details: {component}.IdleTimerExpired: Idle timeout: {}.", time_span(*limit_ms), number = link.0
    )]
    LinkIdle {
        /// The name of the link.
        name: String,
        /// The name of its kind.
        code: &'static str,
        /// The name of its part of the service.
        component: &'static str,
        /// The link.
        link: LinkId,
        /// The limit.
        limit_ms: u64,
    },
    /// A connection that had no link for too long. Service Bus's own wording (azure-sdk-for-python 36677).
    #[error(
        "The connection was closed by container 'peeklock' because it did not have any active links in the past {limit_ms} milliseconds."
    )]
    NoLinks {
        /// The limit.
        limit_ms: u64,
    },
    /// A token that grants nothing.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// A message with an invalid encoding.
    #[error("The message is malformed: {0}.")]
    MalformedMessage(String),
    /// A batch larger than the limit for batches (azure-sdk-for-net 44261).
    #[error(
        "The batch of {size_bytes} bytes exceeds the limit of {limit_bytes} bytes for batches; send large messages one by one."
    )]
    BatchTooLarge {
        /// Encoded size.
        size_bytes: u64,
        /// The limit for batches on this entity.
        limit_bytes: u64,
    },
    /// A message with a property larger than the limit.
    #[error("{0}")]
    PropertyTooLarge(String),
    /// A request whose arguments are missing, of the wrong type or out of range.
    #[error("{0}")]
    Argument(String),
    /// A number of messages to delete outside the allowed range. Service Bus's own wording (azure-sdk-for-js 34274).
    #[error("Invalid Message Count : requested {requested}. Message count should be between 1 and {most}.")]
    DeleteCount {
        /// The requested number.
        requested: i64,
        /// The maximum in the tier of the namespace.
        most: u32,
    },
    /// A field of a link that can't be understood, such as a selector.
    #[error("{0}")]
    InvalidField(String),
    /// A known operation that does not apply to this entity.
    #[error("{0}")]
    NotAllowed(&'static str),
    /// An unknown or unimplemented operation.
    #[error("{0}")]
    NotImplemented(String),
    /// Too many responses wait for this peer to read.
    #[error(
        "Too many responses wait to be read on this connection; read them before sending further requests."
    )]
    TooMuchWaiting,
    /// More messages per second than the operator allows. Service Bus's own wording.
    #[error(
        "The request was terminated because the entity is being throttled. Error code : 50009. Please wait 2 seconds and try again."
    )]
    Throttled,
    /// Too many deliveries of one connection without a settlement.
    #[error("More than {0} deliveries on this connection are unsettled; settle some of them first.")]
    TooMuchUnsettled(usize),
    /// An id that names no transaction of this connection. Service Bus's own wording.
    #[error("Transaction hasn't been declared yet, or has already been discharged.")]
    TransactionUnknown,
    /// The transaction exceeded its time limit.
    #[error("The transaction exceeded its time limit and was rolled back; declare a new one.")]
    TransactionTimedOut,
    /// An operation in the transaction was refused: it can't be committed.
    #[error("The transaction can only be rolled back, because an operation in it failed: {0}")]
    TransactionRolledBack(String),
    /// Too many messages sent in one transaction. Service Bus's own wording.
    #[error("Cannot send more than {0} messages in a single transaction.")]
    TransactionTooLarge(usize),
    /// Too many open transactions on one connection.
    #[error(
        "More than {0} transactions are open on this connection; discharge one before declaring another."
    )]
    TooManyTransactions(usize),
    /// The tier of the namespace has no transactions. Service Bus's own wording (azure-spring-boot 965).
    #[error("Transaction is unsupported because the namespace {namespace} is of '{tier}' tier.")]
    NoTransactions {
        /// The name of the namespace.
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
    /// The engine's answer has a type that does not fit the command.
    #[error("The broker failed to carry out the operation.")]
    Internal,
}

impl From<InvalidMessage> for Fault {
    fn from(invalid: InvalidMessage) -> Self {
        match invalid {
            InvalidMessage::Malformed(reason) => Self::MalformedMessage(reason),
            InvalidMessage::Argument(reason) => Self::Argument(reason),
            InvalidMessage::TooLarge(reason) => Self::PropertyTooLarge(reason),
            InvalidMessage::NotImplemented(reason) => Self::NotImplemented(reason),
        }
    }
}

impl Fault {
    /// Its row in the error table.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused(refusal) => refusal.into(),
            Self::Denied(denied) => denied.into(),
            Self::EntityNotFound { .. } => ErrorKind::EntityNotFound,
            Self::EntityDisabled { .. } | Self::SendDisabled { .. } => ErrorKind::EntityDisabled,
            Self::Unauthorized { .. } => ErrorKind::RightMissing,
            Self::GrantEnded { .. } => ErrorKind::GrantEnded,
            Self::LinkIdle { .. } => ErrorKind::LinkIdle,
            Self::NoLinks { .. } => ErrorKind::NoLinks,
            Self::MalformedMessage(_) => ErrorKind::MalformedMessage,
            Self::Argument(_) => ErrorKind::InvalidArgument,
            Self::DeleteCount { .. } => ErrorKind::CountOutOfRange,
            Self::BatchTooLarge { .. } | Self::PropertyTooLarge(_) => ErrorKind::MessageTooLarge,
            Self::InvalidField(_) => ErrorKind::InvalidField,
            Self::NotAllowed(_) | Self::NoTransactions { .. } => ErrorKind::NotAllowed,
            Self::NotImplemented(_) => ErrorKind::NotImplemented,
            Self::TooMuchWaiting | Self::TooManyTransactions(_) => ErrorKind::Unavailable,
            Self::Throttled => ErrorKind::Throttled,
            Self::TooMuchUnsettled(_) => ErrorKind::TooMuchUnsettled,
            Self::TransactionUnknown => ErrorKind::TransactionUnknown,
            Self::TransactionTimedOut => ErrorKind::TransactionTimedOut,
            Self::TransactionRolledBack(_) => ErrorKind::TransactionRolledBack,
            Self::TransactionTooLarge(_) | Self::TooManyCoordinators(_) | Self::TooManyHeld(_) => {
                ErrorKind::TransactionTooLarge
            }
            Self::Internal => ErrorKind::Internal,
        }
    }

    /// The condition and the status of a response.
    #[must_use]
    pub fn condition_and_status(&self) -> (&'static str, i32) {
        let row = self.kind().row();
        row.amqp.map_or((condition::INTERNAL_ERROR, 500), |amqp| (amqp.condition, amqp.status))
    }
}

/// The suffix of every error description, as in Service Bus, by which a report can be matched with the broker's log.
#[derive(Debug, Clone)]
pub(crate) struct Tracker {
    /// The unique id of the report.
    pub(crate) tracking_id: u128,
    /// The time of the report.
    pub(crate) at: Timestamp,
    /// Counts refusals.
    pub(crate) metrics: RefusalMetrics,
}

impl Tracker {
    /// The human-readable description, with `TrackingId`, `SystemTracker` and `Timestamp`. Refusals are logged and
    /// counted here, because every such description is made here.
    #[must_use]
    pub(crate) fn description(&self, fault: &Fault) -> String {
        log(fault);
        self.metrics.count(fault.condition_and_status().0);
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

/// Logs errors that an operator may want to know; token errors are logged where tokens are verified.
fn log(fault: &Fault) {
    match fault {
        Fault::EntityNotFound { uri } => tracing::info!(address = %loggable(uri), "entity not found"),
        Fault::Unauthorized { right, uri } => {
            tracing::info!(right, address = %loggable(uri), "operation refused: a right is missing");
        }
        Fault::Refused(Refusal::MessageTooLarge { size_bytes, limit_bytes })
        | Fault::BatchTooLarge { size_bytes, limit_bytes } => {
            tracing::info!(size_bytes, limit_bytes, "message refused: it is too large");
        }
        _ => {}
    }
}

/// A symbol value.
#[must_use]
pub(crate) fn symbol(text: &str) -> Value {
    Value::Symbol(text.into())
}

#[cfg(test)]
mod tests;
