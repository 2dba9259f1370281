//! Whether an entity takes and gives messages.

/// The status of an entity (semantics §4.4), as its owner set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EntityStatus {
    /// Takes and gives messages.
    #[default]
    Active,
    /// Neither takes nor gives; keeps what it has.
    Disabled,
    /// Gives what it has, takes no more.
    SendDisabled,
    /// Takes messages, gives none.
    ReceiveDisabled,
}

impl EntityStatus {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Active, Self::Disabled, Self::SendDisabled, Self::ReceiveDisabled];

    /// Its name, as Service Bus and the configuration write it.
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
    pub const fn takes(self) -> bool {
        matches!(self, Self::Active | Self::ReceiveDisabled)
    }

    /// Whether its messages may be received, browsed and settled.
    #[must_use]
    pub const fn gives(self) -> bool {
        matches!(self, Self::Active | Self::SendDisabled)
    }
}
