//! Operations by name: the entities they apply to, and the rights they need.

use peeklock_engine::{Right, SubQueue};

use crate::servicebus::authorization::excerpt;
use crate::servicebus::entities::{Entity, Kind};
use crate::servicebus::errors::Fault;

/// Operations of management nodes; each is `com.microsoft:` and the name given here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// `peek-message`
    Peek,
    /// `renew-lock`
    RenewLock,
    /// `receive-by-sequence-number`
    ReceiveBySequenceNumber,
    /// `update-disposition`
    UpdateDisposition,
    /// `batch-delete-messages`
    BatchDelete,
    /// `schedule-message`
    Schedule,
    /// `cancel-scheduled-message`
    CancelScheduled,
    /// `renew-session-lock`
    RenewSessionLock,
    /// `get-session-state`
    GetSessionState,
    /// `set-session-state`
    SetSessionState,
    /// `get-message-sessions`
    GetMessageSessions,
    /// `add-rule`
    AddRule,
    /// `remove-rule`
    RemoveRule,
    /// `enumerate-rules`
    EnumerateRules,
}

impl Operation {
    /// Reads an operation's name.
    ///
    /// # Errors
    /// [`Fault::NotImplemented`]: an unknown operation never succeeds.
    pub(crate) fn parse(name: &str) -> Result<Self, Fault> {
        match name.strip_prefix("com.microsoft:").unwrap_or(name) {
            "peek-message" => Ok(Self::Peek),
            "renew-lock" => Ok(Self::RenewLock),
            "receive-by-sequence-number" => Ok(Self::ReceiveBySequenceNumber),
            "update-disposition" => Ok(Self::UpdateDisposition),
            "batch-delete-messages" => Ok(Self::BatchDelete),
            "schedule-message" => Ok(Self::Schedule),
            "cancel-scheduled-message" => Ok(Self::CancelScheduled),
            "renew-session-lock" => Ok(Self::RenewSessionLock),
            "get-session-state" => Ok(Self::GetSessionState),
            "set-session-state" => Ok(Self::SetSessionState),
            "get-message-sessions" => Ok(Self::GetMessageSessions),
            "add-rule" => Ok(Self::AddRule),
            "remove-rule" => Ok(Self::RemoveRule),
            "enumerate-rules" => Ok(Self::EnumerateRules),
            _ => Err(Fault::NotImplemented(format!("The operation '{}' is not supported.", excerpt(name)))),
        }
    }

    /// The operation's name in the audit log; `None` if it changes nothing.
    pub(crate) fn change(self) -> Option<&'static str> {
        match self {
            Self::AddRule => Some("add-rule"),
            Self::RemoveRule => Some("remove-rule"),
            _ => None,
        }
    }

    /// The right that the operation needs.
    pub(crate) fn right(self) -> Right {
        match self {
            Self::Schedule | Self::CancelScheduled => Right::Send,
            Self::Peek
            | Self::RenewLock
            | Self::ReceiveBySequenceNumber
            | Self::UpdateDisposition
            | Self::BatchDelete
            | Self::RenewSessionLock
            | Self::GetSessionState
            | Self::SetSessionState
            | Self::GetMessageSessions => Right::Listen,
            Self::AddRule | Self::RemoveRule | Self::EnumerateRules => Right::Manage,
        }
    }

    /// Whether the operation settles or keeps messages that the client already has: rate limits don't apply to it.
    pub(crate) fn finishes(self) -> bool {
        matches!(
            self,
            Self::RenewLock | Self::UpdateDisposition | Self::RenewSessionLock | Self::SetSessionState
        )
    }

    /// Whether the operation concerns messages being sent to an entity.
    pub(crate) fn sends(self) -> bool {
        matches!(self, Self::Schedule | Self::CancelScheduled)
    }

    /// Whether the operation can be part of a transaction: if one fails, the transaction does. Others are carried out
    /// at once, whatever the outcome of a transaction that they name.
    pub(crate) fn is_transactional(self) -> bool {
        matches!(
            self,
            Self::Schedule | Self::CancelScheduled | Self::UpdateDisposition | Self::SetSessionState
        )
    }

    /// Checks that the operation applies to an entity.
    ///
    /// # Errors
    /// [`Fault::NotAllowed`].
    pub(crate) fn check(self, entity: &Entity) -> Result<(), Fault> {
        match self {
            Self::Schedule | Self::CancelScheduled => entity.check_send_allowed(),
            Self::RenewLock if entity.has_sessions() => Err(Fault::NotAllowed(
                "Messages of a session have no locks of their own: renew the lock of the session.",
            )),
            Self::RenewLock | Self::ReceiveBySequenceNumber | Self::UpdateDisposition | Self::BatchDelete => {
                entity.check_receive_allowed()
            }
            Self::RenewSessionLock
            | Self::GetSessionState
            | Self::SetSessionState
            | Self::GetMessageSessions
                if !entity.has_sessions() =>
            {
                Err(Fault::NotAllowed("This operation needs an entity that requires sessions."))
            }
            Self::AddRule | Self::RemoveRule | Self::EnumerateRules
                if entity.kind != Kind::Subscription || entity.address.sub_queue != SubQueue::Main =>
            {
                Err(Fault::NotAllowed("Only subscriptions have rules; this entity is not a subscription."))
            }
            _ => Ok(()),
        }
    }
}
