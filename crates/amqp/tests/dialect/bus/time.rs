//! What happens by itself when time passes.

use super::queue::{Place, Queue};
use super::transactions::root_of;
use super::{Bus, Path};

impl Bus {
    pub(crate) fn pass(&mut self, duration_ms: u64) {
        self.now_ms += duration_ms;
        let now_ms = self.now_ms;
        for queue in self.queues.values_mut() {
            queue.forget_ids(now_ms);
            queue.end_locks(now_ms);
            queue.end_sessions(now_ms, &mut self.notes);
        }
        for topic in self.topics.values_mut() {
            topic.own.forget_ids(now_ms);
            topic.own.end_locks(now_ms);
        }
        self.activate_due();
        self.end_transactions_in_time();
        self.look_after();
    }

    /// Whether messages are scheduled on an entity, or on its topic.
    pub(crate) fn schedules(&self, path: Path) -> bool {
        let sources = [path, root_of(path)].into_iter().filter_map(|one| self.source(one));
        sources.flat_map(|queue| queue.messages.values()).any(|message| message.due_ms.is_some())
    }

    /// Makes scheduled messages available, or publishes them, when their time has come.
    pub(super) fn activate_due(&mut self) {
        let now_ms = self.now_ms;
        for queue in self.queues.values_mut() {
            for number in queue.due(now_ms) {
                let mut message = queue.messages.remove(&number).expect("it is due");
                message.due_ms = None;
                message.live(now_ms, queue.shape.life_in_effect_ms());
                queue.add(message);
            }
        }
        let topics: Vec<Path> = self.topics.keys().copied().collect();
        for path in topics {
            let scheduled = &mut self.topics.get_mut(path).expect("a topic").own;
            let due = scheduled.due(now_ms);
            let due: Vec<_> = due.iter().filter_map(|number| scheduled.messages.remove(number)).collect();
            for mut message in due {
                message.due_ms = None;
                self.publish(path, message);
            }
        }
    }
}

impl Queue {
    /// Scheduled messages that are due, in the order of their times.
    fn due(&self, now_ms: u64) -> Vec<u64> {
        let mut due = self.numbers_where(|message| message.due_ms.is_some_and(|at| at <= now_ms));
        due.sort_by_key(|number| (self.messages[number].due_ms, *number));
        due
    }

    /// Locks end by themselves, except those of sessions.
    fn end_locks(&mut self, now_ms: u64) {
        let is_late = |message: &super::Message| {
            let in_session = self.shape.sessions && message.place == Place::Main;
            !in_session && message.lock.is_some_and(|lock| lock.until_ms <= now_ms)
        };
        for number in self.numbers_where(is_late) {
            self.unlock(now_ms, number, true);
        }
    }
}
