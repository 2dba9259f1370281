//! Attempts to read what the device did not give back: a cable, a controller or a network may be at fault, so that only a
//! checksum proves damage.

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

/// Whether the error says nothing about the stored bytes.
pub(super) fn may_pass(error: &Error) -> bool {
    matches!(error, Error::Unreadable { .. })
}

/// The first entry of a page that the device did not give back now.
pub(super) fn unread_now(page: &Page) -> Result<(), Error> {
    let unread = page.damaged.iter().find(|damaged| may_pass(&damaged.error));
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
        let mut worn = Patience { pauses: u32::MAX };
        assert_eq!(worn.next_pause_ms(), 5_000);
        assert_eq!(worn.next_pause_ms(), 5_000);
    }
}
