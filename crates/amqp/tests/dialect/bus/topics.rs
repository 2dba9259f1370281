//! Topics of the model.

use std::collections::BTreeMap;

use super::queue::{Message, Queue, QueueShape};
use super::{Bus, Path};
use crate::outcome::{EXISTS, NOT_FOUND, Outcome, Refused};

/// The rules that subscriptions may have: names, and the color that each lets pass (`None` for all).
pub(crate) const RULES: [(&str, Option<u8>); 4] =
    [("$Default", None), ("red", Some(0)), ("green", Some(1)), ("Red again", Some(0))];

#[derive(Debug)]
pub(crate) struct Topic {
    /// Its subscriptions in the order of their creation, with the numbers of their rules.
    pub(crate) subscriptions: Vec<(Path, BTreeMap<usize, ()>)>,
    pub(crate) life_ms: Option<u64>,
    /// Its scheduled messages, the numbers of its messages, and the ids it remembers.
    pub(crate) scheduled: Queue,
}

impl Topic {
    pub(crate) fn new(life_ms: Option<u64>, window_ms: Option<u64>) -> Self {
        let scheduled = Queue::new(QueueShape { window_ms, ..QueueShape::default() });
        Self { subscriptions: Vec::new(), life_ms, scheduled }
    }
}

impl Bus {
    /// Copies a message to the subscriptions that want it; returns its number in the topic.
    pub(super) fn publish(&mut self, path: Path, message: Message) -> u64 {
        let now_ms = self.now_ms;
        let topic = self.topics.get_mut(path).expect("a topic");
        let number = topic.scheduled.next;
        topic.scheduled.next += 1;
        for (subscription, rules) in &topic.subscriptions {
            let color = message.draft.color;
            if !rules.keys().any(|rule| RULES[*rule].1.is_none_or(|passes| passes == color)) {
                continue;
            }
            let queue = self.queues.get_mut(subscription).expect("a subscription");
            let mut copy = message.clone();
            let least = [topic.life_ms, queue.shape.life_ms].into_iter().flatten().min();
            if copy.hops == 0 {
                copy.live(now_ms, least);
            } else {
                copy.enqueued_ms = now_ms;
            }
            if queue.shape.sessions && copy.draft.session.is_none() {
                copy.bury("Session id is null.");
            }
            queue.add(copy);
        }
        number
    }

    fn rules(&mut self, subscription: Path) -> Result<&mut BTreeMap<usize, ()>, Refused> {
        let all = self.topics.values_mut().flat_map(|topic| &mut topic.subscriptions);
        all.filter(|(path, _)| *path == subscription).map(|(_, rules)| rules).next().ok_or(NOT_FOUND)
    }

    pub(crate) fn add_rule(&mut self, subscription: Path, rule: usize) -> Result<Outcome, Refused> {
        match self.rules(subscription)?.insert(rule, ()) {
            Some(()) => Err(EXISTS),
            None => Ok(Outcome::Done),
        }
    }

    pub(crate) fn remove_rule(&mut self, subscription: Path, rule: usize) -> Result<Outcome, Refused> {
        self.rules(subscription)?.remove(&rule).map(|()| Outcome::Done).ok_or(NOT_FOUND)
    }

    /// The default rule first, then the others by name.
    pub(crate) fn list_rules(
        &mut self,
        subscription: Path,
        skip: usize,
        top: usize,
    ) -> Result<Outcome, Refused> {
        let mut names: Vec<String> =
            self.rules(subscription)?.keys().map(|rule| RULES[*rule].0.to_owned()).collect();
        names.sort_by_key(|name| (name != "$Default", name.to_lowercase()));
        let page: Vec<String> = names.into_iter().skip(skip).take(top).collect();
        Ok(if page.is_empty() { Outcome::Nothing } else { Outcome::Rules(page) })
    }
}
