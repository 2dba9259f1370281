//! Reading: the end of a log, heads in pages, parts of bodies.

use bytes::Bytes;
use peeklock_storage::cluster::{RecordId, RecordKind, RecordPlace, Slice, StoredRecord, Tail};
use peeklock_storage::{Epoch, Error, ShardId};
use tokio_postgres::{Row, Statement};

use super::side::Purpose;
use super::{number, sql, sql_shard};
use crate::failure::Failure;
use crate::session::Session;

const TAIL: &str = "select l.place, l.epoch,
  (select place from log where shard = $1 and kind = 3 order by place desc limit 1)
from log l where l.shard = $1 order by l.place desc limit 1";

const HOLDS: &str = "select exists (select from log where shard = $1 and place = $2 and epoch = $3)";

/// A page ends when its heads exceed `$3` bytes, or after 16384 records. The inner query reads lengths only, and no
/// more rows than the page has.
const HEADS: &str = "select place, epoch, kind, heads from log
where shard = $1 and place >= $2 and place <= coalesce((
  select place from (
    select place, sum(octet_length(heads)) over (order by place rows unbounded preceding) as total
    from log where shard = $1 and place >= $2 order by place limit 16384) lengths
  where total > $3 order by place limit 1), 9223372036854775807)
order by place limit 16384";

/// Most bytes of heads in a page.
const PAGE_BYTES: i64 = 4 << 20;

const BODIES: &str = "select at, substring(data from first for bytes)
from unnest($2::int8[], $3::int4[], $4::int4[]) with ordinality as slice (place, first, bytes, at)
join body on body.shard = $1 and body.place = slice.place";

/// The end of the log.
pub(super) async fn open(shard: ShardId, session: &Session) -> Result<Tail, Failure> {
    let row = session.ask(session.client().query_opt(TAIL, &[&sql_shard(shard)])).await?;
    let Some(row) = row else { return Ok(Tail::default()) };
    let last = RecordId { place: place(row.try_get(0)?), epoch: Epoch(number(row.try_get(1)?)) };
    Ok(Tail { last, mark: row.try_get::<_, Option<i64>>(2)?.map(place) })
}

/// Whether the server has the record.
pub(super) async fn holds(shard: ShardId, session: &Session, id: RecordId) -> Result<bool, Failure> {
    let (place, epoch) = (id.place.0.cast_signed(), id.epoch.0.cast_signed());
    let row = session.query_one(HOLDS, &[&sql_shard(shard), &place, &epoch]).await?;
    Ok(row.try_get(0)?)
}

/// A session that reads.
pub(super) struct Reader {
    session: Session,
    heads: Statement,
    bodies: Statement,
}

impl Purpose for Reader {
    async fn prepare(session: Session) -> Result<Self, Failure> {
        let (heads, bodies) = {
            let client = session.client();
            session.ask(async { tokio::try_join!(client.prepare(HEADS), client.prepare(BODIES)) }).await?
        };
        Ok(Self { session, heads, bodies })
    }

    fn session(&self) -> &Session {
        &self.session
    }
}

impl Reader {
    pub(super) async fn heads(&self, shard: ShardId, from: RecordPlace) -> Result<Vec<StoredRecord>, Error> {
        let (from, shard_number) = (sql(from.0)?, sql_shard(shard));
        let page = self.session.query(&self.heads, &[&shard_number, &from, &PAGE_BYTES]).await;
        let rows = page.map_err(Failure::of_reading)?;
        rows.iter().map(|row| record(row).map_err(|error| unreadable(shard, &error))).collect()
    }

    pub(super) async fn bodies(&self, shard: ShardId, slices: &[Slice]) -> Result<Vec<Option<Bytes>>, Error> {
        let places: Vec<i64> = slices.iter().map(|slice| slice.place.0.cast_signed()).collect();
        // Byte positions start at 1. Positions beyond the end of a body yield nothing anyway.
        let first = |slice: &Slice| i32::try_from(u64::from(slice.offset) + 1).unwrap_or(i32::MAX);
        let firsts: Vec<i32> = slices.iter().map(first).collect();
        let lengths: Vec<i32> =
            slices.iter().map(|slice| i32::try_from(slice.len).unwrap_or(i32::MAX)).collect();
        let answer = self.session.query(&self.bodies, &[&sql_shard(shard), &places, &firsts, &lengths]).await;
        let rows = answer.map_err(Failure::of_reading)?;
        let mut found = vec![None; slices.len()];
        for row in &rows {
            let (at, bytes) = body(row).map_err(|error| unreadable(shard, &error))?;
            if let Some(slot) = usize::try_from(at - 1).ok().and_then(|at| found.get_mut(at)) {
                *slot = Some(Bytes::copy_from_slice(bytes));
            }
        }
        Ok(found)
    }
}

fn body(row: &Row) -> Result<(i64, &[u8]), tokio_postgres::Error> {
    Ok((row.try_get(0)?, row.try_get(1)?))
}

fn record(row: &Row) -> Result<StoredRecord, tokio_postgres::Error> {
    let id = RecordId { place: place(row.try_get(0)?), epoch: Epoch(number(row.try_get(1)?)) };
    let kind = match row.try_get::<_, i16>(2)? {
        0 => RecordKind::Owner,
        2 => RecordKind::Part,
        3 => RecordKind::Mark,
        // A record with a changed kind does not pass its checksum.
        _ => RecordKind::Commit,
    };
    Ok(StoredRecord { id, kind, heads: Bytes::copy_from_slice(row.try_get(3)?) })
}

fn place(stored: i64) -> RecordPlace {
    RecordPlace(number(stored))
}

fn unreadable(shard: ShardId, error: &tokio_postgres::Error) -> Error {
    Error::Unavailable { reason: format!("a row of shard {} has another form: {error}", shard.0) }
}
