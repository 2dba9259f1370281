//! `peeklock locks`

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use peeklock_client::Api;
use serde_json::{Value as Json, json};
use uuid::Uuid;

use super::address::Address;
use super::connections::{client, identities};
use super::rows::{shown, text};
use super::text::one_line;
use super::{ConnectionArgs, Failure, output};
use crate::cli::table::Table;

pub(super) const EXAMPLES: &str = "\
Examples:
  peeklock locks ls orders              which messages are locked, by whom and until when
  peeklock locks ls 'orders/$dlq'
  peeklock locks release orders --seq 17 --dry-run
  peeklock locks release orders --seq 17,18
`ls` needs the right Manage on the entity, and on the namespace to show clients; `release` needs Listen as well. Both need Peeklock.";

/// Maximum number of rows, more than is useful to a reader.
const ROWS_MAX: usize = 10_000;
/// Maximum number of receivers whose connections are looked up.
const HOLDERS_MAX: usize = 100;

/// What to do with locks.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum LocksCommand {
    /// List the locks on messages of a queue or subscription, in the order in which they expire.
    Ls(ListArgs),
    /// Release locks: the messages are available again, with their delivery count increased.
    Release(ReleaseArgs),
}

/// Whose locks.
#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {
    /// Queue or subscription; append /$dlq for its dead letters.
    #[arg(value_name = "ENTITY")]
    address: Address,

    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Which locks.
#[derive(Debug, Args)]
pub(in crate::cli) struct ReleaseArgs {
    /// Queue or subscription; append /$dlq for its dead letters.
    #[arg(value_name = "ENTITY")]
    address: Address,

    /// The sequence number of a locked message; may be repeated or comma-separated.
    #[arg(long = "seq", value_name = "NUMBER", value_delimiter = ',', required = true)]
    numbers: Vec<u64>,

    /// Only show which locks would be released.
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(super) async fn run(command: LocksCommand) -> Result<(), Failure> {
    match command {
        LocksCommand::Ls(args) => list(args).await,
        LocksCommand::Release(args) => release(args).await,
    }
}

async fn all(connection: &ConnectionArgs, address: &Address) -> Result<Vec<Json>, Failure> {
    let api = connection.api()?.about(&address.entity);
    let path = address.path();
    let found = api.pages("locks", &[("path", &path), ("top", "1000")], ROWS_MAX).await;
    found.map_err(|error| Failure::about(&address.entity, error))
}

async fn list(args: ListArgs) -> Result<(), Failure> {
    let mut locks = all(&args.connection, &args.address).await?;
    let holders = holders(&args.connection.api()?, &locks).await;
    let holder = |lock: &Json| holders.get(text(lock, "/receiver"));
    if args.json {
        for lock in &mut locks {
            let connection = holder(lock).map(|row| row.get("id").cloned().unwrap_or_default());
            if let Some(lock) = lock.as_object_mut() {
                lock.insert("connection".to_owned(), connection.unwrap_or_default());
            }
        }
        locks.iter().for_each(output::json_line);
        return Ok(());
    }
    if locks.is_empty() {
        output::note("no message is locked");
        return Ok(());
    }
    let mut table = Table::new(&["NUMBER", "LOCKED UNTIL", "SESSION", "RECEIVER", "HOLDER", "TOKEN"]);
    for lock in &locks {
        let holder = holder(lock).map_or_else(|| "-".to_owned(), described);
        let [number, until, session, receiver, token] =
            ["/sequence_number", "/locked_until", "/session", "/receiver", "/lock_token"]
                .map(|field| shown(lock, field));
        table.row([number, until, session, receiver, holder, token]);
    }
    table.print();
    Ok(())
}

fn described(connection: &Json) -> String {
    let address = shown(connection, "/address");
    one_line(&format!("{address} {} ({})", client(connection), identities(connection)), 80)
}

/// The connections of receivers, as far as found; none without the right to see connections.
async fn holders(api: &Api, locks: &[Json]) -> BTreeMap<String, Json> {
    let mut found = BTreeMap::new();
    for receiver in locks.iter().map(|lock| text(lock, "/receiver")).filter(|receiver| !receiver.is_empty()) {
        if found.len() >= HOLDERS_MAX || found.contains_key(receiver) {
            continue;
        }
        let Ok(mut rows) = api.pages("connections", &[("search", receiver)], 1).await else { break };
        found.insert(receiver.to_owned(), rows.pop().unwrap_or_default());
    }
    found.retain(|_, row| !row.is_null());
    found
}

async fn release(args: ReleaseArgs) -> Result<(), Failure> {
    let locks = all(&args.connection, &args.address).await?;
    let mut meant = Vec::new();
    for number in &args.numbers {
        let wanted = number.to_string();
        let lock = locks.iter().find(|lock| text(lock, "/sequence_number") == wanted);
        let token = lock.and_then(|lock| Uuid::parse_str(text(lock, "/lock_token")).ok());
        let token = token.ok_or_else(|| {
            Failure::new(format!("message {number} of {} is not locked", args.address))
                .advise("`peeklock locks ls ENTITY` lists the messages that are")
        })?;
        meant.push((*number, token));
    }
    let mut client = args.connection.connect().await?;
    for (number, token) in meant {
        if !args.dry_run {
            let released = client.abandon_by_token(&args.address.path(), None, &[token]).await;
            released.map_err(|error| Failure::about(&format!("message {number}"), error))?;
        }
        if args.json {
            output::json_line(&json!({ "sequence_number": number.to_string(), "released": !args.dry_run }));
        } else {
            let verb = if args.dry_run { "would release" } else { "released" };
            output::line(format!("{verb} message {number}"));
        }
    }
    client.close().await;
    Ok(())
}
