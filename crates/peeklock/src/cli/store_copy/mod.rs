//! `peeklock store copy --from STORE --to STORE`: between data directories and databases, while no broker uses either.

mod progress;
mod side;
mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use clap::Args;
use peeklock_engine::runtime::inspect::StoredNames;
use peeklock_engine::runtime::is_entity;
use peeklock_postgres::TokioEnvironment;
use peeklock_storage::cluster::Environment;
use peeklock_storage::copy::{CopyError, CopyOptions, CopyReport, copy};
use peeklock_storage::{Error, Key, Lease, ShardId, Space};
use serde_json::json;

use super::store_failure::Failure;
use crate::exit::Exit;
use progress::Bar;
use side::{Open, Role, Side};

/// What to copy, and where.
#[derive(Debug, Args)]
pub(super) struct CopyArgs {
    /// The store to read: a data directory, the URL of a database, or a configuration file (.toml) that names one of these.
    #[arg(long, value_name = "STORE")]
    from: Side,

    /// The store to write, empty or an unfinished copy: as --from.
    #[arg(long, value_name = "STORE")]
    to: Side,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Numbers of copied items.
#[derive(Debug, Clone, Copy)]
struct Copied {
    report: CopyReport,
    /// Queues and topics.
    entities: u64,
}

pub(super) fn run(args: &CopyArgs) -> Exit {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(copy_all(args)),
        Err(error) => Err(Failure { message: format!("can't start: {error}"), exit: Exit::Failure }),
    };
    match done {
        Ok(copied) => {
            text::show(args, copied);
            Exit::Success
        }
        Err(failure) => {
            failure.show(args.json, &json!({ "complete": false }));
            failure.exit
        }
    }
}

async fn copy_all(args: &CopyArgs) -> Result<Copied, Failure> {
    if args.from.is_same(&args.to) {
        return Err(Failure::usage("--from and --to are the same store".to_owned()));
    }
    if let (Some(from), Some(to)) = (args.from.directory(), args.to.directory()) {
        Failure::unless_outside(from, "data directory", to)?;
    }
    let source = args.from.open(Role::Source).await?;
    let target = match args.to.open(Role::Target).await {
        Ok(target) => target,
        Err(failure) => {
            source.close().await;
            return Err(failure);
        }
    };
    let copied = tokio::select! {
        copied = between(args, &source, &target) => copied,
        side = source.lost() => Err(side),
        side = target.lost() => Err(side),
        never = source.watch() => match never {},
        never = target.watch() => match never {},
    };
    target.close().await;
    source.close().await;
    copied
}

async fn between(args: &CopyArgs, source: &Open, target: &Open) -> Result<Copied, Failure> {
    let lease = source.store().acquire(ShardId(0)).await;
    let lease = lease.map_err(|error| text::explain(args, None, CopyError::Source(error)))?;
    let meta =
        read_meta(&lease).await.map_err(|error| text::explain(args, None, CopyError::Source(error)))?;
    let names =
        StoredNames::read(&meta.keys().copied().collect::<Vec<_>>(), &|key| meta.get(&key).cloned().map(Ok));
    let environment: Arc<dyn Environment> = Arc::new(TokioEnvironment);
    let mut bar = Bar::new(source.live_bytes());
    let options = CopyOptions::from(args.from.to_string());
    let watch = &mut |progress| bar.show(progress);
    let report = copy(&lease, target.store(), &options, &environment, watch).await;
    bar.clear();
    let report = report.map_err(|error| text::explain(args, Some(&names), error))?;
    let entities = meta.keys().filter(|key| is_entity(**key)).count() as u64;
    Ok(Copied { report, entities })
}

/// The readable records of entities and subscriptions: they are few and small.
async fn read_meta(lease: &Lease) -> Result<BTreeMap<Key, Bytes>, Error> {
    let mut found = BTreeMap::new();
    for (space, partition) in lease.partitions().await? {
        let mut next = (space == Space::Meta).then_some(0);
        while let Some(from) = next {
            let page = lease.scan(space, partition, from).await?;
            let entries = page.entries.into_iter();
            found.extend(entries.map(|entry| (Key::new(space, partition, entry.number), entry.value)));
            next = page.next;
        }
    }
    Ok(found)
}
