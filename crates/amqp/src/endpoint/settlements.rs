//! Settlements, and new states, of deliveries that wait to be written; those of neighbours are joined.

use crate::wire::performative::DeliveryState;

/// Settlements of consecutive deliveries, or the new state of one, that have not been written yet.
#[derive(Debug)]
pub(super) struct Settlement {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) state: DeliveryState,
    pub(super) settled: bool,
}

impl Settlement {
    /// Adds a settlement, or a new state, of one delivery to others.
    pub(super) fn add(list: &mut Vec<Self>, delivery_id: u32, state: &DeliveryState, settled: bool) {
        match list.last_mut() {
            // New states stay single: a settlement that follows must not come before one of them.
            Some(last) if settled && last.is_followed_by(delivery_id, state, settled) => {
                last.last = delivery_id;
            }
            _ => list.push(Self { first: delivery_id, last: delivery_id, state: state.clone(), settled }),
        }
    }

    /// Whether a settlement, or a new state, of `delivery_id` continues this one.
    #[inline]
    fn is_followed_by(&self, delivery_id: u32, state: &DeliveryState, settled: bool) -> bool {
        self.last.wrapping_add(1) == delivery_id && self.settled == settled && self.state == *state
    }
}

/// Passes the settlements to `write`, those of neighbours with equal state as one. Answers may come in any order: they
/// are sorted first, relative to one of them, which orders serial numbers as long as they span less than half the
/// number space. A delivery's new states come before its settlement.
pub(super) fn join(list: &mut Vec<Settlement>, mut write: impl FnMut(Settlement)) {
    let Some(origin) = list.first().map(|settlement| settlement.first.wrapping_sub(u32::MAX / 2)) else {
        return;
    };
    list.sort_by_key(|settlement| (settlement.settled, settlement.first.wrapping_sub(origin)));
    let mut run: Option<Settlement> = None;
    for next in list.drain(..) {
        match &mut run {
            Some(run) if run.is_followed_by(next.first, &next.state, next.settled) => run.last = next.last,
            run => run.replace(next).into_iter().for_each(&mut write),
        }
    }
    run.into_iter().for_each(write);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(added: &[(u32, DeliveryState, bool)]) -> Vec<(u32, u32, bool)> {
        let mut list = Vec::new();
        for (delivery_id, state, settled) in added {
            Settlement::add(&mut list, *delivery_id, state, *settled);
        }
        let mut written = Vec::new();
        join(&mut list, |one| written.push((one.first, one.last, one.settled)));
        assert!(list.is_empty());
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
    fn a_new_state_comes_before_the_settlement_of_its_delivery() {
        let accepted = |id, settled| (id, DeliveryState::Accepted, settled);
        let added = [accepted(5, false), accepted(6, false), accepted(4, true), accepted(5, true)];
        assert_eq!(joined(&added), [(5, 6, false), (4, 5, true)]);
    }
}
