//! Forwarding in the model: messages of a source go on to its target at once.

use super::queue::{Message, Place};
use super::{Bus, Path};

/// How many times a message is forwarded.
const HOPS_MAX: u8 = 4;

impl Bus {
    /// Forwards the first messages; false if there are none.
    pub(super) fn forward(&mut self) -> bool {
        let sources: Vec<(Path, Path)> =
            self.queues.iter().filter_map(|(path, queue)| Some((*path, queue.shape.forward_to?))).collect();
        let mut has_moved = false;
        for (source, target) in sources {
            let queue = self.queues.get_mut(source).expect("a source");
            for number in queue.numbers_where(|message| message.is_available(Place::Main)) {
                has_moved = true;
                let queue = self.queues.get_mut(source).expect("a source");
                let message = queue.messages.remove(&number).expect("it is there");
                if let Some((message, reason)) = self.hand_over(message, target) {
                    let mut message = message;
                    message.bury(reason);
                    let queue = self.queues.get_mut(source).expect("a source");
                    queue.messages.insert(number, message);
                }
            }
        }
        self.has_forwarded |= has_moved;
        has_moved
    }

    /// Stores a message in a target; returned with the reason if it can't be there.
    fn hand_over(&mut self, message: Message, target: Path) -> Option<(Message, &'static str)> {
        if message.hops == HOPS_MAX {
            return Some((message, "MaxTransferHopCountExceeded"));
        }
        let now_ms = self.now_ms;
        let mut moved = Message { count: 0, hops: message.hops + 1, enqueued_ms: now_ms, ..message.clone() };
        if self.topics.contains_key(target) {
            let draft = moved.draft.clone();
            let scheduled = &self.topics[target].scheduled;
            if scheduled.original_of(&draft).is_none() {
                moved.reason = None;
                let number = self.publish(target, moved);
                let scheduled = &mut self.topics.get_mut(target).expect("a topic").scheduled;
                scheduled.remember(now_ms, &draft, number);
            }
            return None;
        }
        let Some(queue) = self.queues.get_mut(target) else {
            return Some((message, "MessagingEntityNotFoundException"));
        };
        if queue.shape.sessions && message.draft.session.is_none() {
            return Some((message, "Session id is null."));
        }
        if queue.original_of(&message.draft).is_none() {
            let number = queue.add(moved);
            queue.remember(now_ms, &message.draft, number);
        }
        None
    }
}
