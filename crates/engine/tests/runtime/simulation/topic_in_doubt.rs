//! The state of a topic after a restart in doubt: of the requests that were in progress, some number of the oldest have
//! happened. The state found after the restart shows how many.

use peeklock_engine::{Command, QueueId};

use super::steps::Place;
use super::topic::{SUBSCRIPTIONS, Subscriptions, TOPIC, Topic, wanting};
use super::world::{Asked, World};

impl Topic {
    /// The states after each request in progress, with the tag of that request.
    fn stages(&self) -> Vec<(u64, Subscriptions)> {
        let tags = self.under_way.iter().map(|(tag, _)| *tag);
        std::iter::once(0).chain(tags).zip(self.states()).collect()
    }
}

impl World {
    /// Determines which requests have happened, and treats them as answered.
    pub(super) async fn resolve_topic(&mut self) {
        let stages = self.topic.stages();
        self.list_rules_found().await;
        let found = self.topic.found.take().unwrap_or_default();
        let is_found = |state: &Subscriptions| {
            let rules = |queue: &QueueId| found.get(queue);
            state.len() == found.len()
                && state.iter().all(|(queue, known)| rules(queue) == Some(&known.rules))
        };
        let last = stages.iter().rposition(|(_, state)| is_found(state));
        let last = last.unwrap_or_else(|| panic!("{found:?} is none of {stages:#?}"));
        self.doubt_messages(&stages, last);
        self.topic.subscriptions = stages[last].1.clone();
        self.topic.under_way.clear();
    }

    /// Lists the rules of all existing subscriptions.
    async fn list_rules_found(&mut self) {
        self.topic.found = Some(Default::default());
        let topic = self.find(Place::Topic).expect("the topic stays");
        for name in SUBSCRIPTIONS {
            let Some(queue) = self.broker.namespace.subscription(TOPIC, name).map(|found| found.queue) else {
                continue;
            };
            let list = Command::ListRules { queue, skip: 0, top: 20 };
            self.submit(&topic, list, Some(Asked::Rules { queue }));
        }
        crate::broker::quiet().await;
        self.listen();
    }

    /// Unanswered messages were decided by the state before their request, if that was reached.
    fn doubt_messages(&mut self, stages: &[(u64, Subscriptions)], last: usize) {
        let mut messages = std::mem::take(&mut self.topic.messages);
        messages.retain_mut(|message| {
            message.is_doubtful |= !message.accepted;
            if message.accepted || message.due.is_some() {
                return true;
            }
            let stage = stages.iter().rposition(|(tag, _)| *tag < message.tag).unwrap_or(0);
            if stage <= last {
                for (queue, share) in wanting(&stages[stage].1, message.flavour) {
                    self.auditor(queue).sending(&share.of(&message.content));
                }
            }
            false
        });
        self.topic.messages = messages;
    }
}
