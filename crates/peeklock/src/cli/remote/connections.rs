//! `peeklock connections`

use std::collections::HashMap;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use peeklock_client::Api;
use serde_json::{Value as Json, json};

use super::rows::{number, shown, text};
use super::text::one_line;
use super::{ConnectionArgs, Failure, output};
use crate::cli::table::Table;

pub(super) const EXAMPLES: &str = "\
Examples:
  peeklock connections ls                  who is connected over AMQP
  peeklock connections ls orders           those that have a link to `orders`, or whose client, address or identity has that in it
  peeklock connections ls --watch          again every two seconds, with rates
  peeklock connections show 19ab3f2c4d1-7  one, with its links
  peeklock connections close 19ab3f2c4d1-7
Needs the right Manage on the namespace, and Peeklock: Azure Service Bus has no such interface.";

const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// Clears a terminal and moves the cursor to its corner.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";
/// Maximum number of rows, more than is useful to a reader.
const ROWS_MAX: usize = 10_000;

/// What to do with connections.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ConnectionsCommand {
    /// List AMQP connections with identity, SDK and number of links.
    Ls(ListArgs),
    /// Show a connection and its links: entity, direction, credit, unsettled deliveries, messages.
    Show(ShowArgs),
    /// Close connections: the client gets amqp:connection:forced; most clients reconnect by themselves.
    Close(CloseArgs),
}

/// Which connections.
#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {
    /// Only connections with this text in the path of an entity, the address, the client or the identity.
    #[arg(value_name = "TEXT")]
    search: Option<String>,

    /// List again every two seconds until interrupted, with messages per second.
    #[arg(long, conflicts_with = "json")]
    watch: bool,

    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Which connection.
#[derive(Debug, Args)]
pub(in crate::cli) struct ShowArgs {
    /// The id that `connections ls` shows.
    #[arg(value_name = "ID")]
    id: String,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Which connections.
#[derive(Debug, Args)]
pub(in crate::cli) struct CloseArgs {
    /// The ids that `connections ls` shows.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// Only show which connections would be closed.
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(super) async fn run(command: ConnectionsCommand) -> Result<(), Failure> {
    match command {
        ConnectionsCommand::Ls(args) => list(args).await,
        ConnectionsCommand::Show(args) => show(args).await,
        ConnectionsCommand::Close(args) => close(args).await,
    }
}

async fn list(args: ListArgs) -> Result<(), Failure> {
    let api = args.connection.api()?;
    let search = args.search.as_deref().unwrap_or_default();
    let mut before: Option<Sample> = None;
    loop {
        let rows = api.pages("connections", &[("search", search), ("top", "1000")], ROWS_MAX).await?;
        if args.json {
            rows.iter().for_each(output::json_line);
            return Ok(());
        }
        if args.watch {
            output::text(CLEAR);
        }
        print(&rows, before.as_ref());
        if !args.watch {
            return Ok(());
        }
        before = Some(Sample::of(&rows));
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

/// Message counts by connection at one time.
struct Sample {
    at: Instant,
    messages: HashMap<String, (u64, u64)>,
}

impl Sample {
    fn of(rows: &[Json]) -> Self {
        let count = |row: &Json| (number(row, "/figures/messages_in"), number(row, "/figures/messages_out"));
        let messages = rows.iter().map(|row| (text(row, "/id").to_owned(), count(row))).collect();
        Self { at: Instant::now(), messages }
    }

    /// Messages in and out per second since the sample.
    fn rates(&self, row: &Json) -> Option<(f64, f64)> {
        let (incoming, outgoing) = *self.messages.get(text(row, "/id"))?;
        let seconds = self.at.elapsed().as_secs_f64().max(0.001);
        let rate = |field: &str, before: u64| number(row, field).saturating_sub(before) as f64 / seconds;
        Some((rate("/figures/messages_in", incoming), rate("/figures/messages_out", outgoing)))
    }
}

fn print(rows: &[Json], before: Option<&Sample>) {
    if rows.is_empty() {
        output::note("no connections over AMQP");
        return;
    }
    let counts = if before.is_some() { ["IN/S", "OUT/S"] } else { ["IN", "OUT"] };
    let [incoming, outgoing] = counts;
    let heading = [
        "ID",
        "ADDRESS",
        "TRANSPORT",
        "CLIENT",
        "IDENTITY",
        "OPENED",
        "LINKS",
        incoming,
        outgoing,
        "CREDIT",
        "UNSETTLED",
    ];
    let mut table = Table::new(&heading);
    for row in rows {
        let messages = match before.map(|before| before.rates(row)) {
            None => [shown(row, "/figures/messages_in"), shown(row, "/figures/messages_out")],
            Some(None) => ["-".to_owned(), "-".to_owned()],
            Some(Some((incoming, outgoing))) => [format!("{incoming:.1}"), format!("{outgoing:.1}")],
        };
        let [incoming, outgoing] = messages;
        table.row([
            shown(row, "/id"),
            shown(row, "/address"),
            transport(row),
            one_line(&client(row), 40),
            one_line(&identities(row), 40),
            shown(row, "/opened_at"),
            shown(row, "/figures/links"),
            incoming,
            outgoing,
            shown(row, "/figures/credit"),
            shown(row, "/figures/unsettled"),
        ]);
    }
    table.print();
}

fn transport(row: &Json) -> String {
    let name = match text(row, "/transport") {
        "websocket" => "ws",
        other => other,
    };
    let secure = if row.get("tls").and_then(Json::as_bool) == Some(true) { "s" } else { "" };
    format!("{name}{secure}")
}

/// The client's description of itself: its SDK, otherwise its container id.
pub(super) fn client(row: &Json) -> String {
    match (text(row, "/product"), text(row, "/version")) {
        ("", _) => text(row, "/container_id").to_owned(),
        (product, "") => product.to_owned(),
        (product, version) => format!("{product}/{version}"),
    }
}

/// The peer's identities, from all its credentials.
pub(super) fn identities(row: &Json) -> String {
    let found = row.pointer("/figures/identities").and_then(Json::as_array);
    let names: Vec<&str> = found.into_iter().flatten().map(|identity| text(identity, "/name")).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}

async fn show(args: ShowArgs) -> Result<(), Failure> {
    let (found, links) = detail(&args.connection.api()?, &args.id).await?;
    if args.json {
        let mut document = found;
        if let Some(object) = document.as_object_mut() {
            object.remove("next");
            object.insert("links".to_owned(), Json::Array(links));
        }
        output::json_line(&document);
        return Ok(());
    }
    print_facts(&found);
    output::line("");
    print_links(&links);
    Ok(())
}

fn print_facts(connection: &Json) {
    let facts = [
        ("id", shown(connection, "/id")),
        ("address", shown(connection, "/address")),
        ("transport", transport(connection)),
        ("identity", identities(connection)),
        ("client", client(connection)),
        ("container id", shown(connection, "/container_id")),
        ("platform", shown(connection, "/platform")),
        ("framework", shown(connection, "/framework")),
        ("user agent", shown(connection, "/user_agent")),
        ("certificate", shown(connection, "/certificate")),
        ("opened", shown(connection, "/opened_at")),
        ("messages in", shown(connection, "/figures/messages_in")),
        ("messages out", shown(connection, "/figures/messages_out")),
    ];
    for (name, value) in facts {
        output::line(format!("{name:<13} {}", one_line(&value, 256)));
    }
}

fn print_links(links: &[Json]) {
    const COLUMNS: [(&str, &str); 9] = [
        ("LINK", "/number"),
        ("FOR", "/purpose"),
        ("DIRECTION", "/direction"),
        ("ENTITY", "/entity"),
        ("CREDIT", "/credit"),
        ("UNSETTLED", "/unsettled"),
        ("MESSAGES", "/messages"),
        ("RECEIVER", "/receiver"),
        ("NAME", "/name"),
    ];
    let mut table = Table::new(&COLUMNS.map(|(heading, _)| heading));
    for link in links {
        table.row(COLUMNS.map(|(_, field)| shown(link, field)));
    }
    table.print();
}

/// A connection and all its links.
async fn detail(api: &Api, id: &str) -> Result<(Json, Vec<Json>), Failure> {
    let (mut links, mut from) = (Vec::new(), "0".to_owned());
    loop {
        let page = api.get("connection", &[("id", id), ("from", &from), ("top", "1000")]).await;
        let mut page = page.map_err(|error| explained(id, error))?;
        if let Some(Json::Array(found)) = page.get_mut("links").map(Json::take) {
            links.extend(found);
        }
        match page.get("next").and_then(Json::as_str) {
            Some(next) if links.len() < ROWS_MAX => next.clone_into(&mut from),
            _ => return Ok((page, links)),
        }
    }
}

async fn close(args: CloseArgs) -> Result<(), Failure> {
    let api = args.connection.api()?;
    for id in &args.ids {
        let found = api.get("connection", &[("id", id), ("top", "1")]).await;
        let found = found.map_err(|error| explained(id, error))?;
        let outcome = if args.dry_run {
            "would close"
        } else {
            let rest = api.delete("connection", &[("id", id)]).await;
            let rest = rest.map_err(|error| explained(id, error))?;
            // The peer has not answered yet.
            if rest.is_null() { "closed" } else { "closing" }
        };
        let (address, client) = (shown(&found, "/address"), one_line(&client(&found), 60));
        if args.json {
            output::json_line(&json!({ "id": id, "address": address, "outcome": outcome }));
        } else {
            output::line(format!(
                "{outcome} {id}: {address}, {client}, {}",
                one_line(&identities(&found), 60)
            ));
        }
    }
    Ok(())
}

fn explained(id: &str, error: peeklock_client::ClientError) -> Failure {
    if error.is_not_found() {
        return Failure::new(format!("there is no connection {}: it has ended", one_line(id, 40))).advise(
            "`peeklock connections ls` lists the open ones; a client that reconnects gets another id",
        );
    }
    error.into()
}
