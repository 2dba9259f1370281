//! The context in which the model carries out one command.

use std::collections::BTreeMap;

use super::Rule;
use crate::{Effect, LockToken, Reply, RequestId, SequenceNumber};

#[derive(Debug)]
pub(super) struct Turn {
    pub(super) now: u64,
    pub(super) request: RequestId,
    pub(super) effects: Vec<Effect>,
    /// Tokens of new locks, taken from the partition, by queue and message.
    pub(super) tokens: BTreeMap<(u64, SequenceNumber), LockToken>,
    /// Tokens by which sessions can be taken over, taken from the partition, by the request that they answer.
    pub(super) session_tokens: BTreeMap<RequestId, LockToken>,
    broken: Option<Rule>,
    moment: u64,
}

impl Turn {
    pub(super) const fn new(broken: Option<Rule>) -> Self {
        Self {
            now: 0,
            request: RequestId(0),
            effects: Vec::new(),
            tokens: BTreeMap::new(),
            session_tokens: BTreeMap::new(),
            broken,
            moment: 0,
        }
    }

    pub(super) fn keeps(&self, rule: Rule) -> bool {
        self.broken != Some(rule)
    }

    pub(super) fn breaks(&self, rule: Rule) -> bool {
        !self.keeps(rule)
    }

    /// A counter that orders actions at the same time.
    pub(super) const fn next_moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    pub(super) fn reply(&mut self, reply: Reply) {
        self.reply_to(self.request, reply);
    }

    pub(super) fn reply_to(&mut self, request: RequestId, reply: Reply) {
        self.effects.push(Effect::Reply { request, reply });
    }
}
