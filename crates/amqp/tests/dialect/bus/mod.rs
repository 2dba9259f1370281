//! A model of the entities behind the dialect: what clients must see, written down as plainly as possible.
//!
//! - `queue`: a queue or subscription, its messages and locks; `delivering`: deliveries; `sessions`: its sessions.
//! - `shape`: its options; `status`: what the status of an entity allows, and changes of its options.
//! - `topics`: topics, their rules and copies; `forwarding`: chains of queues.
//! - `time`: what happens by itself when time passes.
//! - `restart`: what a restart of the broker leaves; `room`: the sizes of entities, and what fits.
//! - `transactions`, and their `work`, which takes effect at a commit; `crossing`: those across entities.
//!
//! Which receiver gets which message is not predicted: every delivery is checked when it is seen, and at rest no
//! available message may be left where there is credit.

mod crossing;
mod delivering;
mod forwarding;
mod queue;
mod restart;
mod room;
mod sessions;
mod shape;
mod status;
mod time;
mod topics;
mod transactions;
mod work;

use std::collections::BTreeMap;

use peeklock_amqp::endpoint::LinkId;

pub(crate) use queue::{Message, Place, Queue, Verdict};
pub(crate) use sessions::{Hold, Wanted};
pub(crate) use shape::QueueShape;
pub(crate) use topics::RULES;
use topics::Topic;
pub(crate) use transactions::Transaction;
pub(crate) use work::{Settled, Work};

use super::message::Draft;
use super::outcome::{NOT_FOUND, Outcome, Refused};

/// The address of an entity.
pub(crate) type Path = &'static str;
/// A link of a client.
pub(crate) type LinkKey = (usize, LinkId);

/// What the broker does without being asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Note {
    /// The attach of a receiver that waited for a session is answered.
    Attached(LinkKey, Outcome),
    /// A link is ended with this condition.
    Ended(LinkKey, Refused),
}

#[derive(Debug, Default)]
pub(crate) struct Bus {
    pub(crate) now_ms: u64,
    /// Queues and subscriptions.
    pub(crate) queues: BTreeMap<Path, Queue>,
    pub(crate) topics: BTreeMap<Path, Topic>,
    /// Links that receive nothing, by the entity that they are attached to.
    /// They send messages or not.
    watchers: BTreeMap<LinkKey, (Path, bool)>,
    pub(crate) transactions: Vec<Transaction>,
    /// The roots of the sessions of clients with transactions across entities.
    roots: BTreeMap<usize, Option<Path>>,
    notes: Vec<Note>,
    /// Whether messages were forwarded since the last rest: later commands may overtake them.
    pub(crate) has_forwarded: bool,
    /// Whether a transaction failed since the last rest: work sent right after it may be checked before.
    pub(crate) has_failed: bool,
    births: u64,
}

impl Bus {
    pub(crate) fn new(now_ms: u64) -> Self {
        Self { now_ms, ..Self::default() }
    }

    pub(crate) fn exists(&self, path: Path) -> bool {
        self.queues.contains_key(path) || self.topics.contains_key(path)
    }

    /// Adds a queue or subscription.
    pub(crate) fn add_queue(&mut self, path: Path, shape: QueueShape) {
        self.births += 1;
        let mut queue = Queue::new(shape);
        queue.born = self.births;
        self.queues.insert(path, queue);
        self.note_status();
        self.look_after();
    }

    pub(crate) fn add_topic(&mut self, path: Path, shape: QueueShape) {
        self.births += 1;
        let mut topic = Topic::new(shape);
        topic.own.born = self.births;
        self.topics.insert(path, topic);
    }

    /// Distinguishes a queue or topic from earlier ones of its name.
    pub(crate) fn born(&self, root: Path) -> Option<u64> {
        let topic = self.topics.get(root).map(|topic| topic.own.born);
        topic.or_else(|| Some(self.queues.get(root)?.born))
    }

    /// A queue or subscription, or the messages of a topic itself.
    pub(crate) fn queue(&mut self, path: Path) -> Result<&mut Queue, Refused> {
        let topic = self.topics.get_mut(path).map(|topic| &mut topic.own);
        topic.or_else(|| self.queues.get_mut(path)).ok_or(NOT_FOUND)
    }

    /// The same for reading.
    pub(crate) fn source(&self, path: Path) -> Option<&Queue> {
        let topic = self.topics.get(path).map(|topic| &topic.own);
        topic.or_else(|| self.queues.get(path))
    }

    /// All of them.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (Path, &Queue)> {
        let topics = self.topics.iter().map(|(path, topic)| (*path, &topic.own));
        self.queues.iter().map(|(path, queue)| (*path, queue)).chain(topics)
    }

    fn sources_mut(&mut self) -> impl Iterator<Item = &mut Queue> {
        let topics = self.topics.values_mut().map(|topic| &mut topic.own);
        self.queues.values_mut().chain(topics)
    }

    pub(crate) fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    pub(crate) fn watch(&mut self, link: LinkKey, path: Path, sends: bool) -> Outcome {
        if !self.exists(path) {
            return Outcome::Refused(NOT_FOUND);
        }
        if let Err(refused) = self.check_sends(path)
            && sends
        {
            return Outcome::Refused(refused);
        }
        self.enter(link.0, path, false).expect("it does not receive");
        self.watchers.insert(link, (path, sends));
        Outcome::Attached(None)
    }

    /// Stores messages; returns their numbers.
    pub(crate) fn send(&mut self, path: Path, drafts: &[Draft]) -> Result<Vec<u64>, Refused> {
        self.check_send(path, drafts.iter())?;
        let numbers = drafts.iter().map(|draft| self.store(path, draft)).collect();
        self.look_after();
        Ok(numbers)
    }

    pub(crate) fn check_send<'a>(
        &self,
        path: Path,
        drafts: impl Iterator<Item = &'a Draft> + Clone,
    ) -> Result<(), Refused> {
        self.check_send_besides(path, drafts, 0).map(drop)
    }

    /// Whether messages are accepted besides others of this size; returns the size of all.
    pub(super) fn check_send_besides<'a>(
        &self,
        path: Path,
        drafts: impl Iterator<Item = &'a Draft> + Clone,
        others_bytes: u64,
    ) -> Result<u64, Refused> {
        self.check_sends(path)?;
        match self.queues.get(path) {
            Some(queue) if queue.shape.sessions && drafts.clone().any(|draft| draft.session.is_none()) => {
                Err(super::outcome::NOT_ALLOWED)
            }
            None if !self.topics.contains_key(path) => Err(NOT_FOUND),
            _ => {
                let bytes = others_bytes + self.new_bytes(path, drafts);
                self.check_room(path, bytes).map(|()| bytes)
            }
        }
    }

    fn store(&mut self, path: Path, draft: &Draft) -> u64 {
        let now_ms = self.now_ms;
        if let Some(queue) = self.queues.get_mut(path) {
            return queue.send(now_ms, draft);
        }
        let topic = self.topics.get_mut(path).expect("checked");
        if let Some(number) = topic.own.original_of(draft) {
            return number;
        }
        if draft.due_ms.is_some_and(|due| due > now_ms) {
            return topic.own.send(now_ms, draft);
        }
        let message = Message::new(draft);
        let number = self.publish(path, message);
        let own = &mut self.topics.get_mut(path).expect("checked").own;
        own.remember(now_ms, draft, number);
        number
    }

    pub(crate) fn close(&mut self, link: LinkKey) {
        self.watchers.remove(&link);
        let now_ms = self.now_ms;
        for queue in self.sources_mut() {
            queue.close(now_ms, link);
        }
        self.look_after();
    }

    /// Deletes an entity; a topic with its subscriptions.
    pub(crate) fn delete(&mut self, path: Path) {
        let below = format!("{path}/");
        let is_it = |one: Path| one == path || one.starts_with(&below);
        let gone: Vec<Path> = self.queues.keys().copied().filter(|one| is_it(one)).collect();
        let mut gone: Vec<Queue> = gone.iter().filter_map(|one| self.queues.remove(one)).collect();
        gone.extend(self.topics.remove(path).map(|topic| topic.own));
        for queue in gone {
            for (link, receiver) in queue.receivers {
                let refused = Outcome::Refused(NOT_FOUND);
                self.notes.push(match receiver.waits {
                    true => Note::Attached(link, refused),
                    false => Note::Ended(link, NOT_FOUND),
                });
            }
        }
        let watchers = std::mem::take(&mut self.watchers);
        let (gone, left): (BTreeMap<_, _>, _) = watchers.into_iter().partition(|(_, (one, _))| is_it(one));
        self.watchers = left;
        self.notes.extend(gone.into_keys().map(|link| Note::Ended(link, NOT_FOUND)));
        self.look_after();
    }

    /// What follows at once from every change.
    pub(crate) fn look_after(&mut self) {
        loop {
            let now_ms = self.now_ms;
            for queue in self.queues.values_mut() {
                queue.look_after(now_ms, &mut self.notes);
            }
            if !self.forward(Place::Main) && !self.forward(Place::Dead) {
                return;
            }
        }
    }
}
