//! `peeklock perf`

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use clap::{Args, Subcommand};
use peeklock_client::{Mode, Outcome};
use peeklock_wire::message::{MessageProperties, encode_body_data};
use serde_json::json;

use super::address::Address;
use super::text::{counted, duration};
use super::{ConnectionArgs, Failure, output, progress};

pub(super) const EXAMPLES: &str = "\
Examples:
  peeklock perf send orders --count 100000 --size 1024
  peeklock perf receive orders --count 100000
Both use one connection. The messages are real: receive them with the second command, or `peeklock purge orders`.";

/// Messages received and settled together.
const BATCH: u64 = 200;

/// Which direction.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum PerfCommand {
    /// Send messages as fast as the broker stores them.
    Send(PerfSendArgs),
    /// Receive and complete messages as fast as possible.
    Receive(PerfReceiveArgs),
}

/// What to send.
#[derive(Debug, Args)]
pub(in crate::cli) struct PerfSendArgs {
    /// The queue or topic.
    #[arg(value_name = "ENTITY")]
    entity: String,

    /// The number of messages.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10_000)]
    count: u64,

    /// Bytes of each body.
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    size: usize,

    /// Maximum number of messages that are sent and not acknowledged yet.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    window: u32,

    /// The session of all messages.
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// What to receive.
#[derive(Debug, Args)]
pub(in crate::cli) struct PerfReceiveArgs {
    /// Queue or subscription; append /$dlq for its dead letters.
    #[arg(value_name = "ENTITY")]
    address: Address,

    /// The number of messages.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10_000)]
    count: u64,

    /// Receive in mode receive-and-delete instead of completing messages.
    #[arg(long)]
    delete: bool,

    /// Stop when no message arrived for this time.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    wait: Duration,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(super) async fn run(command: PerfCommand) -> Result<(), Failure> {
    match command {
        PerfCommand::Send(args) => send(args).await,
        PerfCommand::Receive(args) => receive(args).await,
    }
}

async fn send(args: PerfSendArgs) -> Result<(), Failure> {
    let about = |error| Failure::about(&args.entity, error);
    let mut client = args.connection.connect().await?;
    let link = client.sender(&args.entity).await.map_err(about)?;
    let message = message(args.size, args.session.as_deref());
    let bar = progress::bar(args.count, "sending");
    let window = usize::try_from(args.window).unwrap_or(1);
    let mut under_way = VecDeque::with_capacity(window);
    let start = Instant::now();
    for _ in 0..args.count {
        under_way.push_back(client.send(link, message.clone(), None).map_err(about)?);
        if under_way.len() >= window
            && let Some(oldest) = under_way.pop_front()
        {
            client.outcome(oldest).await.map_err(about)?;
            bar.inc(1);
        }
    }
    for oldest in under_way {
        client.outcome(oldest).await.map_err(about)?;
    }
    let took = start.elapsed();
    bar.finish_and_clear();
    client.close().await;
    report("sent", args.count, took, args.json);
    Ok(())
}

fn message(bytes: usize, session: Option<&str>) -> Bytes {
    let mut output = BytesMut::with_capacity(bytes + 64);
    MessageProperties { group_id: session.map(Into::into), ..MessageProperties::default() }
        .encode(&mut output);
    encode_body_data(&vec![b'x'; bytes], &mut output);
    output.freeze()
}

async fn receive(args: PerfReceiveArgs) -> Result<(), Failure> {
    let about = |error| Failure::about(&args.address.entity, error);
    let mut client = args.connection.connect().await?;
    let mode = if args.delete { Mode::ReceiveAndDelete } else { Mode::PeekLock };
    let link = client.receiver(&args.address.path(), mode).await.map_err(about)?;
    let bar = progress::bar(args.count, "receiving");
    let (start, mut received, mut took) = (Instant::now(), 0, Duration::ZERO);
    while received < args.count {
        let most = u32::try_from(BATCH.min(args.count - received)).unwrap_or(1);
        let deliveries = client.receive(link, most, args.wait).await.map_err(about)?;
        if deliveries.is_empty() {
            break;
        }
        if !args.delete {
            client.settle(&deliveries, &Outcome::Complete).await.map_err(about)?;
        }
        let count = u64::try_from(deliveries.len()).unwrap_or(0);
        received += count;
        // Excludes the last wait, in which no message arrived.
        took = start.elapsed();
        bar.inc(count);
    }
    bar.finish_and_clear();
    client.close().await;
    report("received", received, took, args.json);
    Ok(())
}

fn report(done: &str, count: u64, took: Duration, as_json: bool) {
    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let per_second = count.saturating_mul(1_000) / took_ms.max(1);
    if as_json {
        output::json_line(
            &json!({ "messages": count, "milliseconds": took_ms, "messages_per_second": per_second }),
        );
    } else {
        output::line(format!("{done} {} in {took_ms} ms: {per_second}/s", counted(count, "message")));
    }
}
