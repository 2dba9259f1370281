//! What can be broken on purpose.

/// A rule that a broken model does not keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::partition::tests) enum Rule {
    AbandonCounts,
    DeferCounts,
    LockEndCounts,
    ReleaseDoesNotCount,
    TheNthFailureDeadLetters,
    NoMaximumInTheDeadLetterQueue,
    ExpiryNeedsAnActiveListener,
    EndOfLockExpires,
    ExpiryComesBeforeTheMaximum,
    DeferredNeverExpire,
    DeadLettersNeverExpire,
    TheDefaultCaps,
    LifeStartsAtActivation,
    ActivationGivesANewNumber,
    ReceiversTakeTurns,
    TheCrossingMessageIsDelivered,
    ADrainVoidsCredit,
    CancellingIsAllOrNothing,
    ReceivingDeferredIsAllOrNothing,
    RenewalCountsFromNow,
    ALockEndsAtItsInstant,
    ModifiedPropertiesAreMerged,
    DeadLettersCanNotBeDeadLettered,
    ReleasedDeferredStayDeferred,
}

impl Rule {
    pub(in crate::partition::tests) const ALL: [Self; 24] = [
        Self::AbandonCounts,
        Self::DeferCounts,
        Self::LockEndCounts,
        Self::ReleaseDoesNotCount,
        Self::TheNthFailureDeadLetters,
        Self::NoMaximumInTheDeadLetterQueue,
        Self::ExpiryNeedsAnActiveListener,
        Self::EndOfLockExpires,
        Self::ExpiryComesBeforeTheMaximum,
        Self::DeferredNeverExpire,
        Self::DeadLettersNeverExpire,
        Self::TheDefaultCaps,
        Self::LifeStartsAtActivation,
        Self::ActivationGivesANewNumber,
        Self::ReceiversTakeTurns,
        Self::TheCrossingMessageIsDelivered,
        Self::ADrainVoidsCredit,
        Self::CancellingIsAllOrNothing,
        Self::ReceivingDeferredIsAllOrNothing,
        Self::RenewalCountsFromNow,
        Self::ALockEndsAtItsInstant,
        Self::ModifiedPropertiesAreMerged,
        Self::DeadLettersCanNotBeDeadLettered,
        Self::ReleasedDeferredStayDeferred,
    ];
}
