//! What the client knows about each message, and what follows for the broker.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use peeklock_amqp::wire::Value;
use peeklock_amqp::wire::message::{MessageProperties, Sections, encode_body_data};

/// Identifies a delivery, over all connections.
pub(crate) type DeliveryNumber = u64;

/// Where a message is, as far as the client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// On its way to the broker.
    Sent,
    /// Sent in a transaction that is open.
    Staged,
    /// Available to receivers.
    Available,
    /// Locked by a delivery until a time in milliseconds.
    Locked(DeliveryNumber, u64),
    Deferred,
    DeadLettered,
    /// Completed, received and deleted, refused or aborted.
    Gone,
    /// Received and deleted, or available: it may have been lost with its connection.
    PerhapsLost,
}

/// What a client does with a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Complete,
    Release,
    Abandon,
    Defer,
    DeadLetter,
}

#[derive(Default)]
pub(crate) struct Messages {
    places: BTreeMap<u32, Place>,
    deliveries: DeliveryNumber,
    now_ms: u64,
}

impl Messages {
    pub(crate) fn create(&mut self) -> u32 {
        let id = u32::try_from(self.places.len()).expect("few messages");
        self.places.insert(id, Place::Sent);
        id
    }

    pub(crate) fn set(&mut self, id: u32, place: Place) {
        self.places.insert(id, place);
    }

    /// A complete delivery of this message: only an available one may be delivered. One that has been on its way for
    /// longer than its lock holds nothing, and others may have got the message meanwhile.
    pub(crate) fn delivered(&mut self, id: u32, locked_until: Option<u64>) -> DeliveryNumber {
        self.deliveries += 1;
        let (place, number) = (self.places[&id], self.deliveries);
        if locked_until.is_some_and(|until| until <= self.now_ms) {
            return number;
        }
        assert!(
            matches!(place, Place::Available | Place::Sent | Place::PerhapsLost),
            "message {id} was delivered although it is {place:?}"
        );
        self.set(id, locked_until.map_or(Place::Gone, |until| Place::Locked(number, until)));
        number
    }

    /// Whether a delivery still holds the lock.
    pub(crate) fn holds(&self, id: u32, number: DeliveryNumber) -> bool {
        matches!(self.places[&id], Place::Locked(holder, _) if holder == number)
    }

    /// Applies a verdict if the delivery still holds the lock; returns whether it does.
    pub(crate) fn settle(&mut self, id: u32, number: DeliveryNumber, verdict: Verdict) -> bool {
        if !self.holds(id, number) {
            return false;
        }
        self.set(
            id,
            match verdict {
                Verdict::Complete => Place::Gone,
                Verdict::Release | Verdict::Abandon => Place::Available,
                Verdict::Defer => Place::Deferred,
                Verdict::DeadLetter => Place::DeadLettered,
            },
        );
        true
    }

    /// Messages that the broker has got completely.
    pub(crate) fn stored(&mut self, ids: &[u32], is_valid: bool) {
        for &id in ids {
            if self.places[&id] == Place::Sent {
                self.set(id, if is_valid { Place::Available } else { Place::Gone });
            }
        }
    }

    /// Dead letters become available: they are received next.
    pub(crate) fn bring_back_dead_letters(&mut self) {
        for place in self.places.values_mut() {
            if *place == Place::DeadLettered {
                *place = Place::Available;
            }
        }
    }

    pub(crate) fn time_passed(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        for place in self.places.values_mut() {
            if matches!(place, Place::Locked(_, until) if *until <= now_ms) {
                *place = Place::Available;
            }
        }
    }

    /// The connection ended while output was not read: what was to be received and deleted may be lost.
    pub(crate) fn perhaps_lost(&mut self) {
        for place in self.places.values_mut() {
            if matches!(place, Place::Available | Place::Sent) {
                *place = Place::PerhapsLost;
            }
        }
    }

    pub(crate) fn in_place(&self, wanted: Place) -> Vec<u32> {
        self.places.iter().filter(|(_, place)| **place == wanted).map(|(id, _)| *id).collect()
    }
}

/// A message of this encoded size that contains its id.
pub(crate) fn encode(id: u32, bytes: usize) -> Bytes {
    let encoded = |length: usize| {
        let mut body = id.to_be_bytes().to_vec();
        body.resize(length.max(4), 7);
        let mut output = BytesMut::new();
        // The broker would add one.
        let message_id = Value::ULong(id.into());
        MessageProperties { message_id, ..MessageProperties::default() }.encode(&mut output);
        encode_body_data(&body, &mut output);
        output.freeze()
    };
    let overhead = encoded(bytes).len() - bytes.max(4);
    encoded(bytes.saturating_sub(overhead))
}

/// A batch of messages.
pub(crate) fn encode_batch(messages: &[Bytes]) -> Bytes {
    let mut output = BytesMut::new();
    messages.iter().for_each(|message| encode_body_data(message, &mut output));
    output.freeze()
}

/// The id of a delivered message, and the end of its lock.
pub(crate) fn decode(payload: &Bytes) -> (u32, Option<u64>) {
    let sections = Sections::split(payload).expect("a message");
    let annotations = Sections::decode_map(&sections.message_annotations).expect("annotations");
    let until = annotations.iter().find(|(key, _)| *key == Value::symbol("x-opt-locked-until"));
    let until = until.and_then(|(_, value)| match value {
        Value::Timestamp(at_ms) => u64::try_from(*at_ms).ok(),
        _ => None,
    });
    let Value::Described(body) = Value::decode(&mut sections.body.clone()).expect("a body") else {
        panic!("no section")
    };
    let Value::Binary(data) = &body.value else { panic!("{body:?}") };
    (u32::from_be_bytes(*data.first_chunk().expect("an id")), until)
}
