//! `peeklock sessions`

use clap::{Args, Subcommand};
use peeklock_client::{Client, LinkId, Mode, SessionRequest};
use serde_json::json;

use super::address::Address;
use super::{ConnectionArgs, Failure, output};

pub(super) const EXAMPLES: &str = "\
Examples:
  peeklock sessions ls baskets
  peeklock sessions show baskets red           its state (locks the session for a moment)
  peeklock sessions clear baskets red          remove its state; messages stay";

/// What to do with sessions.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum SessionsCommand {
    /// List the sessions that have messages.
    Ls(SessionsArgs),
    /// Show the state of a session.
    Show(SessionArgs),
    /// Remove the state of a session.
    Clear(SessionClearArgs),
}

/// Whose sessions.
#[derive(Debug, Args)]
pub(in crate::cli) struct SessionsArgs {
    /// Queue or subscription that requires sessions.
    #[arg(value_name = "ENTITY")]
    address: Address,

    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Which session.
#[derive(Debug, Args)]
pub(in crate::cli) struct SessionArgs {
    /// Queue or subscription that requires sessions.
    #[arg(value_name = "ENTITY")]
    address: Address,

    /// The session.
    #[arg(value_name = "ID")]
    id: String,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Which session.
#[derive(Debug, Args)]
pub(in crate::cli) struct SessionClearArgs {
    /// Only show what would be removed.
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    session: SessionArgs,
}

pub(super) async fn run(command: SessionsCommand) -> Result<(), Failure> {
    match command {
        SessionsCommand::Ls(args) => list(args).await,
        SessionsCommand::Show(args) => show(args).await,
        SessionsCommand::Clear(args) => clear(args).await,
    }
}

async fn list(args: SessionsArgs) -> Result<(), Failure> {
    let mut client = args.connection.connect().await?;
    let ids = client.sessions(&args.address.path()).await;
    let ids = ids.map_err(|error| Failure::about(&args.address.entity, error))?;
    for id in &ids {
        if args.json {
            output::json_line(&json!({ "id": id }));
        } else {
            output::line(super::text::one_line(id, 128));
        }
    }
    if ids.is_empty() && !args.json {
        output::note("no sessions");
    }
    client.close().await;
    Ok(())
}

async fn hold(client: &mut Client, args: &SessionArgs) -> Result<LinkId, Failure> {
    let request = SessionRequest::Named(args.id.clone());
    let held = client.session_receiver(&args.address.path(), Mode::PeekLock, &request).await;
    let held = held.map_err(|error| Failure::about(&args.address.entity, error))?;
    held.map(|(link, _)| link).ok_or_else(|| Failure::new("the session is not available"))
}

async fn show(args: SessionArgs) -> Result<(), Failure> {
    let mut client = args.connection.connect().await?;
    hold(&mut client, &args).await?;
    let state = client.session_state(&args.address.path(), &args.id).await?;
    let text = state.as_ref().map(|state| String::from_utf8_lossy(state).into_owned());
    if args.json {
        let bytes = state.as_ref().map(|state| state.len());
        output::json_line(&json!({ "id": args.id, "state": text, "state_bytes": bytes }));
    } else {
        match text {
            Some(text) => output::line(super::text::one_line(&text, 10_000)),
            None => output::note("the session has no state"),
        }
    }
    client.close().await;
    Ok(())
}

async fn clear(SessionClearArgs { dry_run, session: args }: SessionClearArgs) -> Result<(), Failure> {
    let mut client = args.connection.connect().await?;
    hold(&mut client, &args).await?;
    let path = args.address.path();
    let bytes = client.session_state(&path, &args.id).await?.map_or(0, |state| state.len());
    if !dry_run {
        client.set_session_state(&path, &args.id, None).await?;
    }
    if args.json {
        output::json_line(&json!({ "id": args.id, "state_bytes": bytes, "cleared": !dry_run }));
    } else {
        let verb = if dry_run { "would remove" } else { "removed" };
        output::line(format!("{verb} the state of session {} ({bytes} bytes)", args.id));
    }
    client.close().await;
    Ok(())
}
