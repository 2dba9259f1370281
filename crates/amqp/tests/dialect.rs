//! Random histories of several clients of a broker with queues, sessions, a topic, forwarding, duplicates, expiry,
//! transactions, changed and suspended entities and restarts, compared with a model: every answer, every delivery, and at
//! every rest all messages, counts and locks. A failure shrinks. `PROPTEST_CASES` sets the number of histories.
//!
//! - `step`: the possible steps; `world` carries them out: `acting` on links, `sending`, `administration`, `requests` to
//!   management nodes, which `preparing` and `settling` make, `choosing` where they act; `crossing`: transactions across
//!   entities; `restarting`: restarts of the broker; `late`: requests ahead of timers, with `clock`.
//! - `bus`: the model. `hearing` compares answers with it, `compare` the engine's state.
//! - `peer`: a client's connection, on the endpoint of this crate. tests/model has one that knows frames.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "in a test crate a panic is a failure"
)]

#[path = "dialect/acting.rs"]
mod acting;
#[path = "dialect/administration.rs"]
mod administration;
#[path = "dialect/broker.rs"]
mod broker;
#[path = "dialect/bus/mod.rs"]
mod bus;
#[path = "dialect/choosing.rs"]
mod choosing;
#[path = "dialect/clock.rs"]
mod clock;
#[path = "dialect/compare.rs"]
mod compare;
#[path = "dialect/crossing.rs"]
mod crossing;
#[path = "dialect/hearing.rs"]
mod hearing;
#[path = "dialect/late.rs"]
mod late;
#[path = "dialect/message.rs"]
mod message;
#[path = "dialect/outcome.rs"]
mod outcome;
#[path = "dialect/peer.rs"]
mod peer;
#[path = "dialect/preparing.rs"]
mod preparing;
mod random;
#[path = "dialect/requests.rs"]
mod requests;
#[path = "dialect/restarting.rs"]
mod restarting;
#[path = "dialect/sending.rs"]
mod sending;
#[path = "dialect/settling.rs"]
mod settling;
#[path = "dialect/step.rs"]
mod step;
#[path = "dialect/world.rs"]
mod world;

use proptest::prelude::*;
use step::{Setup, Step};
use world::World;

/// The same histories in each run: where several orders are right, the model may still expect one of them, in one of some
/// 15 000 histories. `PROPTEST_CASES` tries others.
const SEED: Option<u64> = Some(1);

fn run(setup: Setup, steps: &[Step]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let mut world = World::start(setup).await;
        world.follow(steps).await;
        world.end().await;
    });
}

proptest! {
    #![proptest_config(random::config(40, SEED))]

    #[test]
    fn any_history_agrees_with_the_model(
        setup in step::setup(),
        steps in proptest::collection::vec(step::step(), 1..150),
    ) {
        run(setup, &steps);
    }
}
