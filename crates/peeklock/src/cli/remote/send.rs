//! `peeklock send`

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use peeklock_client::{Client, LinkId};
use serde_json::json;

use super::message_args::MessageArgs;
use super::text::{counted, duration, instant_ms};
use super::{ConnectionArgs, Failure, output};

pub(super) const EXAMPLES: &str = "\
Examples:
  peeklock send orders --body '{\"id\": 7}' --content-type application/json
  peeklock send orders --body hello --subject greeting --prop region=eu --prop amount:int=5
  peeklock send news --body @picture.png           the body is a file; @- is standard input
  peeklock send orders --body later --in 5m        available in five minutes
  peeklock send baskets --body x --session red     to a queue that requires sessions
  peeklock send orders --body load --repeat 1000";

/// Maximum number of messages without an outcome yet.
const WINDOW: usize = 256;

/// What to send.
#[derive(Debug, Args)]
pub(in crate::cli) struct SendArgs {
    /// The queue or topic.
    #[arg(value_name = "ENTITY")]
    entity: String,

    #[command(flatten)]
    message: MessageArgs,

    /// Make the message available only after this time, such as 5m.
    #[arg(long = "in", value_name = "DURATION", value_parser = duration, conflicts_with = "at")]
    delay: Option<Duration>,

    /// Make the message available at this time, such as 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = instant_ms)]
    at: Option<i64>,

    /// Number of copies to send.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    repeat: u64,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(super) async fn run(args: SendArgs) -> Result<(), Failure> {
    let body = args.message.body()?;
    let scheduled_for = args.at.or_else(|| {
        let delay_ms = i64::try_from(args.delay?.as_millis()).unwrap_or(i64::MAX);
        Some(jiff::Timestamp::now().as_millisecond().saturating_add(delay_ms))
    });
    let mut client = args.connection.connect().await?;
    let numbers = match scheduled_for {
        Some(at_ms) => schedule(&mut client, &args, &body, at_ms).await,
        None => send(&mut client, &args, &body).await.map(|()| Vec::new()),
    };
    let numbers = numbers.map_err(|failure| failure.0)?;
    client.close().await;
    if args.json {
        output::json_line(
            &json!({ "entity": args.entity, "sent": args.repeat, "sequence_numbers": numbers }),
        );
    } else if numbers.is_empty() {
        output::line(format!("sent {} to {}", counted(args.repeat, "message"), args.entity));
    } else {
        output::line(format!(
            "scheduled {} on {}, sequence number {}",
            counted(args.repeat, "message"),
            args.entity,
            numbers.join(", ")
        ));
    }
    Ok(())
}

/// A failure about the entity.
struct About(Failure);

async fn send(client: &mut Client, args: &SendArgs, body: &Bytes) -> Result<(), About> {
    let about = |error| About(Failure::about(&args.entity, error));
    let link: LinkId = client.sender(&args.entity).await.map_err(about)?;
    let progress = super::progress::bar(args.repeat, "sending");
    let mut under_way = VecDeque::with_capacity(WINDOW);
    for number in 0..args.repeat {
        let message = args.message.encode(body, id(args, number).as_deref(), None);
        under_way.push_back(client.send(link, message, None).map_err(about)?);
        if under_way.len() >= WINDOW
            && let Some(oldest) = under_way.pop_front()
        {
            client.outcome(oldest).await.map_err(about)?;
            progress.inc(1);
        }
    }
    for oldest in under_way {
        client.outcome(oldest).await.map_err(about)?;
    }
    progress.finish_and_clear();
    Ok(())
}

async fn schedule(
    client: &mut Client,
    args: &SendArgs,
    body: &Bytes,
    at_ms: i64,
) -> Result<Vec<String>, About> {
    let mut numbers = Vec::new();
    for number in 0..args.repeat {
        let id = id(args, number).unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        let message = args.message.encode(body, Some(&id), Some(at_ms));
        let scheduled = client.schedule(&args.entity, &id, message).await;
        let scheduled = scheduled.map_err(|error| About(Failure::about(&args.entity, error)))?;
        numbers.extend(scheduled.map(|number| number.to_string()));
    }
    Ok(numbers)
}

fn id(args: &SendArgs, number: u64) -> Option<String> {
    let id = args.message.id.as_deref()?;
    Some(if args.repeat > 1 { format!("{id}-{number}") } else { id.to_owned() })
}
