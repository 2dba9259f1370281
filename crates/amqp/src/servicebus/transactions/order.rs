//! What comes after a discharge on a connection sees it done: plain work that arrives while a commit of the same entities is
//! under way waits for that commit, and for no later one.
//!
//! Discharges and work of transactions don't wait, because the engine carries out commits in the order in which they were asked
//! for; nor does credit, because what a commit brings is delivered whenever it comes. A roll-back needs no waiting: nothing of the
//! transaction ever was visible.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use smallvec::SmallVec;

use super::control::Committing;
use crate::endpoint::{Connection, Event, LinkId};
use crate::servicebus::{ConnectionHandler, Link};
use crate::wire::performative::{Attach, DeliveryState, Target};

/// What an event concerns.
enum Concern {
    /// Nothing that a commit changes.
    Nothing,
    /// A transaction: behind work of transactions that waits.
    Coordinator,
    /// The end of a session or of a coordinator's link: behind all that waits.
    End,
    /// A top-level entity.
    Entity(Arc<str>),
    /// Perhaps any.
    Everything,
}

/// An event that waits.
struct Waiting {
    event: Event,
    concern: Concern,
    /// The last commit that was asked for before it came: it waits for no later one.
    after: u64,
    /// Whether it is work of a transaction, whose discharge has to wait for it.
    is_work: bool,
}

/// Commits under way and what waits for them.
#[derive(Default)]
pub(super) struct Order {
    /// Commits asked for so far; the number of the last one.
    asked: u64,
    commits: BTreeMap<u64, SmallVec<[Arc<str>; 2]>>,
    /// Numbers of commits under way by the entities that they change.
    by_entity: HashMap<Arc<str>, BTreeSet<u64>>,
    bytes: usize,
    /// In the order of arrival.
    waiting: VecDeque<Waiting>,
    /// Of those that wait, how many concern which entity.
    waiting_for: HashMap<Arc<str>, usize>,
    /// Of those that wait, how many concern more than one entity.
    waiting_for_all: usize,
    /// Of those that wait, how many are work of transactions.
    waiting_work: usize,
    /// A commit has ended since what waits was looked at.
    is_due: bool,
}

impl Order {
    /// A commit is asked for: its number.
    pub(super) fn begin(&mut self, touched: SmallVec<[Arc<str>; 2]>, bytes: usize) -> u64 {
        self.asked += 1;
        for entity in &touched {
            self.by_entity.entry(Arc::clone(entity)).or_default().insert(self.asked);
        }
        self.commits.insert(self.asked, touched);
        self.bytes += bytes;
        self.asked
    }

    pub(super) fn end(&mut self, committing: &Committing) {
        for entity in self.commits.remove(&committing.number).unwrap_or_default() {
            let is_last = self.by_entity.get_mut(&entity).is_some_and(|numbers| {
                numbers.remove(&committing.number);
                numbers.is_empty()
            });
            if is_last {
                self.by_entity.remove(&entity);
            }
        }
        self.bytes = self.bytes.saturating_sub(committing.bytes);
        self.is_due = !self.waiting.is_empty();
    }

    /// Bytes of messages under way with commits.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a commit up to this one is under way that changes what an event concerns, or an earlier event waits with
    /// which it keeps its order.
    fn has_to_wait(&self, concern: &Concern, after: u64) -> bool {
        match concern {
            Concern::Nothing => false,
            Concern::Coordinator => self.waiting_work > 0,
            Concern::End => !self.waiting.is_empty(),
            Concern::Entity(entity) => {
                let earliest = self.by_entity.get(entity).and_then(|numbers| numbers.first());
                earliest.is_some_and(|number| *number <= after)
                    || self.waiting_for_all > 0
                    || self.waiting_for.contains_key(entity)
            }
            Concern::Everything => {
                let earliest = self.commits.first_key_value();
                earliest.is_some_and(|(number, _)| *number <= after) || !self.waiting.is_empty()
            }
        }
    }

    fn wait(&mut self, waiting: Waiting) {
        match &waiting.concern {
            Concern::Entity(entity) => *self.waiting_for.entry(Arc::clone(entity)).or_default() += 1,
            _ => self.waiting_for_all += 1,
        }
        self.waiting_work += usize::from(waiting.is_work);
        self.waiting.push_back(waiting);
    }

    fn take_waiting(&mut self) -> VecDeque<Waiting> {
        self.is_due = false;
        self.waiting_for.clear();
        self.waiting_for_all = 0;
        self.waiting_work = 0;
        std::mem::take(&mut self.waiting)
    }
}

impl ConnectionHandler {
    /// The event, unless it has to wait for a commit.
    pub(in crate::servicebus) fn in_order(&mut self, event: Event) -> Option<Event> {
        let order = &self.transactions.order;
        if order.commits.is_empty() && order.waiting.is_empty() {
            return Some(event);
        }
        let (concern, after) = (self.concern(&event), order.asked);
        if !order.has_to_wait(&concern, after) {
            return Some(event);
        }
        let is_work = matches!(&event, Event::Message { state, .. } if is_work(state.as_deref()));
        self.transactions.order.wait(Waiting { event, concern, after, is_work });
        None
    }

    /// Once per turn: what waited for commits that are done goes on.
    pub(in crate::servicebus) fn go_on(&mut self, connection: &mut Connection) {
        if !self.transactions.order.is_due {
            return;
        }
        for waiting in self.transactions.order.take_waiting() {
            if self.transactions.order.has_to_wait(&waiting.concern, waiting.after) {
                self.transactions.order.wait(waiting);
            } else {
                self.handle(waiting.event, connection);
            }
        }
    }

    /// The connection is over: what came before its end counts.
    pub(in crate::servicebus) fn go_on_at_the_end(&mut self, connection: &mut Connection) {
        for Waiting { event, .. } in self.transactions.order.take_waiting() {
            self.handle(event, connection);
        }
    }

    fn concern(&self, event: &Event) -> Concern {
        match event {
            Event::Attach { attach, .. } if is_coordinator(attach) => Concern::Nothing,
            Event::Attach { .. } => Concern::Everything,
            Event::SessionEnded { .. } => Concern::End,
            Event::Credit { drain: false, .. } => Concern::Nothing,
            Event::Message { id, state, .. } => match self.links.get(&id.link) {
                Some(Link::Sender(_) | Link::Relay { .. }) if is_work(state.as_deref()) => Concern::Nothing,
                Some(Link::Coordinator) => Concern::Coordinator,
                _ => self.concern_of(id.link),
            },
            Event::Disposition { state, .. } if is_work(state.as_ref()) => Concern::Nothing,
            Event::Disposition { link, .. }
            | Event::Credit { link, .. }
            | Event::Ending { link, .. }
            | Event::Detached { link, .. } => self.concern_of(*link),
            Event::Authenticate { .. }
            | Event::Opened(_)
            | Event::Settled { .. }
            | Event::Updated { .. }
            | Event::Drained { .. }
            | Event::Closed { .. } => Concern::Nothing,
        }
    }

    fn concern_of(&self, link: LinkId) -> Concern {
        let entity = match self.links.get(&link) {
            // Its attach may be among those that wait.
            None => return Concern::Everything,
            Some(Link::Coordinator) => return Concern::End,
            Some(Link::Relay { .. } | Link::Subscription { .. }) => return Concern::Everything,
            Some(Link::CbsRequests { .. } | Link::Responses { entity: None }) => return Concern::Nothing,
            Some(Link::Sender(sender)) if sender.asked_via().is_some() => return Concern::Everything,
            Some(Link::ManagementRequests { target, .. }) if target.destination.is_some() => {
                return Concern::Everything;
            }
            Some(Link::Sender(sender)) => &sender.entity,
            Some(Link::ManagementRequests { target, .. }) => &target.entity,
            Some(Link::Responses { entity: Some(entity) }) => entity,
            Some(Link::Browser(browser)) => &browser.entity,
            Some(Link::Receiver(id)) => match self.receivers.get(id) {
                Some(receiver) => &receiver.entity,
                None => return Concern::Nothing,
            },
        };
        Concern::Entity(Arc::clone(&entity.root))
    }
}

fn is_coordinator(attach: &Attach) -> bool {
    matches!(attach.target, Some(Target::Coordinator(_)))
}

fn is_work(state: Option<&DeliveryState>) -> bool {
    matches!(state, Some(DeliveryState::Transactional { .. }))
}
