//! `peeklock tail`

use std::time::Duration;

use clap::Args;
use peeklock_client::{Client, ClientError, Message};
use serde_json::Value as Json;

use super::address::Address;
use super::message_json;
use super::rows::{shown, text};
use super::selection::Selection;
use super::text::{one_line, shown_instant};
use super::{ConnectionArgs, Failure, output};

pub(super) const EXAMPLES: &str = "\
Examples:
  peeklock tail orders                          messages of `orders` as they arrive, without removing them
  peeklock tail orders -n 10                    the last ten as well
  peeklock tail orders --where 'amount > 5' --json
  peeklock tail 'news/Subscriptions/all/$dlq'   dead letters as they arrive
  peeklock tail --log --level warn              the broker's log (Peeklock only)
  peeklock tail --audit                         who changes what (Peeklock only)
A message that a receiver takes within half a second may be gone before it is seen.";

/// Messages requested at a time.
const PAGE: u32 = 250;
const MESSAGE_INTERVAL: Duration = Duration::from_millis(500);
const LOG_INTERVAL: Duration = Duration::from_secs(1);
const BODY_CHARACTERS: usize = 120;
const BODY_BYTES_MAX: usize = 65_536;
/// Sequence numbers are below this, apart from the partition in the higher bits.
const NUMBERS_END: i64 = 1 << 48;
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// What to follow.
#[derive(Debug, Args)]
pub(in crate::cli) struct TailArgs {
    /// Queue or subscription; append /$dlq for its dead letters, /$transfer for messages that could not be forwarded.
    #[arg(value_name = "ENTITY", required_unless_present_any = ["log", "audit"], conflicts_with_all = ["log", "audit"])]
    address: Option<Address>,

    /// Follow the broker's log instead.
    #[arg(long, conflicts_with = "audit")]
    log: bool,

    /// Follow the audit log of administrative changes instead.
    #[arg(long)]
    audit: bool,

    /// Only lines of the log with this level or a more severe one.
    #[arg(long, value_parser = LEVELS, default_value = "trace", hide_default_value = true)]
    level: String,

    #[command(flatten)]
    selection: Selection,

    /// Begin with the last N sequence numbers whose messages still exist, or with the last N lines of the log.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 0)]
    last: u32,

    /// End after this number of messages or lines [default: until interrupted].
    #[arg(long, value_name = "N")]
    count: Option<u64>,

    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(super) async fn run(args: TailArgs) -> Result<(), Failure> {
    match args.address.clone() {
        Some(address) => follow_messages(&args, &address).await,
        None => follow_log(&args).await,
    }
}

async fn follow_messages(args: &TailArgs, address: &Address) -> Result<(), Failure> {
    let mut client = args.connection.connect().await?;
    let path = address.path();
    let about = |error| Failure::about(&address.entity, error);
    let mut from = behind_last(&mut client, &path).await.map_err(about)?;
    from = from.saturating_sub(args.last.into()).max(0);
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 && output::failed().is_none() {
        let page = client.peek(&path, from, PAGE, None).await.map_err(about)?;
        for encoded in &page.messages {
            let message = Message::decode(encoded)?;
            from = message.sequence_number().saturating_add(1);
            if left > 0 && args.selection.matches(&message)? {
                left -= 1;
                print_message(&message, args.json);
            }
        }
        if page.messages.is_empty() {
            tokio::time::sleep(MESSAGE_INTERVAL).await;
        }
    }
    client.close().await;
    Ok(())
}

/// The sequence number after that of the last message, by binary search: scanning a long queue would take long.
async fn behind_last(client: &mut Client, path: &str) -> Result<i64, ClientError> {
    let (mut behind, mut none_from) = (0, NUMBERS_END);
    while behind < none_from {
        // Numbers begin at 1 and increase, so the end is probably near the beginning rather than in the middle.
        let probe = (behind + (none_from - behind) / 2).min(2 * behind + 64);
        let page = client.peek(path, probe, 1, None).await?;
        match page.messages.first() {
            None => none_from = probe,
            // The number of a message in a partitioned entity has the partition in its high bits.
            Some(encoded) => {
                let found = Message::decode(encoded)?.sequence_number() & (NUMBERS_END - 1);
                behind = found.max(probe) + 1;
            }
        }
    }
    Ok(behind)
}

fn print_message(message: &Message, as_json: bool) {
    if as_json {
        output::json_line(&message_json::message(message, BODY_BYTES_MAX));
        return;
    }
    let short = |text: Option<&str>| one_line(text.unwrap_or("-"), 40);
    output::line(format!(
        "{} #{} {} {} {} {}",
        message.enqueued_at_ms().map_or_else(|| "-".to_owned(), shown_instant),
        message.sequence_number(),
        message.state().name(),
        short(message.message_id().as_deref()),
        short(message.dead_letter_reason().or(message.properties.subject.as_deref())),
        one_line(&message_json::body_text(&message.body), BODY_CHARACTERS),
    ));
}

async fn follow_log(args: &TailArgs) -> Result<(), Failure> {
    let api = args.connection.api()?;
    let kind = if args.audit { "audit" } else { "log" };
    let rank = |level: &str| LEVELS.iter().position(|known| known.eq_ignore_ascii_case(level));
    let least = rank(&args.level);
    let (mut after, mut left, mut is_first) = (String::new(), args.count.unwrap_or(u64::MAX), true);
    loop {
        let mut lines = Vec::new();
        loop {
            let page = api.get("log", &[("kind", kind), ("after", &after)]).await?;
            let found = page.get("lines").and_then(Json::as_array);
            lines.extend(found.into_iter().flatten().cloned());
            if let Some(last) = lines.last() {
                text(last, "/id").clone_into(&mut after);
            }
            if page.get("next").is_none_or(Json::is_null) {
                break;
            }
        }
        lines.retain(|line| rank(text(line, "/level")) <= least);
        let known = if is_first { lines.len().saturating_sub(args.last as usize) } else { 0 };
        is_first = false;
        for line in lines.iter().skip(known) {
            if left == 0 {
                return Ok(());
            }
            left -= 1;
            print_line(line, args.json);
        }
        if left == 0 || output::failed().is_some() {
            return Ok(());
        }
        tokio::time::sleep(LOG_INTERVAL).await;
    }
}

fn print_line(line: &Json, as_json: bool) {
    if as_json {
        return output::json_line(line);
    }
    let fields = line.get("fields").and_then(Json::as_object);
    let fields: String = fields.into_iter().flatten().fold(String::new(), |mut all, (name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        all.push_str(&format!(" {name}={}", one_line(&value, 200)));
        all
    });
    let [at, level, message] = ["/at", "/level", "/message"].map(|field| shown(line, field));
    output::line(format!("{at} {level:>5} {message}{}", one_line(&fields, 1_000)));
}
