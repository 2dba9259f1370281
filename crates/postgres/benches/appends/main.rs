//! Two measurements by alternating runs, of which only the ratios are meaningful:
//!
//! * `tables`: heads and bodies in one table or in two? Appends, and removal of the bodies.
//! * `store`: messages sent and settled through a whole store, 16 partitions with two batches of 32 messages under way each.
//!
//! `cargo bench -p peeklock-postgres -- tables` starts three servers of its own; `-- store URL SECONDS AHEAD` uses
//! those of the URL, and sends `AHEAD` records ahead.
//! docs/cluster-internals.md has figures.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark"
)]

#[path = "../../tests/servers/harness/mod.rs"]
#[allow(dead_code, unused_imports)] // reason: only a part of the harness is used
mod harness;
mod messages;

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::iter;
use peeklock_postgres::{DatabaseOptions, RECORDS_AHEAD, Session};
use tokio_postgres::Statement;
use tokio_postgres::types::Type;

use harness::{Trio, database};

const ROUNDS: usize = 6;
const RUN: Duration = Duration::from_secs(2);

const ONE: &str =
    "insert into single (shard, place, epoch, kind, heads, bodies) select $1, $2, $3, $4, $5, $6
  where exists (select from single where shard = $1 and place = $2 - 1 and epoch = $3)";
const ONE_DROP: &str = "update single set bodies = '' where shard = $1 and place = any ($2)";
const TWO: &str = "with stored as (
  insert into log (shard, place, epoch, kind, heads) select $1, $2, $3, $4, $5
  where exists (select from log where shard = $1 and place = $2 - 1 and epoch = $3) returning shard, place)
insert into body (shard, place, data) select shard, place, $6 from stored";
const TWO_DROP: &str = "delete from body where shard = $1 and place = any ($2)";

struct Form {
    name: &'static str,
    append: Statement,
    drop: Statement,
    place: i64,
    appends: f64,
    dropped: f64,
}

impl Form {
    async fn prepare(session: &Session, name: &'static str, append: &str, drop: &str) -> Self {
        let types = [Type::INT4, Type::INT8, Type::INT8, Type::INT2, Type::BYTEA, Type::BYTEA];
        let append = session.client().prepare_typed(append, &types).await.unwrap();
        let drop = session.client().prepare_typed(drop, &[Type::INT4, Type::INT8_ARRAY]).await.unwrap();
        Self { name, append, drop, place: 1, appends: 0.0, dropped: 0.0 }
    }

    async fn run(&mut self, session: &Session, heads: &[u8], bodies: &[u8]) {
        let (start, first) = (Instant::now(), self.place + 1);
        let places = iter(first..).take_while(|_| std::future::ready(start.elapsed() < RUN));
        let append = &self.append;
        let appends = places.map(|place| async move {
            let rows = session.execute(append, &[&0_i32, &place, &1_i64, &1_i16, &heads, &bodies]).await;
            assert_eq!(rows.unwrap(), 1);
        });
        let count = appends.buffered(RECORDS_AHEAD).count().await as i64;
        self.appends += count as f64 / start.elapsed().as_secs_f64();
        self.place += count;
        let start = Instant::now();
        let places: Vec<i64> = (first..=self.place).collect();
        for some in places.chunks(64) {
            session.execute(&self.drop, &[&0_i32, &some]).await.unwrap();
        }
        self.dropped += count as f64 / start.elapsed().as_secs_f64();
    }
}

async fn tables() {
    let Some(trio) = Trio::start() else { return };
    let session = trio.database("bench").connect("bench").await.unwrap();
    let create =
        "create table single (shard int, place bigint, epoch bigint, kind smallint, heads bytea, bodies bytea,
      primary key (shard, place));
      alter table single alter heads set storage main, alter bodies set storage external;
      insert into single values (0, 1, 1, 0, '', ''); insert into log values (0, 1, 1, 0, '')";
    session.client().batch_execute(create).await.unwrap();
    let mut forms = [
        Form::prepare(&session, "one table", ONE, ONE_DROP).await,
        Form::prepare(&session, "two tables", TWO, TWO_DROP).await,
    ];
    for (heads, bodies) in [(100, 1 << 10), (3_200, 32 << 10), (51_200, 512 << 10)] {
        let (heads, bodies) = (messages::noise(heads), messages::noise(bodies));
        for round in 0..=ROUNDS {
            for form in &mut forms {
                if round <= 1 {
                    // The first round is for warming up.
                    (form.appends, form.dropped) = (0.0, 0.0);
                }
                form.run(&session, &heads, &bodies).await;
            }
            forms.reverse();
        }
        for form in &forms {
            let (appends, dropped) = (form.appends / ROUNDS as f64, form.dropped / ROUNDS as f64);
            println!(
                "{} + {} bytes, {:<10}: {appends:>7.0} appends/s, {dropped:>8.0} drops/s",
                heads.len(),
                bodies.len(),
                form.name
            );
        }
    }
}

async fn stores(url: Option<&String>, run: Duration, ahead: usize) {
    let Some(url) = url else {
        let Some(trio) = Trio::start() else { return };
        return messages::run(trio.database("bench"), run, ahead).await;
    };
    messages::run(database(DatabaseOptions::parse(url).unwrap()), run, ahead).await;
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|one| !one.starts_with("--")).collect();
    match arguments.first().map(String::as_str) {
        Some("tables") => tables().await,
        Some("store") => {
            let number = |at: usize| arguments.get(at).and_then(|number| number.parse().ok());
            let ahead = number(3).map_or(RECORDS_AHEAD, |ahead: u64| ahead as usize);
            stores(arguments.get(1), Duration::from_secs(number(2).unwrap_or(5)), ahead).await;
        }
        // `cargo test --benches` runs it without arguments.
        _ => println!("say `tables` or `store`"),
    }
}
