//! The table of nodes and leases.
//!
//! A renewal is one prepared statement in a session of its own. Each lease is a row whose `version` changes with every
//! change: of two statements that concern it, the second waits for the first and reads the row again (`READ
//! COMMITTED`), so that it finds another version or another holder and skips the row. Rows of other nodes are taken
//! without waiting (`skip locked`): a node waits for its own rows only, so two nodes never wait for each other.
//!
//! The rows stay locked until a standby has confirmed the commit. So a request that is abandoned for its slowness delays
//! the next one: with each commit taking longer than the patience, no request would ever be answered in time. Therefore
//! the session is kept for as long as the server executes its request.
//!
//! The rows contain the server's clock for people. It does not influence decisions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join};
use peeklock_cluster::{
    Answer, Lease, LeaseTable, Live, NodeInfo, NodeName, Renewal, SeenLease, Session as NodeSession,
    Standing, Status, TableError, Version,
};
use peeklock_storage::ShardId;
use peeklock_storage::cluster::RecordId;
use tokio::sync::{Mutex, watch};
use tokio::task::AbortHandle;
use tokio_postgres::{Row, Statement};

use crate::database::Database;
use crate::executing::Backend;
use crate::failure::Failure;
use crate::observer::Observer;
use crate::session::{Parameters, Session};

/// Channel on which nodes are notified of released leases.
const CHANNEL: &str = "peeklock_leases";

const RENEW: &str = "with beat as (
  insert into node (id, session, address, version, beats, accepts, drained, beat)
  values ($1, $2, $3, $4, 1, $5, false, clock_timestamp())
  on conflict (id) do update set session = $2, address = $3, version = $4, beats = node.beats + 1, accepts = $5,
    drained = node.drained and node.session = $2, beat = clock_timestamp()
), gone as (
  delete from node where id <> $1 and beat < clock_timestamp() - interval '1 day'
), created as (
  insert into lease (shard, version, until)
  select s.shard, 1, clock_timestamp() from generate_series(0, $6::int - 1) as s (shard)
  where not exists (select from lease where lease.shard = s.shard)
  on conflict do nothing returning *
), released as (
  update lease set node = null, session = null, version = lease.version + 1, until = clock_timestamp(),
    wanted = (select w.node from unnest($11::int[], $12::text[]) as w (shard, node) where w.shard = lease.shard)
  where node = $1 and session = $2 and (shard, version) in (select * from unnest($10::int[], $13::bigint[]))
), kept as (
  select * from lease where node = $1 and session = $2 and shard = any($10)
    and not (shard, version) in (select * from unnest($10, $13))
), renewed as (
  update lease set version = lease.version + 1, until = clock_timestamp() + $7::float8 * interval '1 second',
    wanted = (select w.node from unnest($11::int[], $12::text[]) as w (shard, node) where w.shard = lease.shard)
  where node = $1 and session = $2 and not shard = any($10) returning *
), free as (
  select shard from lease where (shard, version) in (select * from unnest($8::int[], $9::bigint[]))
    or (shard = any($14::int[]) and node is null and (wanted is null or wanted = $1))
  for update skip locked
), taken as (
  update lease set node = $1, session = $2, version = lease.version + 1,
    until = clock_timestamp() + $7::float8 * interval '1 second', wanted = null
  from free where lease.shard = free.shard returning lease.*
), held as (
  select * from renewed union all select * from taken union all select * from kept
)
select 'held', shard, version, node, session, wanted,
  null::text, null::text, null::bigint, null::boolean, null::boolean from held
union all select 'lease', shard, version, node, session, wanted, null, null, null, null, null from created
union all select 'lease', shard, version, node, session, wanted, null, null, null, null, null from lease
  where shard not in (select shard from held)
union all select 'node', null, null, id, session, null, address, version, beats, accepts and not drained, drained
  from node where beat > clock_timestamp() - interval '5 minutes'";

const LEAVE: &str = "with released as (
  update lease set node = null, session = null, version = version + 1, until = clock_timestamp(), wanted = null
  where node = $1 and session = $2
)
delete from node where id = $1 and session = $2";

const NODES: &str =
    "select 'node', null, null, id, session, null, address, version, beats, accepts and not drained,
  drained, extract(epoch from clock_timestamp() - beat)::float8 from node order by id";

const LEASES: &str = "select 'lease', shard, version, node, session, wanted,
  case when node is not null then extract(epoch from until - clock_timestamp())::float8 end from lease order by shard";

const DRAIN: &str = "update node set drained = $2 where id = $1";

/// A [`LeaseTable`] in the database.
#[derive(Debug, Clone)]
pub struct PostgresLeases(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    database: Database,
    observer: Option<Observer>,
    connected: Mutex<Option<Connected>>,
    /// The session of the pending or last request.
    backend: StdMutex<Option<Backend>>,
    changes: watch::Sender<()>,
}

/// The session, until a request on it fails or is abandoned.
#[derive(Debug)]
struct Connected {
    session: Session,
    renew: Statement,
    /// Whether the last renewal held a lease. The node learns then of every record from its own commits.
    holds: AtomicBool,
    listening: AbortHandle,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.listening.abort();
        self.session.cut();
    }
}

impl PostgresLeases {
    /// The table in this database. Does not connect yet.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self::with(database, None)
    }

    /// Like [`Self::new`]; while the node holds no lease, each renewal also reports to `note` the last record of each
    /// log, once that record is certainly as durable as an acknowledged one.
    #[must_use]
    pub fn observing(database: Database, note: impl Fn(ShardId, RecordId) + Send + Sync + 'static) -> Self {
        Self::with(database, Some(Observer::new(note)))
    }

    fn with(database: Database, observer: Option<Observer>) -> Self {
        let (connected, changes) = (Mutex::new(None), watch::Sender::new(()));
        Self(Arc::new(Inner { database, observer, connected, backend: StdMutex::default(), changes }))
    }

    /// Runs a request on the session. A session with an abandoned request is discarded: the next request opens another.
    fn ask<T, F>(&self, ask: F) -> Answer<T>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a Connected) -> BoxFuture<'a, Result<T, Failure>> + Send + 'static,
    {
        let inner = Arc::clone(&self.0);
        async move {
            let mut slot = inner.connected.lock().await;
            // Taken out; put back only after an answer.
            let connected = match slot.take().filter(|connected| !connected.session.is_closed()) {
                Some(connected) => connected,
                None => inner.connect().await.map_err(error)?,
            };
            let answer = ask(&connected).await;
            if matches!(answer, Ok(_) | Err(Failure::Refused(_))) {
                *slot = Some(connected);
            }
            answer.map_err(error)
        }
        .boxed()
    }
}

fn error(failure: Failure) -> TableError {
    TableError { reason: failure.to_string() }
}

impl Inner {
    async fn connect(&self) -> Result<Connected, Failure> {
        self.backend().take();
        let session = self.database.connect("leases").await?;
        session.ask(session.client().batch_execute(&format!("listen {CHANNEL}"))).await?;
        let renew = session.ask(session.client().prepare(RENEW)).await?;
        *self.backend() = Backend::of(&session).await.ok();
        let (changes, watch) = (self.changes.clone(), session.watch());
        let listening = tokio::spawn(async move {
            loop {
                watch.notified.notified().await;
                changes.send_replace(());
            }
        });
        let holds = AtomicBool::new(false);
        Ok(Connected { session, renew, holds, listening: listening.abort_handle() })
    }

    fn backend(&self) -> MutexGuard<'_, Option<Backend>> {
        self.backend.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn is_executing(&self) -> Result<bool, Failure> {
        let Some(backend) = self.backend().clone() else { return Ok(false) };
        backend.is_executing(&self.database, "leases check").await
    }
}

impl Connected {
    /// Renews the leases of this node, and takes and releases others, in one statement.
    async fn renew(&self, renewal: &Renewal, observer: Option<&Observer>) -> Result<Standing, Failure> {
        let observer = observer.filter(|_| !self.holds.load(Ordering::Relaxed));
        let NodeInfo { name, session, address, release } = &renewal.node;
        let shards = i32::try_from(renewal.shards).unwrap_or(i32::MAX);
        let (take_shards, take_versions) = columns(&renewal.takes);
        let (releases, release_versions) = columns(&renewal.releases);
        let takes_free: Vec<i32> = renewal.takes_free.iter().copied().map(id).collect();
        let (wanted_shards, wanted_nodes): (Vec<i32>, Vec<&str>) =
            renewal.wanted.iter().map(|(shard, node)| (id(*shard), node.0.as_str())).unzip();
        let (session, silent_after_secs) = (session.0.cast_signed(), renewal.silent_after.as_secs_f64());
        let parameters: Parameters<'_> = &[
            &name.0,
            &session,
            address,
            release,
            &renewal.accepts,
            &shards,
            &silent_after_secs,
            &take_shards,
            &take_versions,
            &releases,
            &wanted_shards,
            &wanted_nodes,
            &release_versions,
            &takes_free,
        ];
        let look = async {
            match observer {
                Some(observer) => observer.look(&self.session, renewal.shards).await,
                None => Vec::new(),
            }
        };
        // Sent in this order, so the confirmed commit of the renewal covers what was seen.
        let (seen, rows) = join(look, self.session.query_patiently(&self.renew, parameters)).await;
        let rows = rows?;
        if let Some(observer) = observer {
            observer.note(seen);
        }
        let standing = standing(&rows)?;
        self.holds.store(!standing.held.is_empty(), Ordering::Relaxed);
        if !releases.is_empty() {
            self.tell().await?;
        }
        Ok(standing)
    }

    /// Notifies waiting nodes.
    async fn tell(&self) -> Result<(), Failure> {
        self.session.ask(self.session.client().batch_execute(&format!("notify {CHANNEL}"))).await
    }

    async fn leave(&self, node: &NodeInfo) -> Result<(), Failure> {
        self.session.execute(LEAVE, &[&node.name.0, &node.session.0.cast_signed()]).await?;
        self.tell().await
    }

    async fn status(&self) -> Result<Status, Failure> {
        let nodes = self.session.query(NODES, &[]).await?;
        let leases = self.session.query(LEASES, &[]).await?;
        let since = |row: &Row| Ok::<_, Failure>((node(row)?, duration(row.try_get(11)?)));
        let until = |row: &Row| {
            let left: Option<f64> = row.try_get(6)?;
            Ok::<_, Failure>((lease(row)?, left.filter(|left| *left > 0.0).map(duration)))
        };
        Ok(Status {
            nodes: nodes.iter().map(since).collect::<Result<_, _>>()?,
            leases: leases.iter().map(until).collect::<Result<_, _>>()?,
        })
    }

    async fn drain(&self, node: &NodeName, drained: bool) -> Result<bool, Failure> {
        let found = self.session.execute(DRAIN, &[&node.0, &drained]).await? > 0;
        self.tell().await?;
        Ok(found)
    }
}

/// The answer to a renewal: a row for each lease, marked if this node holds it, and one for each node.
fn standing(rows: &[Row]) -> Result<Standing, Failure> {
    let mut standing = Standing::default();
    for row in rows {
        match row.try_get::<_, &str>(0)? {
            "held" => {
                let lease = lease(row)?;
                standing.held.push(lease.shard);
                standing.leases.push(lease);
            }
            "lease" => standing.leases.push(lease(row)?),
            _ => standing.nodes.push(node(row)?),
        }
    }
    Ok(standing)
}

fn columns(leases: &[SeenLease]) -> (Vec<i32>, Vec<i64>) {
    leases.iter().map(|lease| (id(lease.shard), lease.version.0.cast_signed())).unzip()
}

fn id(shard: ShardId) -> i32 {
    i32::try_from(shard.0).unwrap_or(i32::MAX)
}

/// Converts seconds; a clock that was set back counts as zero.
fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// Columns 1 to 5 of a row about a lease.
fn lease(row: &Row) -> Result<Lease, Failure> {
    let node: Option<String> = row.try_get(3)?;
    let session: Option<i64> = row.try_get(4)?;
    Ok(Lease {
        shard: ShardId(u32::try_from(row.try_get::<_, i32>(1)?).unwrap_or(u32::MAX)),
        holder: node.map(NodeName).zip(session.map(|session| NodeSession(session.cast_unsigned()))),
        version: Version(row.try_get::<_, i64>(2)?.cast_unsigned()),
        wanted: row.try_get::<_, Option<String>>(5)?.map(NodeName),
    })
}

/// Columns 3, 4 and 6 to 10 of a row about a node.
fn node(row: &Row) -> Result<Live, Failure> {
    let info = NodeInfo {
        name: NodeName(row.try_get(3)?),
        session: NodeSession(row.try_get::<_, i64>(4)?.cast_unsigned()),
        address: row.try_get(6)?,
        release: row.try_get(7)?,
    };
    let beats = row.try_get::<_, i64>(8)?.cast_unsigned();
    Ok(Live { info, beats, accepts: row.try_get(9)?, drained: row.try_get(10)? })
}

impl LeaseTable for PostgresLeases {
    fn renew(&self, renewal: Renewal) -> Answer<Standing> {
        let inner = Arc::clone(&self.0);
        self.ask(move |connected| {
            async move { connected.renew(&renewal, inner.observer.as_ref()).await }.boxed()
        })
    }

    fn leave(&self, node: NodeInfo) -> Answer<()> {
        self.ask(move |connected| async move { connected.leave(&node).await }.boxed())
    }

    fn status(&self) -> Answer<Status> {
        self.ask(|connected| connected.status().boxed())
    }

    fn drain(&self, node: NodeName, drained: bool) -> Answer<bool> {
        self.ask(move |connected| async move { connected.drain(&node, drained).await }.boxed())
    }

    fn is_executing(&self) -> BoxFuture<'static, bool> {
        let inner = Arc::clone(&self.0);
        async move { inner.is_executing().await.unwrap_or(false) }.boxed()
    }

    fn changed(&self) -> BoxFuture<'static, ()> {
        let mut changes = self.0.changes.subscribe();
        async move {
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
        .boxed()
    }
}
