//! `peeklock peek`

use std::time::Duration;

use clap::{Args, ValueEnum};
use peeklock_client::{Client, Message, MessageState};

use super::address::{Address, SubQueue};
use super::message_json;
use super::selection::Selection;
use super::text::{one_line, shown_instant};
use super::{ConnectionArgs, Failure, output};
use crate::cli::table::Table;

pub(super) const EXAMPLES: &str = "\
Examples:
  peeklock peek orders                             the first 20 messages
  peeklock peek orders --all --where 'amount > 5'  all that match a condition
  peeklock peek 'orders/$dlq'                      dead letters with their reasons
  peeklock peek news/Subscriptions/all --json      one JSON object per line
  peeklock peek orders --state scheduled
  peeklock peek orders --follow                    also those that come from now on";

/// Messages requested at a time.
const PAGE: u32 = 250;
/// How long to wait before checking for new messages.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(500);
const BODY_CHARACTERS: usize = 60;

/// Which states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum StateArg {
    /// Available or locked.
    Active,
    /// Deferred by a receiver.
    Deferred,
    /// Scheduled for later.
    Scheduled,
    /// In the dead-letter queue: the same as ENTITY/$dlq.
    Dead,
}

/// What to look at.
#[derive(Debug, Args)]
pub(in crate::cli) struct PeekArgs {
    /// Queue or subscription; append /$dlq for its dead letters, /$transfer for messages that could not be forwarded.
    #[arg(value_name = "ENTITY")]
    address: Address,

    /// Only messages in this state.
    #[arg(long, value_enum)]
    state: Option<StateArg>,

    #[command(flatten)]
    selection: Selection,

    /// Begin with this sequence number.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    from: i64,

    /// Maximum number of messages to show.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    count: u64,

    /// Show all.
    #[arg(long, conflicts_with = "count")]
    all: bool,

    /// Only messages of this session.
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    /// Continue with messages that arrive later, until interrupted.
    #[arg(long)]
    follow: bool,

    /// Maximum number of bytes of each body in JSON.
    #[arg(long, value_name = "BYTES", default_value_t = 65_536)]
    body_max: usize,

    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(super) async fn run(args: PeekArgs) -> Result<(), Failure> {
    let address = match args.state {
        Some(StateArg::Dead) => args.address.clone().or_dead_letters(),
        _ => args.address.clone(),
    };
    let mut client = args.connection.connect().await?;
    let mut view = View::new(&address, &args);
    let mut from = args.from;
    loop {
        let reached_end = view.page(&mut client, &address, &mut from).await?;
        view.flush();
        if !view.wants_more() || reached_end && !args.follow || output::failed().is_some() {
            break;
        }
        if reached_end {
            tokio::time::sleep(FOLLOW_INTERVAL).await;
        }
    }
    view.end();
    client.close().await;
    Ok(())
}

/// Messages found and not printed yet.
struct View<'a> {
    args: &'a PeekArgs,
    shows_reasons: bool,
    shown: u64,
    table: Table,
    has_printed: bool,
}

impl<'a> View<'a> {
    fn new(address: &Address, args: &'a PeekArgs) -> Self {
        let shows_reasons = address.sub_queue != SubQueue::Main;
        Self { args, shows_reasons, shown: 0, table: heading(shows_reasons), has_printed: false }
    }

    fn wants_more(&self) -> bool {
        self.args.all || self.args.follow || self.shown < self.args.count
    }

    /// Reads a page; returns whether there are no more at present.
    async fn page(
        &mut self,
        client: &mut Client,
        address: &Address,
        from: &mut i64,
    ) -> Result<bool, Failure> {
        let page = client.peek(&address.path(), *from, PAGE, self.args.session.as_deref()).await;
        let page = page.map_err(|error| Failure::about(&address.entity, error))?;
        for encoded in &page.messages {
            let message = Message::decode(encoded)?;
            *from = message.sequence_number().saturating_add(1);
            if self.wants_more() && self.is_meant(&message)? {
                self.show(&message);
            }
        }
        Ok(page.messages.is_empty())
    }

    fn is_meant(&self, message: &Message) -> Result<bool, Failure> {
        let is_state = match self.args.state {
            None | Some(StateArg::Dead) => true,
            Some(StateArg::Active) => message.state() == MessageState::Active,
            Some(StateArg::Deferred) => message.state() == MessageState::Deferred,
            Some(StateArg::Scheduled) => message.state() == MessageState::Scheduled,
        };
        Ok(is_state && self.args.selection.matches(message)?)
    }

    fn show(&mut self, message: &Message) {
        self.shown += 1;
        if self.args.json {
            output::json_line(&message_json::message(message, self.args.body_max));
        } else {
            self.table.row(row(message, self.shows_reasons));
        }
    }

    fn flush(&mut self) {
        if !self.table.is_empty() && (self.args.follow || !self.wants_more()) {
            self.print();
        }
    }

    fn print(&mut self) {
        self.table.print();
        self.table = heading(self.shows_reasons);
        self.has_printed = true;
    }

    fn end(&mut self) {
        if self.args.json {
            return;
        }
        if !self.table.is_empty() {
            self.print();
        } else if !self.has_printed {
            output::note("no messages");
        }
    }
}

/// An empty table.
pub(super) fn heading(shows_reasons: bool) -> Table {
    let last = if shows_reasons { "REASON" } else { "STATE" };
    Table::new(&["NUMBER", "ENQUEUED", "TRIES", "ID", "SUBJECT", last, "BODY"])
}

/// A message as a row of the table.
pub(super) fn row(message: &Message, shows_reason: bool) -> [String; 7] {
    let short = |text: Option<&str>| one_line(text.unwrap_or("-"), 36);
    let state =
        if shows_reason { short(message.dead_letter_reason()) } else { message.state().name().to_owned() };
    [
        message.sequence_number().to_string(),
        message.enqueued_at_ms().map_or_else(|| "-".to_owned(), shown_instant),
        message.header.delivery_count.unwrap_or(0).to_string(),
        short(message.message_id().as_deref()),
        short(message.properties.subject.as_deref()),
        state,
        one_line(&message_json::body_text(&message.body), BODY_CHARACTERS),
    ]
}
