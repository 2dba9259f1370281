//! Retries of reads that the device or the store failed: the cause may be a cable, a controller or the network, so only a
//! wrong checksum proves damage.

use peeklock_storage::{Error, Page};

/// Shortest and longest pause before another attempt, in milliseconds; each pause is twice the previous one.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 50..=5_000;
/// After this number of pauses, 1.5 seconds in total, a message that still can't be read no longer delays others.
const PAUSES_MAX: u32 = 5;

/// Number of pauses so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RetryBackoff {
    pauses: u32,
}

impl RetryBackoff {
    /// Whether there was no pause yet.
    pub(super) fn is_fresh(self) -> bool {
        self.pauses == 0
    }

    /// Whether a request that failed with this error is repeated. Reading a message is given up after some pauses; a store
    /// that can't be reached is retried without end, since that says nothing about the message.
    pub(super) fn allows_for(self, error: &Error) -> bool {
        error.is_outage() || error.is_transient() && !self.is_over()
    }

    /// Whether reading a single message is given up.
    pub(super) fn is_over(self) -> bool {
        self.pauses >= PAUSES_MAX
    }

    /// The length of the next pause, in milliseconds; counts the pause.
    pub(super) fn next_pause_ms(&mut self) -> u64 {
        let pause_ms = PAUSE_MS.start().saturating_mul(2_u64.saturating_pow(self.pauses));
        self.pauses = self.pauses.saturating_add(1);
        pause_ms.min(*PAUSE_MS.end())
    }
}

/// The error of the first entry of a page that may be readable later.
pub(super) fn unread_now(page: &Page) -> Result<(), Error> {
    let unread = page.damaged.iter().find(|damaged| damaged.error.is_transient());
    unread.map_or(Ok(()), |unread| Err(unread.error.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound() {
        let mut backoff = RetryBackoff::default();
        let pauses: Vec<u64> = (0..9).map(|_| backoff.next_pause_ms()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        let unreadable = Error::Unreadable {
            place: peeklock_storage::Place { unit: "a file".to_owned(), offset: 7 },
            reason: "test".to_owned(),
        };
        let unavailable = Error::Unavailable { reason: "test".to_owned() };
        let failed_call = Error::System { reason: "test".to_owned() };
        assert!(!backoff.allows_for(&unreadable) && backoff.allows_for(&unavailable));
        assert!(backoff.allows_for(&failed_call));
        assert!(RetryBackoff::default().allows_for(&unreadable));
        let mut worn = RetryBackoff { pauses: u32::MAX };
        assert_eq!(worn.next_pause_ms(), 5_000);
        assert_eq!(worn.next_pause_ms(), 5_000);
    }
}
