//! Deliveries in the model: checked when they are seen.

use super::LinkKey;
use super::queue::{Lock, Message, Place, Queue};
use crate::message::{Seen, Token};

impl Queue {
    /// A delivery is seen: it must be of an available message, and there must be credit.
    pub(crate) fn delivered(&mut self, now_ms: u64, link: LinkKey, seen: &Seen, token: Option<Token>) {
        let receiver = self.receivers.get_mut(&link).expect("a receiver");
        assert!(receiver.credit > 0 && !receiver.waits, "{seen:?} comes without credit to {receiver:?}");
        receiver.credit -= 1;
        let (place, deletes, session) = (receiver.place, receiver.deletes, receiver.session.clone());
        let message = self.messages.get(&seen.number).unwrap_or_else(|| panic!("{seen:?} does not exist"));
        assert!(message.is_available(place), "{seen:?} is not available: {message:?}");
        assert!(place != Place::Main || message.expires_ms > now_ms, "{seen:?} has expired");
        if session.is_some() {
            assert_eq!(self.first_of(session.as_deref().unwrap_or_default()), Some(seen.number), "{seen:?}");
        }
        let held_until = session.and_then(|id| self.sessions[&id].holder).map(|(_, until)| until);
        let until_ms = held_until.unwrap_or(now_ms + self.shape.lock_ms);
        let message = self.messages.get_mut(&seen.number).expect("found");
        // The state of a delivered message says that it was scheduled.
        let (state, until_ms_seen) = (seen.state, (!deletes).then_some(until_ms));
        let expected = Seen { state, until_ms: until_ms_seen, ..message.seen(seen.number) };
        assert_eq!(*seen, expected);
        if deletes {
            self.messages.remove(&seen.number);
        } else {
            message.lock = Some(Lock { token, until_ms });
        }
    }

    pub(super) fn has_listener(&self, place: Place) -> bool {
        self.receivers.values().any(|one| one.place == place && one.credit > 0 && !one.waits)
    }

    /// What follows at once from every change of the queue.
    pub(super) fn look_after(&mut self, now_ms: u64, notes: &mut Vec<super::Note>) {
        if self.shape.sessions {
            self.look_after_sessions(now_ms, notes);
        } else if self.has_listener(Place::Main) || self.is_forwarding(Place::Main) {
            let is_over = |one: &Message| one.is_available(Place::Main) && one.expires_ms <= now_ms;
            self.numbers_where(is_over).into_iter().for_each(|number| self.expire(number));
        }
    }

    /// A message that should have been delivered.
    pub(crate) fn overlooked(&self) -> Option<u64> {
        for place in [Place::Main, Place::Dead, Place::Transfer] {
            if self.shape.sessions && place == Place::Main {
                continue;
            }
            let available = self.numbers_where(|message| message.is_available(place));
            if self.has_listener(place) && !available.is_empty() {
                return available.first().copied();
            }
        }
        let hungry = self.receivers.values().filter(|one| one.credit > 0 && !one.waits);
        hungry.filter_map(|receiver| self.first_of(receiver.session.as_deref()?)).next()
    }
}
