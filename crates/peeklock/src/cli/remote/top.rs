//! `peeklock top`

mod screen;

use std::collections::HashMap;
use std::io::{IsTerminal, stdin, stdout};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use peeklock_client::Api;
use serde_json::{Value as Json, json};

use self::screen::{Key, Screen};
use super::rows::{number, text};
use super::text::{duration, one_line, shown_instant};
use super::{ConnectionArgs, Failure, output};
use crate::cli::table::Table;

pub(super) const EXAMPLES: &str = "\
Examples:
  peeklock top                       all entities, the busiest first, until q is pressed
  peeklock top orders                those with `orders` in their path
  peeklock top --sort dead -n 1      one table, the most dead letters first
  peeklock top --json --interval 10s >> rates.jsonl
Keys: q quit, r by rate, a by active messages, d by dead letters, n by name. Where the output is no terminal, plain tables follow
each other. Needs the right Manage on the namespace, and Peeklock: Azure tells no rates.";

/// Maximum number of rows, more than is useful to a reader.
const ROWS_MAX: usize = 10_000;
const NAME_CHARACTERS: usize = 60;

/// The order of the entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Order {
    /// The most messages in and out per second.
    Rate,
    /// The most active messages.
    Active,
    /// The most dead letters.
    Dead,
    /// Alphabetical.
    Name,
}

/// What to show, and how often.
#[derive(Debug, Args)]
pub(in crate::cli) struct TopArgs {
    /// Only entities with this text in their path.
    #[arg(value_name = "TEXT")]
    search: Option<String>,

    /// Time between two updates, one second or more.
    #[arg(long, value_name = "DURATION", value_parser = interval, default_value = "2s")]
    interval: Duration,

    /// The order of the entities.
    #[arg(long, value_enum, default_value_t = Order::Rate)]
    sort: Order,

    /// End after this number of updates [default: until q or an interruption].
    #[arg(long, short = 'n', value_name = "N")]
    count: Option<u64>,

    /// Print one JSON object per update, on one line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    if interval < Duration::from_secs(1) { Err("one second is the least".to_owned()) } else { Ok(interval) }
}

pub(super) async fn run(args: TopArgs) -> Result<(), Failure> {
    let api = args.connection.api()?;
    let search = args.search.clone().unwrap_or_default();
    let first = look(&api, &search, None).await?;
    if !args.json && args.count.is_none() && stdout().is_terminal() && stdin().is_terminal() {
        return interactive(&args, &api, &search, first).await;
    }
    let mut snapshot = first;
    for shown in 1.. {
        if args.json {
            output::json_line(&snapshot.document());
        } else {
            if shown > 1 {
                output::line("");
            }
            snapshot.lines(args.sort).iter().for_each(output::line);
        }
        if args.count.is_some_and(|count| shown >= count) || output::failed().is_some() {
            break;
        }
        tokio::time::sleep(args.interval).await;
        snapshot = look(&api, &search, Some(&snapshot)).await?;
    }
    Ok(())
}

/// Redraws until q is pressed. If the broker does not answer, the request is repeated.
async fn interactive(args: &TopArgs, api: &Api, search: &str, first: Snapshot) -> Result<(), Failure> {
    let mut screen = Screen::open();
    let (mut snapshot, mut order, mut trouble) = (first, args.sort, None);
    loop {
        screen.draw(&snapshot.lines(order), trouble.as_deref());
        tokio::select! {
            () = tokio::time::sleep(args.interval) => match look(api, search, Some(&snapshot)).await {
                Ok(next) => (snapshot, trouble) = (next, None),
                Err(failure) => trouble = Some(failure.text()),
            },
            key = screen.key() => match key {
                Key::Quit => return Ok(()),
                Key::Other('r') => order = Order::Rate,
                Key::Other('a') => order = Order::Active,
                Key::Other('d') => order = Order::Dead,
                Key::Other('n') => order = Order::Name,
                Key::Other(_) => {}
            },
        }
    }
}

/// Counts and rates at one time.
struct Snapshot {
    at: Instant,
    told_at: String,
    rows: Vec<Row>,
}

/// Messages per second since the previous snapshot; none in the first one, and for a new entity.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Rates {
    accepted: f64,
    delivered: f64,
    dead_lettered: f64,
}

struct Row {
    found: Json,
    rates: Option<Rates>,
}

impl Row {
    fn path(&self) -> &str {
        text(&self.found, "/path")
    }

    fn dead(&self) -> u64 {
        number(&self.found, "/counts/dead_lettered") + number(&self.found, "/counts/transfer_dead_lettered")
    }
}

async fn look(api: &Api, search: &str, before: Option<&Snapshot>) -> Result<Snapshot, Failure> {
    let found = api.pages("entities", &[("search", search), ("top", "1000")], ROWS_MAX).await?;
    let at = Instant::now();
    let known: HashMap<&str, &Json> =
        before.iter().flat_map(|before| &before.rows).map(|row| (row.path(), &row.found)).collect();
    let seconds = before.map_or(0.0, |before| at.duration_since(before.at).as_secs_f64());
    let rows = found.into_iter().map(|found| {
        let rates = known.get(text(&found, "/path")).map(|before| rates(before, &found, seconds));
        Row { found, rates }
    });
    let told_at = shown_instant(Timestamp::now().as_millisecond());
    Ok(Snapshot { at, told_at, rows: rows.collect() })
}

fn rates(before: &Json, after: &Json, seconds: f64) -> Rates {
    // Totals start at 0 when the broker starts.
    let rate = |field: &str| {
        number(after, field).saturating_sub(number(before, field)) as f64 / seconds.max(f64::EPSILON)
    };
    Rates {
        accepted: rate("/totals/accepted"),
        delivered: rate("/totals/delivered"),
        dead_lettered: rate("/totals/dead_lettered"),
    }
}

impl Snapshot {
    /// A summary line, and a table.
    fn lines(&self, order: Order) -> Vec<String> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        // A stable sort: the API's order is by name.
        match order {
            Order::Name => {}
            Order::Active => rows.sort_by_key(|row| std::cmp::Reverse(number(&row.found, "/counts/active"))),
            Order::Dead => rows.sort_by_key(|row| std::cmp::Reverse(row.dead())),
            Order::Rate => rows.sort_by(|a, b| b.busy().total_cmp(&a.busy())),
        }
        let mut table =
            Table::new(&["NAME", "KIND", "ACTIVE", "SCHEDULED", "DEAD", "IN/S", "OUT/S", "DEAD/S", "SIZE"]);
        rows.iter().for_each(|row| table.row(row.cells()));
        let sum =
            |rate: fn(&Rates) -> f64| self.rows.iter().filter_map(|row| row.rates.as_ref()).map(rate).sum();
        let active: u64 = self.rows.iter().map(|row| number(&row.found, "/counts/active")).sum();
        let dead: u64 = self.rows.iter().map(Row::dead).sum();
        let has_rates = self.rows.iter().any(|row| row.rates.is_some());
        let shown = |rate: f64| if has_rates { shown_rate(rate) } else { "-".to_owned() };
        let (accepted, delivered) = (shown(sum(|rates| rates.accepted)), shown(sum(|rates| rates.delivered)));
        let head = format!(
            "{}  {} entities  {active} active  {dead} dead  {accepted}/s in  {delivered}/s out",
            self.told_at,
            self.rows.len(),
        );
        [vec![head, String::new()], table.lines()].concat()
    }

    fn document(&self) -> Json {
        let rows = self.rows.iter().map(|row| {
            let per_second = row.rates.map(|rates| {
                json!({
                    "accepted": rates.accepted,
                    "delivered": rates.delivered,
                    "dead_lettered": rates.dead_lettered,
                })
            });
            let field = |name: &str| row.found.get(name).cloned().unwrap_or_default();
            json!({
                "path": field("path"),
                "kind": field("kind"),
                "counts": field("counts"),
                "size_bytes": field("size_bytes"),
                "totals": field("totals"),
                "per_second": per_second,
            })
        });
        json!({ "at": self.told_at, "entities": rows.collect::<Vec<_>>() })
    }
}

impl Row {
    fn busy(&self) -> f64 {
        self.rates.map_or(0.0, |rates| rates.accepted + rates.delivered)
    }

    fn cells(&self) -> [String; 9] {
        let count = |field: &str| number(&self.found, field).to_string();
        let rate =
            |rate: fn(&Rates) -> f64| self.rates.as_ref().map_or("-".to_owned(), |all| shown_rate(rate(all)));
        [
            one_line(self.path(), NAME_CHARACTERS),
            text(&self.found, "/kind").to_owned(),
            count("/counts/active"),
            count("/counts/scheduled"),
            self.dead().to_string(),
            rate(|rates| rates.accepted),
            rate(|rates| rates.delivered),
            rate(|rates| rates.dead_lettered),
            super::text::shown_bytes(number(&self.found, "/size_bytes")),
        ]
    }
}

fn shown_rate(rate: f64) -> String {
    if rate == 0.0 || rate >= 100.0 { format!("{rate:.0}") } else { format!("{rate:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(path: &str, active: u64, accepted: u64) -> Json {
        json!({
            "path": path,
            "kind": "queue",
            "counts": { "active": active, "scheduled": 0, "dead_lettered": 10 - active },
            "totals": { "accepted": accepted, "delivered": 0, "dead_lettered": 0 },
            "size_bytes": 5,
        })
    }

    fn snapshot() -> Snapshot {
        let rows = vec![
            Row { rates: Some(rates(&row("a", 9, 0), &row("a", 9, 5), 2.0)), found: row("a", 9, 5) },
            Row { rates: Some(rates(&row("b", 1, 9), &row("b", 1, 1_009), 2.0)), found: row("b", 1, 1_009) },
            Row { rates: None, found: row("c\u{1b}[2J", 5, 7) },
        ];
        Snapshot { at: Instant::now(), told_at: "now".to_owned(), rows }
    }

    #[test]
    fn tables_have_the_wanted_order_and_rates_between_two_looks() {
        let names = |order| {
            let lines = snapshot().lines(order);
            lines.iter().skip(3).map(|line| line.chars().next().unwrap()).collect::<String>()
        };
        assert_eq!(names(Order::Rate), "bac");
        assert_eq!(names(Order::Active), "acb");
        assert_eq!(names(Order::Dead), "bca");
        assert_eq!(names(Order::Name), "abc");
        let lines = snapshot().lines(Order::Name);
        assert_eq!(lines[0], "now  3 entities  15 active  15 dead  502/s in  0/s out");
        assert!(lines[3].contains("2.5") && lines[4].contains("500"), "{lines:?}");
        assert!(!lines[5].contains('\u{1b}') && lines[5].contains('-'));
        assert_eq!(snapshot().document()["entities"][0]["per_second"]["accepted"], 2.5);
    }

    #[test]
    fn totals_that_begin_anew_are_no_negative_rate() {
        assert_eq!(rates(&row("a", 1, 100), &row("a", 1, 5), 2.0), Rates::default());
    }
}
