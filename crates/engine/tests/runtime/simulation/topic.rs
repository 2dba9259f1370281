//! A topic whose subscriptions are created, deleted and change their rules: the messages that each of them must get.
//!
//! Changes and messages reach the topic in the order of submission and are answered in that order, so the responses so far
//! determine the state that decides the next answered message. A scheduled message is published some time after it is
//! due: certain is only what all states since then agree on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use peeklock_engine::{Command, QueueId, Refusal, Rule, SequenceNumber, SubscriptionOptions, Timestamp};
use smallvec::SmallVec;

use super::rules::{RULES, Share, rule, says};
use super::steps::{Place, TopicStep};
use super::world::{Asked, World};

pub(super) const TOPIC: &str = "news";
pub(super) const SUBSCRIPTIONS: [&str; 3] = ["all", "some", "others"];
/// The rule with which each subscription is declared.
const FIRST_RULES: [usize; 3] = [0, 7, 0];
/// For each subscription, whether a failing rule dead-letters the message.
const KEEPS_FAILURES: [bool; 3] = [true, true, false];

/// The first of the ids that the namespace never assigns.
const FIRST_ID: u64 = 1 << 32;

/// Whether this is the id of a subscription of the topic.
pub(super) fn is_subscription(queue: QueueId) -> bool {
    queue.0 >= FIRST_ID
}

pub(super) type Rules = BTreeSet<usize>;

/// The expected state of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subscription {
    name: usize,
    pub(super) rules: Rules,
}

pub(super) type Subscriptions = BTreeMap<QueueId, Subscription>;

#[derive(Debug, Clone)]
pub(super) enum Change {
    Declare { queue: QueueId, name: usize },
    Delete { queue: QueueId },
    AddRule { queue: QueueId, rule: usize },
    RemoveRule { queue: QueueId, rule: usize },
}

/// A message that is being sent, or is scheduled.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) content: String,
    pub(super) flavour: usize,
    pub(super) due: Option<Timestamp>,
    /// Tag of the request that sent it.
    pub(super) tag: u64,
    pub(super) accepted: bool,
    /// It may have been accepted before a restart in doubt.
    pub(super) is_doubtful: bool,
    /// Copies that subscriptions had to get of it in every state since it was due.
    surely: Option<BTreeSet<(QueueId, Share)>>,
}

/// What is known about the topic.
#[derive(Debug)]
pub(super) struct Topic {
    /// According to the responses so far.
    pub(super) subscriptions: Subscriptions,
    /// Changes not answered yet, with their tags.
    pub(super) under_way: VecDeque<(u64, Change)>,
    pub(super) messages: Vec<Message>,
    next_queue: u64,
    next_rank: u64,
    /// The rules found after a restart in doubt, while they are being listed.
    pub(super) found: Option<BTreeMap<QueueId, Rules>>,
}

impl Default for Topic {
    fn default() -> Self {
        let (subscriptions, under_way, messages) = Default::default();
        Self { subscriptions, under_way, messages, next_queue: FIRST_ID, next_rank: 0, found: None }
    }
}

/// Applies a change; returns false if there is a reason to refuse it.
fn apply(subscriptions: &mut Subscriptions, change: &Change) -> bool {
    match change {
        Change::Declare { queue, name } => {
            let rules = Rules::from([FIRST_RULES[*name]]);
            // An existing subscription of that name with another number stays: the declaration may not know it yet.
            let taken = subscriptions.iter().any(|(other, known)| other != queue && known.name == *name);
            if !taken {
                subscriptions.entry(*queue).or_insert(Subscription { name: *name, rules });
            }
            true
        }
        Change::AddRule { queue, rule } => {
            subscriptions.get_mut(queue).is_some_and(|found| found.rules.insert(*rule))
        }
        Change::RemoveRule { queue, rule } => {
            subscriptions.get_mut(queue).is_some_and(|found| found.rules.remove(rule))
        }
        Change::Delete { queue } => subscriptions.remove(queue).is_some(),
    }
}

/// The subscriptions that get a message of this flavour, and as what, in the order of each subscription's copies.
pub(super) fn wanting(subscriptions: &Subscriptions, flavour: usize) -> BTreeSet<(QueueId, Share)> {
    let of = |(queue, subscription): (&QueueId, &Subscription)| {
        let (queue, keeps_failures) = (*queue, KEEPS_FAILURES[subscription.name]);
        let shares = subscription.rules.iter().filter_map(|rule| says(*rule, flavour));
        let shares = shares.filter(move |share| keeps_failures || *share != Share::Failed);
        shares.map(move |share| (queue, share)).collect::<Vec<_>>()
    };
    subscriptions.iter().flat_map(of).collect()
}

impl Topic {
    pub(super) fn sending(&mut self, content: &str, flavour: usize, due: Option<Timestamp>, tag: u64) {
        let content = content.to_owned();
        self.messages.push(Message {
            content,
            flavour,
            due,
            tag,
            accepted: false,
            is_doubtful: false,
            surely: None,
        });
    }

    /// Possible states of the topic: as answered, and after each of the changes in progress.
    pub(super) fn states(&self) -> Vec<Subscriptions> {
        let mut states = vec![self.subscriptions.clone()];
        for (_, change) in &self.under_way {
            let mut next = states[states.len() - 1].clone();
            apply(&mut next, change);
            states.push(next);
        }
        states
    }

    /// The topic after all changes in progress.
    fn ahead(&self) -> Subscriptions {
        self.states().pop().unwrap_or_default()
    }

    pub(super) fn changed(&mut self, tag: u64, result: Result<(), Refusal>, is_in_doubt: bool) {
        if matches!(result, Err(Refusal::StorageFull | Refusal::StorageFailing)) {
            // A full or failing disk refuses the change before its turn: it did not happen, even if others are in doubt.
            self.under_way.retain(|(under_way, _)| *under_way != tag);
            return;
        }
        if is_in_doubt && result.is_err() {
            // It stays in progress: the state found after the restart decides.
            return;
        }
        if is_in_doubt {
            // Changes refused before it did not happen: the topic has been reloaded since.
            self.under_way.retain(|(under_way, _)| *under_way >= tag);
        }
        let (expected, change) = self.under_way.pop_front().expect("a change under way");
        assert_eq!(tag, expected, "answers come in order");
        match result {
            Ok(()) => assert!(apply(&mut self.subscriptions, &change), "{change:?} on {self:#?}"),
            Err(refusal) => {
                let possible = apply(&mut self.subscriptions.clone(), &change);
                assert!(!possible, "{change:?} was refused: {refusal}");
            }
        }
    }

    pub(super) fn listed(
        &mut self,
        queue: QueueId,
        result: Result<Vec<Arc<Rule>>, Refusal>,
        is_in_doubt: bool,
    ) {
        if let (Some(found), Ok(rules)) = (&mut self.found, &result) {
            let rule = |rule: &Arc<Rule>| RULES.iter().position(|name| *name == &*rule.name).expect("a rule");
            found.insert(queue, rules.iter().map(rule).collect());
            return;
        }
        let known = self.subscriptions.get(&queue);
        match result {
            // The restart shows which changes have happened.
            Ok(_) if is_in_doubt => {}
            Ok(rules) => {
                let names: BTreeSet<&str> = rules.iter().map(|rule| &*rule.name).collect();
                let expected = known.map(|known| known.rules.iter().map(|rule| RULES[*rule]).collect());
                assert_eq!(Some(names), expected, "rules of {queue:?}");
            }
            Err(Refusal::StorageFull | Refusal::StorageFailing) => {}
            Err(Refusal::Unavailable) if is_in_doubt => {}
            Err(refusal) => assert!(known.is_none(), "{queue:?} is there: {refusal}"),
        }
    }

    /// Whether its deletion is in progress or done.
    pub(super) fn may_be_deleted(&self, queue: QueueId) -> bool {
        queue.0 >= FIRST_ID && !self.ahead().contains_key(&queue)
    }

    /// Subscriptions that must exist.
    pub(super) fn queues(&self) -> impl Iterator<Item = QueueId> {
        self.subscriptions.keys().copied()
    }

    /// Minimum and maximum number of messages scheduled on the topic, once nothing is in progress. At an earlier start the
    /// time may
    /// have been `latest`, after `now`, so that due messages were published.
    pub(super) fn scheduled(&self, now: Timestamp, latest: Timestamp) -> (usize, usize) {
        let due_after =
            |at| self.messages.iter().filter(move |message| message.due.is_some_and(|due| due > at));
        (due_after(latest).filter(|message| message.accepted).count(), due_after(now).count())
    }

    /// Requests that were never written did not happen.
    pub(super) fn restarted(&mut self) {
        self.under_way.clear();
        self.messages.retain(|message| message.accepted || message.is_doubtful);
    }
}

impl World {
    pub(super) fn topic_step(&mut self, step: TopicStep) {
        let ahead = self.topic.ahead();
        let queue = |name| ahead.iter().find(|(_, found)| found.name == name).map(|(queue, _)| *queue);
        let change = match step {
            TopicStep::Declare { name } => return self.declare_subscription(name),
            TopicStep::Delete { name } => queue(name).map(|queue| Change::Delete { queue }),
            TopicStep::AddRule { name, rule } => queue(name).map(|queue| Change::AddRule { queue, rule }),
            TopicStep::RemoveRule { name, rule } => {
                queue(name).map(|queue| Change::RemoveRule { queue, rule })
            }
            TopicStep::ListRules { name } => {
                if let (Some(queue), Some(topic)) = (queue(name), self.find(Place::Topic)) {
                    let list = Command::ListRules { queue, skip: 0, top: 20 };
                    self.submit(&topic, list, Some(Asked::Rules { queue }));
                }
                return;
            }
        };
        if let Some(change) = change {
            self.change(change);
        }
    }

    /// Declares a subscription, even if it exists.
    pub(super) fn declare_subscription(&mut self, name: usize) {
        let known = self.topic.ahead().iter().find(|(_, found)| found.name == name).map(|(queue, _)| *queue);
        let queue = known.unwrap_or_else(|| {
            self.topic.next_queue += 1;
            QueueId(self.topic.next_queue)
        });
        self.change(Change::Declare { queue, name });
    }

    fn change(&mut self, change: Change) {
        let topic = self.find(Place::Topic).expect("the topic stays");
        let command = match &change {
            Change::Declare { queue, name } => Command::DeclareSubscription {
                intent: peeklock_engine::Intent::Declare,
                queue: *queue,
                name: SUBSCRIPTIONS[*name].into(),
                options: SubscriptionOptions {
                    max_delivery_count: 3,
                    dead_lettering_on_filter_evaluation_exceptions: KEEPS_FAILURES[*name],
                    ..SubscriptionOptions::default()
                },
                rules: vec![rule(FIRST_RULES[*name])],
            },
            Change::Delete { queue } => Command::DeleteSubscription { queue: *queue },
            Change::AddRule { queue, rule: index } => Command::AddRule { queue: *queue, rule: rule(*index) },
            Change::RemoveRule { queue, rule } => {
                Command::RemoveRule { queue: *queue, name: RULES[*rule].into() }
            }
        };
        self.submit(&topic, command, Some(Asked::Change));
        self.topic.under_way.push_back((self.last_tag(), change));
    }

    /// A response to sent messages: unscheduled ones were decided by the rules as answered so far.
    pub(super) fn published(
        &mut self,
        contents: &[String],
        result: Result<SmallVec<[SequenceNumber; 1]>, Refusal>,
    ) {
        for content in contents {
            let position = self.topic.messages.iter().position(|message| message.content == *content);
            let position = position.expect("a message under way");
            match &result {
                Err(Refusal::StorageFull | Refusal::StorageFailing) => {
                    self.topic.messages.remove(position);
                    self.auditors.values_mut().for_each(|auditor| {
                        Share::all().for_each(|share| auditor.refused(&share.of(content)));
                    });
                }
                Err(Refusal::Unavailable) if self.in_doubt => {}
                Err(refusal) => panic!("a message was refused: {refusal}"),
                Ok(_) if self.topic.messages[position].due.is_some() => {
                    self.topic.messages[position].accepted = true;
                }
                Ok(_) => {
                    let message = self.topic.messages.remove(position);
                    for (queue, share) in wanting(&self.topic.subscriptions, message.flavour) {
                        self.topic.next_rank += 1;
                        let (rank, copy) = (self.topic.next_rank, share.of(content));
                        let auditor = self.auditor(queue);
                        auditor.sending(&copy);
                        auditor.accepted(&copy, None);
                        auditor.ranked(&copy, rank);
                    }
                }
            }
        }
    }

    /// Tracks the states that may decide scheduled messages; due ones are published once no batch is in progress and the store
    /// has
    /// space, unless the topic can't be reloaded.
    pub(super) fn observe_topic(&mut self) {
        let store = &self.broker.store;
        let settled = store.held() == 0 && !store.is_full() && !self.in_doubt && !self.reads_fail;
        let now = self.now();
        let states = self.topic.states();
        let mut messages = std::mem::take(&mut self.topic.messages);
        messages.retain_mut(|message| {
            if message.due.is_none_or(|due| due > now) {
                return true;
            }
            for state in &states {
                let wanting = wanting(state, message.flavour);
                for (queue, share) in &wanting {
                    self.auditor(*queue).sending(&share.of(&message.content));
                }
                match &mut message.surely {
                    Some(surely) => surely.retain(|share| wanting.contains(share)),
                    None => message.surely = Some(wanting),
                }
            }
            let published = settled && message.accepted;
            for (queue, share) in message.surely.iter().flatten().filter(|_| published) {
                self.auditor(*queue).accepted(&share.of(&message.content), None);
            }
            !published
        });
        self.topic.messages = messages;
        let scheduled = self.broker.namespace.counts(TOPIC).map_or(0, |counts| counts.scheduled);
        let (_, most) = self.topic.scheduled(now, now);
        assert!(
            !settled || scheduled <= most as u64,
            "{scheduled} messages are scheduled, and {most} not due yet"
        );
    }

    /// After a restart the topic must be as answered.
    pub(super) fn compare_subscriptions(&mut self) {
        let mut names: Vec<&str> =
            self.topic.subscriptions.values().map(|known| SUBSCRIPTIONS[known.name]).collect();
        names.sort_unstable();
        assert_eq!(self.broker.namespace.subscription_names(TOPIC).expect("the topic stays"), names);
        let topic = self.find(Place::Topic).expect("the topic stays");
        let queues: Vec<QueueId> = self.topic.queues().collect();
        for queue in queues {
            self.submit(&topic, Command::ListRules { queue, skip: 0, top: 20 }, Some(Asked::Rules { queue }));
        }
    }
}
