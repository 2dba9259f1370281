//! The moves of a history, independent of the state in which they are carried out.

use crate::{EntityStatus, QueueOptions, ReceiveMode, SubQueue, SubscriptionOptions, TopicOptions};

/// Length of a property that leaves 4 KiB of a header, from where on the length is recorded.
pub(in crate::partition::tests) const LARGE: usize = 61_440;

/// One move of a history. Numbers named `pick` choose among existing objects, counted from the latest; those named `queue`
/// choose a queue or subscription.
#[derive(Debug, Clone)]
pub(in crate::partition::tests) enum Move {
    Send(Vec<Draft>),
    SendEach(Vec<Draft>),
    /// Messages that their destination refused.
    KeepUndelivered(Vec<Draft>),
    Cancel(Vec<usize>),
    /// The requested session is used where one is required or, with `wrongly`, where none is; before, time passes without a
    /// tick.
    Open {
        queue: usize,
        sub_queue: SubQueue,
        mode: ReceiveMode,
        requested: SessionRequestDraft,
        wrongly: bool,
        after_ms: u64,
    },
    Watch(usize),
    Credit {
        pick: usize,
        messages: u64,
        bytes: u64,
        drain: bool,
    },
    Close(usize),
    /// A receiver gets a selector.
    Select(usize),
    /// A receiver's examination is answered: each bit says whether a message matches.
    Examined(usize, u8),
    /// With a property to change: number of its name, length of its value.
    Settle(Vec<usize>, Verb, Option<(u8, usize)>),
    Renew(Vec<usize>),
    ReceiveDeferred {
        picks: Vec<usize>,
        queue: usize,
        sub_queue: SubQueue,
        mode: ReceiveMode,
        receiver: Option<usize>,
    },
    Peek {
        from: u64,
        count_max: u32,
        bytes_max: usize,
        queue: usize,
        sub_queue: SubQueue,
        session: Option<usize>,
    },
    /// As of a number of milliseconds ago; optionally for a receiver, whose queue is used.
    DeleteMessages {
        queue: usize,
        sub_queue: SubQueue,
        count_max: u32,
        before_ms: u64,
        receiver: Option<usize>,
    },
    /// An administrator's action on the latest messages of a queue, by the number of the action.
    Act {
        picks: Vec<usize>,
        queue: usize,
        sub_queue: SubQueue,
        action: usize,
    },
    RenewSession(usize),
    GetState(usize),
    SetState(usize, Option<usize>),
    ListSessions {
        queue: usize,
        updated_before: Option<u64>,
        skip: u32,
        top: u32,
    },
    /// A subscription by name; `wrong` from 1 to 3 makes it invalid.
    Declare {
        intent: crate::Intent,
        name: usize,
        options: Options,
        rules: Vec<RuleDraft>,
        wrong: u8,
    },
    Delete(usize),
    AddRule(usize, RuleDraft),
    ReplaceRule(usize, RuleDraft),
    EndEntity,
    RemoveRule(usize, usize),
    ListRules {
        queue: usize,
        skip: u32,
        top: u32,
    },
    Wait(u64),
    /// Time passes without a tick before the next command.
    Pass(u64),
    SetOptions(Options),
    /// Commands that take effect together or not at all. Those that settle choose among held locks.
    Unit(Vec<Move>),
    EndTurn,
    Restart,
}

#[derive(Debug, Clone)]
pub(in crate::partition::tests) struct Draft {
    pub(super) bytes: usize,
    pub(super) header_bytes: u32,
    pub(super) time_to_live_ms: Option<u64>,
    pub(super) delay_ms: Option<u64>,
    pub(super) session: Option<usize>,
    pub(super) label: Option<usize>,
    /// The message id, with duplicate detection.
    pub(super) id: Option<usize>,
    /// The partition key, in a partitioned entity.
    pub(super) key: Option<usize>,
    /// A user property: whether its name is in upper case, its value.
    pub(super) user: Option<(bool, i64)>,
}

/// By number of a name, or the next available.
#[derive(Debug, Clone)]
pub(in crate::partition::tests) struct SessionRequestDraft {
    pub(super) id: Option<usize>,
    pub(super) wait_ms: u64,
    pub(super) lock: LockDraft,
}

#[derive(Debug, Clone, Copy)]
pub(in crate::partition::tests) enum LockDraft {
    Exclusive,
    NonExclusive,
    /// With one of the issued tokens, counted from the latest, or an unknown one.
    TakeOver(usize),
}

#[derive(Debug, Clone)]
pub(in crate::partition::tests) struct RuleDraft {
    pub(super) name: usize,
    pub(super) filter: FilterDraft,
    /// Its index in the list of actions.
    pub(super) action: Option<usize>,
}

#[derive(Debug, Clone)]
pub(in crate::partition::tests) enum FilterDraft {
    True,
    False,
    Correlation(Option<usize>, Option<i64>),
    /// By index in the list of conditions.
    Sql(usize),
    /// On a label, otherwise on a size.
    Selector(Option<usize>, i64),
}

#[derive(Debug, Clone, Copy)]
pub(in crate::partition::tests) enum Verb {
    Complete,
    Abandon,
    /// For a number of milliseconds.
    Postpone(u64),
    Defer,
    DeadLetter,
    Release,
}

/// Options of any kind of entity.
#[derive(Debug, Clone)]
pub(in crate::partition::tests) struct Options {
    pub(super) lock_duration_ms: u64,
    pub(super) max_delivery_count: u32,
    pub(super) time_to_live_ms: Option<u64>,
    pub(super) dead_lettering: bool,
    pub(super) dead_lettering_of_failures: bool,
    pub(super) idle_ms: Option<u64>,
    pub(super) message_bytes_max: u64,
    pub(super) bytes_max: u64,
    pub(super) window_ms: u64,
    pub(super) status: EntityStatus,
}

impl Options {
    pub(super) fn queue(&self, requires_session: bool) -> QueueOptions {
        QueueOptions {
            lock_duration_ms: self.lock_duration_ms,
            max_delivery_count: self.max_delivery_count,
            default_message_time_to_live_ms: self.time_to_live_ms,
            dead_lettering_on_message_expiration: self.dead_lettering,
            requires_session,
            auto_delete_on_idle_ms: self.idle_ms,
            max_message_size_bytes: self.message_bytes_max,
            max_size_bytes: self.bytes_max,
            duplicate_detection_history_time_window_ms: self.window_ms,
            status: self.status,
            ..QueueOptions::default()
        }
    }

    pub(super) fn topic(&self) -> TopicOptions {
        TopicOptions {
            default_message_time_to_live_ms: self.time_to_live_ms,
            auto_delete_on_idle_ms: self.idle_ms,
            max_message_size_bytes: self.message_bytes_max,
            max_size_bytes: self.bytes_max,
            duplicate_detection_history_time_window_ms: self.window_ms,
            status: self.status,
            ..TopicOptions::default()
        }
    }

    pub(super) fn subscription(&self, requires_session: bool) -> SubscriptionOptions {
        SubscriptionOptions {
            lock_duration_ms: self.lock_duration_ms,
            max_delivery_count: self.max_delivery_count,
            default_message_time_to_live_ms: self.time_to_live_ms,
            dead_lettering_on_message_expiration: self.dead_lettering,
            dead_lettering_on_filter_evaluation_exceptions: self.dead_lettering_of_failures,
            requires_session,
            auto_delete_on_idle_ms: self.idle_ms,
            status: self.status,
            ..SubscriptionOptions::default()
        }
    }
}
