//! Damage found in the store since the namespace started: logged once, counted, and kept for administrators.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use peeklock_storage::{Error, Place};

use crate::SequenceNumber;

/// Maximum number of entries kept for [`super::Namespace::damage`]; further damage is counted and logged.
const DAMAGES_KEPT_MAX: usize = 1000;

/// Stored data that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Damage {
    /// The entity or subscription concerned.
    pub entity: String,
    /// The message that was taken out of delivery; `None` if more than one message is concerned.
    pub sequence_number: Option<u64>,
    /// The location of the damaged bytes; `None` if a record is missing.
    pub place: Option<Place>,
    /// The fault and its consequences.
    pub reason: String,
}

impl Damage {
    /// Whether both concern the same place and message.
    fn is_at(&self, other: &Self) -> bool {
        (&self.entity, self.sequence_number, &self.place)
            == (&other.entity, other.sequence_number, &other.place)
    }
}

/// Why stored data can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unreadable {
    pub(super) reason: String,
    place: Option<Place>,
}

impl Unreadable {
    /// For bytes that can be read but not decoded, or for missing data.
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), place: None }
    }

    /// Adds the subject to the reason.
    pub(super) fn about(mut self, what: &str) -> Self {
        self.reason = format!("{what} can't be read: {}", self.reason);
        self
    }

    /// Converts it to damage of a message, or with `None` of an entity as a whole.
    pub(super) fn damage(self, entity: String, number: Option<SequenceNumber>) -> Damage {
        let sequence_number = number.map(|number| number.0);
        Damage { entity, sequence_number, place: self.place, reason: self.reason }
    }
}

impl From<Error> for Unreadable {
    fn from(error: Error) -> Self {
        match error {
            Error::Corrupt { place, reason } => Self { reason, place: Some(place) },
            Error::Unreadable { place, reason } => {
                Self { reason: format!("the device can't read it: {reason}"), place: Some(place) }
            }
            other => Self::new(other.to_string()),
        }
    }
}

/// All damage found so far; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Damages(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    kept: BTreeSet<Damage>,
    count: u64,
}

impl Damages {
    /// Records and logs damage, each once.
    pub(super) fn note(&self, damage: Damage) {
        if !self.add(damage.clone()) {
            return;
        }
        tracing::error!(
            entity = damage.entity,
            sequence_number = damage.sequence_number,
            place = damage.place.as_ref().map(tracing::field::display),
            reason = damage.reason,
            "stored data is damaged; see docs/damaged-store.md"
        );
    }

    /// Records damage that is already logged; false if it is already known.
    pub(super) fn add(&self, damage: Damage) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The same place may be reported with different reasons.
        let place = Damage { reason: String::new(), ..damage.clone() };
        let next = known.kept.range(&place..).next();
        if next.is_some_and(|next| *next == damage || (damage.place.is_some() && next.is_at(&damage))) {
            return false;
        }
        known.count += 1;
        if known.kept.len() < DAMAGES_KEPT_MAX {
            known.kept.insert(damage);
        }
        true
    }

    /// The recorded damage, in order of entity and number.
    pub(super) fn list(&self) -> Vec<Damage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).kept.iter().cloned().collect()
    }

    /// The number of damages found, whether or not they are kept.
    pub(super) fn count(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count
    }
}
