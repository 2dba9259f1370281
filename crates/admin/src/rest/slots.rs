//! Slots for receives that wait for a message, or whose message is being written.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use peeklock_access::Resource;

/// Slots of all receives together.
const SLOTS_MAX: usize = 8_192;

/// The slots, shared by all requests; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Slots(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_holder: HashMap<Holder, usize>,
}

/// Who takes slots: one holder may take as many as it leaves free, so that there are always some for others.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Holder {
    Entity(Resource),
    /// The place of a rule, and the principal.
    Credential(Resource, Box<str>),
}

/// A slot, free again when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Slots,
    holders: Vec<Holder>,
}

impl Slots {
    /// Takes a slot for an entity and a credential; `None` if one of them has as many slots as are free.
    pub(super) fn take(&self, entity: Resource, credential: Option<(Resource, Box<str>)>) -> Option<Slot> {
        let credential = credential.map(|(level, principal)| Holder::Credential(level, principal));
        let holders: Vec<_> = [Holder::Entity(entity)].into_iter().chain(credential).collect();
        let mut taken = self.taken();
        let free = SLOTS_MAX.saturating_sub(taken.all);
        if holders.iter().any(|holder| taken.by_holder.get(holder).copied().unwrap_or_default() >= free) {
            return None;
        }
        taken.all += 1;
        for holder in &holders {
            *taken.by_holder.entry(holder.clone()).or_default() += 1;
        }
        drop(taken);
        Some(Slot { slots: self.clone(), holders })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken();
        taken.all = taken.all.saturating_sub(1);
        for holder in &self.holders {
            let Some(count) = taken.by_holder.get_mut(holder) else { continue };
            *count = count.saturating_sub(1);
            if *count == 0 {
                taken.by_holder.remove(holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes slots until one is refused.
    fn take_all(slots: &Slots, entity: &str, level: &str, principal: &str) -> Vec<Slot> {
        let take = || slots.take(Resource::entity(entity), Some((Resource::entity(level), principal.into())));
        std::iter::from_fn(take).collect()
    }

    #[test]
    fn one_credential_or_entity_leaves_slots_to_others() {
        let slots = Slots::default();
        let narrow = take_all(&slots, "a", "a", "listen");
        assert_eq!(narrow.len(), SLOTS_MAX / 2);
        assert!(take_all(&slots, "a", "", "root").is_empty(), "the entity has its part");
        assert!(take_all(&slots, "b", "a", "listen").is_empty(), "the credential has its part");
        let other = take_all(&slots, "b", "b", "listen");
        assert_eq!(other.len(), SLOTS_MAX / 4, "a rule of the same name, of another entity");
        assert!(slots.take(Resource::entity("c"), None).is_some());
        drop((narrow, other));
        let taken = slots.taken();
        assert_eq!((taken.all, taken.by_holder.len()), (0, 0));
    }
}
