//! Collects items for several receivers: the items of a turn for one receiver are sent as one parcel, in order. Sending
//! many items costs little more than sending one.

/// Maximum number of open parcels; one receiver more, and all are sent.
pub(super) const PARCELS_MAX: usize = 32;
/// Maximum initial capacity of a parcel; otherwise the size of the previous one.
const ROOM_MAX: usize = 128;

/// A receiver of parcels.
pub trait Addressee: Clone {
    /// Whether both refer to the same receiver.
    fn is_same(&self, other: &Self) -> bool;
}

/// See the module. Each receiver gets its items in the order in which they were added.
#[derive(Debug)]
pub struct Parcels<To, Item> {
    open: Vec<(To, Vec<Item>)>,
    /// Index of the parcel that got the last item: usually it gets the next as well.
    last: usize,
    /// Number of items in the last parcel.
    usual: usize,
}

impl<To, Item> Parcels<To, Item> {
    /// An empty collection.
    #[must_use]
    pub const fn new() -> Self {
        Self { open: Vec::new(), last: 0, usual: 0 }
    }

    /// Sends all parcels, with one call of `deliver` for each receiver.
    pub fn send_all(&mut self, mut deliver: impl FnMut(To, Vec<Item>)) {
        for (to, items) in self.open.drain(..) {
            self.usual = items.len();
            deliver(to, items);
        }
    }
}

impl<To: Addressee, Item> Parcels<To, Item> {
    /// The last item for a receiver, if it is not sent yet.
    pub fn last_for(&mut self, to: &To) -> Option<&mut Item> {
        let is_for = |(other, _): &(To, Vec<Item>)| other.is_same(to);
        if !self.open.get(self.last).is_some_and(is_for) {
            self.last = self.open.iter().position(is_for)?;
        }
        self.open.get_mut(self.last)?.1.last_mut()
    }

    /// Adds an item. If that would exceed the maximum number of parcels, all open ones are sent first.
    pub fn add(&mut self, to: &To, item: Item, deliver: impl FnMut(To, Vec<Item>)) {
        let is_for = |(other, _): &(To, Vec<Item>)| other.is_same(to);
        if !self.open.get(self.last).is_some_and(is_for) {
            self.last = self.open.iter().position(is_for).unwrap_or_else(|| self.begin(to, deliver));
        }
        if let Some((_, items)) = self.open.get_mut(self.last) {
            items.push(item);
        }
    }

    /// Starts a parcel and returns its index.
    fn begin(&mut self, to: &To, deliver: impl FnMut(To, Vec<Item>)) -> usize {
        if self.open.len() >= PARCELS_MAX {
            self.send_all(deliver);
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
        parcels.send_all(|to, items| arrived[to].extend(items));
        for items in arrived {
            assert_eq!(items, [0, 1, 2, 3, 4, 5, 6, 7]);
        }
    }

    #[test]
    fn the_last_item_for_a_receiver_can_be_changed_until_it_is_sent() {
        let mut parcels = Parcels::default();
        for (to, item) in [(1_usize, 'a'), (1, 'b'), (2, 'c')] {
            parcels.add(&to, item, |_, _| panic!("handed over too early"));
        }
        *parcels.last_for(&1).unwrap() = 'd';
        assert_eq!(parcels.last_for(&1), Some(&mut 'd'));
        assert_eq!(parcels.last_for(&3), None);
        let mut arrived = Vec::new();
        parcels.send_all(|to, items| arrived.push((to, items)));
        assert_eq!(arrived, [(1, vec!['a', 'd']), (2, vec!['c'])]);
        assert_eq!(parcels.last_for(&1), None);
    }

    #[test]
    fn deliveries_for_one_receiver_leave_as_one_parcel() {
        let mut parcels = Parcels::default();
        let nothing = |_, _| panic!("handed over too early");
        for (to, item) in [(1_usize, 'a'), (2, 'b'), (1, 'c')] {
            parcels.add(&to, item, nothing);
        }
        let mut arrived = Vec::new();
        parcels.send_all(|to, items| arrived.push((to, items)));
        assert_eq!(arrived, [(1, vec!['a', 'c']), (2, vec!['b'])]);
        parcels.send_all(|_, _| panic!("handed over twice"));
    }
}
