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
