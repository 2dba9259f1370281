//! Items on their way to several receivers: what a turn has for one of them leaves as one parcel, in order. A hand-over costs
//! little more for many items than for one.

/// Receivers that a turn collects for; one more, and all parcels leave.
pub(super) const PARCELS_MAX: usize = 32;
/// Items that room is made for at once, if as many came the last time.
const ROOM_MAX: usize = 128;

/// Somebody whom parcels are for.
pub trait Addressee: Clone {
    /// Whether what is sent to both arrives at the same place.
    fn is_same(&self, other: &Self) -> bool;
}

/// See the module. Items for one receiver arrive in the order in which they were added.
#[derive(Debug)]
pub struct Parcels<To, Item> {
    open: Vec<(To, Vec<Item>)>,
    /// The parcel that got the last item: usually it gets the next as well.
    last: usize,
    /// How many items the last parcel had.
    usual: usize,
}

impl<To, Item> Parcels<To, Item> {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self { open: Vec::new(), last: 0, usual: 0 }
    }

    /// Hands over what was added, a call of `deliver` for each receiver.
    pub fn hand_over(&mut self, mut deliver: impl FnMut(To, Vec<Item>)) {
        for (to, items) in self.open.drain(..) {
            self.usual = items.len();
            deliver(to, items);
        }
    }
}

impl<To: Addressee, Item> Parcels<To, Item> {
    /// Adds an item. If it is for one receiver more than parcels are collected for, all before it are handed over first.
    pub fn add(&mut self, to: &To, item: Item, deliver: impl FnMut(To, Vec<Item>)) {
        let is_for = |(other, _): &(To, Vec<Item>)| other.is_same(to);
        if !self.open.get(self.last).is_some_and(is_for) {
            self.last = self.open.iter().position(is_for).unwrap_or_else(|| self.begin(to, deliver));
        }
        if let Some((_, items)) = self.open.get_mut(self.last) {
            items.push(item);
        }
    }

    /// Begins a parcel and returns its place.
    fn begin(&mut self, to: &To, deliver: impl FnMut(To, Vec<Item>)) -> usize {
        if self.open.len() >= PARCELS_MAX {
            self.hand_over(deliver);
        }
        self.open.push((to.clone(), Vec::with_capacity(self.usual.min(ROOM_MAX))));
        self.open.len() - 1
    }
}

impl<To, Item> Default for Parcels<To, Item> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Addressee for usize {
        fn is_same(&self, other: &Self) -> bool {
            self == other
        }
    }

    #[test]
    fn every_receiver_gets_its_items_in_order_however_many_there_are() {
        let mut parcels = Parcels::default();
        let mut arrived = vec![Vec::new(); PARCELS_MAX + 3];
        for round in 0..4 {
            for to in 0..PARCELS_MAX + 3 {
                for item in [2 * round, 2 * round + 1] {
                    parcels.add(&to, item, |to: usize, items| arrived[to].extend(items));
                }
            }
        }
        parcels.hand_over(|to, items| arrived[to].extend(items));
        for items in arrived {
            assert_eq!(items, [0, 1, 2, 3, 4, 5, 6, 7]);
        }
    }

    #[test]
    fn what_is_for_one_receiver_leaves_as_one_parcel() {
        let mut parcels = Parcels::default();
        let nothing = |_, _| panic!("handed over too early");
        for (to, item) in [(1_usize, 'a'), (2, 'b'), (1, 'c')] {
            parcels.add(&to, item, nothing);
        }
        let mut arrived = Vec::new();
        parcels.hand_over(|to, items| arrived.push((to, items)));
        assert_eq!(arrived, [(1, vec!['a', 'c']), (2, vec!['b'])]);
        parcels.hand_over(|_, _| panic!("handed over twice"));
    }
}
