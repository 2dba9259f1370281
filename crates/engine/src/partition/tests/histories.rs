//! Random histories of a queue: small times and sizes, so that their ends meet often.

use proptest::prelude::*;

use crate::{QueueOptions, ReceiveMode, SubQueue};

/// One move of a history. Numbers called `pick` choose among what is there, counted from the latest.
#[derive(Debug, Clone)]
pub(super) enum Move {
    Send(Vec<Draft>),
    Cancel(Vec<usize>),
    Open(SubQueue, ReceiveMode),
    Credit { pick: usize, messages: u64, bytes: u64, drain: bool },
    Close(usize),
    Settle(Vec<usize>, Verb, Option<(u8, u8)>),
    Renew(Vec<usize>),
    ReceiveDeferred(Vec<usize>, SubQueue, ReceiveMode),
    Peek { from: u64, count_max: u32, bytes_max: usize, sub_queue: SubQueue },
    Wait(u64),
    SetOptions(QueueOptions),
    EndTurn,
    Restart,
}

#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) bytes: usize,
    pub(super) time_to_live_ms: Option<u64>,
    pub(super) delay_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Verb {
    Complete,
    Abandon,
    Defer,
    DeadLetter,
    Release,
}

fn sub_queue() -> impl Strategy<Value = SubQueue> {
    prop_oneof![
        6 => Just(SubQueue::Main),
        3 => Just(SubQueue::DeadLetter),
        1 => Just(SubQueue::TransferDeadLetter),
    ]
}

fn mode() -> impl Strategy<Value = ReceiveMode> {
    prop_oneof![4 => Just(ReceiveMode::PeekLock), 1 => Just(ReceiveMode::ReceiveAndDelete)]
}

fn options() -> impl Strategy<Value = QueueOptions> {
    let default = prop_oneof![2 => Just(None), 1 => (0..25u64).prop_map(Some)];
    (5..20u64, 1..4u32, default, any::<bool>(), 4..8u64, 20..80u64).prop_map(
        |(lock_duration_ms, max_delivery_count, default, dead_lettering, message_bytes, bytes)| {
            QueueOptions {
                lock_duration_ms,
                max_delivery_count,
                default_message_time_to_live_ms: default,
                dead_lettering_on_message_expiration: dead_lettering,
                requires_session: false,
                auto_delete_on_idle_ms: None,
                max_message_size_bytes: message_bytes,
                max_size_bytes: bytes,
            }
        },
    )
}

fn draft() -> impl Strategy<Value = Draft> {
    let time_to_live_ms = prop_oneof![2 => Just(None), 2 => (0..30u64).prop_map(Some)];
    let delay_ms = prop_oneof![4 => Just(None), 1 => (0..20u64).prop_map(Some)];
    let draft = (0..6usize, time_to_live_ms, delay_ms);
    draft.prop_map(|(bytes, time_to_live_ms, delay_ms)| Draft { bytes, time_to_live_ms, delay_ms })
}

fn picks() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![6 => (0..6usize).prop_map(|pick| vec![pick]), 3 => prop::collection::vec(0..6usize, 0..4)]
}

fn one_move() -> impl Strategy<Value = Move> {
    let verb = prop_oneof![
        2 => Just(Verb::Complete),
        3 => Just(Verb::Abandon),
        5 => Just(Verb::Defer),
        2 => Just(Verb::DeadLetter),
        2 => Just(Verb::Release),
    ];
    let modify = prop_oneof![3 => Just(None), 1 => (0..3u8, 0..3u8).prop_map(Some)];
    let bytes = prop_oneof![3 => Just(u64::MAX), 1 => 0..12u64];
    let credit = (0..4usize, 0..5u64, bytes, prop::bool::weighted(0.2));
    let peek = (0..40u64, 0..12u32, 0..20usize, sub_queue());
    prop_oneof![
        20 => prop::collection::vec(draft(), 0..4).prop_map(Move::Send),
        3 => picks().prop_map(Move::Cancel),
        6 => (sub_queue(), mode()).prop_map(|(sub_queue, mode)| Move::Open(sub_queue, mode)),
        20 => credit.prop_map(|(pick, messages, bytes, drain)| Move::Credit { pick, messages, bytes, drain }),
        2 => (0..4usize).prop_map(Move::Close),
        25 => (picks(), verb, modify).prop_map(|(picks, verb, modify)| Move::Settle(picks, verb, modify)),
        4 => picks().prop_map(Move::Renew),
        9 => (picks(), sub_queue(), mode()).prop_map(|(picks, from, mode)| Move::ReceiveDeferred(picks, from, mode)),
        3 => peek.prop_map(|(from, count_max, bytes_max, sub_queue)| Move::Peek { from, count_max, bytes_max, sub_queue }),
        12 => (0..12u64).prop_map(Move::Wait),
        1 => options().prop_map(Move::SetOptions),
        8 => Just(Move::EndTurn),
        2 => Just(Move::Restart),
    ]
}

pub(super) type History = (QueueOptions, Vec<Move>, u64);

pub(super) fn histories() -> impl Strategy<Value = History> {
    (options(), prop::collection::vec(one_move(), 0..120), any::<u64>())
}
