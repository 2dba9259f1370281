//! The rules that can be broken on purpose.

/// The subject of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::partition::tests) enum Area {
    /// A queue without sessions.
    Queue,
    /// A queue with sessions.
    Sessions,
    /// A topic with subscriptions, some with sessions.
    Topics,
    /// The same, with emphasis on conditions and actions of rules.
    Rules,
    /// Any of them, with AutoDeleteOnIdle.
    Idleness,
    /// Any of them, with duplicate detection.
    Duplicates,
    /// Any of them, with commands that take effect together.
    Units,
    /// Any of them, partitioned.
    Partitions,
    /// Any of them, with several of these features.
    Combined,
}

/// Writes the list of rules once: the type, all its values, and the area in which a broken rule is noticed.
macro_rules! rules {
    ($($area:ident { $($(#[$doc:meta])* $rule:ident,)* })*) => {
        /// A rule that a broken model violates.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(in crate::partition::tests) enum Rule { $($($(#[$doc])* $rule,)*)* }

        impl Rule {
            pub(in crate::partition::tests) const ALL: &[Self] = &[$($(Self::$rule,)*)*];

            pub(in crate::partition::tests) const fn area(self) -> Area {
                match self { $($(Self::$rule => Area::$area,)*)* }
            }
        }
    };
}

rules! {
    Queue {
        /// An abandoned delivery counts as failed (§5.3).
        AbandonCounts,
        /// A deferred delivery counts as failed (§5.3).
        DeferCounts,
        /// A delivery whose lock expired counts as failed (§5.3).
        LockEndCounts,
        /// A released delivery does not count as failed.
        ReleaseDoesNotCount,
        /// Nor does a receive-and-delete delivery that never left.
        WhatNeverLeftDoesNotCount,
        /// The Nth failure dead-letters, not the next one.
        TheNthFailureDeadLetters,
        /// So does a deferral that is the Nth failure (azure-service-bus 375).
        TheLastDeferralDeadLetters,
        /// Dead letters may fail without limit (§9).
        NoMaximumInTheDeadLetterQueue,
        /// Deliveries of dead letters are not counted (azure-sdk-for-net 53437).
        DeadLettersKeepTheirCount,
        /// Nothing expires without a listener (S-3).
        ExpiryNeedsAnActiveListener,
        /// A message that expired while it was locked is removed when its lock ends (S-6).
        EndOfLockExpires,
        /// Expiry takes precedence over the maximum delivery count (§4.1).
        ExpiryComesBeforeTheMaximum,
        /// Deferred messages don't expire by themselves (S-36).
        DeferredNeverExpire,
        /// They expire when they are requested (azure-sdk-for-net 30252).
        RequestedDeferredExpire,
        /// Dead letters don't expire (§9).
        DeadLettersNeverExpire,
        /// The queue's time to live limits the message's (S-13).
        TheDefaultCaps,
        /// A scheduled message's time to live starts when it becomes available (S-9).
        LifeStartsAtActivation,
        /// It gets a new number then (§7).
        ActivationGivesANewNumber,
        /// A receiver's next turn comes after all others.
        ReceiversTakeTurns,
        /// The message that crosses the byte limit is still delivered.
        TheCrossingMessageIsDelivered,
        /// A receiver with a selector gets matching messages only.
        OnlyWhatMatchesIsDelivered,
        /// It gets no message while an earlier one may match.
        WhatMatchesComesInOrder,
        /// A returned message is examined again.
        WhatComesBackIsExaminedAgain,
        /// After a drain nothing is delivered without new credit.
        ADrainVoidsCredit,
        /// With one bad number, nothing is cancelled.
        CancellingIsAllOrNothing,
        /// With one bad number, nothing is received (§8).
        ReceivingDeferredIsAllOrNothing,
        /// A renewed lock lasts for the lock duration from now.
        RenewalCountsFromNow,
        /// A lock has expired at exactly its end.
        ALockEndsAtItsInstant,
        /// Changed properties are merged with earlier changes (§5.5).
        ModifiedPropertiesAreMerged,
        /// Dead letters can't be dead-lettered (§9).
        DeadLettersCanNotBeDeadLettered,
        /// A released deferred message stays deferred.
        ReleasedDeferredStayDeferred,
        /// A header that becomes too large moves the message to the dead-letter queue (§9).
        ALargeHeaderDeadLetters,
        /// A dead letter stays locked instead, and the change is refused.
        DeadLettersKeepTheirLockWhenTooLarge,
        /// A header shorter than 4 KiB counts as empty when properties are changed.
        AShortHeaderCountsAsNone,
        /// A message with a too large header is refused to its sender (§3).
        ALargeHeaderIsRefused,
        /// A message abandoned with a delay is not delivered before it ends.
        APostponedMessageWaits,
        /// It is available from exactly that time on.
        APostponedMessageComesAtItsInstant,
        /// The delay survives a restart.
        APostponementSurvivesARestart,
        /// The oldest messages are deleted first (§14.4).
        TheOldestAreDeletedFirst,
        /// Locked messages are not deleted (§14.4).
        DeletingLeavesWhatIsLocked,
        /// Deferred messages are not deleted.
        DeletingLeavesWhatIsDeferred,
        /// Messages enqueued at the given time are deleted, later ones are not.
        DeletingEndsAtItsInstant,
        /// An update takes effect.
        OptionsCanChange,
        /// Stored messages keep their times (S-11).
        StoredMessagesKeepTheirTimes,
        /// A status may forbid sending (§4.4).
        AStatusStopsSending,
        /// A status may forbid receiving, browsing and settling (§4.4).
        AStatusStopsReceiving,
        /// Links without any allowed operation are detached (§4.4).
        AStatusDetaches,
    }
    Sessions {
        /// Ids that differ only in case are the same session.
        SessionIdsIgnoreCase,
        /// A held session is refused to others (§4.3).
        ASessionHasOneHolder,
        /// A null session id is refused to the sender (§9).
        MessagesNeedASession,
        /// The empty string is a session id (§3).
        TheEmptyIdIsASession,
        /// The next session is the one with the oldest message (§10.3).
        TheOldestSessionComesNext,
        /// Waiting receivers take precedence over new ones.
        WaitersComeFirst,
        /// The receiver that waited longest gets the next session.
        WaitersAreServedInOrder,
        /// A wait for a session ends at its timeout.
        AWaitEndsAtItsInstant,
        /// Messages are delivered in order of their numbers (§10.4).
        ASessionIsDeliveredInOrder,
        /// A message's lock ends with its session's (§10.5).
        AMessageIsLockedWithItsSession,
        /// The lock of a session's message can't be renewed (§10.5).
        OnlySessionsRenewTheirLocks,
        /// A renewed session lock lasts for the lock duration from now.
        SessionRenewalCountsFromNow,
        /// A holder with credit and without locked messages keeps the session when its lock expires.
        WhoAsksForMessagesKeepsTheSession,
        /// Deliveries under an expired session lock count as failed (§5.3).
        ALostSessionCounts,
        /// Deliveries under a released session lock don't (§5.3).
        AClosedSessionDoesNotCount,
        /// A settlement that is too late reports the loss of the session (§10.5).
        ALockInASessionIsLostWithIt,
        /// One expired message expires its whole session (S-23).
        OneExpiresAll,
        /// Sessions expire only while their holder listens (S-24).
        SessionsExpireForAListener,
        /// Deferred messages can only be received by the session's holder (§8).
        DeferredBelongToTheirSession,
        /// Peeking can be limited to one session (§14.3).
        PeekingShowsOneSession,
        /// The dead-letter queue has no sessions (§9).
        DeadLettersHaveNoSessions,
        /// A state that is set to null is deleted (§10.7).
        AStateCanBeCleared,
        /// States are durable (§10.7).
        SessionStatesSurviveARestart,
        /// States count toward the size of the entity (§10.7).
        SessionStatesTakeRoom,
        /// Deferred messages alone don't make a session listed (§10.8).
        OnlyActiveMessagesListASession,
        /// Listing by change includes states changed at the given time.
        UpdatedMeansSince,
        /// A held-back message also delays the later messages of its session.
        WhatIsHeldBackHoldsItsSession,
        /// A receiver that presents the token of a session takes it over.
        ATokenTakesASessionOver,
        /// A different token is refused.
        OnlyItsTokenTakesASessionOver,
        /// Locked messages of the former holder stay locked.
        WhatIsInFlightStaysLocked,
        /// A session's holder deletes only that session's messages.
        DeletingIsOfOneSession,
        /// Without a session, messages of held sessions are not deleted.
        DeletingLeavesHeldSessions,
    }
    Topics {
        /// One matching rule is enough (§12).
        OneMatchingRuleSuffices,
        /// Several matching rules make one copy (§12.2).
        SeveralMatchingRulesMakeOneCopy,
        /// Without rules there are no copies (§12.1).
        WithoutRulesNothingComes,
        /// Every field of a correlation filter must match (§12.4).
        EveryFieldMustMatch,
        /// Strings are compared case-sensitively (§12.4).
        LabelsMatchExactly,
        /// Changes of a copy don't affect other copies (§12.3).
        CopiesArePrivate,
        /// Each subscription has its own numbers (§12.3).
        EachSubscriptionCountsForItself,
        /// A number is used even if no subscription matches.
        WhatNobodyWantsTakesANumber,
        /// The minimum of the message's, the topic's and the subscription's time to live counts (S-16).
        TheLeastLifeCounts,
        /// Rules are evaluated when a scheduled message is published, not before (§7).
        FiltersAreAskedWhenTheTimeComes,
        /// The properties for the rules survive a restart.
        ScheduledMessagesKeepTheirFacts,
        /// A copy without session id is dead-lettered where one is required (§9).
        WithoutSessionIdItIsDeadLettered,
        /// Copies share one stored body.
        ContentsAreStoredOnce,
        /// Of a topic's own messages, receivers get the transfer dead letters only.
        OnlyTransferDeadLettersOfATopicAreReceived,
        /// Names of rules are case-insensitive.
        NamesOfRulesIgnoreCase,
        /// `$Default` is the first rule in a list (§12.10).
        TheDefaultRuleComesFirst,
    }
    Rules {
        /// UNKNOWN does not match (§13.3).
        UnknownIsNoMatch,
        /// Rules without action make a copy in addition to those of actions (§12.2).
        MatchesWithoutActionMakeACopyOfTheirOwn,
        /// Each matching rule with an action makes one more copy (§12.2).
        EachActionMakesACopyOfItsOwn,
        /// That copy has the name of the rule (§12.2).
        TheRuleIsNamed,
        /// The unchanged copy is the first.
        TheUnchangedCopyComesFirst,
        /// The others are in the order of the rules, `$Default` first.
        CopiesComeInTheOrderOfTheRules,
        /// Changes are not visible in other copies (§12.3).
        ChangesArePrivate,
        /// Nor to other actions (§12.3).
        ActionsSeeWhatWasSent,
        /// Changes survive a restart.
        ChangesSurviveARestart,
        /// The session id set by an action is the copy's.
        AChangedSessionCounts,
        /// So is the time to live (§12.3).
        AChangedLifeCounts,
        /// Topic and subscription limit it nevertheless (S-16).
        AChangedLifeIsCapped,
        /// A copy whose header becomes too large is dead-lettered without the changes (§9).
        WhatGrowsTooLargeIsDeadLetteredAsItWas,
        /// If one rule fails, the others still count (§12.5).
        WhatFailsLeavesTheOthers,
        /// An action that fails makes no copy, not even an unchanged one (§12.5).
        AFailedActionMakesNoCopy,
        /// Without the flag, a failing rule just does not match (§12.5).
        FailuresAreDeadLetteredWhereThatIsWanted,
        /// There is one dead letter, however many rules fail (§12.5).
        SeveralFailuresMakeOneDeadLetter,
        /// The first failure determines the reason.
        TheFirstFailureNamesTheReason,
        /// Replacing a rule replaces its action.
        AReplacedRuleHasItsNewAction,
    }
    Idleness {
        /// An entity ends at exactly its idle time (S-26).
        IdlenessEndsItAtItsInstant,
        /// An ended entity refuses every command (S-25).
        WhatEndedRefusesEverything,
        /// Links that receive nothing are notified as well.
        WatchersAreTold,
        /// Browsing counts as use (S-30, S-32).
        PeekingIsUse,
        /// Settling counts as use.
        SettlingIsUse,
        /// An update counts as use (S-30, S-31, S-32).
        AnUpdateIsUse,
        /// Changing rules counts as use (S-32).
        ChangingRulesIsUse,
        /// A receiver with credit counts as permanent use (§6.3, §17).
        AListenerIsUse,
        /// Reading its own messages does not count for a topic (S-31).
        ReadingIsNoUseOfATopic,
        /// The idle time starts when it closes.
        LeavingIsUse,
        /// Scheduled messages count as permanent use (S-30, S-31).
        ScheduledMessagesAreUse,
        /// Use of a subscription counts for its topic (S-31).
        SubscriptionsKeepTheirTopic,
        /// Attaching alone does not count.
        AttachingIsNoUse,
        /// Listing sessions or rules does not count.
        ListingIsNoUse,
        /// Sends don't count for subscriptions (S-32).
        SendsDoNotKeepASubscription,
        /// A restart does not count; it returns to the stored time of the last use.
        ARestartIsNoUse,
        /// Not every use is stored.
        UseIsStoredCoarsely,
    }
    Duplicates {
        /// A message with a recently accepted id is accepted and dropped (§11).
        ADuplicateIsDropped,
        /// Its answer is the number of the original.
        ADuplicateGetsTheNumberOfItsOriginal,
        /// At the end of the window an id can be used again.
        TheWindowEndsAtItsInstant,
        /// A duplicate does not extend the window.
        ADuplicateDoesNotProlongTheWindow,
        /// Scheduled messages are remembered when they are sent (§7).
        ScheduledMessagesAreRemembered,
        /// An id is remembered regardless of what happens to the message.
        WhatIsGoneIsRemembered,
        /// Ids survive a restart.
        IdsSurviveARestart,
        /// Messages without an id are never duplicates.
        NoIdIsLikeNoOther,
        /// A new window applies to remembered ids.
        ANewWindowCountsAtOnce,
        /// Ids are unique across sessions.
        IdsAreOneForAllSessions,
        /// Ids are case-sensitive.
        IdsMatchExactly,
        /// A duplicate uses no space, even in a full entity.
        DuplicatesTakeNoRoom,
        /// The messages of one batch may be duplicates of each other.
        ABatchCanRepeatItself,
        /// Refused messages are not remembered.
        WhatIsRefusedIsNotRemembered,
        /// Messages that match no subscription are remembered.
        WhatNobodyWantsIsRemembered,
    }
    Units {
        /// If one command of a unit is refused, none is carried out.
        AUnitIsAllOrNothing,
        /// The messages of a unit must fit together.
        MessagesOfAUnitFitTogether,
        /// The session states of a unit must fit in addition.
        StatesOfAUnitTakeRoom,
        /// Removals in a unit make no room for its additions.
        AUnitMakesNoRoomForItself,
        /// A lock can be settled once.
        ALockIsSettledOnceInAUnit,
        /// A scheduled message can be cancelled once.
        AMessageIsCancelledOnceInAUnit,
        /// An expired lock can't be settled even if no tick has happened since.
        ALockThatIsOverDoesNotHoldInAUnit,
        /// An id can be used again after its window even if no tick has happened since.
        TheWindowEndsForAUnit,
        /// Receivers are served after the whole unit.
        NobodyIsServedWithinAUnit,
        /// Each command of a unit counts as use.
        AUnitIsUse,
        /// Only commands allowed in transactions can be part of a unit.
        OthersAreNoPartOfAUnit,
    }
    Partitions {
        /// The key of a message determines its partition (§15).
        TheKeyDecidesThePartition,
        /// Messages without a key are assigned in turn (§15).
        MessagesWithoutAKeyTakeTurns,
        /// Messages of one batch are in one partition.
        ABatchBelongsToOnePartition,
        /// A batch with different keys is refused.
        ABatchHasOneKey,
        /// With duplicate detection, a batch without a key is refused.
        DuplicatesNeedAKey,
        /// Cancelling requires the right partition in the number.
        CancellingTakesTheNumberThatWasShown,
        /// So does receiving by number.
        ReceivingTakesTheNumberThatWasShown,
        /// Browsing continues in all partitions after the last returned number.
        BrowsingIsInOneOrder,
        /// The copies of a message are in its partition.
        CopiesBelongToThePartitionOfTheirMessage,
        /// Rules see the client-visible number.
        RulesSeeTheNumberThatIsShown,
        /// Partitions are durable.
        PartitionsSurviveARestart,
    }
}
