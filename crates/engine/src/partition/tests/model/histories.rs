//! Random histories of a queue or topic, with small times and sizes, so that limits coincide often.

use proptest::prelude::*;
use proptest::strategy::Union;

use super::Area;
use super::draft::{Draft, LARGE, LockDraft, Move, SessionRequestDraft, Verb};
use super::options::{options, other_options};
use super::topic_moves::{about_topics, declare};
use crate::{EntityOptions, ReceiveMode, SubQueue};

/// The kind of entity in a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Queue,
    Sessions,
    Topic,
}

fn sub_queue() -> impl Strategy<Value = SubQueue> {
    prop_oneof![
        6 => Just(SubQueue::Main),
        3 => Just(SubQueue::DeadLetter),
        1 => Just(SubQueue::TransferDeadLetter),
    ]
}

pub(super) fn mode() -> impl Strategy<Value = ReceiveMode> {
    prop_oneof![4 => Just(ReceiveMode::PeekLock), 1 => Just(ReceiveMode::ReceiveAndDelete)]
}

pub(super) fn sometimes<T: std::fmt::Debug + Clone>(
    weight: u32,
    some: impl Strategy<Value = T>,
) -> impl Strategy<Value = Option<T>> {
    prop_oneof![10 - weight => Just(None), weight => some.prop_map(Some)]
}

pub(super) fn draft(kind: Kind) -> impl Strategy<Value = Draft> {
    let has_session = match kind {
        Kind::Queue => 0.1,
        Kind::Sessions => 0.98,
        Kind::Topic => 0.8,
    };
    let header_bytes = prop_oneof![12 => Just(0), 6 => 65_528..65_538u32, 2 => 4094..4098u32];
    let user = sometimes(5, (any::<bool>(), 0..2i64));
    (
        (0..6usize, header_bytes, sometimes(5, 0..30u64), sometimes(2, 0..20u64)),
        (
            prop::option::weighted(has_session, 0..4usize),
            sometimes(8, 0..3usize),
            user,
            (sometimes(8, 0..3usize), sometimes(6, 0..3usize)),
        ),
    )
        .prop_map(
            |((bytes, header_bytes, time_to_live_ms, delay_ms), (session, label, user, (id, key)))| Draft {
                bytes,
                header_bytes,
                time_to_live_ms,
                delay_ms,
                session,
                label,
                user,
                id,
                key,
            },
        )
}

fn picks() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![6 => (0..6usize).prop_map(|pick| vec![pick]), 3 => prop::collection::vec(0..6usize, 0..4)]
}

pub(super) fn requested() -> impl Strategy<Value = SessionRequestDraft> {
    let id = prop_oneof![10 => Just(None), 12 => (0..4usize).prop_map(Some), 1 => Just(Some(4))];
    let lock = prop_oneof![
        6 => Just(LockDraft::Exclusive),
        4 => Just(LockDraft::NonExclusive),
        3 => (0..3usize).prop_map(LockDraft::TakeOver),
    ];
    (id, 0..20u64, lock).prop_map(|(id, wait_ms, lock)| SessionRequestDraft { id, wait_ms, lock })
}

/// Room for three or four messages.
const FULL_BYTES: u64 = 16;

pub(super) type Weighted = Vec<(u32, BoxedStrategy<Move>)>;

fn delete() -> impl Strategy<Value = Move> {
    let parts = (0..40usize, sub_queue(), 0..6u32, 0..12u64);
    parts.prop_map(|(queue, sub_queue, count_max, before_ms)| Move::DeleteMessages {
        queue,
        sub_queue,
        count_max,
        before_ms,
        receiver: None,
    })
}

fn act() -> impl Strategy<Value = Move> {
    let parts = (picks(), 0..40usize, sub_queue(), 0..3usize);
    parts.prop_map(|(picks, queue, sub_queue, action)| Move::Act { picks, queue, sub_queue, action })
}

fn verb() -> impl Strategy<Value = Verb> {
    prop_oneof![
        2 => Just(Verb::Complete),
        3 => Just(Verb::Abandon),
        3 => (0..15u64).prop_map(Verb::Postpone),
        5 => Just(Verb::Defer),
        2 => Just(Verb::DeadLetter),
        3 => Just(Verb::Release),
    ]
}

/// Commands for every queue or subscription.
fn common(kind: Kind) -> Weighted {
    let modify = sometimes(6, (0..3u8, prop_oneof![6 => Just(1), 1 => Just(2), 2 => Just(LARGE)]));
    let settle =
        (picks(), verb(), modify).prop_map(|(picks, verb, modify)| Move::Settle(picks, verb, modify));
    let bytes = prop_oneof![3 => Just(u64::MAX), 1 => 0..12u64];
    let credit = (0..4usize, 0..5u64, bytes, prop::bool::weighted(0.2));
    let queue = || 0..40usize;
    let open = (queue(), sub_queue(), mode(), requested(), prop::bool::weighted(0.04));
    let deferred = (picks(), queue(), sub_queue(), mode(), sometimes(8, 0..4usize));
    let peek = (0..40u64, 0..12u32, 0..20usize, queue(), sub_queue(), sometimes(4, 0..4usize));
    vec![
        (16, prop::collection::vec(draft(kind), 0..4).prop_map(Move::Send).boxed()),
        (4, prop::collection::vec(draft(kind), 0..4).prop_map(Move::SendEach).boxed()),
        (3, picks().prop_map(Move::Cancel).boxed()),
        (
            8,
            open.prop_map(|(queue, sub_queue, mode, requested, wrongly)| Move::Open {
                queue,
                sub_queue,
                mode,
                requested,
                wrongly,
                after_ms: 0,
            })
            .boxed(),
        ),
        (
            20,
            credit
                .prop_map(|(pick, messages, bytes, drain)| Move::Credit { pick, messages, bytes, drain })
                .boxed(),
        ),
        (2, (0..4usize).prop_map(Move::Close).boxed()),
        (25, settle.boxed()),
        (4, picks().prop_map(Move::Renew).boxed()),
        (
            12,
            deferred
                .prop_map(|(picks, queue, sub_queue, mode, receiver)| Move::ReceiveDeferred {
                    picks,
                    queue,
                    sub_queue,
                    mode,
                    receiver,
                })
                .boxed(),
        ),
        (
            3,
            peek.prop_map(|(from, count_max, bytes_max, queue, sub_queue, session)| Move::Peek {
                from,
                count_max,
                bytes_max,
                queue,
                sub_queue,
                session,
            })
            .boxed(),
        ),
        (3, delete().boxed()),
        (2, Just(Move::Restart).boxed()),
    ]
}

/// Commands for sessions.
fn about_sessions() -> Weighted {
    let list = (0..40usize, sometimes(7, 0..4u64), 0..2u32, 0..4u32);
    vec![
        (
            8,
            (0..40usize, mode(), requested(), sometimes(5, 1..10u64))
                .prop_map(|(queue, mode, requested, after_ms)| Move::Open {
                    queue,
                    sub_queue: SubQueue::Main,
                    mode,
                    requested,
                    wrongly: false,
                    after_ms: after_ms.unwrap_or(0),
                })
                .boxed(),
        ),
        (5, (0..4usize).prop_map(Move::RenewSession).boxed()),
        (2, (0..4usize).prop_map(Move::GetState).boxed()),
        (
            7,
            (0..4usize, sometimes(7, 0..10usize))
                .prop_map(|(pick, state)| Move::SetState(pick, state))
                .boxed(),
        ),
        (
            5,
            list.prop_map(|(queue, updated_before, skip, top)| Move::ListSessions {
                queue,
                updated_before,
                skip,
                top,
            })
            .boxed(),
        ),
        (3, (0..4usize).prop_map(Move::Close).boxed()),
        (
            4,
            (sub_queue(), 0..4u32, 0..4usize)
                .prop_map(|(sub_queue, count_max, receiver)| Move::DeleteMessages {
                    queue: 1,
                    sub_queue,
                    count_max,
                    before_ms: 0,
                    receiver: Some(receiver),
                })
                .boxed(),
        ),
    ]
}

/// Commands that take effect together, and rarely one that can't.
fn unit(kind: Kind) -> impl Strategy<Value = Move> {
    let verb = prop_oneof![
        4 => Just(Verb::Complete),
        2 => Just(Verb::Abandon),
        2 => Just(Verb::Defer),
        1 => Just(Verb::DeadLetter),
        1 => Just(Verb::Release),
    ];
    let settle = (0..6usize, verb, sometimes(3, (0..3u8, Just(1))))
        .prop_map(|(pick, verb, modify)| Move::Settle(vec![pick], verb, modify));
    let states = if kind == Kind::Queue { 0 } else { 14 };
    let state = (0..4usize, sometimes(8, 0..8usize)).prop_map(|(pick, state)| Move::SetState(pick, state));
    let one = prop_oneof![
        10 => prop::collection::vec(draft(kind), 1..3).prop_map(Move::Send),
        12 => settle,
        4 => picks().prop_map(Move::Cancel),
        states => state,
        1 => prop_oneof![Just(Move::EndEntity), (0..4usize).prop_map(Move::GetState)],
    ];
    prop::collection::vec(one, 1..5).prop_map(Move::Unit)
}

fn one_move(kind: Kind, idles: bool, units: bool) -> impl Strategy<Value = Move> {
    let mut moves = common(kind);
    if units {
        moves.push((60, unit(kind).boxed()));
        moves.push((20, (0..12u64).prop_map(Move::Pass).boxed()));
    }
    moves.extend(if units { Vec::new() } else { super::selecting::moves() });
    moves.push((6, Just(Move::EndTurn).boxed()));
    // Waits for sessions are rare enough without a status that ends them; subscriptions with sessions cover that status.
    moves.push(match kind {
        Kind::Sessions => (1, options(idles).prop_map(Move::SetOptions).boxed()),
        Kind::Queue | Kind::Topic => (3, other_options(idles).prop_map(Move::SetOptions).boxed()),
    });
    moves.push((8, (0..12u64).prop_map(Move::Wait).boxed()));
    moves.push((8, (0..12u64).prop_map(Move::Pass).boxed()));
    if kind != Kind::Queue {
        moves.extend(about_sessions());
    }
    if kind == Kind::Topic {
        moves.extend(about_topics(idles, units));
    }
    if idles {
        moves.push((20, (0..30u64).prop_map(Move::Wait).boxed()));
        moves.push((10, (0..30u64).prop_map(Move::Pass).boxed()));
        moves.push((5, (0..40usize).prop_map(Move::Watch).boxed()));
        moves.push((4, Just(Move::Restart).boxed()));
        moves.push((1, Just(Move::EndEntity).boxed()));
    }
    Union::new_weighted(moves)
}

pub(in crate::partition::tests) type History = (EntityOptions, Vec<Move>, u64);

/// The same histories, in a queue with little room.
pub(super) fn nearly_full((mut options, moves, seed): History) -> History {
    if let EntityOptions::Queue(queue) = &mut options {
        queue.max_size_bytes = queue.max_size_bytes.min(FULL_BYTES);
    }
    (options, moves, seed)
}

/// The same histories, with duplicate detection.
pub(super) fn with_duplicates((mut options, moves, seed): History) -> History {
    match &mut options {
        EntityOptions::Queue(queue) => queue.requires_duplicate_detection = true,
        EntityOptions::Topic(topic) => topic.requires_duplicate_detection = true,
    }
    (options, moves, seed)
}

/// Like [`histories_of`], with duplicate detection.
fn histories_with_duplicates(kind: Kind, units: bool) -> BoxedStrategy<History> {
    histories_of(kind, false, units).prop_map(with_duplicates).boxed()
}

/// The same histories, in a partitioned entity. Most batches have one key.
pub(super) fn partitioned((mut options, mut moves, seed): History) -> History {
    match &mut options {
        EntityOptions::Queue(queue) => queue.kept.enable_partitioning = true,
        EntityOptions::Topic(topic) => topic.kept.enable_partitioning = true,
    }
    for one in &mut moves {
        if let Move::Send(drafts) = one
            && let Some(Draft { bytes: 1.., session, key, id, .. }) = drafts.first().cloned()
        {
            drafts.iter_mut().for_each(|draft| (draft.session, draft.key, draft.id) = (session, key, id));
        }
    }
    (options, moves, seed)
}

pub(super) fn histories_of(kind: Kind, idles: bool, units: bool) -> BoxedStrategy<History> {
    let entity = options(idles).prop_map(move |options| match kind {
        Kind::Queue => options.queue(false).into(),
        Kind::Sessions => options.queue(true).into(),
        Kind::Topic => options.topic().into(),
    });
    let subscriptions = if kind == Kind::Topic { 1..4 } else { 0..1 };
    let first = prop::collection::vec(declare(idles), subscriptions);
    let moves = (first, prop::collection::vec(one_move(kind, idles, units), 0..120));
    let moves = moves.prop_map(|(first, then)| [first, then].concat());
    (entity, moves, any::<u64>()).boxed()
}

/// The same histories, with other moves at these positions.
pub(super) fn with_others(((options, mut moves, seed), others): (History, Vec<(usize, Move)>)) -> History {
    for (at, other) in others {
        moves.insert(at.min(moves.len()), other);
    }
    (options, moves, seed)
}

/// Histories of all kinds with occasional actions of an administrator.
pub(in crate::partition::tests) fn administered() -> BoxedStrategy<History> {
    let kinds = prop_oneof![
        2 => histories_of(Kind::Queue, false, false),
        1 => histories_of(Kind::Sessions, false, false),
        2 => histories_of(Kind::Topic, false, false),
        1 => histories_of(Kind::Queue, false, false).prop_map(partitioned),
    ];
    let acts = prop::collection::vec((0..120usize, act()), 0..20);
    (kinds, acts).prop_map(with_others).boxed()
}

pub(in crate::partition::tests) fn histories(area: Area) -> BoxedStrategy<History> {
    match area {
        Area::Queue => histories_of(Kind::Queue, false, false),
        Area::Sessions => histories_of(Kind::Sessions, false, false),
        Area::Topics | Area::Rules => histories_of(Kind::Topic, false, false),
        Area::Idleness => prop_oneof![
            1 => histories_of(Kind::Queue, true, false),
            1 => histories_of(Kind::Sessions, true, false),
            2 => histories_of(Kind::Topic, true, false),
        ]
        .boxed(),
        Area::Duplicates => prop_oneof![
            2 => histories_with_duplicates(Kind::Queue, false),
            1 => histories_with_duplicates(Kind::Sessions, false),
            2 => histories_with_duplicates(Kind::Topic, false),
        ]
        .boxed(),
        Area::Units => prop_oneof![
            2 => histories_of(Kind::Queue, false, true),
            4 => histories_of(Kind::Sessions, false, true).prop_map(nearly_full),
            2 => histories_of(Kind::Topic, false, true),
            1 => histories_of(Kind::Queue, true, true),
            1 => histories_with_duplicates(Kind::Queue, true),
            1 => histories_with_duplicates(Kind::Topic, true),
        ]
        .boxed(),
        Area::Combined => super::combined::histories(),
        Area::Partitions => prop_oneof![
            3 => histories_of(Kind::Queue, false, false),
            1 => histories_of(Kind::Sessions, false, false),
            2 => histories_of(Kind::Topic, false, false),
            1 => histories_of(Kind::Queue, false, true),
            1 => histories_with_duplicates(Kind::Queue, false),
            1 => histories_with_duplicates(Kind::Topic, false),
        ]
        .prop_map(partitioned)
        .boxed(),
    }
}
