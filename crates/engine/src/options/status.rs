//! Whether an entity allows sending and receiving.

/// The status of an entity (semantics §4.4), as its owner set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EntityStatus {
    /// Sending and receiving are allowed.
    #[default]
    Active,
    /// Neither is allowed; stored messages stay.
    Disabled,
    /// Only receiving is allowed.
    SendDisabled,
    /// Only sending is allowed.
    ReceiveDisabled,
}

impl EntityStatus {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Active, Self::Disabled, Self::SendDisabled, Self::ReceiveDisabled];

    /// Its name in Service Bus and in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "Active",
            Self::Disabled => "Disabled",
            Self::SendDisabled => "SendDisabled",
            Self::ReceiveDisabled => "ReceiveDisabled",
        }
    }

    /// Whether messages may be sent to it.
    #[must_use]
    pub const fn allows_send(self) -> bool {
        matches!(self, Self::Active | Self::ReceiveDisabled)
    }

    /// Whether its messages may be received, browsed and settled.
    #[must_use]
    pub const fn allows_receive(self) -> bool {
        matches!(self, Self::Active | Self::SendDisabled)
    }
}
