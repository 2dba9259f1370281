//! What must be true of a queue whatever happened: knows what was asked, answered and delivered, nothing of how.

use std::collections::{BTreeMap, BTreeSet};

use peeklock_engine::{Delivery, ReceiveMode, SequenceNumber};

/// What is known about one message, told apart by its content.
#[derive(Debug, Default)]
struct Fate {
    accepted: bool,
    /// Completions whose outcome is not known.
    completions_in_doubt: u32,
    gone: bool,
}

/// Watches one queue.
#[derive(Debug, Default)]
pub(crate) struct Auditor {
    fates: BTreeMap<String, Fate>,
    numbers: BTreeMap<SequenceNumber, String>,
    /// How many messages may have been taken for receive-and-delete receivers that did not live to see them.
    may_be_taken: u64,
    /// The last first delivery since `order_unknown` was called.
    last_first: Option<SequenceNumber>,
    seen: BTreeSet<String>,
}

impl Auditor {
    pub(crate) fn sending(&mut self, content: &str) {
        self.fates.insert(content.to_owned(), Fate::default());
    }

    pub(crate) fn accepted(&mut self, content: &str, number: SequenceNumber) {
        self.fate(content).accepted = true;
        self.numbered(content, number);
    }

    pub(crate) fn completing(&mut self, content: &str) {
        self.fate(content).completions_in_doubt += 1;
    }

    pub(crate) fn completed(&mut self, content: &str) {
        self.fate(content).gone = true;
    }

    pub(crate) fn completion_refused(&mut self, content: &str) {
        self.fate(content).completions_in_doubt -= 1;
    }

    pub(crate) fn may_take(&mut self, count: u64) {
        self.may_be_taken += count;
    }

    /// From here on deliveries may be out of order: something went back.
    pub(crate) fn order_unknown(&mut self) {
        self.last_first = None;
        self.seen = self.fates.keys().cloned().collect();
    }

    pub(crate) fn delivered(&mut self, delivery: &Delivery, mode: ReceiveMode) {
        let message = &delivery.message;
        let content = String::from_utf8(message.content.to_vec()).expect("what was sent is text");
        let number = message.view.sequence_number;
        assert!(!self.fate(&content).gone, "{content} came back after it was gone");
        self.numbered(&content, number);
        if self.seen.insert(content.clone()) {
            assert!(self.last_first < Some(number), "{content} ({number:?}) after {:?}", self.last_first);
            self.last_first = Some(number);
        }
        if mode == ReceiveMode::ReceiveAndDelete {
            self.fate(&content).gone = true;
        }
    }

    /// All that is left when everything is over.
    pub(crate) fn left(&self, contents: &[String]) {
        let present: BTreeSet<&String> = contents.iter().collect();
        assert_eq!(present.len(), contents.len(), "something is there twice: {contents:?}");
        let mut missing = 0;
        for (content, fate) in &self.fates {
            let here = present.contains(content);
            assert!(!(fate.gone && here), "{content} came back");
            if fate.accepted && !fate.gone && fate.completions_in_doubt == 0 && !here {
                missing += 1;
            }
        }
        assert!(missing <= self.may_be_taken, "{missing} accepted messages are lost: {self:#?}");
        assert!(present.iter().all(|content| self.fates.contains_key(*content)), "{present:?}");
    }

    fn numbered(&mut self, content: &str, number: SequenceNumber) {
        let known = self.numbers.entry(number).or_insert_with(|| content.to_owned());
        assert_eq!(known, content, "{number:?} was given out twice");
    }

    fn fate(&mut self, content: &str) -> &mut Fate {
        self.fates.get_mut(content).unwrap_or_else(|| panic!("nobody sent {content:?}"))
    }
}
