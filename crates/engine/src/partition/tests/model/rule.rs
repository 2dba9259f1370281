//! What can be broken on purpose.

/// What a history is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::partition::tests) enum Area {
    /// A queue without sessions.
    Queue,
    /// A queue with sessions.
    Sessions,
    /// A topic with subscriptions, some with sessions.
    Topics,
    /// The same, looked at for what rules say and do.
    Rules,
    /// Any of them, deleted when idle.
    Idleness,
    /// Any of them, which looks for duplicates.
    Duplicates,
    /// Any of them, with commands that take effect together.
    Units,
    /// Any of them, partitioned.
    Partitions,
}

/// Writes the list of rules once: the type, all its values, and the area in which breaking one shows.
macro_rules! rules {
    ($($area:ident { $($(#[$doc:meta])* $rule:ident,)* })*) => {
        /// A rule that a broken model does not keep.
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
        /// An abandoned delivery has failed (§5.3).
        AbandonCounts,
        /// A deferred delivery has failed (§5.3).
        DeferCounts,
        /// A delivery whose lock ran out has failed (§5.3).
        LockEndCounts,
        /// A released one has not.
        ReleaseDoesNotCount,
        /// Nor has one that was to be deleted when it left, and has not left.
        WhatNeverLeftDoesNotCount,
        /// The Nth failure dead-letters, not the one after.
        TheNthFailureDeadLetters,
        /// Dead letters may fail without end (§9).
        NoMaximumInTheDeadLetterQueue,
        /// Nor are their deliveries counted (azure-sdk-for-net 53437).
        DeadLettersKeepTheirCount,
        /// Nothing expires while nobody listens (S-3).
        ExpiryNeedsAnActiveListener,
        /// What is overdue goes when its lock ends (S-6).
        EndOfLockExpires,
        /// Overdue and failed too often is overdue (§4.1).
        ExpiryComesBeforeTheMaximum,
        /// Deferred messages stay (S-36).
        DeferredNeverExpire,
        /// Dead letters stay (§9).
        DeadLettersNeverExpire,
        /// The queue's time-to-live caps the message's (S-13).
        TheDefaultCaps,
        /// A scheduled message's life starts when it becomes available (S-9).
        LifeStartsAtActivation,
        /// It gets a new number then (§7).
        ActivationGivesANewNumber,
        /// Who was served comes last.
        ReceiversTakeTurns,
        /// The message that crosses the byte limit is still delivered.
        TheCrossingMessageIsDelivered,
        /// A receiver with a selector gets what matches.
        OnlyWhatMatchesIsDelivered,
        /// It gets nothing before it is known of all messages before that they do not match.
        WhatMatchesComesInOrder,
        /// What was handed out may match no longer when it comes back.
        WhatComesBackIsExaminedAgain,
        /// After a drain nothing comes without new credit.
        ADrainVoidsCredit,
        /// One bad number, and nothing is cancelled.
        CancellingIsAllOrNothing,
        /// One bad number, and nothing is received (§8).
        ReceivingDeferredIsAllOrNothing,
        /// A renewed lock ends so long from now.
        RenewalCountsFromNow,
        /// A lock is lost at the instant at which it ends.
        ALockEndsAtItsInstant,
        /// Changed properties add to those changed before (§5.5).
        ModifiedPropertiesAreMerged,
        /// Dead letters can't be dead-lettered (§9).
        DeadLettersCanNotBeDeadLettered,
        /// A released deferred message is deferred still.
        ReleasedDeferredStayDeferred,
        /// A header that becomes too large moves the message to the dead-letter queue (§9).
        ALargeHeaderDeadLetters,
        /// There it stays locked instead, and the change is refused.
        DeadLettersKeepTheirLockWhenTooLarge,
        /// One shorter than 4 KiB does not count when properties are changed.
        AShortHeaderCountsAsNone,
        /// A header that is too large already is refused to its sender (§3).
        ALargeHeaderIsRefused,
        /// A message abandoned until a time is not delivered before.
        APostponedMessageWaits,
        /// But from then on.
        APostponedMessageComesAtItsInstant,
        /// Also after a restart.
        APostponementSurvivesARestart,
        /// The oldest messages are deleted first (§14.4).
        TheOldestAreDeletedFirst,
        /// Locked ones stay (§14.4).
        DeletingLeavesWhatIsLocked,
        /// Deferred ones stay.
        DeletingLeavesWhatIsDeferred,
        /// So do those enqueued after the time given, but not those enqueued at it.
        DeletingEndsAtItsInstant,
        /// An update takes effect.
        OptionsCanChange,
        /// But messages that are there keep their times (S-11).
        StoredMessagesKeepTheirTimes,
        /// A status may forbid to send (§4.4).
        AStatusStopsSending,
        /// Or to receive, browse and settle (§4.4).
        AStatusStopsReceiving,
        /// Who can do nothing any more is detached (§4.4).
        AStatusDetaches,
    }
    Sessions {
        /// Ids that differ in case are one session.
        SessionIdsIgnoreCase,
        /// A held session is refused to others (§4.3).
        ASessionHasOneHolder,
        /// A null session id is refused to the sender (§9).
        MessagesNeedASession,
        /// The empty string is a session id (§3).
        TheEmptyIdIsASession,
        /// The next session is the one with the oldest message (§10.3).
        TheOldestSessionComesNext,
        /// Whoever waits for a session goes before newcomers.
        WaitersComeFirst,
        /// Whoever waited longest gets the next session.
        WaitersAreServedInOrder,
        /// A wait for a session ends when it should.
        AWaitEndsAtItsInstant,
        /// Messages come in order of their numbers (§10.4).
        ASessionIsDeliveredInOrder,
        /// A message's lock ends with its session's (§10.5).
        AMessageIsLockedWithItsSession,
        /// A message's lock can't be renewed (§10.5).
        OnlySessionsRenewTheirLocks,
        /// A renewed session ends so long from now.
        SessionRenewalCountsFromNow,
        /// Who asks for messages and has none in hand keeps the session when its time is over.
        WhoAsksForMessagesKeepsTheSession,
        /// Deliveries under a session's lock that ran out have failed (§5.3).
        ALostSessionCounts,
        /// Deliveries under one given back have not (§5.3).
        AClosedSessionDoesNotCount,
        /// Settling too late is told by the session's loss (§10.5).
        ALockInASessionIsLostWithIt,
        /// One message past its time expires its session (S-23).
        OneExpiresAll,
        /// But only while its holder listens (S-24).
        SessionsExpireForAListener,
        /// Deferred messages are the holder's (§8).
        DeferredBelongToTheirSession,
        /// Peeking can be limited to one session (§14.3).
        PeekingShowsOneSession,
        /// The dead-letter queue has no sessions (§9).
        DeadLettersHaveNoSessions,
        /// A state that is set to null is gone (§10.7).
        AStateCanBeCleared,
        /// States are durable (§10.7).
        SessionStatesSurviveARestart,
        /// States count toward the size of the entity (§10.7).
        SessionStatesTakeRoom,
        /// Deferred messages alone don't list a session (§10.8).
        OnlyActiveMessagesListASession,
        /// Sessions are listed whose state changed after an instant, not at it.
        UpdatedMeansAfter,
        /// What waits behind such a message in its session waits as well.
        WhatIsHeldBackHoldsItsSession,
        /// Whoever presents the token of a session takes it over.
        ATokenTakesASessionOver,
        /// Another token does not help.
        OnlyItsTokenTakesASessionOver,
        /// What its former holder had in flight stays locked.
        WhatIsInFlightStaysLocked,
        /// The holder of a session deletes its messages only.
        DeletingIsOfOneSession,
        /// Without a session, those of sessions that somebody holds stay.
        DeletingLeavesHeldSessions,
    }
    Topics {
        /// One of several rules is enough (§12).
        OneMatchingRuleSuffices,
        /// Several that match make one copy (§12.2).
        SeveralMatchingRulesMakeOneCopy,
        /// Without any rule nothing comes (§12.1).
        WithoutRulesNothingComes,
        /// Every field of a correlation filter must match (§12.4).
        EveryFieldMustMatch,
        /// Strings compare with regard to case (§12.4).
        LabelsMatchExactly,
        /// What happens to a copy happens to no other (§12.3).
        CopiesArePrivate,
        /// Each subscription has numbers of its own (§12.3).
        EachSubscriptionCountsForItself,
        /// A number is used up even when no subscription wants the message.
        WhatNobodyWantsTakesANumber,
        /// The least of message's, topic's and subscription's time-to-live counts (S-16).
        TheLeastLifeCounts,
        /// Scheduled messages go to those who want them then, not before (§7).
        FiltersAreAskedWhenTheTimeComes,
        /// What rules will ask about outlives a restart.
        ScheduledMessagesKeepTheirFacts,
        /// A copy without session id is dead-lettered where one is required (§9).
        WithoutSessionIdItIsDeadLettered,
        /// Copies share their content.
        ContentsAreStoredOnce,
        /// Names of rules are the same in any case.
        NamesOfRulesIgnoreCase,
        /// `$Default` leads the list of rules (§12.10).
        TheDefaultRuleComesFirst,
    }
    Rules {
        /// What is UNKNOWN is no match (§13.3).
        UnknownIsNoMatch,
        /// Rules without action make a copy beside those of actions (§12.2).
        MatchesWithoutActionMakeACopyOfTheirOwn,
        /// Each matching rule with an action makes one copy more (§12.2).
        EachActionMakesACopyOfItsOwn,
        /// Which says the name of the rule (§12.2).
        TheRuleIsNamed,
        /// The copy that nothing changed comes first.
        TheUnchangedCopyComesFirst,
        /// The others come in the order of the rules, `$Default` first.
        CopiesComeInTheOrderOfTheRules,
        /// Changes show in no other copy (§12.3).
        ChangesArePrivate,
        /// Nor does another action see them (§12.3).
        ActionsSeeWhatWasSent,
        /// They outlive a restart.
        ChangesSurviveARestart,
        /// The session that an action sets is the copy's.
        AChangedSessionCounts,
        /// So is the life (§12.3).
        AChangedLifeCounts,
        /// Which topic and subscription still cap (S-16).
        AChangedLifeIsCapped,
        /// A copy that gets too large a header goes to the dead letters without the changes (§9).
        WhatGrowsTooLargeIsDeadLetteredAsItWas,
        /// The other rules count when one fails (§12.5).
        WhatFailsLeavesTheOthers,
        /// An action that fails makes no copy, not even an unchanged one (§12.5).
        AFailedActionMakesNoCopy,
        /// Without the flag a failing rule only does not match (§12.5).
        FailuresAreDeadLetteredWhereThatIsWanted,
        /// However many rules fail, there is one dead letter (§12.5).
        SeveralFailuresMakeOneDeadLetter,
        /// The first of them says why.
        TheFirstFailureNamesTheReason,
        /// Replacing a rule replaces its action.
        AReplacedRuleHasItsNewAction,
    }
    Idleness {
        /// Idle for exactly as long as allowed is too long (S-26).
        IdlenessEndsItAtItsInstant,
        /// What ended refuses every command (S-25).
        WhatEndedRefusesEverything,
        /// Whoever is attached without receiving is told, too.
        WatchersAreTold,
        /// Looking at messages keeps alive (S-30, S-32).
        PeekingIsUse,
        /// So does settling them.
        SettlingIsUse,
        /// So does an update (S-30, S-31, S-32).
        AnUpdateIsUse,
        /// So does changing rules (S-32).
        ChangingRulesIsUse,
        /// So does asking for messages, as long as it lasts (§6.3, §17).
        AListenerIsUse,
        /// When that ends, the time starts anew.
        LeavingIsUse,
        /// So do messages scheduled (S-30, S-31).
        ScheduledMessagesAreUse,
        /// What uses a subscription uses its topic (S-31).
        SubscriptionsKeepTheirTopic,
        /// Attaching alone does not keep alive.
        AttachingIsNoUse,
        /// Nor does listing sessions or rules.
        ListingIsNoUse,
        /// Nor do sends keep a subscription alive (S-32).
        SendsDoNotKeepASubscription,
        /// Nor does a restart; it goes back to the last use that is stored.
        ARestartIsNoUse,
        /// Which is not every one of them.
        UseIsStoredCoarsely,
    }
    Duplicates {
        /// A message with an id accepted lately is accepted and dropped (§11).
        ADuplicateIsDropped,
        /// It is answered with the number of the message it repeats.
        ADuplicateGetsTheNumberOfItsOriginal,
        /// At the end of the window an id is free again.
        TheWindowEndsAtItsInstant,
        /// A duplicate does not prolong it.
        ADuplicateDoesNotProlongTheWindow,
        /// Scheduled messages are remembered when they are submitted (§7).
        ScheduledMessagesAreRemembered,
        /// Whatever became of a message, its id is remembered.
        WhatIsGoneIsRemembered,
        /// Also after a restart.
        IdsSurviveARestart,
        /// Messages without an id are no duplicates.
        NoIdIsLikeNoOther,
        /// A new window counts for what is remembered already.
        ANewWindowCountsAtOnce,
        /// Ids are one for all sessions.
        IdsAreOneForAllSessions,
        /// Case matters.
        IdsMatchExactly,
        /// A duplicate takes no room, also in a full entity.
        DuplicatesTakeNoRoom,
        /// The messages of one batch may be duplicates of each other.
        ABatchCanRepeatItself,
        /// What was refused is not remembered.
        WhatIsRefusedIsNotRemembered,
        /// What no subscription wanted is.
        WhatNobodyWantsIsRemembered,
    }
    Units {
        /// What one command of a unit can't do, none of them does.
        AUnitIsAllOrNothing,
        /// The messages of a unit have to fit together.
        MessagesOfAUnitFitTogether,
        /// So do the states of sessions beside them.
        StatesOfAUnitTakeRoom,
        /// What a unit takes away makes no room for what it adds.
        AUnitMakesNoRoomForItself,
        /// A lock is settled once.
        ALockIsSettledOnceInAUnit,
        /// A scheduled message is cancelled once.
        AMessageIsCancelledOnceInAUnit,
        /// A lock whose time is over does not hold, although nobody has looked at the clock since.
        ALockThatIsOverDoesNotHoldInAUnit,
        /// An id is free again when its window is over, although nobody has looked at the clock since.
        TheWindowEndsForAUnit,
        /// Whoever waits for messages gets them when all of the unit has happened.
        NobodyIsServedWithinAUnit,
        /// A unit is a use, each of its commands of what it is about.
        AUnitIsUse,
        /// Only what can be part of a transaction is.
        OthersAreNoPartOfAUnit,
    }
    Partitions {
        /// The key of a message decides to which partition it belongs (§15).
        TheKeyDecidesThePartition,
        /// Messages without a key take turns (§15).
        MessagesWithoutAKeyTakeTurns,
        /// Those of one batch belong to one partition.
        ABatchBelongsToOnePartition,
        /// A batch whose messages have different keys is refused.
        ABatchHasOneKey,
        /// So is one without a key where duplicates are looked for.
        DuplicatesNeedAKey,
        /// A number of another partition names no message to cancel.
        CancellingTakesTheNumberThatWasShown,
        /// Nor one to receive.
        ReceivingTakesTheNumberThatWasShown,
        /// Browsing goes on in all partitions behind the last one shown.
        BrowsingIsInOneOrder,
        /// The copies of a message belong to its partition.
        CopiesBelongToThePartitionOfTheirMessage,
        /// Rules see the number that readers see.
        RulesSeeTheNumberThatIsShown,
        /// Partitions are durable.
        PartitionsSurviveARestart,
    }
}
