//! Removals that wait for a content: a message received and deleted goes from the disk once its content has been read.
//!
//! On a topic other copies of the message may go meanwhile. Then the content outlives the last of them: it goes with
//! the last removal that waits. What waits in a subscription that is deleted waits no longer: a crash would leave a
//! content to which nothing stored refers.

use std::collections::HashMap;

use crate::{BodyRef, Event, MessageView, QueueId, SequenceNumber};

/// A removal to be stored later.
#[derive(Debug)]
pub(super) struct HeldRemoval {
    event: Event,
    /// The content of the message, whether or not it goes with it.
    body: BodyRef,
}

impl HeldRemoval {
    /// Whether it removes this message.
    pub(super) fn is_of(&self, view: &MessageView) -> bool {
        matches!(&self.event, Event::Removed { queue, number, .. }
            if (*queue, *number) == (view.queue, view.sequence_number))
    }
}

/// Removals that a turn did not store, by message.
pub(super) type Removals = HashMap<(QueueId, SequenceNumber), HeldRemoval>;

/// Messages whose removals are to wait, and their contents.
#[derive(Debug, Default)]
pub(super) struct Wanted(HashMap<(QueueId, SequenceNumber), BodyRef>);

impl Wanted {
    pub(super) fn add(&mut self, view: &MessageView) {
        self.0.insert((view.queue, view.sequence_number), view.body);
    }
}

/// Contents for which removals wait.
#[derive(Debug, Default)]
pub(in crate::runtime) struct HeldBodies(HashMap<BodyRef, Held>);

#[derive(Debug, Default)]
struct Held {
    /// Where removals wait, once for each.
    waiting: Vec<QueueId>,
    /// No other message refers to the content any more.
    is_last: bool,
    /// A message could not be read and stays on the disk, and so does its content.
    stays: bool,
}

impl HeldBodies {
    /// Moves the removals of the wanted messages out of `events`, corrects the commands' `ends`, and keeps the contents
    /// for which removals wait.
    pub(super) fn hold(&mut self, wanted: &Wanted, events: &mut Vec<Event>, ends: &mut [usize]) -> Removals {
        let removals = if wanted.0.is_empty() { Removals::new() } else { self.take(wanted, events, ends) };
        self.keep_contents(events);
        removals
    }

    /// Takes contents for which removals wait out of events that would delete them.
    pub(in crate::runtime) fn keep_contents(&mut self, events: &mut [Event]) {
        if !self.0.is_empty() {
            events.iter_mut().for_each(|event| self.keep_content(event));
        }
    }

    fn take(&mut self, wanted: &Wanted, events: &mut Vec<Event>, ends: &mut [usize]) -> Removals {
        let mut removals = Removals::new();
        let mut positions = Vec::new();
        let mut kept = Vec::with_capacity(events.len());
        for (position, mut event) in events.drain(..).enumerate() {
            let key = match &event {
                Event::Removed { queue, number, .. } => Some((*queue, *number)),
                _ => None,
            };
            match key.and_then(|key| Some((key, *wanted.0.get(&key)?))) {
                Some((key, body)) => {
                    positions.push(position);
                    self.0.entry(body).or_default().waiting.push(key.0);
                    self.keep_content(&mut event);
                    removals.insert(key, HeldRemoval { event, body });
                }
                None => kept.push(event),
            }
        }
        *events = kept;
        for end in ends {
            *end -= positions.partition_point(|position| *position < *end);
        }
        removals
    }

    /// Takes contents for which removals wait out of an event that would delete them.
    fn keep_content(&mut self, event: &mut Event) {
        match event {
            Event::Removed { body, .. } => {
                if let Some(held) = body.and_then(|body| self.0.get_mut(&body)) {
                    held.is_last = true;
                    *body = None;
                }
            }
            Event::SubscriptionRemoved { queue, bodies } => {
                for body in &**bodies {
                    if let Some(held) = self.0.get_mut(body) {
                        held.is_last = true;
                    }
                }
                let vain = self.end_waits(*queue);
                let free =
                    bodies.iter().copied().filter(|body| !self.0.contains_key(body) && !vain.contains(body));
                *bodies = free.chain(vain.iter().copied()).collect();
            }
            _ => {}
        }
    }

    /// Forgets what waits in a subscription that goes; the contents that nobody else waits for or refers to.
    fn end_waits(&mut self, queue: QueueId) -> Vec<BodyRef> {
        let mut free = Vec::new();
        self.0.retain(|body, held| {
            let waited = held.waiting.len();
            held.waiting.retain(|waiting| *waiting != queue);
            let ends = held.waiting.is_empty() && waited > 0;
            if ends && held.is_last && !held.stays {
                free.push(*body);
            }
            !ends
        });
        free.sort_unstable_by_key(|body| body.0);
        free
    }

    /// The event of a removal that waits no longer. The last one of a content takes it along.
    pub(super) fn release(&mut self, removal: HeldRemoval) -> Event {
        let HeldRemoval { mut event, body } = removal;
        if let Event::Removed { queue, body: removed, .. } = &mut event
            && let Some(held) = self.let_go(*queue, body)
            && held.is_last
            && !held.stays
        {
            *removed = Some(body);
        }
        event
    }

    /// A removal will not be stored: its content can't be read.
    pub(super) fn abandon(&mut self, removal: &HeldRemoval) {
        let Event::Removed { queue, .. } = &removal.event else { return };
        if let Some(held) = self.0.get_mut(&removal.body).filter(|held| held.waiting.contains(queue)) {
            held.stays = true;
        }
        self.let_go(*queue, removal.body);
    }

    /// A removal in a queue waits no longer for a content; what is known of that when it was the last.
    fn let_go(&mut self, queue: QueueId, body: BodyRef) -> Option<Held> {
        let held = self.0.get_mut(&body)?;
        let position = held.waiting.iter().position(|waiting| *waiting == queue)?;
        held.waiting.swap_remove(position);
        if held.waiting.is_empty() { self.0.remove(&body) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SubQueue;
    use crate::event::Removal;

    const BODY: BodyRef = BodyRef(5);

    fn removed(queue: u64, body: Option<BodyRef>) -> Event {
        Event::Removed {
            queue: QueueId(queue),
            number: SequenceNumber(1),
            sub_queue: SubQueue::Main,
            body,
            removal: Removal::Received(None),
        }
    }

    fn wanted(queues: &[u64]) -> Wanted {
        Wanted(queues.iter().map(|queue| ((QueueId(*queue), SequenceNumber(1)), BODY)).collect())
    }

    fn hold(held: &mut HeldBodies, queue: u64, body: Option<BodyRef>) -> HeldRemoval {
        let removals = held.hold(&wanted(&[queue]), &mut vec![removed(queue, body)], &mut [1]);
        removals.into_values().next().unwrap()
    }

    #[test]
    fn a_content_goes_with_its_own_removal_when_nothing_else_refers_to_it() {
        let mut held = HeldBodies::default();
        let removal = hold(&mut held, 1, Some(BODY));
        assert_eq!(held.release(removal), removed(1, Some(BODY)));
        assert!(held.0.is_empty());
    }

    #[test]
    fn a_content_that_loses_its_last_copy_meanwhile_goes_with_the_removal_that_waits() {
        let mut held = HeldBodies::default();
        let removal = hold(&mut held, 1, None);
        let mut events = vec![removed(2, Some(BODY)), removed(3, Some(BodyRef(6)))];
        assert!(held.hold(&Wanted::default(), &mut events, &mut [2]).is_empty());
        assert_eq!(events, [removed(2, None), removed(3, Some(BodyRef(6)))]);
        assert_eq!(held.release(removal), removed(1, Some(BODY)));
        assert!(held.0.is_empty());
    }

    #[test]
    fn of_several_that_wait_the_last_takes_the_content_whatever_their_order() {
        for order in [[0, 1], [1, 0]] {
            let mut held = HeldBodies::default();
            let mut removals = [1, 2].map(|queue| Some(hold(&mut held, queue, (queue == 2).then_some(BODY))));
            let events = order.map(|index| held.release(removals[index].take().unwrap()));
            assert_eq!(events.map(|event| event.removed_bodies().len()), [0, 1]);
            assert!(held.0.is_empty());
        }
    }

    #[test]
    fn a_content_with_other_copies_stays() {
        let mut held = HeldBodies::default();
        let removal = hold(&mut held, 1, None);
        assert_eq!(held.release(removal), removed(1, None));
    }

    #[test]
    fn the_content_of_a_message_that_stays_on_the_disk_stays() {
        let mut held = HeldBodies::default();
        let (unread, other) = (hold(&mut held, 1, None), hold(&mut held, 2, Some(BODY)));
        held.abandon(&unread);
        assert_eq!(held.release(other), removed(2, None));
        assert!(held.0.is_empty());
    }

    #[test]
    fn a_deleted_subscription_leaves_contents_for_which_others_wait() {
        let mut held = HeldBodies::default();
        let removal = hold(&mut held, 1, None);
        let gone =
            |bodies: &[BodyRef]| Event::SubscriptionRemoved { queue: QueueId(2), bodies: bodies.into() };
        let mut events = vec![gone(&[BodyRef(4), BODY])];
        held.hold(&Wanted::default(), &mut events, &mut [1]);
        assert_eq!(events, [gone(&[BodyRef(4)])]);
        assert_eq!(held.release(removal), removed(1, Some(BODY)));
    }

    #[test]
    fn a_deleted_subscription_takes_along_what_only_it_waited_for() {
        let gone =
            |bodies: &[BodyRef]| Event::SubscriptionRemoved { queue: QueueId(1), bodies: bodies.into() };
        let mut held = HeldBodies::default();
        let removal = hold(&mut held, 1, Some(BODY));
        let mut events = vec![gone(&[BodyRef(4)])];
        held.hold(&Wanted::default(), &mut events, &mut [1]);
        assert_eq!(events, [gone(&[BodyRef(4), BODY])]);
        assert_eq!(held.release(removal), removed(1, None));

        let (removal, other) = (hold(&mut held, 1, None), hold(&mut held, 2, Some(BODY)));
        let mut events = vec![gone(&[])];
        held.hold(&Wanted::default(), &mut events, &mut [1]);
        assert_eq!(events, [gone(&[])], "another subscription waits for it");
        held.abandon(&removal);
        assert_eq!(held.release(other), removed(2, Some(BODY)));
        assert!(held.0.is_empty());
    }

    #[test]
    fn ends_of_commands_move_with_what_is_taken_out() {
        let mut held = HeldBodies::default();
        let mut events = vec![removed(1, None), removed(2, None), removed(3, None)];
        let mut ends = [1, 2, 3];
        assert_eq!(held.hold(&wanted(&[1, 3]), &mut events, &mut ends).len(), 2);
        assert_eq!((events.len(), ends), (1, [0, 1, 1]));
    }
}
