//! `peeklock purge`

use std::time::Duration;

use clap::{Args, ValueEnum};
use peeklock_client::{Client, ClientError, LinkId, MessageState, Mode, SessionRequest};
use serde_json::json;

use super::address::{Address, SubQueue};
use super::scan::{Scan, scan};
use super::selection::Selection;
use super::source::Source;
use super::text::counted;
use super::walk::{Action, Report, walk};
use super::{ConnectionArgs, Failure, output};

pub(super) const EXAMPLES: &str = "\
Examples:
  peeklock purge orders --dry-run          what would be deleted?
  peeklock purge orders                    every message that is there now
  peeklock purge 'orders/$dlq' --before 2026-01-31T12:00:00Z
  peeklock purge orders --where \"sys.Label = 'test'\"
  peeklock purge orders --state scheduled  cancel scheduled messages
  peeklock purge baskets --state deferred --session red
Messages that a receiver has locked stay.";

/// Messages deleted by one request: the limit of the tier Standard.
const BATCH: u32 = 500;
/// Number of messages after which the lock of the held session is renewed.
const RENEWAL: usize = 50;
const SESSION_WAIT: Duration = Duration::from_secs(1);

/// Which states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StateArg {
    /// Available.
    Active,
    /// Deferred by a receiver.
    Deferred,
    /// Scheduled for later.
    Scheduled,
}

/// What to delete.
#[derive(Debug, Args)]
pub(in crate::cli) struct PurgeArgs {
    /// Queue or subscription; append /$dlq for its dead letters, /$transfer for messages that could not be forwarded.
    #[arg(value_name = "ENTITY")]
    address: Address,

    /// Only messages in this state.
    #[arg(long, value_enum, default_value = "active")]
    state: StateArg,

    /// Only messages of this session; where sessions are required, deferred messages and conditions need it.
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    #[command(flatten)]
    selection: Selection,

    /// Only show which messages are selected.
    #[arg(long)]
    dry_run: bool,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(super) async fn run(args: PurgeArgs) -> Result<(), Failure> {
    check_state(&args)?;
    let source = Source::new(&args.address, args.session.as_deref())?;
    let mut client = args.connection.connect().await?;
    let report = if args.dry_run {
        let found = find(&mut client, source, &args).await?;
        if !args.json {
            found.preview.print();
        }
        Report { done: found.len(), ..Report::default() }
    } else {
        purge(&mut client, source, &args).await?
    };
    client.close().await;
    let left = u64::try_from(report.skipped.len()).unwrap_or(u64::MAX);
    if args.json {
        output::json_line(&json!({ "deleted": report.done, "dry_run": args.dry_run, "left": left }));
    } else {
        let verb = if args.dry_run { "would delete" } else { "deleted" };
        output::line(format!("{verb} {} of {}", counted(report.done, "message"), args.address));
        if left > 0 {
            output::note(format!(
                "{} stayed: locked by a receiver, or gone meanwhile",
                counted(left, "message")
            ));
        }
    }
    Ok(())
}

async fn find(client: &mut Client, source: Source<'_>, args: &PurgeArgs) -> Result<Scan, Failure> {
    let state = match args.state {
        StateArg::Active => MessageState::Active,
        StateArg::Deferred => MessageState::Deferred,
        StateArg::Scheduled => MessageState::Scheduled,
    };
    scan(client, source, &args.selection, state).await
}

async fn purge(client: &mut Client, source: Source<'_>, args: &PurgeArgs) -> Result<Report, Failure> {
    match args.state {
        StateArg::Active if args.selection.is_all() && source.session.is_none() => {
            delete_all(client, source, args).await
        }
        StateArg::Active => {
            let found = find(client, source, args).await?;
            walk(client, source, found, Action::Delete).await
        }
        StateArg::Scheduled => cancel(client, source, args).await,
        StateArg::Deferred => complete_deferred(client, source, args).await,
    }
}

/// Uses the broker's own operation: no message is delivered.
async fn delete_all(client: &mut Client, source: Source<'_>, args: &PurgeArgs) -> Result<Report, Failure> {
    let until_ms = args.selection.before.unwrap_or_else(|| jiff::Timestamp::now().as_millisecond());
    let mut report = Report::default();
    loop {
        match client.delete_batch(&args.address.path(), BATCH, until_ms).await {
            Ok(0) => return Ok(report),
            Ok(deleted) => report.done += deleted,
            Err(error) if needs_session(&error, args) => return delete_sessions(client, args).await,
            Err(error) if error.condition() == Some("amqp:not-implemented") => {
                let received = delete_received(client, source, args).await?;
                return Ok(Report { done: report.done + received.done, ..received });
            }
            Err(error) => return Err(Failure::about(&args.address.entity, error)),
        }
    }
}

/// For a service without that operation: receives and deletes the messages.
async fn delete_received(
    client: &mut Client,
    source: Source<'_>,
    args: &PurgeArgs,
) -> Result<Report, Failure> {
    if args.selection.before.is_some() {
        // Only the messages found are deleted.
        let found = find(client, source, args).await?;
        return walk(client, source, found, Action::Delete).await;
    }
    let about = |error| Failure::about(&args.address.entity, error);
    let link = client.receiver(&args.address.path(), Mode::ReceiveAndDelete).await.map_err(about)?;
    let done = drain(client, link).await.map_err(about)?;
    Ok(Report { done, ..Report::default() })
}

/// Receives and deletes the available messages; returns their number.
async fn drain(client: &mut Client, link: LinkId) -> Result<u64, ClientError> {
    let mut done = 0;
    loop {
        let deleted = client.receive(link, BATCH, Duration::ZERO).await?;
        if deleted.is_empty() {
            return Ok(done);
        }
        done += u64::try_from(deleted.len()).unwrap_or(0);
    }
}

/// Whether the refusal is that of an entity with sessions, whose messages are deleted session by session.
fn needs_session(error: &ClientError, args: &PurgeArgs) -> bool {
    let refused = ["amqp:not-allowed", "com.microsoft:session-required", "amqp:not-implemented"];
    args.address.sub_queue == SubQueue::Main
        && error.condition().is_some_and(|condition| refused.contains(&condition))
        && error.to_string().to_lowercase().contains("session")
}

async fn delete_sessions(client: &mut Client, args: &PurgeArgs) -> Result<Report, Failure> {
    if args.selection.before.is_some() {
        return Err(Failure::usage("--before can't be combined with an entity that requires sessions"));
    }
    let about = |error| Failure::about(&args.address.entity, error);
    let mut report = Report::default();
    let path = args.address.path();
    let next = SessionRequest::Next(SESSION_WAIT);
    while let Some((link, _)) =
        client.session_receiver(&path, Mode::ReceiveAndDelete, &next).await.map_err(about)?
    {
        report.done += drain(client, link).await.map_err(about)?;
        client.detach(link);
    }
    Ok(report)
}

/// A dead letter keeps its former state in an annotation, and its number may equal that of a scheduled message.
fn check_state(args: &PurgeArgs) -> Result<(), Failure> {
    let is_inside = args.address.sub_queue != SubQueue::Main;
    if is_inside && matches!(args.state, StateArg::Scheduled) {
        return Err(Failure::usage(format!(
            "{} has no scheduled messages; those of {} are cancelled without the queue behind its name",
            args.address,
            args.address.destination()
        )));
    }
    Ok(())
}

async fn cancel(client: &mut Client, source: Source<'_>, args: &PurgeArgs) -> Result<Report, Failure> {
    let found = find(client, source, args).await?;
    let destination = args.address.destination();
    let mut report = Report::default();
    for number in found.numbers {
        match client.cancel_scheduled(&destination, &[number]).await {
            Ok(()) => report.done += 1,
            Err(error) if error.is_not_found() => report.skipped.push((number, error.to_string())),
            Err(error) => return Err(Failure::about(&args.address.entity, error)),
        }
    }
    Ok(report)
}

async fn complete_deferred(
    client: &mut Client,
    source: Source<'_>,
    args: &PurgeArgs,
) -> Result<Report, Failure> {
    let found = find(client, source, args).await?;
    let path = source.path();
    let mut report = Report::default();
    if found.numbers.is_empty() {
        return Ok(report);
    }
    // The holder of a session may receive its deferred messages. Without one where it is required, this is refused.
    source.attach(client).await?;
    for (position, number) in found.numbers.into_iter().enumerate() {
        if position % RENEWAL == 0 {
            source.renew(client).await?;
        }
        let received = match client.receive_deferred(&path, source.session, &[number]).await {
            Ok(received) => received,
            Err(error) if error.condition().is_some() => {
                report.skipped.push((number, error.to_string()));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let tokens: Vec<_> = received.iter().filter_map(|received| received.lock_token).collect();
        client.complete_by_token(&path, source.session, &tokens, None).await?;
        report.done += 1;
    }
    Ok(report)
}
