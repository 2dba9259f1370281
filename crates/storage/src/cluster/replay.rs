//! Taking over: seizing the log, then reading the last checkpoint and the heads behind it.

use std::sync::Arc;

use super::log::{RecordId, RecordKind, RecordPlace, ReplicatedLog, StoredRecord, Tail};
use super::part::Mark;
use super::port::Environment;
use super::record::{Commit, unseal};
use super::recovery::{epoch_after, pause_before};
use super::shared::{Account, corrupt, fenced, lost_tail};
use super::state::State;
use crate::{Error, ShardId};

/// Attempts to read the end of the log and seize it before the take-over gives up in favour of another owner.
const ATTEMPTS_MAX: u32 = 8;

/// A shard that was taken over.
#[derive(Debug)]
pub(super) struct Loaded {
    /// The owner record of this lease.
    pub(super) owner: RecordId,
    pub(super) state: State,
    pub(super) account: Account,
}

/// A take-over of a shard in progress.
pub(super) struct TakeOver<'a> {
    pub(super) shard: ShardId,
    pub(super) log: &'a Arc<dyn ReplicatedLog>,
    pub(super) environment: &'a dyn Environment,
    /// The last record known to this process as acknowledged.
    pub(super) known: RecordId,
}

impl TakeOver<'_> {
    pub(super) async fn run(self) -> Result<Loaded, Error> {
        let (owner, tail) = self.seize().await?;
        let (begins, checkpoint_bytes) = match tail.mark {
            None => (RecordPlace(1), 0),
            Some(mark) => self.read_mark(mark).await?,
        };
        if self.known.place >= begins {
            self.check_known().await?;
        }
        let mut replay = Replay::new(self.shard, begins, owner);
        replay.account.checkpoint_bytes = checkpoint_bytes;
        replay.account.checkpoint_records = tail.mark.map_or(0, |mark| mark.0.saturating_sub(begins.0));
        let mut next = self.log.heads(begins);
        loop {
            let page = next.await?;
            let Some(last) = page.last().map(|record| record.id.place) else {
                return Err(corrupt(self.shard, replay.expected, 0, "the log ends before its owner record"));
            };
            // The next page is fetched while this one is applied.
            next = self.log.heads(last.next());
            for record in &page {
                if replay.take(record)? {
                    return Ok(replay.finish());
                }
            }
        }
    }

    /// Appends an owner record. Returns it and the tail before it.
    async fn seize(&self) -> Result<(RecordId, Tail), Error> {
        let mut last_error = fenced("other owners keep taking over the log");
        for attempt in 0..ATTEMPTS_MAX {
            if attempt > 0 {
                self.environment.pause(pause_before(attempt)).await;
            }
            let tail = match self.log.open().await {
                Ok(tail) => tail,
                Err(error @ Error::Corrupt { .. }) => return Err(error),
                Err(error) => {
                    last_error = unavailable(error);
                    continue;
                }
            };
            if tail.last.place < self.known.place {
                return Err(lost_tail(self.shard, self.known, tail.last));
            }
            let epoch = epoch_after(tail.last.epoch, self.environment.draw());
            match self.log.seize(tail.last, epoch).await {
                Ok(()) => return Ok((RecordId { place: tail.last.place.next(), epoch }, tail)),
                Err(error @ Error::Corrupt { .. }) => return Err(error),
                Err(error) => last_error = unavailable(error),
            }
            if matches!(last_error, Error::Full { .. }) {
                // If this fails, the next attempt fails too and reports the error.
                let _ = self.log.release_reserve().await;
            }
        }
        Err(last_error)
    }

    async fn read_mark(&self, place: RecordPlace) -> Result<(RecordPlace, u64), Error> {
        let damaged = |reason| corrupt(self.shard, place, 0, reason);
        let page = self.log.heads(place).await?;
        let record =
            page.first().filter(|record| record.id.place == place && record.kind == RecordKind::Mark);
        let record = record.ok_or_else(|| damaged("the last mark of a checkpoint is gone"))?;
        let payload = unseal(self.shard, record.id, record.kind, &record.heads).map_err(damaged)?;
        let mark = Mark::decode(&payload).ok_or_else(|| damaged("it is no mark of a checkpoint"))?;
        Ok((mark.begins, mark.bytes))
    }

    /// A log that lost its end may have grown again; then another owner's record is at the known place.
    async fn check_known(&self) -> Result<(), Error> {
        let page = self.log.heads(self.known.place).await?;
        let found = page.first().map_or(RecordId::default(), |record| record.id);
        if self.known.place > RecordPlace(0) && found != self.known {
            return Err(lost_tail(self.shard, self.known, found));
        }
        Ok(())
    }
}

/// For the caller of an acquisition, an owner record in doubt has no effect, so the error becomes `Unavailable`.
fn unavailable(error: Error) -> Error {
    match error {
        Error::InDoubt { reason } => Error::Unavailable { reason },
        other => other,
    }
}

/// Applies records one after the other.
struct Replay {
    shard: ShardId,
    state: State,
    account: Account,
    expected: RecordPlace,
    before: RecordId,
    owner: RecordId,
}

impl Replay {
    fn new(shard: ShardId, begins: RecordPlace, owner: RecordId) -> Self {
        let account = Account { checkpoint_at: begins, ..Account::default() };
        let (state, before) = (State::default(), RecordId::default());
        Self { shard, state, account, expected: begins, before, owner }
    }

    /// Applies a record. Returns true once the owner record is reached.
    fn take(&mut self, record: &StoredRecord) -> Result<bool, Error> {
        let StoredRecord { id, kind, heads } = record;
        let (shard, expected) = (self.shard, self.expected);
        let damaged = |reason: &str| Err(corrupt(shard, expected, 0, reason));
        if id.place != self.expected {
            return damaged("the record is missing");
        }
        let is_in_order = match kind {
            RecordKind::Owner => id.epoch > self.before.epoch,
            _ => id.epoch == self.before.epoch || self.before == RecordId::default(),
        };
        if !is_in_order {
            return damaged("the record before it has another epoch");
        }
        if *kind != RecordKind::Owner
            && let Err(reason) = self.apply(record)
        {
            return damaged(reason);
        }
        self.account.appended_bytes += heads.len() as u64;
        self.account.applied = id.place;
        self.before = *id;
        self.expected = id.place.next();
        if id.place < self.owner.place {
            return Ok(false);
        }
        if *id == self.owner {
            Ok(true)
        } else {
            damaged("it is not the owner record that was appended there")
        }
    }

    fn apply(&mut self, record: &StoredRecord) -> Result<(), &'static str> {
        let payload = unseal(self.shard, record.id, record.kind, &record.heads)?;
        let applied = match record.kind {
            RecordKind::Commit => {
                Commit::decode(&payload).map(|commit| self.state.apply(record.id.place, &commit))
            }
            RecordKind::Part => self.state.replace(&payload),
            RecordKind::Mark | RecordKind::Owner => Some(()),
        };
        applied.ok_or("its contents make no sense")
    }

    fn finish(mut self) -> Loaded {
        // Some of these may have been dropped already; dropping again is harmless, and their bytes are not counted.
        self.account.dead = self.state.rows.sweep();
        self.account.dead.iter_mut().for_each(|row| row.total_bytes = 0);
        Loaded { owner: self.owner, state: self.state, account: self.account }
    }
}
