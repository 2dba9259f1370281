//! The names of system properties.

use super::tree::SystemProperty;

impl SystemProperty {
    /// All system properties.
    pub const ALL: [Self; 23] = [
        Self::ContentType,
        Self::CorrelationId,
        Self::DeadLetterSource,
        Self::DeliveryCount,
        Self::EnqueuedSequenceNumber,
        Self::EnqueuedTimeUtc,
        Self::ExpiresAtUtc,
        Self::ForcePersistence,
        Self::Label,
        Self::LockedUntilUtc,
        Self::LockToken,
        Self::MessageId,
        Self::PartitionKey,
        Self::ReplyTo,
        Self::ReplyToSessionId,
        Self::ScheduledEnqueueTimeUtc,
        Self::SequenceNumber,
        Self::SessionId,
        Self::Size,
        Self::State,
        Self::TimeToLive,
        Self::To,
        Self::ViaPartitionKey,
    ];

    /// The name as written by Service Bus.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ContentType => "ContentType",
            Self::CorrelationId => "CorrelationId",
            Self::DeadLetterSource => "DeadLetterSource",
            Self::DeliveryCount => "DeliveryCount",
            Self::EnqueuedSequenceNumber => "EnqueuedSequenceNumber",
            Self::EnqueuedTimeUtc => "EnqueuedTimeUtc",
            Self::ExpiresAtUtc => "ExpiresAtUtc",
            Self::ForcePersistence => "ForcePersistence",
            Self::Label => "Label",
            Self::LockedUntilUtc => "LockedUntilUtc",
            Self::LockToken => "LockToken",
            Self::MessageId => "MessageId",
            Self::PartitionKey => "PartitionKey",
            Self::ReplyTo => "ReplyTo",
            Self::ReplyToSessionId => "ReplyToSessionId",
            Self::ScheduledEnqueueTimeUtc => "ScheduledEnqueueTimeUtc",
            Self::SequenceNumber => "SequenceNumber",
            Self::SessionId => "SessionId",
            Self::Size => "Size",
            Self::State => "State",
            Self::TimeToLive => "TimeToLive",
            Self::To => "To",
            Self::ViaPartitionKey => "ViaPartitionKey",
        }
    }

    /// The property with a name, case-insensitively. `Subject` is the name of `Label` in current SDKs (inferred).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("Subject") {
            return Some(Self::Label);
        }
        Self::ALL.into_iter().find(|property| property.name().eq_ignore_ascii_case(name))
    }

    /// Whether actions may set and remove it (semantics §13.2, inferred).
    #[must_use]
    pub fn is_settable(self) -> bool {
        match self {
            Self::ContentType
            | Self::CorrelationId
            | Self::Label
            | Self::MessageId
            | Self::PartitionKey
            | Self::ReplyTo
            | Self::ReplyToSessionId
            | Self::ScheduledEnqueueTimeUtc
            | Self::SessionId
            | Self::TimeToLive
            | Self::To => true,
            Self::DeadLetterSource
            | Self::DeliveryCount
            | Self::EnqueuedSequenceNumber
            | Self::EnqueuedTimeUtc
            | Self::ExpiresAtUtc
            | Self::ForcePersistence
            | Self::LockedUntilUtc
            | Self::LockToken
            | Self::SequenceNumber
            | Self::Size
            | Self::State
            | Self::ViaPartitionKey => false,
        }
    }

    /// The property with the most similar name, if one is similar enough.
    pub(super) fn nearest(name: &str) -> Option<Self> {
        let wanted = name.to_ascii_lowercase();
        let distance =
            |property: &Self| strsim::damerau_levenshtein(&wanted, &property.name().to_ascii_lowercase());
        let nearest = Self::ALL.into_iter().min_by_key(distance)?;
        (distance(&nearest) * 3 <= wanted.chars().count().max(3)).then_some(nearest)
    }
}
