//! The log of a shard, with a row for each record.
//!
//! A log has up to three sessions: one only appends, one reads, one removes, so that a delivery does not wait for a
//! commit, nor either of them for a removal.

mod append;
mod read;
mod remove;
mod reserve;
mod side;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use peeklock_metrics::Stopwatch;
use peeklock_storage::cluster::{
    Answer, LogLimits, Logs, NewRecord, RecordId, RecordKind, RecordPlace, ReplicatedLog, Slice,
    StoredRecord, Tail,
};
use peeklock_storage::{Epoch, Error, ShardId};

use self::append::Appender;
use self::read::{Reader, open};
use self::remove::Remover;
use self::side::AuxiliarySession;
use crate::Database;
use crate::failure::Failure;

/// PostgreSQL limits a value of `bytea` and a message to the server to less than 1 GiB each.
const LIMITS: LogLimits = LogLimits { heads_bytes_max: 400 << 20, bodies_bytes_max: 400 << 20 };

/// How many records a store should send ahead ([`peeklock_storage::cluster::ClusterOptions::records_under_way_max`]). A
/// session executes them one after the other: a second one hides the round trip to the server, and more would only make
/// records smaller.
pub const RECORDS_AHEAD: usize = 2;

/// The logs of all shards in one database. To be used within a tokio runtime.
#[derive(Debug, Clone)]
pub struct PostgresLogs {
    database: Database,
}

impl PostgresLogs {
    /// The logs in `database`. Does not connect yet.
    #[must_use]
    pub const fn new(database: Database) -> Self {
        Self { database }
    }
}

impl Logs for PostgresLogs {
    fn log(&self, shard: ShardId) -> Arc<dyn ReplicatedLog> {
        let database = self.database.clone();
        Arc::new(PostgresLog(Arc::new(Inner {
            shard,
            appender: Mutex::default(),
            acknowledged: Mutex::default(),
            reader: AuxiliarySession::new(database.clone(), format!("shard {} read", shard.0)),
            remover: AuxiliarySession::new(database.clone(), format!("shard {} remove", shard.0)),
            database,
        })))
    }
}

struct PostgresLog(Arc<Inner>);

struct Inner {
    database: Database,
    shard: ShardId,
    /// `None` until the log has been opened.
    appender: Mutex<Option<Arc<Appender>>>,
    /// The last record acknowledged here. Servers without it are not used for reading.
    acknowledged: Mutex<RecordId>,
    reader: AuxiliarySession<Reader>,
    remover: AuxiliarySession<Remover>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    async fn open(&self) -> Result<Tail, Failure> {
        let purpose = append::purpose(self.shard);
        let session = self.database.connect(&purpose).await?;
        let appender = Appender::prepare(self.shard, session).await?;
        appender.await_earlier_commits().await?;
        let tail = open(self.shard, appender.session()).await?;
        appender.session().mark_appending();
        *lock(&self.appender) = Some(Arc::new(appender));
        Ok(tail)
    }

    /// Counts the outcome of an append or a seizure.
    fn note(&self, id: RecordId, bytes: usize, time: &Stopwatch, result: &Result<(), Error>) {
        let metrics = self.database.metrics();
        match result {
            Ok(()) => {
                metrics.append_duration.observe_us(time.elapsed_us());
                metrics.appended_bytes.inc_by(bytes as u64);
                let mut acknowledged = lock(&self.acknowledged);
                *acknowledged = (*acknowledged).max(id);
            }
            Err(Error::InDoubt { .. }) => {
                metrics.in_doubt.inc();
            }
            Err(_) => {}
        }
    }
}

impl PostgresLog {
    /// Sends `record` before it returns: the first poll of the client's future queues the statement on the connection.
    fn send(&self, record: NewRecord, after: Option<RecordId>) -> Answer<()> {
        let inner = Arc::clone(&self.0);
        let Some(appender) = lock(&inner.appender).clone() else {
            let reason = format!("the log of shard {} is not open", inner.shard.0);
            return ready(Err(Error::Unavailable { reason })).boxed();
        };
        let time = Stopwatch::default();
        let (id, bytes) = (record.id, record.heads.len() + record.bodies.len());
        let mut answer = async move {
            let result = match after {
                None => appender.append(&record).await,
                Some(after) => appender.seize(after, record.id.epoch).await,
            };
            inner.note(id, bytes, &time, &result);
            result
        }
        .boxed();
        match (&mut answer).now_or_never() {
            Some(result) => ready(result).boxed(),
            None => answer,
        }
    }

    /// Executes `call` even if its answer is dropped.
    fn detached<T: Send + 'static>(
        &self,
        call: impl FnOnce(Arc<Inner>) -> BoxFuture<'static, Result<T, Error>>,
    ) -> Answer<T> {
        let task = tokio::spawn(call(Arc::clone(&self.0)));
        task.map(|joined| {
            joined.unwrap_or_else(|error| Err(Error::Unavailable { reason: error.to_string() }))
        })
        .boxed()
    }
}

impl ReplicatedLog for PostgresLog {
    fn open(&self) -> Answer<Tail> {
        let earlier = lock(&self.0.appender).take();
        if let Some(earlier) = earlier {
            earlier.session().cut();
        }
        self.0.reader.close();
        self.0.remover.close();
        self.detached(|inner| async move { inner.open().await.map_err(Failure::of_reading) }.boxed())
    }

    fn seize(&self, after: RecordId, epoch: Epoch) -> Answer<()> {
        let id = RecordId { place: after.place.next(), epoch };
        let (heads, bodies) = (Bytes::new(), Bytes::new());
        self.send(NewRecord { id, kind: RecordKind::Owner, heads, bodies }, Some(after))
    }

    fn append(&self, record: NewRecord) -> Answer<()> {
        self.send(record, None)
    }

    fn heads(&self, from: RecordPlace) -> Answer<Vec<StoredRecord>> {
        self.detached(move |inner| {
            async move { inner.reader.get(&inner).await?.heads(inner.shard, from).await }.boxed()
        })
    }

    fn bodies(&self, slices: Vec<Slice>) -> Answer<Vec<Option<Bytes>>> {
        self.detached(move |inner| {
            async move { inner.reader.get(&inner).await?.bodies(inner.shard, &slices).await }.boxed()
        })
    }

    fn drop_bodies(&self, epoch: Epoch, places: Vec<RecordPlace>) -> Answer<()> {
        self.detached(move |inner| {
            async move { inner.remover.get(&inner).await?.drop_bodies(inner.shard, epoch, &places).await }
                .boxed()
        })
    }

    fn trim(&self, epoch: Epoch, before: RecordPlace) -> Answer<()> {
        self.detached(move |inner| {
            async move { inner.remover.get(&inner).await?.trim(inner.shard, epoch, before).await }.boxed()
        })
    }

    fn keep_reserve(&self) -> Answer<()> {
        self.detached(|inner| {
            async move { inner.remover.get(&inner).await?.keep_reserve(&inner.database).await }.boxed()
        })
    }

    fn release_reserve(&self) -> Answer<()> {
        self.detached(|inner| async move { inner.remover.get(&inner).await?.release_reserve().await }.boxed())
    }

    fn limits(&self) -> LogLimits {
        LIMITS
    }
}

/// Converts a number of a log to PostgreSQL's type.
fn sql(number: u64) -> Result<i64, Error> {
    let reason = || format!("the number {number} is beyond what PostgreSQL holds");
    i64::try_from(number).map_err(|_| Error::Unavailable { reason: reason() })
}

/// Converts a shard id, see [`sql`]; shards are numbered from 0.
fn sql_shard(shard: ShardId) -> i32 {
    i32::try_from(shard.0).unwrap_or(i32::MAX)
}

/// Converts a number stored by [`sql`] back.
fn number(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or_default()
}
