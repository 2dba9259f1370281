//! Status of entities in the model, and changes of their options.

use peeklock_engine::EntityStatus;

use super::queue::{Place, Verdict};
use super::shape::QueueShape;
use super::{Bus, LinkKey, Note, Path};
use crate::outcome::{DISABLED, Outcome, Refused};

impl Bus {
    /// The options of a queue, subscription or topic.
    pub(crate) fn shape(&self, path: Path) -> Option<QueueShape> {
        self.source(path).map(|queue| queue.shape)
    }

    /// Changes the options of an entity, and ends the links that its status does not allow any more.
    pub(crate) fn change(&mut self, path: Path, shape: QueueShape) {
        match self.topics.get_mut(path) {
            Some(topic) => topic.own.shape = shape,
            None => self.queues.get_mut(path).expect("an entity").shape = shape,
        }
        self.note_status();
        if !shape.status.allows_receive() {
            self.end_receivers(path);
        }
        if !shape.status.allows_send() {
            self.end_senders(path);
        }
        self.look_after();
    }

    /// Finds out from which queues and subscriptions messages can be received.
    pub(super) fn note_status(&mut self) {
        for topic in self.topics.values_mut() {
            topic.own.receives = topic.own.shape.status.allows_receive();
        }
        for (path, queue) in &mut self.queues {
            let topic = path.split_once('/').and_then(|(topic, _)| self.topics.get(topic));
            let by_topic = topic.is_none_or(|topic| topic.own.shape.status.allows_receive());
            queue.receives = queue.shape.status.allows_receive() && by_topic;
            if !queue.receives {
                queue.release_forwarded();
            }
        }
    }

    fn end_receivers(&mut self, path: Path) {
        let now_ms = self.now_ms;
        let below = format!("{path}/");
        let queues = self.queues.iter_mut().filter(|(one, _)| **one == path || one.starts_with(&below));
        let topic = self.topics.get_mut(path).map(|topic| &mut topic.own);
        for queue in queues.map(|(_, queue)| queue).chain(topic) {
            let mut links: Vec<(LinkKey, bool)> =
                queue.receivers.iter().map(|(link, one)| (*link, one.waits)).collect();
            // Sessions that receivers give back are for none of those that wait.
            links.sort_by_key(|(_, waits)| !waits);
            for (link, waits) in links {
                queue.close(now_ms, link);
                self.notes.push(match waits {
                    true => Note::Attached(link, Outcome::Refused(DISABLED)),
                    false => Note::Ended(link, DISABLED),
                });
            }
        }
    }

    fn end_senders(&mut self, path: Path) {
        let senders = self.watchers.iter().filter(|(_, one)| **one == (path, true));
        let gone: Vec<LinkKey> = senders.map(|(link, _)| *link).collect();
        for link in gone {
            self.watchers.remove(&link);
            self.notes.push(Note::Ended(link, DISABLED));
        }
    }

    /// # Errors
    /// Messages may not be received, browsed or settled.
    pub(crate) fn check_receives(&self, path: Path) -> Result<(), Refused> {
        let receives = match self.topics.get(path) {
            Some(topic) => topic.own.shape.status.allows_receive(),
            None => self.queues.get(path).is_none_or(|queue| queue.receives),
        };
        if receives { Ok(()) } else { Err(DISABLED) }
    }

    /// # Errors
    /// Messages may not be sent.
    pub(crate) fn check_sends(&self, path: Path) -> Result<(), Refused> {
        let status = self.shape(path).map_or(EntityStatus::Active, |shape| shape.status);
        if status.allows_send() { Ok(()) } else { Err(DISABLED) }
    }

    /// # Errors
    /// Scheduled messages may not be cancelled: that is possible unless everything is disabled.
    pub(super) fn check_cancels(&self, path: Path) -> Result<(), Refused> {
        self.check_sends(path).or_else(|_| self.check_receives(path))
    }
}

impl super::Queue {
    /// # Errors
    /// Its status forbids this operation on its messages.
    pub(super) fn check_receives(&self) -> Result<(), Refused> {
        if self.receives { Ok(()) } else { Err(DISABLED) }
    }

    /// # Errors
    /// Its status forbids this settlement. A lock is released whatever the status.
    pub(super) fn check_settles(&self, verdict: Verdict) -> Result<(), Refused> {
        if verdict == Verdict::Release { Ok(()) } else { self.check_receives() }
    }

    /// Whether its messages are forwarded at present.
    pub(super) fn is_forwarding(&self, place: Place) -> bool {
        self.receives && self.target(place).is_some()
    }

    /// Dead letters that no target accepts are tried again when forwarding starts again.
    fn release_forwarded(&mut self) {
        if self.shape.forward_dead_to.is_some() {
            let dead = self.messages.values_mut().filter(|message| message.place == Place::Dead);
            dead.for_each(|message| message.lock = None);
        }
    }

    /// Where the messages of a place are forwarded.
    pub(super) const fn target(&self, place: Place) -> Option<Path> {
        match place {
            Place::Main => self.shape.forward_to,
            Place::Dead => self.shape.forward_dead_to,
            Place::Transfer => None,
        }
    }
}
