//! The sizes of entities in the model, and what fits. What a transaction removes makes room only after its commit.

use std::collections::{BTreeMap, BTreeSet};

use super::transactions::root_of;
use super::{Bus, LinkKey, Path};
use crate::message::Draft;
use crate::outcome::{FULL, Outcome, Refused};

/// What the preceding work of a transaction adds and cancels.
#[derive(Debug, Default)]
pub(super) struct Added {
    /// Bytes by top-level entity.
    pub(super) bytes: BTreeMap<Path, u64>,
    /// The sizes of states that it sets, by the link that holds the session.
    states: BTreeMap<LinkKey, u64>,
    /// Scheduled messages that it cancels.
    pub(super) cancelled: BTreeSet<(Path, u64)>,
}

impl Bus {
    /// Bytes of all messages and states in a queue, or in a topic with its subscriptions: copies share a body.
    pub(crate) fn size_bytes(&self, root: Path) -> u64 {
        let (mut bodies, mut states_bytes) = (BTreeMap::new(), 0);
        for (_, queue) in self.sources().filter(|(path, _)| root_of(path) == root) {
            let drafts = queue.messages.values().map(|message| &message.draft);
            bodies.extend(drafts.map(|draft| (draft.id, draft.size_bytes)));
            let states = queue.sessions.values().filter_map(|session| session.state.as_ref());
            states_bytes += states.map(|(state, _)| state.len() as u64).sum::<u64>();
        }
        bodies.values().sum::<u64>() + states_bytes
    }

    /// Bytes of messages that are not duplicates of earlier ones.
    pub(super) fn new_bytes<'a>(&self, path: Path, drafts: impl Iterator<Item = &'a Draft>) -> u64 {
        let queue = self.source(path);
        let is_new = |draft: &&Draft| queue.is_some_and(|queue| queue.original_of(draft).is_none());
        drafts.filter(is_new).map(|draft| draft.size_bytes).sum()
    }

    /// # Errors
    /// So many bytes do not fit into an entity.
    pub(crate) fn check_room(&self, path: Path, new_bytes: u64) -> Result<(), Refused> {
        let root = root_of(path);
        let size_max_bytes = self.shape(root).and_then(|shape| shape.size_max_bytes).unwrap_or(u64::MAX);
        if self.size_bytes(root) + new_bytes > size_max_bytes { Err(FULL) } else { Ok(()) }
    }

    /// Sets the state of a session that is held.
    pub(crate) fn change_state(
        &mut self,
        path: Path,
        id: &str,
        state: Option<Vec<u8>>,
    ) -> Result<Outcome, Refused> {
        let after = state.as_ref().map_or(0, |bytes| bytes.len() as u64);
        self.check_state_room(path, (self.state_bytes(path, id), after), 0)?;
        let now_ms = self.now_ms;
        self.queue(path)?.set_state(now_ms, id, state);
        Ok(Outcome::Done)
    }

    /// Whether a state set in a transaction fits besides what was added before.
    pub(super) fn add_state(
        &self,
        (path, holder, id): (Path, LinkKey, &str),
        after: u64,
        added: &mut Added,
    ) -> Result<(), Refused> {
        let before = added.states.get(&holder).copied().unwrap_or_else(|| self.state_bytes(path, id));
        let bytes = added.bytes.entry(root_of(path)).or_default();
        self.check_state_room(path, (before, after), *bytes)?;
        *bytes += after.saturating_sub(before);
        added.states.insert(holder, after);
        Ok(())
    }

    fn state_bytes(&self, path: Path, id: &str) -> u64 {
        let session = self.queues.get(path).and_then(|queue| queue.sessions.get(id));
        session.and_then(|session| session.state.as_ref()).map_or(0, |(state, _)| state.len() as u64)
    }

    /// A state that does not grow always fits.
    fn check_state_room(
        &self,
        path: Path,
        (before, after): (u64, u64),
        others_bytes: u64,
    ) -> Result<(), Refused> {
        if after <= before { Ok(()) } else { self.check_room(path, others_bytes + after - before) }
    }
}
