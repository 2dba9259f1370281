//! Whether the engine has room set aside for removals ([`super::ReplicatedLog::keep_reserve`]).

use super::shared::Shared;
use crate::Error;

/// Rounds after which an engine that had no room is asked again; each further failure in a row doubles them, so often at most.
const ROUNDS: u32 = 5;
const DOUBLINGS_MAX: u32 = 3;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Reserve {
    /// As far as is known here.
    is_kept: bool,
    /// Until the engine is asked.
    rounds_left: u32,
    /// In a row.
    failures: u32,
}

impl Reserve {
    /// Asks for it where it is due. It was given up if the engine refused a record; until it is there again, no batch that grows is
    /// accepted.
    ///
    /// # Errors
    /// Why the engine could not be asked. That it has no room is none.
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
        // Perhaps it never can: the next batch that grows finds out whether there is room.
        if self.failures > DOUBLINGS_MAX {
            shared.set_refused(false);
        }
        Err(error)
    }
}
