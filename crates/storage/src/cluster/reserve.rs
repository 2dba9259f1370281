//! Keeps room reserved for removals in the engine ([`super::ReplicatedLog::keep_reserve`]).

use super::shared::Shared;
use crate::Error;

/// Rounds until an engine without room is asked again. Each further failure in a row doubles them, up to
/// `DOUBLINGS_MAX` times.
const ROUNDS: u32 = 5;
const DOUBLINGS_MAX: u32 = 3;

/// State of the reserve; see the module.
#[derive(Debug, Default)]
pub(super) struct Reserve {
    /// Whether the reserve exists, as far as known here.
    is_kept: bool,
    /// Rounds until the engine is asked again.
    rounds_left: u32,
    /// Failures in a row.
    failures: u32,
}

impl Reserve {
    /// Requests the reserve when that is due. It was released if the engine refused a record; until it is restored, no
    /// batch that grows the log is accepted.
    ///
    /// # Errors
    /// The error if the request failed, except for lack of room.
    pub(super) async fn round(&mut self, shared: &Shared) -> Result<(), Error> {
        if shared.is_refused() && std::mem::take(&mut self.is_kept) {
            self.rounds_left = ROUNDS;
        }
        if self.is_kept {
            return Ok(());
        }
        if self.rounds_left > 0 {
            self.rounds_left -= 1;
            return Ok(());
        }
        match shared.log.keep_reserve().await {
            Ok(()) => {
                (self.is_kept, self.failures) = (true, 0);
                shared.set_refused(false);
                Ok(())
            }
            Err(error) => self.failed(shared, error),
        }
    }

    fn failed(&mut self, shared: &Shared, error: Error) -> Result<(), Error> {
        self.rounds_left = ROUNDS << self.failures.min(DOUBLINGS_MAX);
        self.failures += 1;
        if matches!(error, Error::Full { .. }) {
            shared.set_refused(true);
            return Ok(());
        }
        // The reserve may never be restored; the next batch that grows the log shows whether there is room.
        if self.failures > DOUBLINGS_MAX {
            shared.set_refused(false);
        }
        Err(error)
    }
}
