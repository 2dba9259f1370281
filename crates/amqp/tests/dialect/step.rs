//! The steps of a history. Numbers choose among what exists, by remainder; a step that is not possible is skipped.

use peeklock_engine::EntityStatus;
use proptest::prelude::*;

use super::bus::Verdict;

/// A message to send: session, life, delay, id and color by number.
#[derive(Debug, Clone)]
pub(crate) struct DraftStep {
    pub(crate) session: Option<u8>,
    pub(crate) life_ms: Option<u32>,
    pub(crate) delay_ms: Option<u64>,
    pub(crate) key: Option<u8>,
    pub(crate) color: u8,
}

/// How a receiver asks for a session.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SessionStep {
    /// None although one may be required, or one although none is possible.
    Wrong,
    Right {
        id: Option<u8>,
        shared: bool,
        wait_ms: u32,
    },
    /// Takes over a session that is known to be held.
    TakeOver {
        pick: u8,
        right: bool,
    },
}

/// A request to a management node.
#[derive(Debug, Clone)]
pub(crate) enum Ask {
    Peek {
        from: u8,
        count: u8,
        session: Option<u8>,
    },
    Renew {
        first: u8,
        count: u8,
    },
    RenewSession(u8),
    GetState(u8),
    SetState(u8, Option<u8>),
    Sessions {
        all: bool,
        skip: u8,
        top: u8,
    },
    Schedule(Vec<DraftStep>),
    Cancel {
        first: u8,
        count: u8,
    },
    Receive {
        first: u8,
        count: u8,
        deletes: bool,
        session: Option<u8>,
    },
    Dispose {
        first: u8,
        count: u8,
        verdict: Verdict,
        names: bool,
    },
    Delete {
        count: u8,
        session: Option<u8>,
    },
    AddRule(u8),
    RemoveRule(u8),
    Rules {
        skip: u8,
        top: u8,
    },
    /// A malformed request of this kind.
    Bad(u8),
}

impl Ask {
    /// Whether it is part of the transaction in which it is asked.
    pub(crate) const fn is_work(&self) -> bool {
        matches!(self, Self::SetState(..) | Self::Schedule(_) | Self::Cancel { .. } | Self::Dispose { .. })
    }
}

/// A change of an entity's options.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
    /// The status; of an entity that is not active it becomes active.
    Status(EntityStatus),
    LockMs(u64),
    LifeMs(Option<u64>),
    DeliveriesMax(u32),
    KeepsExpired(bool),
    /// The maximum size of an entity that has a small one.
    SizeMax(u64),
}

#[derive(Debug, Clone)]
pub(crate) enum Act {
    AttachReceiver {
        entity: u8,
        dead: bool,
        deletes: bool,
        session: SessionStep,
        credit: u32,
    },
    /// `via` names the entity by way of which messages are sent.
    AttachSender {
        entity: u8,
        via: Option<u8>,
    },
    Detach {
        link: u8,
    },
    Credit {
        link: u8,
        credit: u32,
        drain: bool,
    },
    Send {
        link: u8,
        drafts: Vec<DraftStep>,
        settled: bool,
        work: Option<u8>,
    },
    Settle {
        delivery: u8,
        verdict: Verdict,
        settled: bool,
        work: Option<u8>,
    },
    Request {
        entity: u8,
        dead: bool,
        copy: u8,
        ask: Ask,
        work: Option<u8>,
    },
    Declare,
    Discharge {
        transaction: u8,
        fail: bool,
    },
    /// Ends the coordinator's link.
    EndCoordinator,
    /// Ends the AMQP session with all its links, and begins another.
    EndSession,
    /// Drops the connection, and opens another.
    HangUp,
    Pass {
        ms: u64,
    },
    /// Passes time, and acts before the timers of a session entity have fired.
    Late {
        entity: u8,
        ms: u64,
        act: Box<Act>,
    },
    /// Ends the broker, in order or not, and starts it again.
    Restart {
        in_order: bool,
    },
    /// Deletes the entity if it exists, otherwise creates it.
    Toggle {
        entity: u8,
    },
    /// Changes options of the entity.
    Change {
        entity: u8,
        change: Change,
    },
}

/// An act of a client. `together` keeps it from waiting for the answer if the next act is of the same client.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) peer: u8,
    pub(crate) together: bool,
    pub(crate) act: Act,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    /// The entities on which it concentrates.
    pub(crate) group: u8,
    /// Where the chain of forwarding ends.
    pub(crate) chain_end: u8,
    /// Where dead letters are forwarded: back, or to a queue with sessions, with duplicate detection or neither.
    pub(crate) dead_end: u8,
    /// Whether one client has transactions across entities.
    pub(crate) crosses: bool,
    pub(crate) keeps_expired: bool,
    pub(crate) life_ms: Option<u64>,
    pub(crate) topic_window: bool,
    /// The maximum size of most entities, if it is small.
    pub(crate) size_max_bytes: Option<u64>,
}

pub(crate) fn setup() -> impl Strategy<Value = Setup> {
    let life = prop_oneof![3 => Just(None), 1 => Just(Some(50_000_u64))];
    let size =
        prop_oneof![2 => Just(None), 1 => prop::sample::select(vec![250_u64, 500, 900]).prop_map(Some)];
    (0..8_u8, (0..4_u8, 0..4_u8, any::<bool>()), any::<bool>(), life, any::<bool>(), size).prop_map(
        |(group, (chain_end, dead_end, crosses), keeps_expired, life_ms, topic_window, size_max_bytes)| {
            Setup {
                group,
                chain_end,
                dead_end,
                crosses,
                keeps_expired,
                life_ms,
                topic_window,
                size_max_bytes,
            }
        },
    )
}

fn draft() -> impl Strategy<Value = DraftStep> {
    let life = prop_oneof![6 => Just(None), 4 => prop::sample::select(vec![1_u32, 5_000, 40_000, 200_000]).prop_map(Some)];
    let delay =
        prop_oneof![8 => Just(None), 2 => prop::sample::select(vec![0_u64, 1, 5_000, 45_000]).prop_map(Some)];
    let session = prop::option::weighted(0.9, 0..4_u8);
    (session, life, delay, prop::option::weighted(0.5, 0..3_u8), 0..3_u8).prop_map(
        |(session, life_ms, delay_ms, key, color)| DraftStep { session, life_ms, delay_ms, key, color },
    )
}

/// A message that mostly has a time at which it is due.
fn scheduled() -> impl Strategy<Value = DraftStep> {
    let delay = prop::option::weighted(0.95, prop::sample::select(vec![0_u64, 1, 5_000, 45_000, 100_000]));
    (draft(), delay).prop_map(|(draft, delay_ms)| DraftStep { delay_ms, ..draft })
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        3 => Just(Verdict::Complete),
        3 => Just(Verdict::Abandon),
        1 => Just(Verdict::Release),
        3 => Just(Verdict::Defer),
        2 => Just(Verdict::DeadLetter),
    ]
}

fn session_step() -> impl Strategy<Value = SessionStep> {
    let wait = prop_oneof![Just(0_u32), Just(4_000), Just(60_000)];
    prop_oneof![
        1 => Just(SessionStep::Wrong),
        8 => (prop::option::weighted(0.5, 0..4_u8), any::<bool>(), wait)
            .prop_map(|(id, shared, wait_ms)| SessionStep::Right { id, shared, wait_ms }),
        2 => (any::<u8>(), prop::bool::weighted(0.8))
            .prop_map(|(pick, right)| SessionStep::TakeOver { pick, right }),
    ]
}

fn drafts() -> impl Strategy<Value = Vec<DraftStep>> {
    prop_oneof![3 => prop::collection::vec(draft(), 1..2), 1 => prop::collection::vec(draft(), 2..5)]
}

fn ask() -> impl Strategy<Value = Ask> {
    let session = || prop::option::weighted(0.7, any::<u8>());
    prop_oneof![
        3 => (0..12_u8, 1..6_u8, session()).prop_map(|(from, count, session)| Ask::Peek { from, count, session }),
        3 => (any::<u8>(), 1..4_u8).prop_map(|(first, count)| Ask::Renew { first, count }),
        2 => any::<u8>().prop_map(Ask::RenewSession),
        2 => any::<u8>().prop_map(Ask::GetState),
        3 => (any::<u8>(), prop::option::of(any::<u8>())).prop_map(|(session, state)| Ask::SetState(session, state)),
        2 => (any::<bool>(), 0..2_u8, 1..4_u8).prop_map(|(all, skip, top)| Ask::Sessions { all, skip, top }),
        6 => prop::collection::vec(scheduled(), 1..4).prop_map(Ask::Schedule),
        3 => (any::<u8>(), 1..3_u8).prop_map(|(first, count)| Ask::Cancel { first, count }),
        5 => (any::<u8>(), 1..3_u8, prop::bool::weighted(0.3), prop::option::weighted(0.5, any::<u8>()))
            .prop_map(|(first, count, deletes, session)| Ask::Receive { first, count, deletes, session }),
        5 => (any::<u8>(), 1..3_u8, verdict(), any::<bool>())
            .prop_map(|(first, count, verdict, names)| Ask::Dispose { first, count, verdict, names }),
        2 => (1..5_u8, session()).prop_map(|(count, session)| Ask::Delete { count, session }),
        2 => any::<u8>().prop_map(Ask::AddRule),
        2 => any::<u8>().prop_map(Ask::RemoveRule),
        1 => (0..3_u8, 1..4_u8).prop_map(|(skip, top)| Ask::Rules { skip, top }),
        1 => any::<u8>().prop_map(Ask::Bad),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let suspended = [EntityStatus::Disabled, EntityStatus::SendDisabled, EntityStatus::ReceiveDisabled];
    prop_oneof![
        4 => prop::sample::select(suspended.to_vec()).prop_map(Change::Status),
        1 => prop::sample::select(vec![5_000_u64, 30_000, 60_000]).prop_map(Change::LockMs),
        1 => prop::sample::select(vec![None, Some(1_000), Some(50_000_u64)]).prop_map(Change::LifeMs),
        1 => prop::sample::select(vec![1_u32, 2, 3, 10]).prop_map(Change::DeliveriesMax),
        1 => any::<bool>().prop_map(Change::KeepsExpired),
        1 => prop::sample::select(vec![100_u64, 300, 900]).prop_map(Change::SizeMax),
    ]
}

/// What depends on a lock that is over.
fn late() -> impl Strategy<Value = Act> {
    let ask = prop_oneof![
        any::<u8>().prop_map(Ask::RenewSession),
        (any::<u8>(), prop::option::of(any::<u8>()))
            .prop_map(|(session, state)| Ask::SetState(session, state)),
        (any::<u8>(), 1..3_u8, verdict()).prop_map(|(first, count, verdict)| Ask::Dispose {
            first,
            count,
            verdict,
            names: false
        }),
    ];
    let act = prop_oneof![
        3 => (any::<u8>(), verdict())
            .prop_map(|(delivery, verdict)| Act::Settle { delivery, verdict, settled: false, work: None }),
        1 => (any::<u8>(), ask)
            .prop_map(|(entity, ask)| Act::Request { entity, dead: false, copy: 0, ask, work: None }),
        1 => (any::<u8>(), any::<bool>())
            .prop_map(|(transaction, fail)| Act::Discharge { transaction, fail }),
    ];
    let ms = prop::sample::select(vec![5_000_u64, 30_000, 31_000]);
    (any::<u8>(), ms, act).prop_map(|(entity, ms, act)| Act::Late { entity, ms, act: Box::new(act) })
}

fn act() -> impl Strategy<Value = Act> {
    let credit = || prop_oneof![1 => Just(0_u32), 5 => 1..4_u32, 2 => Just(100)];
    let work = || prop::option::weighted(0.25, any::<u8>());
    let pass = prop::sample::select(vec![
        1_u64, 1, 500, 500, 4_000, 5_000, 5_000, 29_999, 30_000, 31_000, 61_000, 121_000,
    ]);
    prop_oneof![
        9 => (any::<u8>(), prop::bool::weighted(0.2), prop::bool::weighted(0.15), session_step(), credit()).prop_map(
            |(entity, dead, deletes, session, credit)| Act::AttachReceiver { entity, dead, deletes, session, credit }
        ),
        4 => (any::<u8>(), prop::option::weighted(0.4, any::<u8>()))
            .prop_map(|(entity, via)| Act::AttachSender { entity, via }),
        3 => any::<u8>().prop_map(|link| Act::Detach { link }),
        6 => (any::<u8>(), credit(), prop::bool::weighted(0.3))
            .prop_map(|(link, credit, drain)| Act::Credit { link, credit, drain }),
        20 => (any::<u8>(), drafts(), prop::bool::weighted(0.2), work())
            .prop_map(|(link, drafts, settled, work)| Act::Send { link, drafts, settled, work }),
        18 => (any::<u8>(), verdict(), prop::bool::weighted(0.2), work())
            .prop_map(|(delivery, verdict, settled, work)| Act::Settle { delivery, verdict, settled, work }),
        26 => (any::<u8>(), prop::bool::weighted(0.25), 0..2_u8, ask(), work())
            .prop_map(|(entity, dead, copy, ask, work)| Act::Request { entity, dead, copy, ask, work }),
        2 => Just(Act::Declare),
        3 => (any::<u8>(), prop::bool::weighted(0.3)).prop_map(|(transaction, fail)| Act::Discharge { transaction, fail }),
        1 => prop_oneof![Just(Act::EndCoordinator), Just(Act::EndSession), Just(Act::HangUp)],
        7 => pass.prop_map(|ms| Act::Pass { ms }),
        1 => any::<u8>().prop_map(|entity| Act::Toggle { entity }),
        1 => late(),
        1 => any::<bool>().prop_map(|in_order| Act::Restart { in_order }),
        3 => (any::<u8>(), change()).prop_map(|(entity, change)| Act::Change { entity, change }),
    ]
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    (0..3_u8, prop::bool::weighted(0.3), act()).prop_map(|(peer, together, act)| Step { peer, together, act })
}
