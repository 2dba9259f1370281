//! Moves for subscriptions and their rules.

use proptest::prelude::*;

use super::draft::{FilterDraft, Move, RuleDraft};
use super::histories::{Kind, Weighted, draft, mode, requested, sometimes};
use super::options::other_options;
use super::sql::{ACTIONS, CONDITIONS};
use crate::{Intent, SubQueue};

fn filter() -> impl Strategy<Value = FilterDraft> {
    let correlation = (sometimes(7, 0..3usize), sometimes(4, 0..2i64));
    prop_oneof![
        5 => Just(FilterDraft::True),
        1 => Just(FilterDraft::False),
        6 => correlation.prop_map(|(label, size)| FilterDraft::Correlation(label, size)),
        2 => (prop::option::of(0..3_usize), 0..4_i64).prop_map(|(label, size)| FilterDraft::Selector(label, size)),
        6 => (0..CONDITIONS.len()).prop_map(FilterDraft::Sql),
    ]
}

fn rule() -> impl Strategy<Value = RuleDraft> {
    let parts = (0..5usize, filter(), sometimes(4, 0..ACTIONS.len()));
    parts.prop_map(|(name, filter, action)| RuleDraft { name, filter, action })
}

pub(super) fn declare(idles: bool) -> impl Strategy<Value = Move> {
    let rules = prop::collection::vec(rule(), 0..4);
    let wrong = prop_oneof![20 => Just(0), 1 => 1..4u8];
    let intent =
        prop_oneof![8 => Just(Intent::Declare), 1 => Just(Intent::Create), 1 => Just(Intent::Update)];
    let parts = (intent, 0..3usize, other_options(idles), rules, wrong);
    parts.prop_map(|(intent, name, options, rules, wrong)| Move::Declare {
        intent,
        name,
        options,
        rules,
        wrong,
    })
}

/// Moves for subscriptions and their rules, and for transfer dead letters of the topic.
pub(super) fn about_topics(idles: bool, units: bool) -> Weighted {
    let (queue, name) = (|| 0..40usize, || 0..5usize);
    let mut moves = vec![
        (6, declare(idles).boxed()),
        (1, queue().prop_map(Move::Delete).boxed()),
        (5, (queue(), rule()).prop_map(|(queue, rule)| Move::AddRule(queue, rule)).boxed()),
        (3, (queue(), rule()).prop_map(|(queue, rule)| Move::ReplaceRule(queue, rule)).boxed()),
        (3, (queue(), name()).prop_map(|(queue, name)| Move::RemoveRule(queue, name)).boxed()),
        (
            2,
            (queue(), 0..2u32, 0..4u32)
                .prop_map(|(queue, skip, top)| Move::ListRules { queue, skip, top })
                .boxed(),
        ),
    ];
    // In units they would take the place of those by which broken rules are noticed.
    if !units {
        moves.extend(about_transfer_dead_letters());
    }
    moves
}

/// Moves for transfer dead letters of the topic, and their receivers.
fn about_transfer_dead_letters() -> Weighted {
    let open = (mode(), requested()).prop_map(|(mode, requested)| Move::Open {
        queue: 1,
        sub_queue: SubQueue::TransferDeadLetter,
        mode,
        requested,
        wrongly: false,
        after_ms: 0,
    });
    let keep = prop::collection::vec(draft(Kind::Topic), 1..3).prop_map(Move::KeepUndelivered);
    vec![(3, keep.boxed()), (3, open.boxed())]
}
