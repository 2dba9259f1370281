//! `peeklock resubmit`, `move` and `undefer`

use clap::Args;
use peeklock_client::{Client, ClientError, LinkId, Message, MessageState, Readdress, Received};
use serde_json::json;

use super::address::{Address, SubQueue};
use super::scan::{Scan, scan};
use super::selection::Selection;
use super::source::Source;
use super::text::counted;
use super::walk::{Action, Given, Report, Resend, Route, transact, walk};
use super::{ConnectionArgs, Failure, output};

pub(super) const RESUBMIT_EXAMPLES: &str = "\
Examples:
  peeklock resubmit orders --dry-run            which dead letters would go back?
  peeklock resubmit orders                      all of them
  peeklock resubmit orders --where \"DeadLetterReason = 'Bad'\"
  peeklock resubmit orders --seq 17,18 --to repaired
Each message is sent and removed in one transaction: it is neither lost nor duplicated. It gets a new message id, so that duplicate
detection doesn't drop it, unless --keep-id. Dead letters of a subscription go to its topic: every subscription whose rules match gets
a copy.";

pub(super) const MOVE_EXAMPLES: &str = "\
Examples:
  peeklock move orders archive --before 2026-01-31T12:00:00Z
  peeklock move orders archive --where 'amount > 5' --dry-run
  peeklock move baskets archive --session red
  peeklock move 'orders/$dlq' repaired";

pub(super) const UNDEFER_EXAMPLES: &str = "\
Examples:
  peeklock undefer orders --dry-run     which messages are deferred?
  peeklock undefer orders               make all of them available
  peeklock undefer orders --seq 17
  peeklock undefer baskets --session red
A message gets a new sequence number: it is sent again, and the deferred one completed in the same transaction.";

/// Messages in one transaction.
const BATCH: u32 = 50;

/// What all three have in common.
#[derive(Debug, Args)]
struct Common {
    #[command(flatten)]
    selection: Selection,

    /// Keep the message ids [default: new ones, so that duplicate detection doesn't drop the messages].
    #[arg(long)]
    keep_id: bool,

    /// Only show which messages are selected.
    #[arg(long)]
    dry_run: bool,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Which dead letters.
#[derive(Debug, Args)]
pub(in crate::cli) struct ResubmitArgs {
    /// Queue or subscription whose dead letters are sent; append /$transfer for messages that could not be forwarded.
    #[arg(value_name = "ENTITY")]
    address: Address,

    /// Send them to this queue or topic [default: the one that they came from].
    #[arg(long, value_name = "ENTITY")]
    to: Option<String>,

    #[command(flatten)]
    common: Common,
}

/// Which messages, and where to.
#[derive(Debug, Args)]
pub(in crate::cli) struct MoveArgs {
    /// Queue or subscription; append /$dlq for its dead letters.
    #[arg(value_name = "FROM")]
    address: Address,

    /// The target queue or topic.
    #[arg(value_name = "TO")]
    to: String,

    /// The session that they belong to; an entity that requires sessions needs it.
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    #[command(flatten)]
    common: Common,
}

/// Which deferred messages.
#[derive(Debug, Args)]
pub(in crate::cli) struct UndeferArgs {
    /// Queue or subscription.
    #[arg(value_name = "ENTITY")]
    address: Address,

    /// Send them to this queue or topic [default: the queue that they are in].
    #[arg(long, value_name = "ENTITY")]
    to: Option<String>,

    /// The session that they belong to; an entity that requires sessions needs it.
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    #[command(flatten)]
    common: Common,
}

impl UndeferArgs {
    /// The destination. A subscription's topic would send the messages to all its subscriptions, or to none; and dead
    /// letters are not sent among other messages unless the user requests it.
    fn destination(&self) -> Result<String, Failure> {
        match &self.to {
            Some(to) => Ok(to.clone()),
            None if self.address.sub_queue == SubQueue::Main && self.address.subscription().is_none() => {
                Ok(self.address.entity.clone())
            }
            None => Err(Failure::usage(format!(
                "name the target of the messages of {} with --to: sent again, they would not return to this place",
                self.address
            ))),
        }
    }
}

pub(super) async fn resubmit(args: ResubmitArgs) -> Result<(), Failure> {
    let address = args.address.or_dead_letters();
    let destination = args.to.unwrap_or_else(|| address.destination());
    transfer(Source::whole(&address), &destination, &args.common, "resubmitted").await
}

pub(super) async fn move_messages(args: MoveArgs) -> Result<(), Failure> {
    if args.address.sub_queue == SubQueue::Main && args.address.entity.eq_ignore_ascii_case(&args.to) {
        return Err(Failure::usage("the messages are in the target already"));
    }
    let source = Source::new(&args.address, args.session.as_deref())?;
    transfer(source, &args.to, &args.common, "moved").await
}

fn readdress(common: &Common) -> Readdress {
    if common.keep_id { Readdress::KeepId } else { Readdress::NewId }
}

async fn transfer(
    source: Source<'_>,
    destination: &str,
    common: &Common,
    done: &'static str,
) -> Result<(), Failure> {
    let mut client = common.connection.connect().await?;
    // The first of all links, so that transactions may span another entity.
    let coordinator = client.coordinator().await.map_err(no_transactions)?;
    let found = scan(&mut client, source, &common.selection, MessageState::Active).await?;
    if common.dry_run {
        if !common.json {
            found.preview.print();
        }
        return finish(client, &Report { done: found.len(), ..Report::default() }, common, "would be", done)
            .await;
    }
    let route = Route { coordinator, destination, readdress: readdress(common) };
    let report = walk(&mut client, source, found, Action::Send(route)).await?;
    finish(client, &report, common, "", done).await
}

fn no_transactions(error: ClientError) -> Failure {
    Failure::about("transactions", error)
        .advise("the tier Basic has none, so messages can't be moved safely there")
}

/// Reports the result; messages that were left are a failure.
async fn finish(
    client: Client,
    report: &Report,
    common: &Common,
    would: &str,
    done: &str,
) -> Result<(), Failure> {
    client.close().await;
    if common.json {
        let skipped = report.skipped.iter();
        let skipped: Vec<_> = skipped
            .map(|(number, reason)| json!({ "sequence_number": number.to_string(), "reason": reason }))
            .collect();
        output::json_line(&json!({ "done": report.done, "dry_run": common.dry_run, "skipped": skipped }));
    } else {
        let verb = if would.is_empty() { done.to_owned() } else { format!("{would} {done}") };
        output::line(format!("{}: {}", verb, counted(report.done, "message")));
        for (number, reason) in &report.skipped {
            output::note(format!("{number} was skipped: {reason}"));
        }
    }
    if report.skipped.is_empty() {
        return Ok(());
    }
    let left = counted(u64::try_from(report.skipped.len()).unwrap_or(u64::MAX), "message");
    Err(Failure::new(format!("{left} could not be {done}")))
}

impl Resend for Received {
    fn encoded(&self, how: Readdress) -> Result<bytes::Bytes, ClientError> {
        Ok(Message::decode(&self.payload)?.readdressed(how))
    }
}

pub(super) async fn undefer(args: UndeferArgs) -> Result<(), Failure> {
    let common = &args.common;
    let destination = args.destination()?;
    let source = Source::new(&args.address, args.session.as_deref())?;
    let mut client = common.connection.connect().await?;
    let coordinator = client.coordinator().await.map_err(no_transactions)?;
    let found = scan(&mut client, source, &common.selection, MessageState::Deferred).await?;
    if common.dry_run {
        if !common.json {
            found.preview.print();
        }
        return finish(
            client,
            &Report { done: found.len(), ..Report::default() },
            common,
            "would be",
            "made available",
        )
        .await;
    }
    let route = Route { coordinator, destination: &destination, readdress: readdress(common) };
    let report = take_up(&mut client, source, found, route).await?;
    finish(client, &report, common, "", "made available").await
}

async fn take_up(
    client: &mut Client,
    source: Source<'_>,
    found: Scan,
    route: Route<'_>,
) -> Result<Report, Failure> {
    let mut report = Report::default();
    if found.numbers.is_empty() {
        return Ok(report);
    }
    // The holder of a session may receive its deferred messages. Without one where it is required, this is refused.
    source.attach(client).await?;
    let sender = client.sender(route.destination).await;
    let sender = sender.map_err(|error| Failure::about(route.destination, error))?;
    let batch = usize::try_from(found.batch(BATCH)).unwrap_or(1);
    let numbers: Vec<i64> = found.numbers.into_iter().collect();
    for batch in numbers.chunks(batch) {
        source.renew(client).await?;
        if take_up_batch(client, source, batch, sender, route).await.is_ok() {
            report.done += u64::try_from(batch.len()).unwrap_or(0);
            continue;
        }
        for number in batch {
            match take_up_batch(client, source, &[*number], sender, route).await {
                Ok(()) => report.done += 1,
                Err(error @ (ClientError::Lost(_) | ClientError::TimeOut(_))) => return Err(error.into()),
                Err(error) => report.skipped.push((*number, error.to_string())),
            }
        }
    }
    Ok(report)
}

async fn take_up_batch(
    client: &mut Client,
    source: Source<'_>,
    numbers: &[i64],
    sender: LinkId,
    route: Route<'_>,
) -> Result<(), ClientError> {
    let received = client.receive_deferred(&source.path(), source.session, numbers).await?;
    let tokens: Vec<_> = received.iter().filter_map(|received| received.lock_token).collect();
    let moved = transact(client, sender, &received, Given::Tokens(source, &tokens), route).await;
    if moved.is_err() {
        // They stay deferred; without this, their locks would only expire.
        let _ = client.abandon_by_token(&source.path(), source.session, &tokens).await;
    }
    moved
}
