//! Random conversations of a client that follows the specification, with a model of what must hold: no message is lost or
//! delivered while another delivery holds it, credit and windows are kept, every drain, disposition and delivery is
//! answered, and available messages are delivered where there is credit.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "in a test crate a panic is a failure"
)]

#[path = "model/checks.rs"]
mod checks;
#[path = "model/client.rs"]
mod client;
#[path = "model/link.rs"]
mod link;
#[path = "model/messages.rs"]
mod messages;
#[path = "model/pipe.rs"]
mod pipe;
mod random;
#[path = "model/sending.rs"]
mod sending;
#[path = "model/settling.rs"]
mod settling;
#[path = "model/step.rs"]
mod step;
#[path = "model/transacting.rs"]
mod transacting;

use client::Client;
use messages::{Messages, Place};
use pipe::{Broker, LOCK_MS};
use proptest::prelude::*;
use step::{Setup, Step};

/// Follows the steps, ends the connection, and checks by another one that what should be there is there.
async fn converse(setup: Setup, steps: &[Step]) {
    let broker = Broker::start().await;
    let mut client = Client::new(&broker, setup, Messages::default()).await;
    client.begin();
    client.follow(steps).await;
    let messages = client.hang_up().await;
    let plain = Setup { frame_bytes_max: 65_536, window: 1_000, reopens: true, wraps: false };
    let mut reader = Client::new(&broker, plain, messages).await;
    reader.begin();
    reader.pause(2 * LOCK_MS).await;
    for address in ["q", "q/$deadletterqueue"] {
        let link = reader.attach_receiver(0, true, false, address).expect("a link");
        reader.credit(link, 10_000, false);
        reader.rest().await;
        reader.messages.bring_back_dead_letters();
        reader.credit(link, 0, false);
    }
    let left = reader.messages.in_place(Place::Available);
    assert!(left.is_empty(), "{left:?} are lost");
    broker.namespace.shutdown().await;
}

fn run(setup: Setup, steps: &[Step]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(converse(setup, steps));
}

proptest! {
    #![proptest_config(random::config(128, None))]

    #[test]
    fn any_conversation_keeps_the_rules(
        setup in step::setup(),
        steps in proptest::collection::vec(step::step(), 1..120),
    ) {
        run(setup, &steps);
    }
}
