//! Invariants of messages across crashes of the broker at any time.

use std::collections::{HashMap, HashSet};

/// The name of a message, unique for a whole test.
pub type Name = String;

/// A client's knowledge of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Sent; not answered yet.
    Asked,
    /// Sent and accepted, or seen in the broker.
    Stored,
    /// Its completion was sent; not answered yet.
    Completing,
    /// Its completion was confirmed, or it was missing after a restart.
    Gone,
}

/// A journal of requests and answers, compared with the messages in the broker.
#[derive(Debug, Default)]
pub struct Audit {
    known: HashMap<Name, Known>,
    numbers: HashMap<Name, i64>,
    /// The message of each sequence number, which no other message may ever have.
    owners: HashMap<i64, Name>,
    highest: i64,
}

impl Audit {
    /// Records that a message is about to be sent.
    pub fn asked(&mut self, name: &str) {
        let before = self.known.insert(name.to_owned(), Known::Asked);
        assert_eq!(before, None, "{name} is sent twice by the test itself");
    }

    /// Records that the broker accepted a message.
    pub fn accepted(&mut self, name: &str) {
        let known = self.known.get_mut(name).expect("a message that was sent");
        // Another connection may have received it before the sender got the acceptance.
        if *known == Known::Asked {
            *known = Known::Stored;
        }
    }

    /// Records that the broker delivered a message: it must be stored, with one number, and not completed.
    pub fn delivered(&mut self, name: &str, number: i64) {
        self.numbered(name, number);
        let known = self.known.get_mut(name).unwrap_or_else(|| panic!("{name} was never sent"));
        assert_ne!(*known, Known::Gone, "{name} came back after it was gone");
        *known = Known::Stored;
    }

    /// Records that a completion is about to be sent.
    pub fn completing(&mut self, name: &str) {
        self.known.insert(name.to_owned(), Known::Completing);
    }

    /// Records that the broker confirmed a completion.
    pub fn completed(&mut self, name: &str) {
        self.known.insert(name.to_owned(), Known::Gone);
    }

    /// Compares the messages in a restarted broker, in order, with the journal; then they become the known state.
    pub fn restarted(&mut self, shown: &[(Name, i64)]) {
        assert!(shown.windows(2).all(|pair| pair[0].1 < pair[1].1), "numbers do not increase");
        let present: HashSet<&Name> = shown.iter().map(|(name, _)| name).collect();
        assert_eq!(present.len(), shown.len(), "a message is shown twice");
        for (name, number) in shown {
            self.numbered(name, *number);
            let known = self.known.get(name).unwrap_or_else(|| panic!("{name} was never sent"));
            assert_ne!(*known, Known::Gone, "{name} came back after it was gone");
        }
        for (name, known) in &mut self.known {
            let is_present = present.contains(name);
            assert!(is_present || *known != Known::Stored, "{name} was accepted and is lost");
            *known = if is_present { Known::Stored } else { Known::Gone };
        }
        self.highest = self.owners.keys().copied().max().unwrap_or(0);
    }

    /// Messages that were sent and not answered.
    pub fn in_doubt(&self) -> HashSet<Name> {
        let asked = self.known.iter().filter(|(_, known)| **known == Known::Asked);
        asked.map(|(name, _)| name.clone()).collect()
    }

    /// Number of messages that the broker must still have.
    pub fn stored(&self) -> usize {
        self.known.values().filter(|known| **known == Known::Stored).count()
    }

    fn numbered(&mut self, name: &str, number: i64) {
        let owner = self.owners.entry(number).or_insert_with(|| name.to_owned());
        assert_eq!(owner, name, "the number {number} was used twice");
        match self.numbers.insert(name.to_owned(), number) {
            Some(before) => assert_eq!(before, number, "{name} has changed its number"),
            None => {
                assert!(number > self.highest, "the number {number} is new but not above {}", self.highest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_accepted(names: &[&str]) -> Audit {
        let mut audit = Audit::default();
        for name in names {
            audit.asked(name);
            audit.accepted(name);
        }
        audit
    }

    fn shown(messages: &[(&str, i64)]) -> Vec<(Name, i64)> {
        messages.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
    }

    #[test]
    fn unanswered_sends_may_be_there_or_not() {
        let mut audit = with_accepted(&["a", "b"]);
        audit.asked("c");
        audit.asked("d");
        audit.completing("b");
        audit.restarted(&shown(&[("a", 1), ("c", 3)]));
        assert_eq!(audit.stored(), 2);
    }

    #[test]
    #[should_panic(expected = "a was accepted and is lost")]
    fn a_lost_message_is_found_out() {
        with_accepted(&["a"]).restarted(&[]);
    }

    #[test]
    #[should_panic(expected = "a came back")]
    fn a_message_that_comes_back_is_found_out() {
        let mut audit = with_accepted(&["a"]);
        audit.completing("a");
        audit.completed("a");
        audit.restarted(&shown(&[("a", 1)]));
    }

    #[test]
    #[should_panic(expected = "a message is shown twice")]
    fn a_doubled_message_is_found_out() {
        with_accepted(&["a"]).restarted(&shown(&[("a", 1), ("a", 2)]));
    }

    #[test]
    #[should_panic(expected = "the number 1 was used twice")]
    fn a_number_used_twice_is_found_out() {
        let mut audit = with_accepted(&["a", "b"]);
        audit.delivered("a", 1);
        audit.delivered("b", 1);
    }

    #[test]
    #[should_panic(expected = "the number 4 is new but not above 7")]
    fn a_number_that_falls_back_is_found_out() {
        let mut audit = with_accepted(&["a"]);
        audit.restarted(&shown(&[("a", 7)]));
        audit.asked("b");
        audit.delivered("b", 4);
    }
}
