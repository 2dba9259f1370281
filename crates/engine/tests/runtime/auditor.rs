//! Invariants of a queue or subscription, checked by requests, responses and deliveries only.

use std::collections::{BTreeMap, BTreeSet};

use peeklock_engine::SequenceNumber;

/// What is known about one message, which is identified by its body.
#[derive(Debug, Default)]
struct KnownMessage {
    accepted: bool,
    /// Completions and other removals with unknown outcome.
    departures_in_doubt: u32,
    /// Deferrals and dead-letterings with unknown outcome.
    moves_in_doubt: u32,
    /// Deferred or dead-lettered: not delivered to receivers of the main queue.
    aside: bool,
    gone: bool,
    /// An administrator requested an operation on it, even if it was being delivered.
    acted_on: bool,
}

/// Checks one queue or subscription.
#[derive(Debug, Default)]
pub(crate) struct Auditor {
    messages: BTreeMap<String, KnownMessage>,
    numbers: BTreeMap<SequenceNumber, String>,
    /// Order in which a topic accepted messages, of those whose order is certain.
    ranks: BTreeMap<String, u64>,
    /// The first so many messages sent anywhere have no certain order.
    unordered: u64,
    /// The first so many messages sent anywhere may have been deleted.
    deleted: u64,
    /// The latest first delivery among the others.
    last_first: Option<SequenceNumber>,
    seen: BTreeSet<String>,
    /// Messages whose stored body was corrupted by the disk: they may not be deliverable.
    rotten: BTreeSet<String>,
    /// The same for stored attributes, by number.
    rotten_numbers: BTreeSet<SequenceNumber>,
}

impl Auditor {
    /// The message may be present from now on.
    pub(crate) fn sending(&mut self, content: &str) {
        self.messages.entry(content.to_owned()).or_default();
    }

    /// The message must be present, with this number if it is known.
    pub(crate) fn accepted(&mut self, content: &str, number: Option<SequenceNumber>) {
        self.message(content).accepted = true;
        if let Some(number) = number {
            self.numbered(content, number);
        }
    }

    /// The topic accepted it after all messages of lower rank.
    pub(crate) fn ranked(&mut self, content: &str, rank: u64) {
        self.ranks.insert(content.to_owned(), rank);
    }

    /// The message must never be present.
    pub(crate) fn refused(&mut self, content: &str) {
        self.messages.remove(content);
        let number = self.numbers.iter().find(|(_, numbered)| *numbered == content);
        assert_eq!(number, None, "{content} was refused although it was stored");
    }

    /// A byte of its stored body has been corrupted.
    pub(crate) fn rotten(&mut self, content: &str) {
        self.rotten.insert(content.to_owned());
    }

    /// A byte of the stored attributes of the message with this number has been corrupted.
    pub(crate) fn rotten_number(&mut self, number: SequenceNumber) {
        self.rotten_numbers.insert(number);
    }

    /// No attributes are corrupted any more.
    pub(crate) fn repaired(&mut self) {
        self.rotten_numbers.clear();
    }

    /// Whether its stored body or attributes may have been corrupted.
    pub(crate) fn is_rotten(&self, content: &str) -> bool {
        self.rotten.contains(content) || self.rotten_unknown() > 0 || self.has_rotten_number(content)
    }

    fn has_rotten_number(&self, content: &str) -> bool {
        self.rotten_numbers
            .iter()
            .any(|number| self.numbers.get(number).is_some_and(|known| known == content))
    }

    /// Number of messages with corrupted attributes whose content is not known.
    fn rotten_unknown(&self) -> usize {
        self.rotten_numbers.iter().filter(|number| !self.numbers.contains_key(number)).count()
    }

    /// Whether the message of this number may be undeliverable: its body is corrupted, or it was never delivered.
    pub(crate) fn may_be_damaged(&self, number: SequenceNumber) -> bool {
        let has_rotten_body = !self.rotten.is_empty()
            && self.numbers.get(&number).is_none_or(|content| self.rotten.contains(content));
        has_rotten_body || self.rotten_numbers.contains(&number)
    }

    /// A completion or other removal is in progress.
    pub(crate) fn leaving(&mut self, content: &str) {
        self.message(content).departures_in_doubt += 1;
    }

    /// An administrator requests an operation on it.
    pub(crate) fn acting_on(&mut self, content: &str) {
        self.message(content).acted_on = true;
    }

    /// Whether an administrator requested an operation on it.
    pub(crate) fn is_acted_on(&self, content: &str) -> bool {
        self.messages.get(content).is_some_and(|message| message.acted_on)
    }

    pub(crate) fn left_for_good(&mut self, content: &str) {
        self.message(content).gone = true;
    }

    pub(crate) fn did_not_leave(&mut self, content: &str) {
        self.message(content).departures_in_doubt -= 1;
    }

    /// Whether exactly one removal would explain its absence.
    pub(crate) fn left_at_most_once(&self, content: &str) -> bool {
        let message = self.messages.get(content);
        let is_only = message.is_some_and(|message| message.departures_in_doubt == 1 && !message.gone);
        is_only && position(content) > self.deleted
    }

    /// A message with a known number that may be present.
    pub(crate) fn pick(&self, which: usize) -> Option<(SequenceNumber, String)> {
        let is_gone = |content| self.messages.get(content).is_none_or(|message| message.gone);
        let there: Vec<_> = self.numbers.iter().filter(|(_, content)| !is_gone(*content)).collect();
        let (number, content) = there.get(which % there.len().max(1))?;
        Some((**number, (*content).clone()))
    }

    /// A deferral or dead-lettering is in progress.
    pub(crate) fn moving(&mut self, content: &str) {
        self.message(content).moves_in_doubt += 1;
    }

    pub(crate) fn moved(&mut self, content: &str) {
        self.message(content).aside = true;
    }

    pub(crate) fn did_not_move(&mut self, content: &str) {
        self.message(content).moves_in_doubt -= 1;
    }

    /// Any of the first so many messages sent anywhere may be deleted.
    pub(crate) fn deleting(&mut self, sent: u64) {
        self.deleted = sent;
    }

    /// Whether it certainly waits for a receiver, or is locked by one.
    pub(crate) fn is_active(&self, content: &str) -> bool {
        self.messages.get(content).is_some_and(|message| {
            let certain = message.departures_in_doubt == 0 && message.moves_in_doubt == 0;
            let stays = position(content) > self.deleted;
            message.accepted && certain && stays && !message.aside && !message.gone
        })
    }

    /// Messages sent so far may be delivered out of order: a message was returned to the queue, or will be.
    pub(crate) fn order_unknown(&mut self, sent: u64) {
        self.last_first = None;
        self.unordered = sent;
    }

    /// A receiver got it. `ordered`: first deliveries come in order here. `late`: its lock had expired before it was sent to
    /// the receiver, so that others may have received it and an administrator may have removed it meanwhile.
    pub(crate) fn delivered(&mut self, content: &str, number: SequenceNumber, ordered: bool, late: bool) {
        let message = self.message(content);
        let may_be_gone = late && message.acted_on;
        assert!(!message.gone || may_be_gone, "{content} came back after it was gone");
        self.numbered(content, number);
        if ordered && position(content) > self.unordered && self.seen.insert(content.to_owned()) {
            assert!(self.last_first < Some(number), "{content} ({number:?}) after {:?}", self.last_first);
            self.last_first = Some(number);
        }
    }

    /// A receiver with a selector got it: its next delivery is not its first.
    pub(crate) fn selected(&mut self, content: &str) {
        self.seen.insert(content.to_owned());
    }

    /// Checks the messages that remain at the end.
    pub(crate) fn left(&mut self, left: &[(String, SequenceNumber)]) {
        left.iter().for_each(|(content, number)| self.numbered(content, *number));
        let present: BTreeSet<&String> = left.iter().map(|(content, _)| content).collect();
        assert_eq!(present.len(), left.len(), "something is there twice: {left:?}");
        let mut missing = Vec::new();
        for (content, message) in &self.messages {
            let here = present.contains(content);
            assert!(!(message.gone && here), "{content} came back");
            let may_be_damaged = self.rotten.contains(content) || self.has_rotten_number(content);
            if message.accepted
                && !message.gone
                && message.departures_in_doubt == 0
                && !here
                && position(content) > self.deleted
                && !may_be_damaged
            {
                missing.push(content);
            }
        }
        assert!(
            missing.len() <= self.rotten_unknown(),
            "accepted messages are lost: {missing:?} of {self:#?}"
        );
        assert!(present.iter().all(|content| self.messages.contains_key(*content)), "{present:?}");
    }

    fn numbered(&mut self, content: &str, number: SequenceNumber) {
        let known = self.numbers.entry(number).or_insert_with(|| content.to_owned());
        assert_eq!(known, content, "{number:?} was given out twice");
        let rank = |(_, content): (_, &String)| self.ranks.get(content).copied();
        let before = self.numbers.range(..number).rev().find_map(rank);
        let after = self.numbers.range(number..).skip(1).find_map(rank);
        if let Some(rank) = self.ranks.get(content) {
            assert!(
                before.is_none_or(|before| before < *rank),
                "{content} came to the topic before its predecessor"
            );
            assert!(
                after.is_none_or(|after| *rank < after),
                "{content} came to the topic after its successor"
            );
        }
    }

    fn message(&mut self, content: &str) -> &mut KnownMessage {
        self.messages.get_mut(content).unwrap_or_else(|| panic!("{content:?} was not sent here"))
    }
}

/// A body that contains the number of messages sent anywhere before it, and a suffix.
pub(crate) fn content(position: u64, suffix: &str) -> String {
    format!("content-{position}{suffix}")
}

fn position(content: &str) -> u64 {
    let digits = content.split(|letter: char| !letter.is_ascii_digit()).find(|part| !part.is_empty());
    digits.and_then(|digits| digits.parse().ok()).expect("a content made by `content`")
}
