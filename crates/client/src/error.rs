//! Errors of the client.

use std::io;

/// A refusal of the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// An AMQP condition such as `amqp:not-found`; for an HTTP answer, its status.
    pub condition: String,
    /// The peer's description.
    pub description: String,
}

impl std::fmt::Display for Answer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.description.trim(), self.condition.as_str()) {
            ("", condition) => formatter.write_str(condition),
            (description, condition) => write!(formatter, "{description} ({condition})"),
        }
    }
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection could not be established.
    #[error("can't connect to {address}: {source}")]
    Connect {
        /// Host and port.
        address: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The peer's certificate, or ours, is unusable.
    #[error("TLS: {0}")]
    Tls(String),
    /// The connection ended.
    #[error("the connection ended: {0}")]
    Lost(Answer),
    /// The peer refused.
    #[error("{0}")]
    Refused(Answer),
    /// The peer's answer took too long.
    #[error("no answer in time while {0}")]
    TimeOut(&'static str),
    /// The answer can't be parsed.
    #[error("the answer can't be read: {0}")]
    Unreadable(String),
    /// The namespace belongs to another product, or to an earlier version of this broker.
    #[error("the namespace has no management API of Peeklock (it answered {0})")]
    NoApi(u16),
    /// Invalid arguments of the caller.
    #[error("{0}")]
    Argument(String),
}

impl ClientError {
    /// The condition, if the peer gave one.
    #[must_use]
    pub fn condition(&self) -> Option<&str> {
        match self {
            Self::Lost(answer) | Self::Refused(answer) => Some(&answer.condition),
            _ => None,
        }
    }

    /// Whether the entity or message does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.condition().is_some_and(|condition| {
            condition == "404"
                || ["amqp:not-found", "com.microsoft:message-not-found", "com.microsoft:session-not-found"]
                    .contains(&condition)
        })
    }

    /// Whether the credentials are insufficient. Status 403 is a quota, a size or a disabled entity, here and in the SDKs
    /// (`ServiceBusFailureReason.QuotaExceeded`).
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        self.condition().is_some_and(|condition| ["amqp:unauthorized-access", "401"].contains(&condition))
    }

    /// Whether no server answers at the address.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Connect { .. })
    }

    pub(crate) fn refused(condition: &str, description: impl Into<String>) -> Self {
        Self::Refused(Answer { condition: condition.to_owned(), description: description.into() })
    }
}

impl From<peeklock_wire::DecodeError> for ClientError {
    fn from(error: peeklock_wire::DecodeError) -> Self {
        Self::Unreadable(error.to_string())
    }
}

/// An AMQP error as an answer.
pub(crate) fn answer(error: Option<peeklock_wire::performative::Error>) -> Answer {
    let error = error.unwrap_or_default();
    let condition = if error.condition.is_empty() { "no reason given" } else { &error.condition };
    let description = error.description.map(String::from).unwrap_or_default();
    Answer { condition: condition.to_owned(), description }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_has_nothing_to_do_with_credentials() {
        let is_unauthorized = |condition| ClientError::refused(condition, "").is_unauthorized();
        assert!(is_unauthorized("401") && is_unauthorized("amqp:unauthorized-access"));
        assert!(!is_unauthorized("403") && !is_unauthorized("amqp:resource-limit-exceeded"));
    }
}
