//! Settlements, and new states, of deliveries that wait to be written; those of neighbours are joined.

use crate::wire::performative::DeliveryState;

/// Settlements of consecutive deliveries, or the new state of one.
#[derive(Debug)]
pub(super) struct Settlement {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) state: DeliveryState,
    pub(super) settled: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Settlements {
    list: Vec<Settlement>,
    /// Whether they are not in ascending order of delivery-ids. Then an id may occur several times: a new state is
    /// followed by the settlement, and Python's threads reuse ids.
    is_unordered: bool,
}

impl Settlements {
    /// Adds a settlement, or a new state, of one delivery.
    pub(super) fn add(&mut self, delivery_id: u32, state: &DeliveryState, settled: bool) {
        if let Some(last) = self.list.last_mut() {
            let ahead = delivery_id.wrapping_sub(last.last);
            self.is_unordered |= ahead == 0 || ahead > u32::MAX / 2;
            if !self.is_unordered && last.is_followed_by(delivery_id, state, settled) {
                last.last = delivery_id;
                return;
            }
        }
        self.list.push(Settlement { first: delivery_id, last: delivery_id, state: state.clone(), settled });
    }

    /// The number of runs.
    pub(super) const fn len(&self) -> usize {
        self.list.len()
    }

    /// Passes all to `write` in the order of delivery-ids, those of neighbours with equal state as one; what concerns one
    /// delivery stays in order. Answers may come in any order: they are sorted first, relative to one of them, which
    /// orders serial numbers as long as they span less than half the number space.
    pub(super) fn write_joined(&mut self, mut write: impl FnMut(Settlement)) {
        if std::mem::take(&mut self.is_unordered)
            && let Some(origin) = self.list.first().map(|one| one.first.wrapping_sub(u32::MAX / 2))
        {
            self.list.sort_by_key(|settlement| settlement.first.wrapping_sub(origin));
        }
        let mut run: Option<Settlement> = None;
        for next in self.list.drain(..) {
            match &mut run {
                Some(run) if run.is_followed_by(next.first, &next.state, next.settled) => {
                    run.last = next.last;
                }
                run => run.replace(next).into_iter().for_each(&mut write),
            }
        }
        run.into_iter().for_each(write);
    }
}

impl Settlement {
    /// Whether a settlement, or a new state, of `delivery_id` continues this one.
    #[inline]
    fn is_followed_by(&self, delivery_id: u32, state: &DeliveryState, settled: bool) -> bool {
        self.last.wrapping_add(1) == delivery_id && self.settled == settled && self.state == *state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(added: &[(u32, DeliveryState, bool)]) -> Vec<(u32, u32, bool)> {
        let mut settlements = Settlements::default();
        for (delivery_id, state, settled) in added {
            settlements.add(*delivery_id, state, *settled);
        }
        let mut written = Vec::new();
        settlements.write_joined(|one| written.push((one.first, one.last, one.settled)));
        assert_eq!(settlements.len(), 0);
        written
    }

    #[test]
    fn neighbours_are_joined_whatever_the_order_of_their_settlements() {
        let settled = |ids: &[u32]| {
            joined(&ids.iter().map(|id| (*id, DeliveryState::Accepted, true)).collect::<Vec<_>>())
        };
        assert_eq!(settled(&[1, 2, 3]), [(1, 3, true)]);
        assert_eq!(settled(&[7, 8, 4, 3, 6]), [(3, 4, true), (6, 8, true)]);
        assert_eq!(settled(&[0, 1, u32::MAX]), [(u32::MAX, 1, true)]);
        let other = [(1, DeliveryState::Accepted, true), (2, DeliveryState::Released, true)];
        assert_eq!(joined(&other), [(1, 1, true), (2, 2, true)]);
    }

    #[test]
    fn consecutive_settlements_are_one_entry() {
        let mut settlements = Settlements::default();
        for delivery_id in u32::MAX - 1..=u32::MAX {
            settlements.add(delivery_id, &DeliveryState::Accepted, true);
        }
        settlements.add(0, &DeliveryState::Accepted, true);
        assert_eq!(settlements.len(), 1);
    }

    #[test]
    fn what_concerns_one_delivery_stays_in_order() {
        let accepted = |id, settled| (id, DeliveryState::Accepted, settled);
        let added = [accepted(5, false), accepted(6, false), accepted(4, true), accepted(5, true)];
        assert_eq!(joined(&added), [(4, 4, true), (5, 6, false), (5, 5, true)]);
        // The ids of settled deliveries are used again.
        let reused = [accepted(5, true), accepted(6, true), accepted(5, false), accepted(5, true)];
        assert_eq!(joined(&reused), [(5, 6, true), (5, 5, false), (5, 5, true)]);
        let descending = [accepted(7, true), accepted(6, true), accepted(7, false), accepted(7, true)];
        assert_eq!(joined(&descending), [(6, 7, true), (7, 7, false), (7, 7, true)]);
    }
}
