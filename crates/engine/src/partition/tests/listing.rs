//! `List`: receivers, locks and sessions in pages.

use super::rig::{Rig, message, options, path};
use super::rig_sessions::{of, with_sessions};
use crate::{Command, Listed, ListedRow, Listing, ReceiveMode, Reply, SequenceNumber, SubQueue};

impl Rig {
    fn page(&mut self, sub_queue: SubQueue, listing: Listing, top: usize) -> Listed {
        match self.ask(Command::List { source: path(sub_queue), listing, top }) {
            Reply::Listed(listed) => listed.unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// All rows, read in pages of one.
    fn listed(&mut self, sub_queue: SubQueue, mut listing: Listing) -> Vec<ListedRow> {
        let mut rows = Vec::new();
        loop {
            let page = self.page(sub_queue, listing, 1);
            assert!(page.rows.len() <= 1);
            rows.extend(page.rows);
            match page.next {
                Some(next) => listing = next,
                None => return rows,
            }
        }
    }
}

#[test]
fn locks_are_listed_in_the_order_of_their_ends() {
    let mut rig = Rig::new(options());
    rig.try_send(vec![message("a"), message("b"), message("c")]).unwrap();
    let mut expected = Vec::new();
    for _ in 0..2 {
        let (view, token) = rig.take_one().unwrap();
        expected.push((view.sequence_number, token));
        rig.advance(5);
    }
    let rows = rig.listed(SubQueue::Main, Listing::Locks(None));
    let found: Vec<_> = rows
        .into_iter()
        .map(|row| match row {
            ListedRow::Lock { number, token, session: None, receiver: Some(_), .. } => (number, token),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(found, expected);
    assert_eq!(rig.listed(SubQueue::DeadLetter, Listing::Locks(None)), []);
}

#[test]
fn receivers_are_listed_with_their_credit() {
    let mut rig = Rig::new(options());
    let receivers: Vec<_> = (0..3).map(|_| rig.open(SubQueue::Main, ReceiveMode::PeekLock)).collect();
    rig.credit(receivers[1], 5, false);
    rig.send(message("a"));
    let rows = rig.listed(SubQueue::Main, Listing::Receivers(None));
    let found: Vec<_> = rows
        .iter()
        .map(|row| match row {
            ListedRow::Receiver {
                id,
                mode: ReceiveMode::PeekLock,
                selects: false,
                session: None,
                credit,
            } => (*id, *credit),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(found, [(receivers[0], 0), (receivers[1], 4), (receivers[2], 0)]);
}

#[test]
fn sessions_are_listed_with_holder_and_locks() {
    let mut rig = Rig::new(with_sessions());
    for session in ["b", "A", "b"] {
        rig.send(of(session, "x"));
    }
    let rows = rig.listed(SubQueue::Main, Listing::Sessions(None));
    let found: Vec<_> = rows
        .iter()
        .map(|row| match row {
            ListedRow::Session { id, messages, holder: None, state: None } => (&**id, *messages),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(found, [("A", 1), ("b", 2)]);
    let receiver = rig.accept("b");
    rig.credit(receiver, 2, false);
    let locks = rig.listed(SubQueue::Main, Listing::SessionLocks(None));
    let found: Vec<_> = locks
        .iter()
        .map(|row| match row {
            ListedRow::Lock { number, session, receiver, .. } => (*number, session.as_deref(), *receiver),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(found, [1, 3].map(|number| (SequenceNumber(number), Some("b"), Some(receiver))));
    assert_eq!(rig.listed(SubQueue::Main, Listing::Locks(None)), []);
}
