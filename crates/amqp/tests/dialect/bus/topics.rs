//! Topics of the model.

use std::collections::BTreeMap;

use super::queue::{Message, Queue};
use super::shape::QueueShape;
use super::{Bus, Path};
use crate::outcome::{EXISTS, NOT_FOUND, Outcome, Refused};

/// What the action of a rule does to its copy.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Action {
    Paint(u8),
    RemoveColor,
    SetSession(&'static str),
}

/// A rule that subscriptions may have.
#[derive(Debug)]
pub(crate) struct RuleShape {
    pub(crate) name: &'static str,
    /// The color that it lets pass; `None` for all.
    pub(crate) color: Option<u8>,
    pub(crate) action: Option<Action>,
}

const fn rule(name: &'static str, color: Option<u8>, action: Option<Action>) -> RuleShape {
    RuleShape { name, color, action }
}

/// All rules, in the order in which they are listed and carried out: the default rule first, then the others by name.
pub(crate) const RULES: [RuleShape; 7] = [
    rule("$Default", None, None),
    rule("bleach", Some(2), Some(Action::RemoveColor)),
    rule("green", Some(1), None),
    rule("Move", None, Some(Action::SetSession("two"))),
    rule("paint", Some(0), Some(Action::Paint(1))),
    rule("red", Some(0), None),
    rule("Red again", Some(0), None),
];

impl RuleShape {
    /// The expression of its filter.
    pub(crate) fn filter(&self) -> String {
        self.color.map_or("1=1".to_owned(), |color| format!("color = {color}"))
    }

    /// The expression of its action.
    pub(crate) fn action(&self) -> Option<String> {
        Some(match self.action? {
            Action::Paint(color) => format!("SET color = {color}"),
            Action::RemoveColor => "REMOVE color".to_owned(),
            Action::SetSession(id) => format!("SET sys.SessionId = '{id}'"),
        })
    }

    fn matches(&self, message: &Message) -> bool {
        self.color.is_none_or(|color| message.draft.color == Some(color))
    }

    /// The copy that its action makes: it names the rule.
    fn changed(&self, message: &Message) -> Option<Message> {
        let mut copy = message.clone();
        match self.action? {
            Action::Paint(color) => copy.draft.color = Some(color),
            Action::RemoveColor => copy.draft.color = None,
            Action::SetSession(id) => copy.draft.session = Some(id),
        }
        copy.rule = Some(self.name);
        Some(copy)
    }
}

#[derive(Debug)]
pub(crate) struct Topic {
    /// Its subscriptions in the order of their creation, with the numbers of their rules.
    pub(crate) subscriptions: Vec<(Path, BTreeMap<usize, ()>)>,
    /// Its scheduled messages and transfer dead letters, the numbers of its messages, and the ids it remembers.
    pub(crate) own: Queue,
}

impl Topic {
    pub(crate) fn new(shape: QueueShape) -> Self {
        Self { subscriptions: Vec::new(), own: Queue::new(shape) }
    }
}

impl Bus {
    /// Copies a message to the subscriptions that want it; returns its number in the topic.
    pub(super) fn publish(&mut self, path: Path, message: Message) -> u64 {
        let now_ms = self.now_ms;
        let topic = self.topics.get_mut(path).expect("a topic");
        let number = topic.own.next;
        topic.own.next += 1;
        for (subscription, rules) in &topic.subscriptions {
            let matching = rules.keys().map(|rule| &RULES[*rule]).filter(|rule| rule.matches(&message));
            let matching: Vec<&RuleShape> = matching.collect();
            // Those without action make one copy together.
            let plain = matching.iter().any(|rule| rule.action.is_none()).then(|| message.clone());
            let changed = matching.iter().filter_map(|rule| rule.changed(&message));
            let queue = self.queues.get_mut(subscription).expect("a subscription");
            let least = [topic.own.shape.life_ms, queue.shape.life_ms].into_iter().flatten().min();
            for mut copy in plain.into_iter().chain(changed) {
                copy.live(now_ms, least);
                if queue.shape.sessions && copy.draft.session.is_none() {
                    copy.bury("Session id is null.");
                }
                queue.add(copy);
            }
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

    pub(crate) fn list_rules(
        &mut self,
        subscription: Path,
        skip: usize,
        top: usize,
    ) -> Result<Outcome, Refused> {
        let names = self.rules(subscription)?.keys().map(|rule| RULES[*rule].name.to_owned());
        let page: Vec<String> = names.skip(skip).take(top).collect();
        Ok(if page.is_empty() { Outcome::Nothing } else { Outcome::Rules(page) })
    }
}
