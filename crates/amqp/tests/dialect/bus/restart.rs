//! A restart of the broker in the model.

use super::{Bus, Path};

impl Bus {
    /// Locks are gone, and nothing else; no client is left.
    pub(crate) fn restart(&mut self) {
        for queue in self.sources_mut() {
            for message in queue.messages.values_mut() {
                message.lock = None;
            }
        }
        self.look_after();
    }

    /// A queue or topic has given out a number; no message may have a later one.
    pub(crate) fn continue_numbers(&mut self, path: Path, given: u64) {
        let queue = self.queue(path).expect("it is there");
        let last = queue.messages.last_key_value().map_or(0, |(number, _)| *number);
        assert!(last < given && given <= queue.next, "{path} gives out {given} after {last}");
        queue.next = given + 1;
    }
}
