//! What comes after a commit on a connection sees it done: while one is under way, events that concern its entities wait.
//!
//! Work of other transactions goes on, because it takes effect by commits, which the engine carries out in the order in which
//! they were asked for. A roll-back needs no waiting: nothing of the transaction ever was visible.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::control::Committing;
use crate::endpoint::{Connection, Event, LinkId};
use crate::servicebus::{Broker, Link};
use crate::wire::performative::{Attach, DeliveryState, Target};

/// What an event concerns.
enum Concern {
    /// Nothing that a commit changes.
    Nothing,
    /// The coordinator: behind all that waits, but not behind commits.
    Coordinator,
    /// A top-level entity.
    Entity(Arc<str>),
    /// Perhaps any.
    Everything,
}

/// Commits under way and what waits for them.
#[derive(Default)]
pub(super) struct Order {
    /// Commits under way by the entities that they change.
    commits: HashMap<Arc<str>, usize>,
    bytes: usize,
    /// In the order of arrival.
    waiting: VecDeque<(Event, Concern)>,
    /// Of those that wait, how many concern which entity.
    waiting_for: HashMap<Arc<str>, usize>,
    /// Of those that wait, how many concern more than one entity.
    waiting_for_all: usize,
}

impl Order {
    pub(super) fn begin(&mut self, committing: &Committing) {
        for entity in &committing.touched {
            *self.commits.entry(Arc::clone(entity)).or_default() += 1;
        }
        self.bytes += committing.bytes;
    }

    pub(super) fn end(&mut self, committing: &Committing) {
        for entity in &committing.touched {
            let left = self.commits.get_mut(entity).map(|count| {
                *count -= 1;
                *count
            });
            if left == Some(0) {
                self.commits.remove(entity);
            }
        }
        self.bytes = self.bytes.saturating_sub(committing.bytes);
    }

    /// Bytes of messages under way with commits.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn has_to_wait(&self, concern: &Concern) -> bool {
        match concern {
            Concern::Nothing => false,
            Concern::Coordinator => !self.waiting.is_empty(),
            Concern::Entity(entity) => {
                self.waiting_for_all > 0
                    || self.commits.contains_key(entity)
                    || self.waiting_for.contains_key(entity)
            }
            Concern::Everything => !self.commits.is_empty() || !self.waiting.is_empty(),
        }
    }

    fn wait(&mut self, event: Event, concern: Concern) {
        match &concern {
            Concern::Entity(entity) => *self.waiting_for.entry(Arc::clone(entity)).or_default() += 1,
            _ => self.waiting_for_all += 1,
        }
        self.waiting.push_back((event, concern));
    }

    fn take_waiting(&mut self) -> VecDeque<(Event, Concern)> {
        self.waiting_for.clear();
        self.waiting_for_all = 0;
        std::mem::take(&mut self.waiting)
    }
}

impl Broker {
    /// The event, unless it has to wait for a commit.
    pub(in crate::servicebus) fn in_order(&mut self, event: Event) -> Option<Event> {
        let order = &self.transactions.order;
        if order.commits.is_empty() && order.waiting.is_empty() {
            return Some(event);
        }
        let concern = self.concern(&event);
        if !self.transactions.order.has_to_wait(&concern) {
            return Some(event);
        }
        self.transactions.order.wait(event, concern);
        None
    }

    /// A commit is done: what waited for it goes on.
    pub(super) fn go_on(&mut self, connection: &mut Connection) {
        for (event, concern) in self.transactions.order.take_waiting() {
            if self.transactions.order.has_to_wait(&concern) {
                self.transactions.order.wait(event, concern);
            } else {
                self.handle(event, connection);
            }
        }
    }

    /// The connection is over: what came before its end counts.
    pub(in crate::servicebus) fn go_on_at_the_end(&mut self, connection: &mut Connection) {
        for (event, _) in self.transactions.order.take_waiting() {
            self.handle(event, connection);
        }
    }

    fn concern(&self, event: &Event) -> Concern {
        match event {
            Event::Attach { attach, .. } if is_coordinator(attach) => Concern::Nothing,
            Event::Attach { .. } => Concern::Everything,
            Event::SessionEnded { .. } => Concern::Coordinator,
            Event::Message { id, state, .. } => match self.links.get(&id.link) {
                Some(Link::Sender(_)) if is_work(state.as_ref()) => Concern::Nothing,
                _ => self.concern_of(id.link),
            },
            Event::Disposition { state, .. } if is_work(state.as_ref()) => Concern::Nothing,
            Event::Disposition { link, .. } | Event::Credit { link, .. } | Event::Detached { link, .. } => {
                self.concern_of(*link)
            }
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
            Some(Link::Coordinator) => return Concern::Coordinator,
            Some(Link::CbsRequests { .. } | Link::Responses { entity: None }) => return Concern::Nothing,
            Some(Link::Sender(sender)) if sender.asked_via().is_some() => return Concern::Everything,
            Some(Link::ManagementRequests { target, .. }) if target.destination.is_some() => {
                return Concern::Everything;
            }
            Some(Link::Sender(sender)) => &sender.entity,
            Some(Link::ManagementRequests { target, .. }) => &target.entity,
            Some(Link::Responses { entity: Some(entity) }) => entity,
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
