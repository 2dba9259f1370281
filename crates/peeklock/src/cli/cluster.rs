//! `peeklock cluster`: shows which node serves, and drains nodes.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use peeklock_cluster::{NodeName, Status, TableError};
use serde_json::{Value, json};

use super::output;
use super::store_failure::Failure;
use super::table::Table;
use crate::config::{self, DatabaseUrl, Durability, StorageConfig, StorageEngine};
use crate::database::Replicated;
use crate::exit::Exit;

const STATUS_EXAMPLES: &str = "\
Examples:
  peeklock cluster status --config peeklock.toml
  peeklock cluster status --url postgres://peeklock@pg-1,pg-2/peeklock --json";

const DRAIN_EXAMPLES: &str = "\
Examples:
  peeklock cluster drain a --config peeklock.toml          node a hands over and stays in standby
  peeklock cluster drain a --undo --config peeklock.toml   it may serve again";

#[derive(Debug, Subcommand)]
pub(super) enum ClusterCommand {
    /// Show the nodes of a cluster and which one serves. Exit code 0, 1 or 2.
    #[command(after_help = STATUS_EXAMPLES)]
    Status(StatusArgs),
    /// Make a node hand over to another one and stay in standby until `--undo` or a restart. It keeps serving while
    /// there is no other node. Exit code 0, 1 or 2.
    #[command(after_help = DRAIN_EXAMPLES)]
    Drain(DrainArgs),
}

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    place: PlaceArgs,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct DrainArgs {
    /// The name of the node.
    node: String,

    /// Let it serve again.
    #[arg(long)]
    undo: bool,

    #[command(flatten)]
    place: PlaceArgs,
}

/// Where the cluster is.
#[derive(Debug, Args)]
struct PlaceArgs {
    /// The database's URL.
    #[arg(long, value_name = "URL", env = "PEEKLOCK_STORAGE_URL", hide_env_values = true)]
    url: Option<DatabaseUrl>,

    /// A node's configuration file, which names the database.
    #[arg(long, value_name = "FILE", env = "PEEKLOCK_CONFIG")]
    config: Option<PathBuf>,
}

impl PlaceArgs {
    fn open(&self) -> Result<Replicated, Failure> {
        let (url, config) = match (&self.url, &self.config) {
            // Only leases are accessed, so durability is irrelevant here.
            (Some(url), _) => {
                let durability = Durability::Service;
                (url.clone(), StorageConfig { durability, ..StorageConfig::default() })
            }
            (None, Some(file)) => {
                let config =
                    config::load(file).map_err(|problems| Failure::usage(problems.to_string()))?.storage;
                let url = config.url.clone().filter(|_| config.engine == StorageEngine::Postgres);
                let missing = || {
                    let file = file.display();
                    Failure::usage(format!(
                        "{file}: no cluster: [storage] engine = \"postgres\" and url are missing"
                    ))
                };
                (url.ok_or_else(missing)?, config)
            }
            (None, None) => {
                return Err(Failure::usage("name the cluster: --config FILE or --url URL".to_owned()));
            }
        };
        Replicated::new(&url, &config).map_err(|error| Failure::usage(format!("{url}: {error}")))
    }
}

pub(super) fn run(command: &ClusterCommand) -> Exit {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match (runtime, command) {
        (Err(error), _) => Err(Failure { message: format!("can't start: {error}"), exit: Exit::Failure }),
        (Ok(runtime), ClusterCommand::Status(args)) => runtime.block_on(status(args)),
        (Ok(runtime), ClusterCommand::Drain(args)) => runtime.block_on(drain(args)),
    };
    match done {
        Ok(()) => Exit::Success,
        Err(failure) => {
            output::error(&failure.message);
            failure.exit
        }
    }
}

fn unreachable(error: TableError) -> Failure {
    Failure { message: error.reason, exit: Exit::Failure }
}

async fn status(args: &StatusArgs) -> Result<(), Failure> {
    let status = args.place.open()?.leases().status().await.map_err(unreachable)?;
    match args.json {
        true => output::json(&document(&status)),
        false => output::text(table(&status)),
    }
    Ok(())
}

async fn drain(args: &DrainArgs) -> Result<(), Failure> {
    let node = NodeName(args.node.clone());
    let found = args.place.open()?.leases().drain(node, !args.undo).await.map_err(unreachable)?;
    if !found {
        let message = format!("there is no node \"{}\"; `peeklock cluster status` lists them", args.node);
        return Err(Failure { message, exit: Exit::Failure });
    }
    output::line(match args.undo {
        false => format!("{}: hands over to another node, as soon as there is one", args.node),
        true => format!("{}: may serve again", args.node),
    });
    Ok(())
}

/// Shards that a node holds and whose lease is not expired or offered.
fn shards_of(status: &Status, node: &NodeName) -> Vec<u32> {
    let leases = status.leases.iter().filter(|(lease, left)| {
        left.is_some() && lease.holder.as_ref().is_some_and(|(holder, _)| holder == node)
    });
    leases.map(|(lease, _)| lease.shard.0).collect()
}

/// A node's state in one word.
fn state(status: &Status, node: &NodeName, is_drained: bool) -> &'static str {
    match (shards_of(status, node).is_empty(), is_drained) {
        (false, false) => "serves",
        (false, true) => "draining",
        (true, false) => "standby",
        (true, true) => "drained",
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s ago", duration.as_secs_f64())
}

fn table(status: &Status) -> String {
    let mut table = Table::new(&["NODE", "STATE", "SEEN", "VERSION", "ADDRESS"]);
    for (live, since) in &status.nodes {
        let info = &live.info;
        let state = state(status, &info.name, live.drained).to_owned();
        table.row([info.name.0.clone(), state, seconds(*since), info.release.clone(), info.address.clone()]);
    }
    let mut text = table.lines().join("\n") + "\n";
    let free = status.leases.iter().filter(|(_, left)| left.is_none()).count();
    if free > 0 || status.leases.is_empty() {
        text.push_str("No node serves at present.\n");
    }
    text
}

fn document(status: &Status) -> Value {
    let nodes: Vec<Value> = status
        .nodes
        .iter()
        .map(|(live, since)| {
            json!({
                "node": live.info.name.0,
                "state": state(status, &live.info.name, live.drained),
                "shards": shards_of(status, &live.info.name),
                "seen_seconds_ago": since.as_secs_f64(),
                "version": live.info.release,
                "address": live.info.address,
            })
        })
        .collect();
    let leases: Vec<Value> = status
        .leases
        .iter()
        .map(|(lease, left)| {
            json!({
                "shard": lease.shard.0,
                "node": lease.holder.as_ref().map(|(node, _)| &node.0),
                "seconds_left": left.map(|left| left.as_secs_f64()),
                "wanted": lease.wanted.as_ref().map(|node| &node.0),
            })
        })
        .collect();
    json!({ "nodes": nodes, "leases": leases })
}

#[cfg(test)]
mod tests {
    use peeklock_cluster::{Lease, Live, NodeInfo, Session, Version};
    use peeklock_storage::ShardId;

    use super::*;

    fn status() -> Status {
        let node = |name: &str, drained: bool| {
            let info = NodeInfo {
                name: NodeName(name.to_owned()),
                session: Session(1),
                address: format!("amqps://{name}:5671"),
                release: "1.2.3".to_owned(),
            };
            (Live { info, beats: 7, accepts: !drained, drained }, Duration::from_millis(1_234))
        };
        let holder = Some((NodeName("alpha".to_owned()), Session(1)));
        let lease = Lease { shard: ShardId(0), holder, version: Version(3), wanted: None };
        Status {
            nodes: vec![node("alpha", false), node("b", false), node("c", true)],
            leases: vec![(lease, Some(Duration::from_millis(4_500)))],
        }
    }

    #[test]
    fn a_line_for_each_node() {
        let expected = "\
NODE   STATE    SEEN       VERSION  ADDRESS
alpha  serves   1.2 s ago  1.2.3    amqps://alpha:5671
b      standby  1.2 s ago  1.2.3    amqps://b:5671
c      drained  1.2 s ago  1.2.3    amqps://c:5671
";
        assert_eq!(table(&status()), expected);
        assert_eq!(table(&Status::default()).lines().last(), Some("No node serves at present."));
        let mut nobody = status();
        nobody.leases[0].1 = None;
        assert!(table(&nobody).contains("alpha  standby") && table(&nobody).ends_with("at present.\n"));
    }

    #[test]
    fn the_same_for_programs() {
        let document = document(&status());
        assert_eq!(document["nodes"][0]["state"], "serves");
        assert_eq!(document["nodes"][0]["shards"], json!([0]));
        assert_eq!(document["leases"][0]["node"], "alpha");
        assert_eq!(document["leases"][0]["seconds_left"], 4.5);
    }

    #[test]
    fn a_cluster_must_be_named() {
        let place = PlaceArgs { url: None, config: None };
        assert!(place.open().is_err_and(|failure| failure.exit == Exit::Usage));
    }
}
