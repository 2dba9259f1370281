//! The steps of a conversation.

use proptest::prelude::*;

use super::messages::Verdict;

/// Numbers choose among what exists, by remainder; a step that is not possible is skipped.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Begin,
    End(u8),
    AttachReceiver {
        session: u8,
        deletes: bool,
        second: bool,
        credit: u32,
        drain: bool,
    },
    AttachSender {
        session: u8,
    },
    AttachCoordinator {
        session: u8,
    },
    Declare {
        link: u8,
    },
    /// Commits a transaction or rolls it back.
    Discharge {
        transaction: u8,
        fail: bool,
    },
    Detach {
        link: u8,
        again: bool,
    },
    Credit {
        link: u8,
        credit: u32,
        drain: bool,
    },
    /// Opens the window of a session for this many frames.
    Window {
        session: u8,
        frames: u32,
    },
    Send {
        link: u8,
        bytes: usize,
        settled: bool,
        batch: u8,
        frames_now: u8,
        /// The transaction it belongs to.
        work: Option<u8>,
    },
    /// Further frames of the message begun on a link.
    SendMore {
        link: u8,
        frames: u8,
    },
    Abort {
        link: u8,
    },
    Settle {
        session: u8,
        first: u8,
        count: u8,
        verdict: Verdict,
        settled: bool,
    },
    /// Settles a delivery in a transaction.
    SettleWork {
        session: u8,
        delivery: u8,
        verdict: Verdict,
        transaction: u8,
    },
    /// Settles a delivery after its outcome in a transaction.
    SettleStaged {
        session: u8,
        delivery: u8,
        has_state: bool,
    },
    /// Settles without an outcome.
    Forget {
        session: u8,
        first: u8,
    },
    Pause {
        ms: u64,
    },
    Read(bool),
    /// Whether steps are collected and written at once.
    Cork(bool),
}

#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) frame_bytes_max: u32,
    pub(crate) window: u32,
    /// Whether windows are opened again after each exchange.
    pub(crate) reopens: bool,
    /// Whether the client's ids are about to wrap around.
    pub(crate) wraps: bool,
}

pub(crate) fn setup() -> impl Strategy<Value = Setup> {
    let frame = prop_oneof![Just(512_u32), Just(4096), Just(65_536)];
    let window = prop_oneof![Just(1_u32), Just(2), Just(7), Just(2_048)];
    (frame, window, any::<bool>(), any::<bool>()).prop_map(|(frame_bytes_max, window, reopens, wraps)| {
        Setup { frame_bytes_max, window, reopens, wraps }
    })
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let credit = || prop_oneof![Just(0_u32), 1..4_u32, 4..40_u32, Just(1_000)];
    let bytes = prop_oneof![
        5 => 20..200_usize,
        2 => 400..3_000_usize,
        1 => 8_185..8_200_usize,
    ];
    let verdict = || {
        prop_oneof![
            4 => Just(Verdict::Complete),
            1 => Just(Verdict::Release),
            1 => Just(Verdict::Abandon),
            1 => Just(Verdict::Defer),
            1 => Just(Verdict::DeadLetter),
        ]
    };
    prop_oneof![
        1 => Just(Step::Begin),
        1 => any::<u8>().prop_map(Step::End),
        3 => (any::<u8>(), any::<bool>(), any::<bool>(), credit(), any::<bool>()).prop_map(
            |(session, deletes, second, credit, drain)| Step::AttachReceiver { session, deletes, second, credit, drain }
        ),
        2 => any::<u8>().prop_map(|session| Step::AttachSender { session }),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(link, again)| Step::Detach { link, again }),
        6 => (any::<u8>(), credit(), prop::bool::weighted(0.4))
            .prop_map(|(link, credit, drain)| Step::Credit { link, credit, drain }),
        4 => (any::<u8>(), prop_oneof![1..4_u32, Just(2_048)])
            .prop_map(|(session, frames)| Step::Window { session, frames }),
        10 => (any::<u8>(), bytes, prop::bool::weighted(0.2), prop_oneof![3 => Just(0_u8), 1 => 1..6_u8], 0..4_u8, prop::option::weighted(0.5, any::<u8>())).prop_map(
            |(link, bytes, settled, batch, frames_now, work)| Step::Send { link, bytes, settled, batch, frames_now, work }
        ),
        4 => (any::<u8>(), 1..30_u8).prop_map(|(link, frames)| Step::SendMore { link, frames }),
        1 => any::<u8>().prop_map(|link| Step::Abort { link }),
        8 => (any::<u8>(), any::<u8>(), 1..6_u8, verdict(), any::<bool>()).prop_map(
            |(session, first, count, verdict, settled)| Step::Settle { session, first, count, verdict, settled }
        ),
        1 => any::<u8>().prop_map(|session| Step::AttachCoordinator { session }),
        1 => any::<u8>().prop_map(|link| Step::Declare { link }),
        3 => (any::<u8>(), prop::bool::weighted(0.25))
            .prop_map(|(transaction, fail)| Step::Discharge { transaction, fail }),
        10 => (any::<u8>(), any::<u8>(), verdict(), any::<u8>()).prop_map(
            |(session, delivery, verdict, transaction)| Step::SettleWork { session, delivery, verdict, transaction }
        ),
        3 => (any::<u8>(), any::<u8>(), any::<bool>()).prop_map(
            |(session, delivery, has_state)| Step::SettleStaged { session, delivery, has_state }
        ),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(session, first)| Step::Forget { session, first }),
        2 => prop_oneof![Just(500_u64), Just(31_000), Just(61_000)].prop_map(|ms| Step::Pause { ms }),
        2 => any::<bool>().prop_map(Step::Read),
        4 => any::<bool>().prop_map(Step::Cork),
    ]
}
