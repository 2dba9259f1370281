//! Attempts to read what the device or the store did not give back: a cable, a controller or a network may be at fault, so
//! that only a checksum proves damage.

use peeklock_storage::{Error, Page};

/// First and longest pause before another attempt, in milliseconds; each pause is twice the one before.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 50..=5_000;
/// After so many pauses, 1.5 seconds together, a message that still can't be read no longer holds up the others.
const PAUSES_MAX: u32 = 5;

/// The pauses so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Patience {
    pauses: u32,
}

impl Patience {
    /// Whether no pause was made yet.
    pub(super) fn is_fresh(self) -> bool {
        self.pauses == 0
    }

    /// Whether a request that failed like this is repeated. A message is given up after some pauses, a store that can't be
    /// reached never: that says nothing about the message.
    pub(super) fn allows_for(self, error: &Error) -> bool {
        matches!(error, Error::Unavailable { .. }) || error.may_pass() && !self.is_over()
    }

    /// Whether a single message is given up.
    pub(super) fn is_over(self) -> bool {
        self.pauses >= PAUSES_MAX
    }

    /// How long the next pause is, in milliseconds.
    pub(super) fn next_pause_ms(&mut self) -> u64 {
        let pause_ms = PAUSE_MS.start().saturating_mul(2_u64.saturating_pow(self.pauses));
        self.pauses = self.pauses.saturating_add(1);
        pause_ms.min(*PAUSE_MS.end())
    }
}

/// The first entry of a page that the device did not give back now.
pub(super) fn unread_now(page: &Page) -> Result<(), Error> {
    let unread = page.damaged.iter().find(|damaged| damaged.error.may_pass());
    unread.map_or(Ok(()), |unread| Err(unread.error.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound() {
        let mut patience = Patience::default();
        let pauses: Vec<u64> = (0..9).map(|_| patience.next_pause_ms()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        let unreadable = Error::Unreadable {
            place: peeklock_storage::Place { unit: "a file".to_owned(), offset: 7 },
            reason: "test".to_owned(),
        };
        let unavailable = Error::Unavailable { reason: "test".to_owned() };
        assert!(!patience.allows_for(&unreadable) && patience.allows_for(&unavailable));
        assert!(Patience::default().allows_for(&unreadable));
        let mut worn = Patience { pauses: u32::MAX };
        assert_eq!(worn.next_pause_ms(), 5_000);
        assert_eq!(worn.next_pause_ms(), 5_000);
    }
}
