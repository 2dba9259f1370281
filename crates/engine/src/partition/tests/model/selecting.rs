//! Receivers with a selector, in the model: the examination state of each.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::draft::Move;
use super::queue::Queue;
use super::{Rule, Turn};
use crate::{Effect, ReceiverId, SequenceNumber, SubQueue};

/// Moves of histories.
pub(super) fn moves() -> Vec<(u32, BoxedStrategy<Move>)> {
    vec![
        (4, (0..4usize).prop_map(Move::Select).boxed()),
        (12, (0..4usize, any::<u8>()).prop_map(|(pick, bits)| Move::Examined(pick, bits)).boxed()),
    ]
}

/// The examination state of one receiver.
#[derive(Debug, Clone, Default)]
pub(super) struct Selected {
    /// Whether a message matches, for examined messages.
    verdicts: BTreeMap<u64, bool>,
    is_asked: bool,
    /// Messages under examination, without those delivered since.
    asked: Vec<u64>,
}

impl Queue {
    pub(super) fn select(&mut self, id: ReceiverId) {
        if let Some(receiver) = self.receivers.get_mut(&id.0) {
            receiver.selected.get_or_insert_default();
        }
    }

    pub(super) fn examined(&mut self, id: ReceiverId, matching: &[SequenceNumber]) {
        let selected = self.receivers.get_mut(&id.0).and_then(|receiver| receiver.selected.as_mut());
        let Some(selected) = selected else { return };
        selected.is_asked = false;
        for number in std::mem::take(&mut selected.asked) {
            selected.verdicts.insert(number, matching.contains(&SequenceNumber(number)));
        }
    }

    /// Forgets the verdict on a delivered message, because it may not match any more when it returns.
    pub(super) fn forget_verdicts(&mut self, turn: &Turn, number: u64) {
        if turn.breaks(Rule::WhatComesBackIsExaminedAgain) {
            return;
        }
        for selected in self.receivers.values_mut().filter_map(|receiver| receiver.selected.as_mut()) {
            selected.verdicts.remove(&number);
            selected.asked.retain(|asked| *asked != number);
        }
    }

    /// The available messages for a receiver with credit, with the verdict on each, if known.
    fn verdicts_of(&self, id: u64) -> Option<Vec<(u64, Option<bool>)>> {
        let receiver = self.receivers.get(&id).filter(|receiver| receiver.is_ready())?;
        let selected = receiver.selected.as_ref()?;
        let sub_queue = receiver.options.source.sub_queue;
        let available = self.numbers_where(|message| message.is_available_in(sub_queue));
        Some(available.into_iter().map(|number| (number, selected.verdicts.get(&number).copied())).collect())
    }

    /// The first matching message, if all earlier ones are known not to match.
    fn next_selected(&self, turn: &Turn, id: u64) -> Option<u64> {
        let mut verdicts = self.verdicts_of(id)?;
        if turn.breaks(Rule::WhatMatchesComesInOrder) {
            verdicts.retain(|(_, verdict)| verdict.is_some());
        }
        if turn.breaks(Rule::OnlyWhatMatchesIsDelivered) {
            verdicts.iter_mut().for_each(|(_, verdict)| *verdict = verdict.map(|_| true));
        }
        let first = verdicts.into_iter().find(|(_, verdict)| *verdict != Some(false))?;
        (first.1 == Some(true)).then_some(first.0)
    }

    pub(super) fn serve_selected(&mut self, turn: &mut Turn) {
        let selecting = self.receivers.iter().filter(|(_, receiver)| receiver.selected.is_some());
        let selecting: Vec<u64> = selecting.map(|(id, _)| *id).collect();
        let mut is_served = true;
        while is_served {
            is_served = false;
            for id in &selecting {
                if let Some(number) = self.next_selected(turn, *id) {
                    self.deliver(turn, ReceiverId(*id), number);
                    is_served = true;
                }
            }
        }
        for id in selecting {
            self.ask(turn, id);
        }
    }

    /// Starts an examination of messages without a verdict, unless one is under way.
    fn ask(&mut self, turn: &mut Turn, id: u64) {
        let Some(verdicts) = self.verdicts_of(id) else { return };
        let unknown = verdicts.into_iter().filter(|(_, verdict)| verdict.is_none());
        let unknown: Vec<u64> = unknown.map(|(number, _)| number).collect();
        let views = unknown.iter().map(|number| self.messages[number].view.clone()).collect();
        let selected = self.receivers.get_mut(&id).and_then(|receiver| receiver.selected.as_mut());
        let Some(selected) = selected.filter(|selected| !selected.is_asked) else { return };
        if !unknown.is_empty() {
            (selected.is_asked, selected.asked) = (true, unknown);
            turn.effects.push(Effect::Examine { receiver: ReceiverId(id), views });
        }
    }

    /// Whether no message is left that a receiver with a selector could get.
    pub(super) fn is_dry_for(&self, sub_queue: SubQueue, selected: &Selected) -> bool {
        let available = self.numbers_where(|message| message.is_available_in(sub_queue));
        !selected.is_asked && available.iter().all(|number| selected.verdicts.get(number) == Some(&false))
    }
}
