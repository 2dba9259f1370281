//! Events after a discharge on a connection see its effects: an operation outside transactions that arrives while a
//! commit on the same entity is in progress waits for that commit, and for no later one.
//!
//! A commit is in progress from its discharge on. It is requested from the engine as soon as all operations of the
//! transaction are answered; commits that change the same entity are requested in the order of their discharges.
//!
//! Discharges and operations in transactions don't wait, because the engine carries out commits in the order of their
//! requests; nor does credit, because messages from a commit are delivered whenever they arrive, unless it follows a drain
//! that waits. A rollback needs no waiting: none of its effects was ever visible.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use smallvec::SmallVec;

use super::TxnId;
use super::table::{Progress, Table, Touched};
use crate::endpoint::{Connection, Event, LinkId};
use crate::servicebus::{ConnectionHandler, Link};
use crate::wire::performative::{Attach, DeliveryState, Target};

/// What an event depends on.
enum Concern {
    /// Nothing that a commit changes.
    Nothing,
    /// A transaction: comes after waiting operations in transactions.
    Coordinator,
    /// A coordinator's link, or the end of a session: comes after everything that waits.
    Link,
    /// Credit for an entity: comes after what waits for the same entity.
    Credit(Arc<str>),
    /// A top-level entity.
    Entity(Arc<str>),
    /// Possibly any entity.
    Everything,
}

/// A waiting event.
struct Waiting {
    event: Event,
    concern: Concern,
    /// The last commit begun before the event arrived: it waits for no later one.
    after: u64,
    /// Whether it belongs to a transaction, whose discharge has to wait for it.
    is_work: bool,
}

/// A commit in progress.
struct Commit {
    touched: Touched,
    /// Bytes of its messages, once it is requested from the engine.
    bytes: usize,
}

/// Commits in progress and events that wait for them.
#[derive(Default)]
pub(super) struct Order {
    /// Number of commits begun so far; also the number of the last one.
    begun: u64,
    commits: BTreeMap<u64, Commit>,
    /// Those not yet requested from the engine.
    unrequested: BTreeMap<u64, TxnId>,
    /// Numbers of commits in progress by the entities that they change.
    by_entity: HashMap<Arc<str>, BTreeSet<u64>>,
    bytes: usize,
    /// In the order of arrival.
    waiting: VecDeque<Waiting>,
    /// Number of waiting events by entity.
    waiting_for: HashMap<Arc<str>, usize>,
    /// Number of waiting events that concern more than one entity.
    waiting_for_all: usize,
    /// Number of waiting events that belong to transactions.
    waiting_work: usize,
    /// Number of operations of transactions that are kept for later, and are not among the waiting events.
    kept_work: usize,
    /// What some events wait for has happened since they were last checked.
    is_due: bool,
}

impl Order {
    /// Records the request of a client to commit; returns the number of the commit.
    pub(super) fn begin(&mut self, id: TxnId, touched: Touched) -> u64 {
        self.begun += 1;
        for entity in &touched {
            self.by_entity.entry(Arc::clone(entity)).or_default().insert(self.begun);
        }
        self.commits.insert(self.begun, Commit { touched, bytes: 0 });
        self.unrequested.insert(self.begun, id);
        self.begun
    }

    /// Records that a commit with this many bytes of messages is requested from the engine.
    pub(super) fn request(&mut self, number: u64, bytes: usize) {
        self.unrequested.remove(&number);
        if let Some(commit) = self.commits.get_mut(&number) {
            commit.bytes = bytes;
            self.bytes += bytes;
        }
    }

    /// Records that a commit is done, or does not take place.
    pub(super) fn end(&mut self, number: u64) {
        self.unrequested.remove(&number);
        let Some(Commit { touched, bytes }) = self.commits.remove(&number) else { return };
        for entity in touched {
            let is_last = self.by_entity.get_mut(&entity).is_some_and(|numbers| {
                numbers.remove(&number);
                numbers.is_empty()
            });
            if is_last {
                self.by_entity.remove(&entity);
            }
        }
        self.bytes = self.bytes.saturating_sub(bytes);
        self.is_due = !self.waiting.is_empty();
    }

    /// The transactions that can be ended now: all their operations are answered, and no earlier commit that is still
    /// unrequested changes the same entities.
    pub(super) fn ready(&self, table: &Table) -> SmallVec<[TxnId; 1]> {
        let mut ready = SmallVec::new();
        let mut awaited: HashSet<&Arc<str>> = HashSet::new();
        for (number, id) in &self.unrequested {
            let Some(Progress { commits, is_answered }) = table.progress(*id) else { continue };
            let touched = self.commits.get(number).map_or(&[][..], |commit| &commit.touched);
            let is_in_turn = !commits || !touched.iter().any(|entity| awaited.contains(entity));
            if is_answered && is_in_turn {
                ready.push(*id);
            } else if commits {
                awaited.extend(touched);
            }
        }
        ready
    }

    pub(super) fn work_kept(&mut self, operations: usize) {
        self.kept_work += operations;
    }

    pub(super) fn kept_work_taken(&mut self, operations: usize) {
        self.kept_work = self.kept_work.saturating_sub(operations);
        self.is_due |= operations > 0 && !self.waiting.is_empty();
    }

    /// Bytes of messages in commits that are in progress.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a commit up to `after` is in progress that changes what an event concerns, or an earlier waiting event
    /// must be handled before it.
    fn has_to_wait(&self, concern: &Concern, after: u64) -> bool {
        match concern {
            Concern::Nothing => false,
            Concern::Coordinator => self.waiting_work + self.kept_work > 0,
            Concern::Link => !self.waiting.is_empty(),
            Concern::Credit(entity) => self.is_awaited(entity),
            Concern::Entity(entity) => {
                let earliest = self.by_entity.get(entity).and_then(|numbers| numbers.first());
                earliest.is_some_and(|number| *number <= after) || self.is_awaited(entity)
            }
            Concern::Everything => {
                let earliest = self.commits.first_key_value();
                earliest.is_some_and(|(number, _)| *number <= after) || !self.waiting.is_empty()
            }
        }
    }

    /// Whether events that concern an entity wait.
    fn is_awaited(&self, entity: &Arc<str>) -> bool {
        self.waiting_for_all > 0 || self.waiting_for.contains_key(entity)
    }

    fn wait(&mut self, waiting: Waiting) {
        match &waiting.concern {
            Concern::Entity(entity) | Concern::Credit(entity) => {
                *self.waiting_for.entry(Arc::clone(entity)).or_default() += 1;
            }
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
    /// Returns the event, unless it has to wait for a commit.
    pub(in crate::servicebus) fn in_order(&mut self, event: Event) -> Option<Event> {
        let order = &self.transactions.order;
        if order.commits.is_empty() && order.waiting.is_empty() && order.kept_work == 0 {
            return Some(event);
        }
        let (concern, after) = (self.concern(&event), order.begun);
        if !order.has_to_wait(&concern, after) {
            return Some(event);
        }
        let is_work = matches!(&event, Event::Message { state, .. } if is_work(state.as_deref()));
        self.transactions.order.wait(Waiting { event, concern, after, is_work });
        None
    }

    /// Handles events whose commits are done; called once per turn.
    pub(in crate::servicebus) fn handle_waiting_events(&mut self, connection: &mut Connection) {
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

    /// Handles all waiting events at the end of the connection: those that arrived before it count.
    pub(in crate::servicebus) fn handle_all_waiting_events(&mut self, connection: &mut Connection) {
        for Waiting { event, .. } in self.transactions.order.take_waiting() {
            self.handle(event, connection);
        }
    }

    /// Answers a drain, unless the credit that replaces it waits: then that is drained next.
    pub(in crate::servicebus) fn answer_drain(&mut self, link: LinkId, connection: &mut Connection) {
        let replaces =
            |waiting: &Waiting| matches!(waiting.event, Event::Credit { link: of, .. } if of == link);
        if !self.transactions.order.waiting.iter().any(replaces) {
            connection.drained(link);
        }
    }

    fn concern(&self, event: &Event) -> Concern {
        match event {
            Event::Attach { attach, .. } if is_coordinator(attach) => Concern::Link,
            Event::Attach { .. } => Concern::Everything,
            Event::SessionEnded { .. } => Concern::Link,
            Event::Credit { link, drain: false, .. } => match self.concern_of(*link) {
                Concern::Entity(entity) => Concern::Credit(entity),
                _ => Concern::Nothing,
            },
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
            | Event::Refused { .. }
            | Event::Settled { .. }
            | Event::Updated { .. }
            | Event::Drained { .. }
            | Event::Closed { .. } => Concern::Nothing,
        }
    }

    fn concern_of(&self, link: LinkId) -> Concern {
        let entity = match self.links.get(&link) {
            // Its attach may be among the waiting events.
            None => return Concern::Everything,
            Some(Link::Coordinator) => return Concern::Link,
            Some(Link::Relay { .. } | Link::Subscription { .. }) => return Concern::Everything,
            Some(Link::CbsRequests { .. } | Link::Responses { entity: None }) => return Concern::Nothing,
            Some(Link::Sender(sender)) if sender.requested_via().is_some() => return Concern::Everything,
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
