//! `peeklock receive`

use std::io;
use std::time::{Duration, Instant};

use clap::Args;
use peeklock_client::{Client, Delivery, LinkId, Mode, Outcome, SessionRequest};

use super::address::{Address, SubQueue};
use super::text::duration;
use super::{ConnectionArgs, Failure, message_json, output, peek};

pub(super) const EXAMPLES: &str = "\
Examples:
  peeklock receive orders                        receive one message, wait up to 5 s
  peeklock receive orders -n 100 --json          up to 100, one JSON object per line
  peeklock receive orders --dead-letter --reason Bad --description 'no customer'
  peeklock receive orders --abandon              receive one and abandon it (increases its delivery count)
  peeklock receive baskets --session red -n 10   the messages of one session
  peeklock receive orders --all --delete         everything that is there, deleted as it is sent
`peeklock peek` shows messages without taking them.";

/// Messages locked at a time.
const BATCH: u64 = 100;
/// A longer wait is divided into pieces, between which tokens are renewed.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// What to receive, and what becomes of it.
#[derive(Debug, Args)]
pub(in crate::cli) struct ReceiveArgs {
    /// Queue or subscription; append /$dlq for its dead letters.
    #[arg(value_name = "ENTITY")]
    address: Address,

    /// Maximum number of messages to receive.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1)]
    count: u64,

    /// Receive all messages that exist.
    #[arg(long, conflicts_with = "count")]
    all: bool,

    /// How long to wait for a message, such as 30s; 0s receives only messages that are available now.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    wait: Duration,

    #[command(flatten)]
    outcome: OutcomeArgs,

    /// The session to receive from.
    #[arg(long, value_name = "ID", conflicts_with = "next_session")]
    session: Option<String>,

    /// Receive from the next session that has messages and no receiver.
    #[arg(long)]
    next_session: bool,

    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// What becomes of messages; completed by default.
#[derive(Debug, Args)]
struct OutcomeArgs {
    /// Complete them: they are processed and deleted (the default).
    #[arg(long, group = "outcome")]
    complete: bool,

    /// Abandon them: they are available again, with their delivery count increased.
    #[arg(long, group = "outcome")]
    abandon: bool,

    /// Defer them: they can only be received by sequence number.
    #[arg(long, group = "outcome")]
    defer: bool,

    /// Move them to the dead-letter queue.
    #[arg(long, group = "outcome")]
    dead_letter: bool,

    /// Receive in mode receive-and-delete: a message is lost if the command is killed before it is printed.
    #[arg(long, group = "outcome")]
    delete: bool,

    /// The dead-letter reason.
    #[arg(long, value_name = "TEXT", default_value = "", requires = "dead_letter")]
    reason: String,

    /// The dead-letter description.
    #[arg(long, value_name = "TEXT", default_value = "", requires = "dead_letter")]
    description: String,
}

impl OutcomeArgs {
    fn mode(&self) -> Mode {
        if self.delete { Mode::ReceiveAndDelete } else { Mode::PeekLock }
    }

    fn outcome(&self) -> Outcome {
        if self.abandon {
            Outcome::Abandon
        } else if self.defer {
            Outcome::Defer
        } else if self.dead_letter {
            Outcome::DeadLetter(self.reason.clone(), self.description.clone())
        } else {
            Outcome::Complete
        }
    }
}

pub(super) async fn run(args: ReceiveArgs) -> Result<(), Failure> {
    let mut client = args.connection.connect().await?;
    let about = |error| Failure::about(&args.address.entity, error);
    let Some(link) = attach(&mut client, &args).await.map_err(about)? else {
        output::note("no session is available");
        client.close().await;
        return Ok(());
    };
    let most = if args.all { u64::MAX } else { args.count };
    let deadline = Instant::now() + args.wait;
    let mut received = 0;
    // Abandoned messages would be delivered again at once, so they are abandoned after all are received.
    let mut kept: Vec<Delivery> = Vec::new();
    while received < most {
        let left = deadline.saturating_duration_since(Instant::now()).min(WAIT_MAX);
        let wait = if received > 0 && args.all { Duration::ZERO } else { left };
        let batch = u32::try_from(BATCH.min(most - received)).unwrap_or(1);
        let deliveries = client.receive(link, batch, wait).await.map_err(about)?;
        if deliveries.is_empty() && (wait.is_zero() || deadline <= Instant::now()) {
            break;
        }
        received += u64::try_from(deliveries.len()).unwrap_or(0);
        print(&deliveries, &args)?;
        if let Some(error) = output::failed() {
            return Err(unprinted(error, &args));
        }
        match args.outcome.outcome() {
            _ if args.outcome.delete => {}
            Outcome::Abandon => kept.extend(deliveries),
            outcome => client.settle(&deliveries, &outcome).await.map_err(about)?,
        }
    }
    client.settle(&kept, &Outcome::Abandon).await.map_err(about)?;
    if received == 0 && !args.json {
        output::note("no messages");
    }
    client.close().await;
    Ok(())
}

async fn attach(
    client: &mut Client,
    args: &ReceiveArgs,
) -> Result<Option<LinkId>, peeklock_client::ClientError> {
    let (path, mode) = (args.address.path(), args.outcome.mode());
    let request = match &args.session {
        Some(id) => SessionRequest::Named(id.clone()),
        None if args.next_session => SessionRequest::Next(args.wait),
        None => return client.receiver(&path, mode).await.map(Some),
    };
    let held = client.session_receiver(&path, mode, &request).await?;
    Ok(held.map(|(link, _)| link))
}

/// Messages that nobody has seen are not settled.
fn unprinted(error: &io::Error, args: &ReceiveArgs) -> Failure {
    let failure = Failure::new(format!("standard output can't be written: {error}"));
    if args.outcome.delete {
        return failure;
    }
    failure.advise(
        "the messages that were received last are not settled; they are delivered again when their lock ends",
    )
}

fn print(deliveries: &[Delivery], args: &ReceiveArgs) -> Result<(), Failure> {
    let shows_reasons = args.address.sub_queue != SubQueue::Main;
    let mut table = peek::heading(shows_reasons);
    for delivery in deliveries {
        let message = delivery.message()?;
        if args.json {
            output::json_line(&message_json::message(&message, usize::MAX));
        } else {
            table.row(peek::row(&message, shows_reasons));
        }
    }
    if !table.is_empty() {
        table.print();
    }
    Ok(())
}
