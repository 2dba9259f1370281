//! Invariants of messages that are forwarded from entity to entity; a message is identified by its body, wherever it is.

use std::collections::BTreeMap;

use peeklock_engine::{MessageView, QueueId, SequenceNumber, SubQueue, Timestamp};

use super::network::{Node, WINDOW_MS, id_of};

/// What is known about one message.
#[derive(Debug, Clone)]
pub(super) struct Story {
    pub(super) origin: Node,
    pub(super) sent_at: Timestamp,
    pub(super) scheduled: bool,
    /// When it may have expired.
    pub(super) expires_at: Option<Timestamp>,
    pub(super) answer: Answer,
    completed: u32,
    /// Completions with unknown outcome.
    in_doubt: u32,
    /// Copies that may have been deleted with an entity.
    may_be_lost: u32,
    /// Copies found at the end.
    present: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Unknown,
    Accepted,
    Refused,
}

/// Messages that arrived at a queue over the same route, by their numbers there: their original numbers.
type Arrivals = BTreeMap<SequenceNumber, SequenceNumber>;

#[derive(Debug, Default)]
pub(super) struct Audit {
    stories: BTreeMap<String, Story>,
    arrivals: BTreeMap<(QueueId, Node), Arrivals>,
    /// Arrivals of messages with the same id at a queue with duplicate detection, by number there.
    unique: BTreeMap<(QueueId, String), BTreeMap<SequenceNumber, (Timestamp, String)>>,
    /// How far the clock may have been behind at a start: ids may have expired so much too early.
    behind_ms: u64,
}

impl Audit {
    pub(super) fn sending(
        &mut self,
        content: &str,
        origin: Node,
        at: Timestamp,
        life: (Option<u64>, Option<u64>),
    ) {
        let (delay_ms, ttl_ms) = life;
        let expires_at = ttl_ms.map(|ttl_ms| at.plus_ms(ttl_ms + delay_ms.unwrap_or(0)));
        let story = Story {
            origin,
            sent_at: at,
            scheduled: delay_ms.is_some(),
            expires_at,
            answer: Answer::Unknown,
            completed: 0,
            in_doubt: 0,
            may_be_lost: 0,
            present: 0,
        };
        self.stories.insert(content.to_owned(), story);
    }

    fn story(&mut self, content: &str) -> &mut Story {
        self.stories.get_mut(content).unwrap_or_else(|| panic!("{content:?} was never sent"))
    }

    pub(super) fn answered(&mut self, content: &str, answer: Answer) {
        self.story(content).answer = answer;
    }

    pub(super) fn completed(&mut self, content: &str) {
        let story = self.story(content);
        story.completed += 1;
        assert!(story.completed <= story.origin.copies(), "{content} was completed too often: {story:?}");
    }

    pub(super) fn completion_in_doubt(&mut self, content: &str) {
        self.story(content).in_doubt += 1;
    }

    /// An entity is deleted with its messages, which can only be messages from certain origins.
    pub(super) fn deleting(&mut self) {
        let stories = self.stories.values_mut().filter(|story| story.origin.may_come_to_ghost());
        stories.for_each(|story| story.may_be_lost = 1);
    }

    /// The message was seen in a queue, for the first time or again.
    pub(super) fn seen(&mut self, content: &str, at: Node, view: &MessageView) {
        let story = self.story(content).clone();
        assert_ne!(story.answer, Answer::Refused, "{content} was refused and is in {at:?}");
        assert!(
            story.completed < story.origin.copies(),
            "{content} came back after it was completed: {story:?}"
        );
        // Dead letters keep their time to live, and it begins anew where they are forwarded to.
        if story.expires_at.is_some() {
            assert_ne!(view.expires_at, Timestamp::NEVER, "{content} lives for ever in {at:?}");
        }
        self.check_order(content, &story, at, view);
        if at == Node::Unique {
            self.check_duplicates(content, view);
        }
        if view.sub_queue == SubQueue::DeadLetter && at.always_forwards() {
            let reason = view.dead_letter.as_ref().and_then(|why| why.reason.as_ref());
            assert!(reason.is_some(), "{content} is a dead letter of {at:?} for no reason");
        }
    }

    /// Messages over a constant route arrive in the order of their source.
    fn check_order(&mut self, content: &str, story: &Story, at: Node, view: &MessageView) {
        let Some(way) = &view.forwarded else { return };
        if story.origin.hops_to(at) != Some(way.hops) || way.dead_letter_source.is_some() {
            return;
        }
        // Copies show the topic's number of the body, which a scheduled message got before it was published.
        if story.origin == Node::Fan && story.scheduled {
            return;
        }
        let arrivals = self.arrivals.entry((view.queue, story.origin)).or_default();
        let first = way.enqueued_sequence_number;
        let known = arrivals.insert(view.sequence_number, first);
        assert!(known.is_none_or(|known| known == first), "{content} has the number of another");
        let before = arrivals.range(..view.sequence_number).next_back().map(|(_, first)| *first);
        let after = arrivals.range(view.sequence_number..).nth(1).map(|(_, first)| *first);
        assert!(
            before.is_none_or(|before| before < first),
            "{content} came before its predecessor: {arrivals:?}"
        );
        assert!(after.is_none_or(|after| first < after), "{content} came after its successor: {arrivals:?}");
    }

    /// The broker starts with a wall clock that is behind.
    pub(super) fn started_behind(&mut self, behind_ms: u64) {
        self.behind_ms = self.behind_ms.max(behind_ms);
    }

    fn check_duplicates(&mut self, content: &str, view: &MessageView) {
        let id = id_of(content).expect("all have ids there").to_owned();
        let there = self.unique.entry((view.queue, id)).or_default();
        let entry = (view.enqueued_at, content.to_owned());
        let known = there.insert(view.sequence_number, entry.clone());
        assert!(known.is_none_or(|known| known == entry), "{content} has the number of another");
        let instants: Vec<Timestamp> = there.values().map(|(at, _)| *at).collect();
        let window_ms = WINDOW_MS.saturating_sub(self.behind_ms);
        let apart = |pair: &[Timestamp]| pair[0].plus_ms(window_ms) <= pair[1];
        assert!(instants.windows(2).all(apart), "{content} is a duplicate: {there:?}");
    }

    /// Begins to count the remaining messages.
    pub(super) fn count(&mut self) {
        self.stories.values_mut().for_each(|story| story.present = 0);
    }

    /// Counts a copy that is left at the end.
    pub(super) fn left(&mut self, content: &str, at: Node, view: &MessageView) {
        self.seen(content, at, view);
        let story = self.story(content);
        // A message that could not be forwarded to the topic stands for all copies it would have become.
        story.present += if at == Node::Pages { story.origin.copies() } else { 1 };
    }

    /// Checks that every message is where it must be.
    pub(super) fn conclude(&self, now: Timestamp) {
        for (content, story) in &self.stories {
            let there = story.present + story.completed;
            let copies = story.origin.copies();
            assert!(there <= copies, "{content} was doubled: {story:?}");
            let may_expire = story.expires_at.is_some_and(|expires_at| expires_at <= now);
            let must_be =
                story.answer == Answer::Accepted && !may_expire && !self.is_duplicate(content, story);
            if must_be {
                let enough = there + story.in_doubt + story.may_be_lost >= copies;
                assert!(enough, "{content} is lost: {story:?}");
            }
        }
    }

    /// Whether another message with the same id may have come first.
    fn is_duplicate(&self, content: &str, story: &Story) -> bool {
        let Some(id) = id_of(content).filter(|_| matches!(story.origin, Node::Ids | Node::Unique)) else {
            return false;
        };
        let of_this_id = self.unique.iter().filter(|((_, known), _)| known == id);
        let seen = of_this_id.flat_map(|(_, there)| there.values());
        let was_seen =
            seen.filter(|(_, other)| other != content).any(|(at, _)| at.plus_ms(WINDOW_MS) > story.sent_at);
        let mut others =
            self.stories.iter().filter(|(other, _)| id_of(other) == Some(id) && *other != content);
        was_seen || others.any(|(_, other)| other.expires_at.is_some() || other.in_doubt > 0)
    }
}
