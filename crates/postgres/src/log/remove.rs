//! Removals: rows of bodies, and records before a checkpoint.

use std::sync::atomic::{AtomicI64, Ordering};

use peeklock_storage::cluster::RecordPlace;
use peeklock_storage::{Epoch, Error, ShardId};
use tokio_postgres::Statement;

use super::side::Purpose;
use super::{number, sql, sql_shard};
use crate::failure::Failure;
use crate::session::Session;

/// Returns the epoch that owns the log, and removes bodies only if that is `$2`. A row of bodies has some thousand
/// TOAST rows, so a statement removes few.
const DROP: &str =
    "with owner as materialized (select epoch from log where shard = $1 order by place desc limit 1),
dropped as (delete from body where shard = $1 and place = any ($3::int8[])
  and (select epoch from owner) = $2 returning 1)
select (select epoch from owner), count(*) from dropped";

/// Removes some records before `$3`, from `$4` on; returns how far it got. Owner records are never removed.
const TRIM: &str =
    "with owner as materialized (select epoch from log where shard = $1 order by place desc limit 1),
old as materialized (select place from log where shard = $1 and place >= $4 and place < $3 and kind <> 0
  and (select epoch from owner) = $2 order by place limit 1000),
trimmed as (delete from log using old where log.shard = $1 and log.place = old.place returning 1)
select (select epoch from owner), (select max(place) from old), (select count(*) from trimmed)";

/// Most rows of `body` in one statement.
const DROPPED_MAX: usize = 64;

/// A session that removes.
pub(super) struct Remover {
    session: Session,
    drop: Statement,
    trim: Statement,
    /// Where the next trim begins: this session has removed the records before. PostgreSQL would visit the index entries
    /// of these again as long as a transaction of another client can see them.
    trimmed_to: AtomicI64,
}

impl Purpose for Remover {
    async fn prepare(session: Session) -> Result<Self, Failure> {
        let (drop, trim) = {
            let client = session.client();
            session.ask(async { tokio::try_join!(client.prepare(DROP), client.prepare(TRIM)) }).await?
        };
        session.mark_removing();
        Ok(Self { session, drop, trim, trimmed_to: AtomicI64::new(0) })
    }

    fn session(&self) -> &Session {
        &self.session
    }
}

impl Remover {
    pub(super) async fn drop_bodies(
        &self,
        shard: ShardId,
        epoch: Epoch,
        places: &[RecordPlace],
    ) -> Result<(), Error> {
        let (shard, stored_epoch) = (sql_shard(shard), sql(epoch.0)?);
        for some in places.chunks(DROPPED_MAX) {
            let places: Vec<i64> = some.iter().map(|place| place.0.cast_signed()).collect();
            let answer = self.session.query_one(&self.drop, &[&shard, &stored_epoch, &places]).await;
            let row = answer.map_err(Failure::of_change)?;
            check(row.try_get(0), epoch)?;
        }
        Ok(())
    }

    pub(super) async fn trim(&self, shard: ShardId, epoch: Epoch, before: RecordPlace) -> Result<(), Error> {
        let (shard, stored_epoch, before) = (sql_shard(shard), sql(epoch.0)?, sql(before.0)?);
        loop {
            let from = self.trimmed_to.load(Ordering::Relaxed);
            let answer = self.session.query_one(&self.trim, &[&shard, &stored_epoch, &before, &from]).await;
            let row = answer.map_err(Failure::of_change)?;
            check(row.try_get(0), epoch)?;
            match row.try_get::<_, Option<i64>>(1).ok().flatten() {
                Some(last) => self.trimmed_to.fetch_max(last + 1, Ordering::Relaxed),
                None => return Ok(()),
            };
        }
    }
}

/// Checks that the log was owned by `epoch`.
fn check(owner: Result<Option<i64>, tokio_postgres::Error>, epoch: Epoch) -> Result<(), Error> {
    match owner.ok().flatten().map(|owner| Epoch(number(owner))) {
        Some(owner) if owner == epoch => Ok(()),
        _ => Err(Error::Fenced { reason: "another epoch owns the log".to_owned() }),
    }
}
