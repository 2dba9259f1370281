//! Forwarding in the model: messages of a source, or its dead letters, go on to the target at once.

use super::queue::{Lock, Message, Place};
use super::{Bus, Path};

/// How many times a message is forwarded.
const HOPS_MAX: u8 = 4;

/// What becomes of a message that can't be forwarded.
enum Refusal {
    /// This target does not accept it.
    Here(&'static str),
    /// No target would accept it.
    Anywhere(&'static str),
}

impl Bus {
    /// Forwards the messages of a place; false if there are none.
    pub(super) fn forward(&mut self, place: Place) -> bool {
        let sources = self.queues.iter().filter(|(_, queue)| queue.is_forwarding(place));
        let sources = sources.filter_map(|(path, queue)| Some((*path, queue.target(place)?)));
        let sources: Vec<(Path, Path)> = sources.collect();
        let mut has_moved = false;
        for (source, target) in sources {
            let queue = self.queues.get_mut(source).expect("a source");
            for number in queue.numbers_where(|message| message.is_available(place)) {
                has_moved = true;
                let message = self.queues[source].messages[&number].clone();
                let is_full =
                    self.check_room(target, self.new_bytes(target, [&message.draft].into_iter())).is_err();
                let queue = self.queues.get_mut(source).expect("a source");
                queue.messages.remove(&number);
                if let Err(refusal) = self.hand_over(message.clone(), target, is_full) {
                    let queue = self.queues.get_mut(source).expect("a source");
                    queue.messages.insert(number, message.refused(refusal));
                }
            }
        }
        self.has_forwarded |= has_moved;
        has_moved
    }

    /// Stores a message in a target.
    fn hand_over(&mut self, message: Message, target: Path, is_full: bool) -> Result<(), Refusal> {
        if message.hops == HOPS_MAX {
            return Err(Refusal::Anywhere("MaxTransferHopCountExceeded"));
        }
        let now_ms = self.now_ms;
        // Dead letters have their full time to live again.
        let left_ms = (message.expires_ms < u64::MAX).then(|| message.expires_ms.saturating_sub(now_ms));
        let mut moved = Message {
            place: Place::Main,
            count: 0,
            hops: message.hops + 1,
            asked_ms: if message.place == Place::Dead { message.life_ms } else { left_ms },
            ..message
        };
        if let Some(queue) = self.queues.get(target)
            && queue.shape.sessions
            && moved.draft.session.is_none()
        {
            return Err(Refusal::Here("Session id is null."));
        }
        if is_full {
            return Err(Refusal::Here("QuotaExceededException"));
        }
        if self.topics.contains_key(target) {
            let draft = moved.draft.clone();
            let scheduled = &self.topics[target].own;
            if scheduled.original_of(&draft).is_none() {
                let number = self.publish(target, moved);
                let scheduled = &mut self.topics.get_mut(target).expect("a topic").own;
                scheduled.remember(now_ms, &draft, number);
            }
            return Ok(());
        }
        let queue = self.queues.get_mut(target).ok_or(Refusal::Here("MessagingEntityNotFoundException"))?;
        if queue.original_of(&moved.draft).is_none() {
            let draft = moved.draft.clone();
            moved.live(now_ms, queue.shape.life_in_effect_ms());
            let number = queue.add(moved);
            queue.remember(now_ms, &draft, number);
        }
        Ok(())
    }
}

impl Message {
    /// It stays where it is, dead-lettered; a dead letter waits with a lock for another target.
    fn refused(mut self, refusal: Refusal) -> Self {
        match (refusal, self.place) {
            (Refusal::Here(_), Place::Dead) => {
                self.lock = Some(Lock { token: None, until_ms: u64::MAX });
            }
            (Refusal::Anywhere(reason), Place::Dead) => {
                self.place = Place::Transfer;
                self.reason.get_or_insert(reason);
            }
            (Refusal::Here(reason) | Refusal::Anywhere(reason), _) => self.bury(reason),
        }
        self
    }
}
