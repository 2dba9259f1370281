//! Frequencies of the possible steps.

use peeklock_engine::{EntityStatus, ReceiveMode, SubQueue};
use peeklock_storage::local::{Call, Event};
use proptest::prelude::*;
use proptest::strategy::Union;

use super::clock;
use super::forwarding::network::{LOOSE_TO, READ, SOURCES, TURNS_TO};
use super::rules::RULES;
use super::steps::{
    Act, Area, DiskStep, FLAVOURS, ForwardStep, How, NewOptions, Place, SessionStep, Step, TopicStep,
};
use super::topic::SUBSCRIPTIONS;
use super::world::QUEUES;

type Weighted = Vec<(u32, BoxedStrategy<Step>)>;

/// Histories in which these areas have equal shares.
pub(super) fn steps(areas: &[Area]) -> impl Strategy<Value = Vec<Step>> + use<> {
    histories(areas, anywhere().boxed(), 1..80)
}

/// The same, longer and with a failing disk.
pub(super) fn steps_on_disk(areas: &[Area]) -> impl Strategy<Value = Vec<Step>> + use<> {
    let anywhere = prop_oneof![3 => anywhere(), 1 => disk_step().prop_map(Step::Disk)];
    histories(areas, anywhere.boxed(), 1..160)
}

/// Histories of a topic and the queues with many messages, on a disk that damages their attributes.
pub(super) fn steps_on_rotting_disk() -> impl Strategy<Value = Vec<Step>> {
    let anywhere = prop_oneof![3 => anywhere(), 1 => disk_step().prop_map(Step::Disk), 2 => rotting()];
    histories(&[Area::Topic, Area::Queues], anywhere.boxed(), 40..160)
}

/// Damage of attributes, and what it needs: full segments, and states that are reloaded.
fn rotting() -> impl Strategy<Value = Step> {
    let to = prop_oneof![4 => Just(Place::Topic), 1 => (0..QUEUES.len()).prop_map(Place::Queue)];
    let many = prop::collection::vec(0..FLAVOURS, 10..40);
    prop_oneof![
        4 => (to, many).prop_map(|(to, flavours)| Step::Send { to, flavours, delay_ms: None }),
        4 => Just(Step::Commit { batches: 4, refused: None }),
        2 => Just(Step::Disk(DiskStep::Keep)),
        4 => (index(), index()).prop_map(|(which, byte)| Step::Disk(DiskStep::RotHead(which, byte))),
        1 => Just(Step::Commit { batches: 2, refused: Some(1) }),
        1 => any::<u64>().prop_map(|seed| Step::Crash { seed }),
    ]
}

/// File-system calls that change something.
const CHANGES: [Call; 9] = [
    Call::OpenDirectory,
    Call::SyncDirectory,
    Call::Create,
    Call::Rename,
    Call::Remove,
    Call::Write,
    Call::Sync,
    Call::Allocate,
    Call::SetLength,
];

/// `errno` of Linux.
const EIO: i32 = 5;
pub(super) const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;

fn disk_step() -> impl Strategy<Value = DiskStep> {
    let fails = prop_oneof![
        2 => prop::sample::select(vec![EIO, EMFILE, ENOSPC]).prop_map(Event::Fail),
        1 => Just(Event::FailLate(EIO)),
    ];
    let fail = (prop::sample::select(CHANGES.to_vec()), 0..6_u64, fails)
        .prop_map(|(call, pass, event)| DiskStep::Plan { call: Some(call), pass, event });
    let power_cut = (0..60_u64, any::<u64>()).prop_map(|(pass, seed)| DiskStep::Plan {
        call: None,
        pass,
        event: Event::PowerCut(seed),
    });
    // Fewer failures than make the engine give up a message.
    let fail_reads = (1..6_u64, prop::sample::select(vec![EIO, EMFILE]))
        .prop_map(|(count, errno)| DiskStep::FailReads(count, errno));
    prop_oneof![
        6 => Just(DiskStep::Keep),
        2 => Just(DiskStep::Idle),
        6 => any::<bool>().prop_map(|is_eager| DiskStep::Clean { is_eager }),
        1 => fail,
        1 => fail_reads,
        1 => power_cut,
        1 => (index(), index()).prop_map(|(which, byte)| DiskStep::Rot(which, byte)),
        1 => (index(), index()).prop_map(|(which, byte)| DiskStep::RotHead(which, byte)),
    ]
}

fn histories(
    areas: &[Area],
    anywhere: BoxedStrategy<Step>,
    len: std::ops::Range<usize>,
) -> impl Strategy<Value = Vec<Step>> + use<> {
    let areas = areas.iter().map(|area| (1, Union::new_weighted(area.steps()).boxed())).collect();
    let step = prop_oneof![3 => Union::new_weighted(areas), 4 => anywhere];
    prop::collection::vec(step, len)
}

fn how() -> impl Strategy<Value = How> {
    prop_oneof![
        4 => Just(How::Complete),
        2 => Just(How::Abandon),
        1 => Just(How::Postpone),
        1 => Just(How::Defer),
        1 => Just(How::DeadLetter),
        1 => Just(How::Release),
    ]
}

/// Seconds, an hour, ten years.
fn off_ms() -> impl Strategy<Value = i64> {
    let size = prop_oneof![1_000..100_000_i64, Just(3_600_000), Just(315_360_000_000)];
    (size, any::<bool>()).prop_map(|(size, is_ahead)| if is_ahead { size } else { -size })
}

fn anywhere() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::CloseReceivers),
        8 => (index(), how()).prop_map(|(which, how)| Step::Settle { which, how }),
        1 => (index(), mode()).prop_map(|(which, mode)| Step::TakeDeferred { which, mode }),
        1 => index().prop_map(|which| Step::Undefer { which }),
        2 => (1..90_000_u64).prop_map(|duration_ms| Step::Advance { duration_ms }),
        8 => (1..5_usize, prop::option::weighted(0.1, 1..4_usize))
            .prop_map(|(batches, refused)| Step::Commit { batches, refused }),
        5 => Just(Step::Read),
        1 => Just(Step::FullOnce),
        1 => any::<u64>().prop_map(|seed| Step::Crash { seed }),
        1 => (off_ms(), 1..clock::TRANSIENT_MS_MAX).prop_map(|(off_ms, for_ms)| Step::Disturb { off_ms, for_ms }),
        1 => (1..1_000_000_000_u64).prop_map(|behind_ms| Step::CrashBehind { behind_ms }),
    ]
}

impl Area {
    fn steps(self) -> Weighted {
        let queue = || (0..QUEUES.len()).prop_map(Place::Queue);
        match self {
            Self::Queues => {
                vec![
                    (8, send(queue())),
                    (5, receive(queue())),
                    (1, delete(queue())),
                    (2, act(queue())),
                    (2, change_options()),
                ]
            }
            Self::Transactions => {
                let to = prop_oneof![6 => queue(), 1 => Just(Place::Sessions)];
                let delay_ms = prop::option::weighted(0.15, 1..100_000_u64);
                let how = prop_oneof![2 => Just(How::Complete), 1 => how()];
                let (to, settles) = (prop::collection::vec(to, 0..4), prop::collection::vec(how, 0..4));
                let transact = (to, delay_ms, settles)
                    .prop_map(|(to, delay_ms, settles)| Step::Transact { to, delay_ms, settles })
                    .boxed();
                vec![(8, transact), (4, send(queue())), (5, receive(queue())), (3, act(queue()))]
            }
            Self::Topic => {
                let subscription = (0..SUBSCRIPTIONS.len()).prop_map(Place::Subscription);
                let from = (0..SUBSCRIPTIONS.len()).prop_map(Place::Subscription);
                vec![
                    (6, send(Just(Place::Topic))),
                    (8, receive(subscription)),
                    (5, topic_step()),
                    (1, delete(from)),
                    (2, act((0..SUBSCRIPTIONS.len()).prop_map(Place::Subscription))),
                ]
            }
            Self::Sessions => {
                let dead_letters = (1..8_u64).prop_map(|credit| Step::Receive {
                    from: Place::Sessions,
                    sub_queue: SubQueue::DeadLetter,
                    mode: ReceiveMode::PeekLock,
                    credit,
                });
                vec![
                    (6, send(Just(Place::Sessions))),
                    (1, dead_letters.boxed()),
                    (9, session_step()),
                    (1, delete(Just(Place::Sessions))),
                    (2, act(Just(Place::Sessions))),
                ]
            }
            Self::Temporary => vec![
                (6, send(Just(Place::Temporary))),
                (4, receive(Just(Place::Temporary))),
                (1, act(Just(Place::Temporary))),
                (3, Just(Step::DeclareTemporary).boxed()),
                (1, Just(Step::DeleteTemporary).boxed()),
                (2, (30_000..90_000_u64).prop_map(|duration_ms| Step::Advance { duration_ms }).boxed()),
            ],
            Self::Forwarding => {
                vec![
                    (20, forward_step()),
                    (1, (1..9_000_u64).prop_map(|duration_ms| Step::Advance { duration_ms }).boxed()),
                ]
            }
        }
    }
}

fn index() -> impl Strategy<Value = usize> {
    any::<prop::sample::Index>().prop_map(|index| index.index(1 << 16))
}

fn mode() -> impl Strategy<Value = ReceiveMode> {
    prop_oneof![3 => Just(ReceiveMode::PeekLock), 1 => Just(ReceiveMode::ReceiveAndDelete)]
}

fn send(to: impl Strategy<Value = Place> + 'static) -> BoxedStrategy<Step> {
    let flavours = prop::collection::vec(0..FLAVOURS, 1..6);
    let delay_ms = prop::option::weighted(0.2, 1..100_000_u64);
    (to, flavours, delay_ms)
        .prop_map(|(to, flavours, delay_ms)| Step::Send { to, flavours, delay_ms })
        .boxed()
}

fn receive(from: impl Strategy<Value = Place> + 'static) -> BoxedStrategy<Step> {
    let sub_queue = prop_oneof![5 => Just(SubQueue::Main), 1 => Just(SubQueue::DeadLetter)];
    (from, sub_queue, mode(), 1..8_u64)
        .prop_map(|(from, sub_queue, mode, credit)| Step::Receive { from, sub_queue, mode, credit })
        .boxed()
}

fn delete(from: impl Strategy<Value = Place> + 'static) -> BoxedStrategy<Step> {
    (from, 1..20_u32).prop_map(|(from, count)| Step::Delete { from, count }).boxed()
}

fn act(from: impl Strategy<Value = Place> + 'static) -> BoxedStrategy<Step> {
    let sub_queue = prop_oneof![3 => Just(SubQueue::Main), 1 => Just(SubQueue::DeadLetter)];
    let picks = prop::collection::vec(index(), 1..4);
    let act = prop_oneof![
        2 => Just(Act::Delete),
        2 => Just(Act::DeadLetter),
        2 => (0..QUEUES.len()).prop_map(Act::Move),
    ];
    (from, sub_queue, picks, act)
        .prop_map(|(from, sub_queue, picks, act)| Step::Act { from, sub_queue, picks, act })
        .boxed()
}

fn change_options() -> BoxedStrategy<Step> {
    let status = prop_oneof![
        5 => Just(EntityStatus::Active),
        1 => Just(EntityStatus::Disabled),
        1 => Just(EntityStatus::SendDisabled),
        1 => Just(EntityStatus::ReceiveDisabled),
    ];
    let life_ms = prop::option::weighted(0.3, 1_000..60_000_u64);
    (0..QUEUES.len(), 5_000..60_000_u64, 1..4_u32, life_ms, status)
        .prop_map(|(queue, lock_ms, max_delivery_count, life_ms, status)| {
            let options = NewOptions { lock_ms, max_delivery_count, life_ms, status };
            Step::ChangeOptions { queue, options }
        })
        .boxed()
}

fn topic_step() -> BoxedStrategy<Step> {
    let name = || 0..SUBSCRIPTIONS.len();
    let rule = || 0..RULES.len();
    prop_oneof![
        3 => name().prop_map(|name| TopicStep::Declare { name }),
        2 => name().prop_map(|name| TopicStep::Delete { name }),
        3 => (name(), rule()).prop_map(|(name, rule)| TopicStep::AddRule { name, rule }),
        3 => (name(), rule()).prop_map(|(name, rule)| TopicStep::RemoveRule { name, rule }),
        1 => name().prop_map(|name| TopicStep::ListRules { name }),
    ]
    .prop_map(Step::Topic)
    .boxed()
}

fn session_step() -> BoxedStrategy<Step> {
    let id = prop::option::weighted(0.6, 0..FLAVOURS);
    let wait_ms = prop_oneof![Just(0), 1..50_000_u64];
    prop_oneof![
        5 => (id, wait_ms, 1..8_u64).prop_map(|(id, wait_ms, credit)| SessionStep::Accept { id, wait_ms, credit }),
        2 => index().prop_map(|which| SessionStep::Close { which }),
        1 => index().prop_map(|which| SessionStep::Renew { which }),
        3 => (index(), prop::bool::weighted(0.2)).prop_map(|(which, clear)| SessionStep::SetState { which, clear }),
        1 => index().prop_map(|which| SessionStep::GetState { which }),
    ]
    .prop_map(Step::Session)
    .boxed()
}

fn forward_step() -> BoxedStrategy<Step> {
    use prop::option::weighted;
    let ids = prop_oneof![20 => prop::collection::vec(0..FLAVOURS, 1..6), 1 => Just(vec![0; 300])];
    let life = (weighted(0.15, 1..100_000_u64), weighted(0.15, 1..60_000_u64));
    let is = prop::bool::weighted;
    prop_oneof![
        10 => (prop::sample::select(&SOURCES[..]), ids, life).prop_map(|(to, ids, (delay_ms, ttl_ms))| {
            ForwardStep::Send { to, ids, delay_ms, ttl_ms }
        }),
        5 => (prop::sample::select(&READ[..]), is(0.2), 1..8_u64)
            .prop_map(|(from, dead, credit)| ForwardStep::Receive { from, dead, credit }),
        5 => (index(), how()).prop_map(|(which, how)| ForwardStep::Settle { which, how }),
        1 => Just(ForwardStep::CloseReceivers),
        2 => (prop::sample::select(&LOOSE_TO[..]), is(0.5))
            .prop_map(|(to, dead_letters_go)| ForwardStep::Loose { to, dead_letters_go }),
        3 => (is(0.75), prop::sample::select(&TURNS_TO[..])).prop_map(|(there, to)| ForwardStep::Turns { there, to }),
        1 => is(0.5).prop_map(|takes| ForwardStep::Sink { takes }),
        1 => is(0.7).prop_map(|there| ForwardStep::Ghost { there }),
    ]
    .prop_map(Step::Forward)
    .boxed()
}
