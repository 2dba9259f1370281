//! Appends and seizures: one statement each, sent before earlier ones are answered.

use std::time::Duration;

use peeklock_storage::cluster::{NewRecord, RecordId, RecordKind};
use peeklock_storage::{Epoch, Error, ShardId};
use tokio::time::{Instant, sleep};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{SimpleQueryMessage, Statement};

use super::{number, sql, sql_shard};
use crate::failure::Failure;
use crate::session::Session;
use crate::standbys::Standbys;

/// Stores a record if the preceding one is of the same epoch. A place that is taken is a unique violation.
const APPEND: &str = "insert into log (shard, place, epoch, kind, heads) select $1, $2, $3, $4, $5
  where exists (select from log where shard = $1 and place = $2 - 1 and epoch = $3)";

/// Like [`APPEND`], with bodies. The number of affected rows is that of `body`.
const APPEND_BODIES: &str = "with stored as (
  insert into log (shard, place, epoch, kind, heads) select $1, $2, $3, $4, $5
  where exists (select from log where shard = $1 and place = $2 - 1 and epoch = $3) returning shard, place)
insert into body (shard, place, data) select shard, place, $6 from stored";

/// Stores an owner record if `$3` is the epoch of the preceding record; the first record has no predecessor.
const SEIZE: &str = "insert into log (shard, place, epoch, kind, heads) select $1, $2, $4, $5, ''
  where $2 = 1 or exists (select from log where shard = $1 and place = $2 - 1 and epoch = $3)";

/// The epochs at a place and at the end of the log.
const EPOCHS: &str = "select (select epoch from log where shard = $1 and place = $2),
  (select epoch from log where shard = $1 order by place desc limit 1)";

/// Counts sessions of this login, except this one, that append to the shard and wait for a standby. What a session waits
/// for is visible to its own login, which may have another role as its setting `role`.
const WAITING: &str = "select set_config('role', 'none', true);
  select count(*) from pg_stat_activity where datname = current_database() and usename = session_user
  and pid <> pg_backend_pid() and wait_event = 'SyncRep' and application_name = current_setting('application_name')";

/// How long to wait for earlier commits of the shard that wait for a standby before the attempt to open the log fails.
const EARLIER: Duration = Duration::from_secs(2);

/// The session's part of `application_name`, which identifies appending sessions of all nodes.
pub(super) fn purpose(shard: ShardId) -> String {
    format!("shard {} append", shard.0)
}

/// A session that appends.
pub(super) struct Appender {
    session: Session,
    shard: ShardId,
    append: Statement,
    append_bodies: Statement,
    seize: Statement,
    epochs: Statement,
}

impl Appender {
    pub(super) async fn prepare(shard: ShardId, session: Session) -> Result<Self, Failure> {
        let (append, append_bodies, seize, epochs) = {
            let client = session.client();
            let record = [Type::INT4, Type::INT8, Type::INT8, Type::INT2, Type::BYTEA, Type::BYTEA];
            let owner = [Type::INT4, Type::INT8, Type::INT8, Type::INT8, Type::INT2];
            let (without_bodies, _) = record.split_at(5);
            let statements = async {
                tokio::try_join!(
                    client.prepare_typed(APPEND, without_bodies),
                    client.prepare_typed(APPEND_BODIES, &record),
                    client.prepare_typed(SEIZE, &owner),
                    client.prepare(EPOCHS),
                )
            };
            session.ask(statements).await?
        };
        Ok(Self { session, shard, append, append_bodies, seize, epochs })
    }

    pub(super) const fn session(&self) -> &Session {
        &self.session
    }

    /// Waits for earlier commits of this shard that wait for a standby. Another commit would wait behind them, and each
    /// attempt would leave one more session on the server, which does not notice there that its client is gone.
    pub(super) async fn await_earlier_commits(&self) -> Result<(), Failure> {
        let until = Instant::now() + EARLIER;
        loop {
            let waiting = self.waiting().await?;
            if waiting == 0 {
                return Ok(());
            }
            if Instant::now() >= until {
                let (server, shard) = (self.session.server(), self.shard.0);
                let mut reason = format!(
                    "{server}: {waiting} commits of shard {shard} wait for a standby: no standby of \
                     synchronous_standby_names confirms"
                );
                if let Ok(standbys) = Standbys::of(&self.session).await {
                    reason.push_str(&format!(" ({standbys})"));
                }
                return Err(Failure::Unfit { reason });
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn waiting(&self) -> Result<u64, Failure> {
        let answer = self.session.ask(self.session.client().simple_query(WAITING)).await?;
        let row = answer.iter().rev().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.try_get(0).ok().flatten()?.parse().ok(),
            _ => None,
        });
        row.ok_or_else(|| Failure::Lost { reason: "the answer has another form".to_owned() })
    }

    pub(super) async fn append(&self, record: &NewRecord) -> Result<(), Error> {
        let NewRecord { id, kind, heads, bodies } = record;
        let (shard, kind) = (sql_shard(self.shard), *kind as i16);
        let (place, epoch) = (sql(id.place.0)?, sql(id.epoch.0)?);
        let (heads, bodies) = (heads.as_ref(), bodies.as_ref());
        let sent_at = Instant::now();
        let rows = if bodies.is_empty() {
            self.session.execute(&self.append, &[&shard, &place, &epoch, &kind, &heads]).await
        } else {
            self.session.execute(&self.append_bodies, &[&shard, &place, &epoch, &kind, &heads, &bodies]).await
        };
        if matches!(rows, Ok(1)) {
            self.session.note_answered(sent_at.elapsed());
        }
        self.judge(rows, *id).await
    }

    pub(super) async fn seize(&self, after: RecordId, epoch: Epoch) -> Result<(), Error> {
        if epoch <= after.epoch {
            return Err(fenced("the epoch is not higher than the one before"));
        }
        let (shard, kind) = (sql_shard(self.shard), RecordKind::Owner as i16);
        let (place, before, own) = (sql(after.place.next().0)?, sql(after.epoch.0)?, sql(epoch.0)?);
        match self.session.execute(&self.seize, &[&shard, &place, &before, &own, &kind]).await {
            Ok(1) => Ok(()),
            Ok(_) => Err(fenced("the log does not end where it did")),
            Err(failure) if is_taken(&failure) => Err(fenced("there is a record behind the end")),
            Err(failure) => Err(failure.of_change()),
        }
    }

    /// Interprets the answer to an append.
    async fn judge(&self, rows: Result<u64, Failure>, id: RecordId) -> Result<(), Error> {
        let is_place_taken = match rows {
            Ok(1) => return Ok(()),
            Ok(_) => false,
            Err(failure) if is_taken(&failure) => true,
            Err(failure) => return Err(failure.of_change()),
        };
        // Nothing was stored; the reason depends on the epochs at the place and at the end.
        let (at_place, last) = self.epochs(id).await.map_err(Failure::of_change)?;
        let in_doubt = |reason: &str| Err(Error::InDoubt { reason: reason.to_owned() });
        match (is_place_taken, at_place, last) {
            (true, Some(there), _) if there == id.epoch => in_doubt("the place holds a record of this epoch"),
            (true, Some(_), _) => Err(fenced("the place is taken")),
            (true, None, _) => in_doubt("the place was taken, and is not any more"),
            (false, _, Some(last)) if last > id.epoch => Err(fenced("another epoch owns the log")),
            (false, ..) => Err(Error::Unavailable { reason: "the record before it is not there".to_owned() }),
        }
    }

    async fn epochs(&self, id: RecordId) -> Result<(Option<Epoch>, Option<Epoch>), Failure> {
        let place = i64::try_from(id.place.0).unwrap_or(i64::MAX);
        let shard = sql_shard(self.shard);
        let row = self.session.query_one(&self.epochs, &[&shard, &place]).await?;
        let epoch = |stored: Option<i64>| stored.map(|stored| Epoch(number(stored)));
        Ok((epoch(row.try_get(0)?), epoch(row.try_get(1)?)))
    }
}

fn is_taken(failure: &Failure) -> bool {
    failure.code() == Some(&SqlState::UNIQUE_VIOLATION)
}

fn fenced(reason: &str) -> Error {
    Error::Fenced { reason: reason.to_owned() }
}
